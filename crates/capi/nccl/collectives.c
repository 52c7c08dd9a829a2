/* All-reduces of NCCL in the fabric, by libtributary.
 *
 * NCCL adds the values of a host's GPUs, and calls these functions in one process of each host. Each of NCCL's
 * communicators has an order of operations of its own, so each gets a job of its own: the job of a group of the ranks of the
 * user's job, which is TRIBUTARY_JOB. All processes of all hosts are ranks of the user's job.
 *
 * NCCL asks some of its questions on each host alone. If the hosts answered differently, NCCL would wait forever. So a
 * process that cannot take part writes this into its handle, which all processes of the communicator read, and all of them
 * refuse the communicator. NCCL then adds over its point-to-point transport.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <tributary.h>
#include <unistd.h>

#include "plugin.h"

/* Seconds that a communicator waits for the other processes of the user's job, and then of its own job. */
#define JOIN_SECONDS 60
#define MAGIC UINT64_C(0x7472696275746331)

/* The content of a handle: a process's terms, or the reason why it cannot take part. */
struct handle {
    uint64_t magic;
    /* A random number, by which the communicator's group is called if this handle is the first. */
    uint64_t nonce[2];
    uint64_t job;
    uint32_t rank;
    uint8_t is_exact;
    enum __attribute__((packed)) { NONE, WAITS, CANNOT } trouble;
    char problem[88];
};
_Static_assert(sizeof(struct handle) <= NCCL_HANDLE_BYTES, "a handle has no room");

struct listening {
    struct handle handle;
};

struct request;

/* One of NCCL's communicators on one of its heads, with its job. */
struct comm {
    tributary_job *job;
    int is_exact;
    /* The number of operations started. */
    uint64_t started;
    /* The result of the first operation that failed. */
    nccl_result failure;
    /* The operations in flight. */
    struct request *requests;
};

struct request {
    struct request *next, *previous;
    struct comm *comm;
    tributary_request *request;
    size_t bytes;
    char name[96];
};

/* This process's part in the user's job. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    enum { NOT_JOINED, JOINING, JOINED, REFUSED } state;
    tributary_job *job;
    /* The process that has begun to join. */
    pid_t owner;
    /* The reason for REFUSED, and the last report of the wait while JOINING. */
    char problem[TEXT_BYTES];
} user = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static const char *variable(const char *name) {
    const char *value = getenv(name);
    return value != NULL && *value != '\0' ? value : NULL;
}

/* FNV-1a. */
static uint64_t hash(const char *text) {
    uint64_t number = UINT64_C(0xcbf29ce484222325);
    for (; *text != '\0'; text++) number = (number ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
    return number;
}

/* Reads the precision of sums of float. Returns 0 if it is not one. */
static int read_precision(uint8_t *is_exact) {
    const char *precision = variable("TRIBUTARY_PRECISION");
    *is_exact = precision != NULL && strcmp(precision, "float32") == 0;
    return precision == NULL || *is_exact || strcmp(precision, "standard") == 0;
}

/* Finds the number of this process among the processes of its host, which launchers set. */
static int find_process(tributary_options *options, char *problem) {
    static const char *const NAMES[][2] = {
        {"TRIBUTARY_PROCESS", "TRIBUTARY_PROCESSES"},
        {"LOCAL_RANK", "LOCAL_WORLD_SIZE"},
        {"OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"},
    };
    for (size_t at = 0; at < sizeof NAMES / sizeof *NAMES; at++) {
        const char *process = variable(NAMES[at][0]), *processes = variable(NAMES[at][1]);
        char *end = "", *ends = "";
        if (process == NULL || processes == NULL) continue;
        options->process = (uint32_t)strtoul(process, &end, 10);
        options->processes = (uint32_t)strtoul(processes, &ends, 10);
        if (*end == '\0' && *ends == '\0' && options->process < options->processes) return 1;
        snprintf(problem, TEXT_BYTES, "%s=%s and %s=%s: give the number of this process, from 0, and of the host's processes",
                 NAMES[at][0], process, NAMES[at][1], processes);
        return 0;
    }
    options->processes = 1;
    return 1;
}

static void waiting(const char *what, void *unused) {
    (void)unused;
    inform("%s", what);
}

static void waiting_for_users_job(const char *what, void *unused) {
    pthread_mutex_lock(&user.lock);
    snprintf(user.problem, sizeof user.problem, "%s", what);
    pthread_mutex_unlock(&user.lock);
    waiting(what, unused);
}

static void *join_users_job(void *unused) {
    tributary_options options = TRIBUTARY_OPTIONS_INIT;
    tributary_job *job = NULL;
    char problem[TEXT_BYTES] = "";
    (void)unused;
    if (find_process(&options, problem)) {
        /* A program that is started again begins a new run of its job. */
        options.new_run = 1;
        options.waiting = waiting_for_users_job;
        if (tributary_join(&options, &job) != TRIBUTARY_OK) snprintf(problem, sizeof problem, "%s", tributary_error_message());
    }
    pthread_mutex_lock(&user.lock);
    user.job = job;
    user.state = job != NULL ? JOINED : REFUSED;
    memcpy(user.problem, problem, sizeof problem);
    pthread_cond_broadcast(&user.changed);
    pthread_mutex_unlock(&user.lock);
    if (job != NULL)
        inform("rank %u of %u of job \"%s\" on host %s", tributary_rank(job), tributary_size(job), getenv("TRIBUTARY_JOB"),
               tributary_host(job));
    return NULL;
}

/* Starts to join the user's job in the background: its other ranks may not have started yet. */
static void begin_to_join(void) {
    pthread_t thread;
    pthread_mutex_lock(&user.lock);
    if (user.state == NOT_JOINED || user.state == REFUSED) {
        user.state = JOINING;
        user.problem[0] = '\0';
        user.owner = getpid();
        int error = pthread_create(&thread, NULL, join_users_job, NULL);
        if (error == 0) pthread_detach(thread);
        else {
            user.state = REFUSED;
            snprintf(user.problem, sizeof user.problem, "cannot start a thread: %s", strerror(error));
        }
    }
    pthread_mutex_unlock(&user.lock);
}

static void *close_job(void *job) {
    tributary_close(job);
    return NULL;
}

/* At the end of the process, the host stays a member of the user's job, which the user's next program can join. */
__attribute__((destructor)) static void close_users_job(void) {
    pthread_t thread;
    tributary_job *job;
    /* A forked process has no part in the job, and perhaps a lock that will not be released. */
    if (user.owner != getpid()) return;
    pthread_mutex_lock(&user.lock);
    job = user.job;
    user.job = NULL;
    user.state = NOT_JOINED;
    pthread_mutex_unlock(&user.lock);
    /* The main thread has destroyed its thread-local variables already, which libtributary needs. */
    if (job != NULL && pthread_create(&thread, NULL, close_job, job) == 0) pthread_join(thread, NULL);
}

static nccl_result init_v8(nccl_logger logger) {
    const char *enabled = variable("NCCL_COLLNET_ENABLE");
    set_logger(logger);
    /* Each process joins, because NCCL may choose any of them to send its host's sums. */
    if (enabled == NULL || strcmp(enabled, "0") != 0) begin_to_join();
    return NCCL_SUCCESS;
}

static nccl_result init_v11(void **context, uint64_t communicator, nccl_logger logger) {
    (void)communicator;
    *context = NULL;
    return init_v8(logger);
}

static nccl_result finalize(void *context) {
    (void)context;
    return NCCL_SUCCESS;
}

/* NCCL gives up if hosts have different numbers of devices, so a host without a job has the device, too. */
static nccl_result devices(int *count) {
    *count = device() != NULL;
    return NCCL_SUCCESS;
}

/* Waits until this process has joined the user's job, and writes its rank there, or the reason why it has none. */
static void join_or_explain(struct handle *handle, char *problem) {
    struct timespec until;
    int result = 0;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += JOIN_SECONDS;
    pthread_mutex_lock(&user.lock);
    while (user.state == JOINING && result == 0)
        result = pthread_cond_clockwait(&user.changed, &user.lock, CLOCK_MONOTONIC, &until);
    if (user.state == JOINED) {
        handle->rank = tributary_rank(user.job);
    } else if (user.state == REFUSED) {
        memcpy(problem, user.problem, sizeof user.problem);
    } else if (user.state == JOINING) {
        handle->trouble = WAITS;
        snprintf(problem, TEXT_BYTES, "%.800s (the job has not begun in %d s)", user.problem, JOIN_SECONDS);
    } else {
        snprintf(problem, TEXT_BYTES, "NCCL_COLLNET_ENABLE is 0");
    }
    pthread_mutex_unlock(&user.lock);
}

/* Writes this process's terms. */
static void write_handle(struct handle *handle) {
    char problem[TEXT_BYTES] = "";
    const char *job = variable("TRIBUTARY_JOB");
    *handle = (struct handle){.magic = MAGIC, .job = job != NULL ? hash(job) : 0};
    if (getrandom(handle->nonce, sizeof handle->nonce, 0) != sizeof handle->nonce)
        snprintf(problem, sizeof problem, "there are no random numbers: %s", strerror(errno));
    if (!read_precision(&handle->is_exact))
        snprintf(problem, sizeof problem, "TRIBUTARY_PRECISION=%s: give standard or float32", getenv("TRIBUTARY_PRECISION"));
    if (*problem == '\0') join_or_explain(handle, problem);
    if (*problem != '\0' && handle->trouble == NONE) handle->trouble = CANNOT;
    int length = (int)sizeof handle->problem - 4, is_cut = strlen(problem) > sizeof handle->problem - 1;
    snprintf(handle->problem, sizeof handle->problem, is_cut ? "%.*s..." : "%.*s", is_cut ? length : length + 3, problem);
    if (handle->trouble != NONE) warn("this process cannot add in the fabric: %s", problem);
}

static nccl_result listen_v8(int number, void *opaque, void **to) {
    struct listening *listening;
    if (number != 0 || opaque == NULL || to == NULL) return NCCL_INVALID_ARGUMENT;
    *to = NULL;
    listening = calloc(1, sizeof *listening);
    if (listening == NULL) {
        warn("there is no memory");
        return NCCL_SYSTEM_ERROR;
    }
    write_handle(&listening->handle);
    memset(opaque, 0, NCCL_HANDLE_BYTES);
    memcpy(opaque, &listening->handle, sizeof listening->handle);
    *to = listening;
    return NCCL_SUCCESS;
}

static nccl_result listen_v11(void *context, int number, void *handle, void **listening) {
    (void)context;
    return listen_v8(number, handle, listening);
}

static nccl_result close_listening(void *listening) {
    free(listening);
    return NCCL_SUCCESS;
}

/* Compares the terms of all processes. All of them get the same result, because they read the same handles. */
static int has_one_will(void *handles[], int ranks, uint32_t *users_ranks, struct handle *first) {
    char problem[TEXT_BYTES] = "";
    int worst = NONE, culprit = 0;
    for (int at = 0; at < ranks; at++) {
        struct handle handle;
        const char *text;
        memcpy(&handle, handles[at], sizeof handle);
        handle.problem[sizeof handle.problem - 1] = '\0';
        if (at == 0) *first = handle;
        users_ranks[at] = handle.rank;
        if (handle.magic != MAGIC) text = "it has another version of this plugin: install one version on all hosts";
        else if (handle.trouble != NONE) text = handle.problem;
        else if (handle.job != first->job) text = "its TRIBUTARY_JOB differs from the first process's";
        else if (handle.is_exact != first->is_exact) text = "its TRIBUTARY_PRECISION differs from the first process's";
        else continue;
        int trouble = handle.magic == MAGIC && handle.trouble == WAITS ? WAITS : CANNOT;
        /* The processes that wait may wait for one that cannot join. */
        if (trouble <= worst) continue;
        worst = trouble;
        culprit = at;
        snprintf(problem, sizeof problem, "%s", text);
    }
    if (worst == NONE) return 1;
    warn("NCCL adds without the fabric, because process %d of %d of this communicator cannot take part: %s", culprit, ranks,
         problem);
    return 0;
}

static nccl_result connect_all(void *handles[], int ranks, int rank, void *listening, void **to) {
    tributary_options options = TRIBUTARY_OPTIONS_INIT;
    struct handle first = {0};
    uint32_t *users_ranks;
    struct comm *comm;
    char group[40];
    tributary_job *parent;
    int result, has_agreed;
    if (handles == NULL || ranks < 1 || listening == NULL || to == NULL) return NCCL_INVALID_ARGUMENT;
    *to = NULL;
    users_ranks = calloc((size_t)ranks, sizeof *users_ranks);
    comm = calloc(1, sizeof *comm);
    has_agreed = users_ranks != NULL && comm != NULL && has_one_will(handles, ranks, users_ranks, &first);
    if (!has_agreed) {
        free(users_ranks);
        free(comm);
        return NCCL_INVALID_USAGE;
    }
    snprintf(group, sizeof group, "nccl-%016llx%016llx", (unsigned long long)first.nonce[0],
             (unsigned long long)first.nonce[1]);
    pthread_mutex_lock(&user.lock);
    parent = user.job;
    pthread_mutex_unlock(&user.lock);
    options.processes = 1;
    options.join_milliseconds = JOIN_SECONDS * 1000;
    options.waiting = waiting;
    result = tributary_join_group(parent, group, users_ranks, (size_t)ranks, &options, &comm->job);
    free(users_ranks);
    if (result == TRIBUTARY_OK && tributary_size(comm->job) != (uint32_t)ranks) {
        warn("NCCL adds without the fabric: the communicator has %d nodes on %u hosts of the job", ranks,
             tributary_size(comm->job));
        tributary_leave(comm->job);
        free(comm);
        return NCCL_INVALID_USAGE;
    }
    if (result != TRIBUTARY_OK) {
        warn("NCCL adds without the fabric, because this communicator has no job: %s", tributary_error_message());
        free(comm);
        return NCCL_SYSTEM_ERROR;
    }
    comm->is_exact = first.is_exact;
    inform("process %d of %d of a communicator adds in the fabric, on host %s", rank, ranks, tributary_host(comm->job));
    *to = comm;
    return NCCL_SUCCESS;
}

/* Returns the fabric's type and the size of an element, or 0 if the fabric does not add the type. */
static tributary_type type_of(nccl_type type, int is_exact, size_t *bytes) {
    switch ((int)type) {
        case NCCL_FLOAT32: *bytes = 4; return is_exact ? TRIBUTARY_FLOAT32_EXACT : TRIBUTARY_FLOAT32;
        case NCCL_FLOAT16: *bytes = 2; return TRIBUTARY_FLOAT16;
        case NCCL_BFLOAT16: *bytes = 2; return TRIBUTARY_BFLOAT16;
        case NCCL_FLOAT64: *bytes = 8; return TRIBUTARY_FLOAT64;
        case NCCL_INT32: *bytes = 4; return TRIBUTARY_INT32;
        case NCCL_INT64: *bytes = 8; return TRIBUTARY_INT64;
        default: *bytes = 0; return 0;
    }
}

/* NCCL computes an average as a sum, and divides on the GPU. */
static nccl_result supports(nccl_type type, nccl_operation operation, int *supported) {
    size_t bytes;
    *supported = operation == NCCL_SUM && type_of(type, 0, &bytes) != 0;
    return NCCL_SUCCESS;
}

/* Translates an error of libtributary, and reports it. */
static nccl_result failed(struct comm *comm, const char *name, int error) {
    static const nccl_result RESULTS[] = {
        [TRIBUTARY_ERROR] = NCCL_INTERNAL_ERROR,
        [TRIBUTARY_INVALID_ARGUMENT] = NCCL_INVALID_ARGUMENT,
        [TRIBUTARY_AGENT_UNREACHABLE] = NCCL_SYSTEM_ERROR,
        [TRIBUTARY_PERMISSION_DENIED] = NCCL_SYSTEM_ERROR,
        [TRIBUTARY_JOB_OVER] = NCCL_REMOTE_ERROR,
        [TRIBUTARY_JOB_ENDED] = NCCL_REMOTE_ERROR,
        [TRIBUTARY_NO_SUM] = NCCL_REMOTE_ERROR,
        [TRIBUTARY_DEADLINE_PASSED] = NCCL_REMOTE_ERROR,
    };
    int is_known = error > 0 && error < (int)(sizeof RESULTS / sizeof *RESULTS);
    comm->failure = is_known ? RESULTS[error] : NCCL_INTERNAL_ERROR;
    warn("%s failed in the fabric: %s", name, tributary_error_message());
    return comm->failure;
}

static nccl_result all_reduce(void *opaque, void *values, void *sums, size_t count, nccl_type type,
                              nccl_operation operation, void *registered_values, void *registered_sums, void **to) {
    struct comm *comm = opaque;
    struct request *request;
    size_t bytes;
    int result;
    (void)registered_values, (void)registered_sums;
    if (comm == NULL || to == NULL) return NCCL_INVALID_ARGUMENT;
    *to = NULL;
    /* The other processes have not started the operations that this process has missed. */
    if (comm->failure != NCCL_SUCCESS) return comm->failure;
    tributary_type own = type_of(type, comm->is_exact, &bytes);
    if (own == 0 || operation != NCCL_SUM) {
        warn("the fabric does not compute operation %d of type %d: report this",
             (int)operation, (int)type);
        return NCCL_INVALID_USAGE;
    }
    request = calloc(1, sizeof *request);
    if (request == NULL) {
        warn("there is no memory");
        return NCCL_SYSTEM_ERROR;
    }
    /* If the orders or the arguments of the processes differ, so do the names, and all processes get an error. */
    snprintf(request->name, sizeof request->name, "NCCL all-reduce %llu of %zu elements of type %d",
             (unsigned long long)comm->started, count, (int)type);
    result = tributary_start_all_reduce(comm->job, request->name, values, sums, count, own, &request->request);
    if (result != TRIBUTARY_OK) {
        nccl_result failure = failed(comm, request->name, result);
        free(request);
        return failure;
    }
    comm->started++;
    request->comm = comm;
    request->bytes = count * bytes;
    request->next = comm->requests;
    if (request->next != NULL) request->next->previous = request;
    comm->requests = request;
    *to = request;
    return NCCL_SUCCESS;
}

static nccl_result all_reduce_v8(void *comm, void *values, void *sums, int count, nccl_type type,
                                 nccl_operation operation, void *registered_values, void *registered_sums, void **to) {
    if (count < 0) return NCCL_INVALID_ARGUMENT;
    return all_reduce(comm, values, sums, (size_t)count, type, operation, registered_values, registered_sums, to);
}

static void forget(struct request *request) {
    if (request->previous != NULL) request->previous->next = request->next;
    else request->comm->requests = request->next;
    if (request->next != NULL) request->next->previous = request->previous;
    free(request);
}

static nccl_result test(void *opaque, int *done, int *bytes) {
    struct request *request = opaque;
    int result;
    if (request == NULL || done == NULL) return NCCL_INVALID_ARGUMENT;
    *done = 0;
    result = tributary_test(&request->request, done, NULL);
    if (result == TRIBUTARY_OK && !*done) return NCCL_SUCCESS;
    if (result == TRIBUTARY_OK) {
        if (bytes != NULL) *bytes = (int)request->bytes;
        forget(request);
        return NCCL_SUCCESS;
    }
    *done = 0;
    failed(request->comm, request->name, result);
    nccl_result failure = request->comm->failure;
    /* After an error, tributary_test has freed the library's request, unless it could not use it at all. */
    tributary_abandon(&request->request);
    forget(request);
    return failure;
}

/* The data is in the host's memory, where everyone sees it. */
static nccl_result flush(void *comm, void *data, int bytes, void *registered, void **request) {
    (void)comm, (void)data, (void)bytes, (void)registered;
    *request = NULL;
    return NCCL_SUCCESS;
}

/* Ends the communicator's job. NCCL also closes communicators that it gives up, with operations in flight. */
static nccl_result close_comm(void *opaque) {
    struct comm *comm = opaque;
    if (comm == NULL) return NCCL_SUCCESS;
    int is_at_rest = comm->failure == NCCL_SUCCESS && comm->requests == NULL;
    while (comm->requests != NULL) {
        tributary_abandon(&comm->requests->request);
        forget(comm->requests);
    }
    int result = is_at_rest ? tributary_finish(comm->job) : tributary_leave(comm->job);
    if (result != TRIBUTARY_OK) inform("the end of a communicator's job: %s", tributary_error_message());
    free(comm);
    return NCCL_SUCCESS;
}

/* An all-gather and a reduce-scatter would move as many bytes as an all-reduce, which is more than NCCL's own ring moves. If
 * these functions are missing, NCCL uses its own way. */
#define COMMON                                                                                         \
    .name = "Tributary", .devices = devices, .connect = connect_all, .supports = supports,             \
    .register_memory = register_memory, .register_dma = register_dma, .deregister = deregister,        \
    .flush = flush, .test = test, .close = close_comm, .close_listening = close_listening

VISIBLE const nccl_collnet_v8 ncclCollNetPlugin_v8 = {
    COMMON, .init = init_v8, .properties = properties_v8, .listen = listen_v8, .all_reduce = all_reduce_v8,
};
VISIBLE const nccl_collnet_v9 ncclCollNetPlugin_v9 = {
    COMMON, .init = init_v8, .properties = properties_v9, .listen = listen_v8, .all_reduce = all_reduce,
};
VISIBLE const nccl_collnet_v9 ncclCollNetPlugin_v10 = {
    COMMON, .init = init_v8, .properties = properties_v9, .listen = listen_v8, .all_reduce = all_reduce,
};
VISIBLE const nccl_collnet_v11 ncclCollNetPlugin_v11 = {
    COMMON, .init = init_v11, .properties = properties_v11, .listen = listen_v11, .all_reduce = all_reduce,
    .finalize = finalize,
};
VISIBLE const nccl_collnet_v12 ncclCollNetPlugin_v12 = {
    COMMON, .init = init_v11, .properties = properties_v12, .listen = listen_v11, .all_reduce = all_reduce,
    .finalize = finalize,
};
