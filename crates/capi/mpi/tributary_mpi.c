/* libtributary-mpi: takes sums of MPI_Allreduce in the network, in programs that know nothing of it.
 *
 *     mpirun -x LD_PRELOAD=libtributary-mpi.so program
 *
 * The library stands between a program and its MPI library: it defines MPI_Allreduce, and calls PMPI_Allreduce for
 * everything that the network cannot add or that would not gain. docs/mpi.md describes it.
 *
 * All ranks must decide alike about a call. So they decide only by arguments that MPI requires to be equal on all
 * ranks, and by settings that rank 0 has sent to all ranks.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <mpi.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <tributary.h>
#include <unistd.h>

/* The smallest number of bytes that gains over Open MPI's own all-reduce: docs/results/mpi has the measurement. Floats
 * whose sums are rounded once, from all of their bits, cost an agent 25 times as much, and do not gain by default. */
#define DEFAULT_THRESHOLD (4 << 20)
#define NEVER UINT64_MAX
/* Milliseconds that the ranks wait for each other in joining the job. */
#define JOIN_MILLISECONDS 60000
#define TEXT_BYTES 1024

/* The ways of a call, and the reasons for leaving it to the MPI library. */
enum way { FABRIC, SMALL, EXACT_FLOATS, OTHER_OPERATION, OTHER_TYPE, OTHER_COMMUNICATOR, WAYS };

static const char *const REASONS[WAYS] = {
    [SMALL] = "smaller than the threshold",
    [EXACT_FLOATS] = "of floats with exact sums, which are slower in the fabric (see TRIBUTARY_MPI_THRESHOLD)",
    [OTHER_OPERATION] = "of an operation other than MPI_SUM",
    [OTHER_TYPE] = "of a type that the fabric does not add",
    [OTHER_COMMUNICATOR] = "of some of the ranks, or of a communicator that threads use at the same time",
};

/* The settings of rank 0, which all ranks use. */
struct settings {
    /* In bytes, for floats with exact sums and for the other types. */
    uint64_t exact_threshold, threshold;
    int32_t exact;
    uint64_t job;
};

static struct settings settings;
/* NULL if all calls stay with the MPI library. */
static tributary_job *job;
static int world_rank, world_size;
/* 1 if several threads of a rank may call at the same time, with different communicators in different orders. */
static int has_threads;
static uint64_t started;
static _Atomic uint64_t calls[WAYS], bytes_of[WAYS];
static double seconds;

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

__attribute__((format(printf, 1, 2))) static void message(const char *format, ...) {
    char text[2 * TEXT_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    /* One call, so that the lines of several ranks do not mix. */
    fprintf(stderr, "tributary: %s\n", text);
}

/* FNV-1a. */
static uint64_t hash(uint64_t from, const void *data, size_t bytes) {
    const unsigned char *at = data;
    for (size_t next = 0; next < bytes; next++) from = (from ^ at[next]) * UINT64_C(0x100000001b3);
    return from;
}

static const char *socket_path(void) {
    const char *path = getenv("TRIBUTARY_SOCKET");
    return path != NULL && *path != '\0' ? path : "/run/tributary/agent.sock";
}

/* Returns a number of this host, made of its agent's socket, because the hosts of a lab share a kernel. */
static uint64_t host_number(char *problem) {
    char boot[64] = "";
    struct stat found;
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "r");
    if (file != NULL) {
        if (fgets(boot, sizeof boot, file) == NULL) boot[0] = '\0';
        fclose(file);
    }
    if (stat(socket_path(), &found) != 0) {
        if (*problem == '\0')
            snprintf(problem, TEXT_BYTES,
                     "there is no agent's socket at %s: start `tributary agent` on this host, or set TRIBUTARY_SOCKET",
                     socket_path());
        return 0;
    }
    uint64_t number = hash(UINT64_C(0xcbf29ce484222325), boot, sizeof boot);
    number = hash(number, &found.st_dev, sizeof found.st_dev);
    return hash(number, &found.st_ino, sizeof found.st_ino);
}

static void read_settings(char *problem) {
    const char *threshold = getenv("TRIBUTARY_MPI_THRESHOLD"), *precision = getenv("TRIBUTARY_PRECISION");
    const char *name = getenv("TRIBUTARY_JOB");
    char *end = NULL;
    settings.threshold = DEFAULT_THRESHOLD;
    settings.exact_threshold = NEVER;
    if (threshold != NULL && *threshold != '\0') {
        settings.threshold = settings.exact_threshold = strtoull(threshold, &end, 10);
        if (*end != '\0') snprintf(problem, TEXT_BYTES, "TRIBUTARY_MPI_THRESHOLD=%s: give bytes", threshold);
    }
    settings.exact = precision == NULL || strcmp(precision, "standard") != 0;
    if (settings.exact && precision != NULL && *precision != '\0' && strcmp(precision, "float32") != 0)
        snprintf(problem, TEXT_BYTES, "TRIBUTARY_PRECISION=%s: give standard or float32", precision);
    if (name == NULL || *name == '\0') {
        snprintf(problem, TEXT_BYTES, "TRIBUTARY_JOB is not set: create a job, and pass its variables by `mpirun -x`");
        name = "";
    }
    settings.job = hash(0, name, strlen(name));
}

/* Returns 1 if no rank has a problem. Otherwise, rank 0 prints the problem of the first rank that has one. */
static int agree(char *problem) {
    int own = *problem == '\0' ? world_size : world_rank, first;
    if (PMPI_Allreduce(&own, &first, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD) != MPI_SUCCESS) return 0;
    if (first == world_size) return 1;
    PMPI_Bcast(problem, TEXT_BYTES, MPI_CHAR, first, MPI_COMM_WORLD);
    if (world_rank == 0)
        message("all of MPI_Allreduce stays with the MPI library, since rank %d cannot take part: %s", first, problem);
    return 0;
}

/* Finds the number of this process on its host, and the number of the host's processes. */
static int find_processes(tributary_options *options, uint64_t host, char *problem) {
    uint64_t *hosts = malloc((size_t)world_size * sizeof *hosts);
    if (hosts == NULL) snprintf(problem, TEXT_BYTES, "there is no memory");
    if (!agree(problem)) {
        free(hosts);
        return 0;
    }
    PMPI_Allgather(&host, 1, MPI_UINT64_T, hosts, 1, MPI_UINT64_T, MPI_COMM_WORLD);
    for (int rank = 0; rank < world_size; rank++) {
        if (hosts[rank] != host) continue;
        options->processes++;
        if (rank < world_rank) options->process++;
    }
    free(hosts);
    if ((int)options->processes == world_size) snprintf(problem, TEXT_BYTES, "all ranks are on one host");
    return agree(problem);
}

static void waiting(const char *what, void *unused) {
    (void)unused;
    message("rank %d: %s", world_rank, what);
}

/* Joins the job on all ranks, or on none. */
static void join(void) {
    char problem[TEXT_BYTES] = "";
    tributary_options options = TRIBUTARY_OPTIONS_INIT;
    tributary_job *joined = NULL;
    MPI_Comm parent;
    read_settings(problem);
    uint64_t own = settings.job, host = host_number(problem);
    PMPI_Comm_get_parent(&parent);
    if (parent != MPI_COMM_NULL) snprintf(problem, TEXT_BYTES, "another program has started it by MPI_Comm_spawn");
    PMPI_Bcast(&settings, sizeof settings, MPI_BYTE, 0, MPI_COMM_WORLD);
    if (*problem == '\0' && settings.job != own) snprintf(problem, TEXT_BYTES, "its TRIBUTARY_JOB differs from rank 0's");
    if (!find_processes(&options, host, problem)) return;
    options.new_run = 1;
    options.join_milliseconds = JOIN_MILLISECONDS;
    if (world_rank == 0) options.waiting = waiting;
    if (tributary_join(&options, &joined) != TRIBUTARY_OK) {
        snprintf(problem, TEXT_BYTES, "%s", tributary_error_message());
    } else if (tributary_size(joined) != (uint32_t)world_size) {
        snprintf(problem, TEXT_BYTES, "the job has %u ranks, and MPI has %d: start processes on all hosts of the job",
                 tributary_size(joined), world_size);
    }
    if (agree(problem)) job = joined;
    else if (joined != NULL) tributary_leave(joined);
}

static void begin(int provided) {
    PMPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
    PMPI_Comm_size(MPI_COMM_WORLD, &world_size);
    if (world_size == 1) return;
    /* Ranks may have different levels. */
    int own = provided == MPI_THREAD_MULTIPLE;
    PMPI_Allreduce(&own, &has_threads, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    join();
}

int MPI_Init(int *argc, char ***argv) {
    int provided, result = PMPI_Init(argc, argv);
    if (result != MPI_SUCCESS) return result;
    PMPI_Query_thread(&provided);
    begin(provided);
    return result;
}

int MPI_Init_thread(int *argc, char ***argv, int required, int *provided) {
    int result = PMPI_Init_thread(argc, argv, required, provided);
    if (result == MPI_SUCCESS) begin(*provided);
    return result;
}

/* Returns the fabric's type of an MPI type, or 0, and the number of its elements in one of the MPI type. */
static tributary_type type_of(MPI_Datatype type, size_t *elements) {
    tributary_type single = settings.exact ? TRIBUTARY_FLOAT32_EXACT : TRIBUTARY_FLOAT32;
    const struct {
        MPI_Datatype mpi;
        tributary_type own;
        size_t elements, bytes;
    } types[] = {
        {MPI_FLOAT, single, 1, 4},
        {MPI_DOUBLE, TRIBUTARY_FLOAT64, 1, 8},
        {MPI_INT, TRIBUTARY_INT32, 1, 4},
        {MPI_INT32_T, TRIBUTARY_INT32, 1, 4},
        {MPI_INT64_T, TRIBUTARY_INT64, 1, 8},
        {MPI_LONG, TRIBUTARY_INT64, 1, 8},
        {MPI_LONG_LONG, TRIBUTARY_INT64, 1, 8},
        {MPI_C_FLOAT_COMPLEX, single, 2, 8},
        {MPI_C_DOUBLE_COMPLEX, TRIBUTARY_FLOAT64, 2, 16},
        {MPI_REAL, single, 1, 4},
        {MPI_REAL4, single, 1, 4},
        {MPI_REAL8, TRIBUTARY_FLOAT64, 1, 8},
        {MPI_DOUBLE_PRECISION, TRIBUTARY_FLOAT64, 1, 8},
        {MPI_INTEGER, TRIBUTARY_INT32, 1, 4},
        {MPI_INTEGER8, TRIBUTARY_INT64, 1, 8},
        {MPI_COMPLEX, single, 2, 8},
        {MPI_DOUBLE_COMPLEX, TRIBUTARY_FLOAT64, 2, 16},
    };
    for (size_t at = 0; at < sizeof types / sizeof *types; at++) {
        int bytes;
        if (types[at].mpi != type || type == MPI_DATATYPE_NULL) continue;
        /* The sizes of MPI_LONG and of Fortran's types depend on the platform and on compilers' options. */
        PMPI_Type_size(type, &bytes);
        *elements = types[at].elements;
        return (size_t)bytes == types[at].bytes ? types[at].own : 0;
    }
    return 0;
}

/* Returns 1 if the communicator has all ranks, and all ranks call its operations in one order. */
static int has_all(MPI_Comm comm) {
    int result;
    if (comm == MPI_COMM_WORLD) return 1;
    if (has_threads || PMPI_Comm_compare(comm, MPI_COMM_WORLD, &result) != MPI_SUCCESS) return 0;
    return result != MPI_UNEQUAL;
}

static enum way decide(uint64_t bytes, tributary_type type, MPI_Op op, MPI_Comm comm) {
    if (op != MPI_SUM) return OTHER_OPERATION;
    if (type == 0) return OTHER_TYPE;
    int is_exact = type == TRIBUTARY_FLOAT64 || type == TRIBUTARY_FLOAT32_EXACT;
    if (is_exact && settings.exact_threshold == NEVER) return EXACT_FLOATS;
    if (bytes < settings.threshold) return SMALL;
    return has_all(comm) ? FABRIC : OTHER_COMMUNICATOR;
}

/* Waits for a request. Messages of the MPI library must arrive meanwhile, because another rank may need them before it
 * calls MPI_Allreduce. */
static int wait_for(tributary_request *request, double began) {
    int done = 0, found;
    for (;;) {
        int result = tributary_test(&request, &done, NULL);
        if (done || result != TRIBUTARY_OK) return result;
        PMPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_SELF, &found, MPI_STATUS_IGNORE);
        /* Longer waits have longer naps, which do not lengthen them by more than a few percent. */
        double nap = (now() - began) / 32;
        if (nap > 200e-6) nap = 200e-6;
        struct timespec time = {0, (long)(nap * 1e9)};
        nanosleep(&time, NULL);
    }
}

static int reduce(const void *values, void *sums, size_t count, tributary_type type, MPI_Comm comm) {
    char name[96];
    tributary_request *request;
    double began = now();
    /* If the orders or the arguments of the ranks differ, so do the names, and all ranks get an error. */
    snprintf(name, sizeof name, "MPI_Allreduce %llu of %zu elements of type %d", (unsigned long long)started++, count,
             (int)type);
    int result = tributary_start_all_reduce(job, name, values, sums, count, type, &request);
    if (result == TRIBUTARY_OK) result = wait_for(request, began);
    seconds += now() - began;
    if (result == TRIBUTARY_OK) return MPI_SUCCESS;
    /* The other ranks may have the sum, so that this rank cannot add again by the MPI library. */
    message("rank %d: %s failed in the fabric: %s", world_rank, name, tributary_error_message());
    return PMPI_Comm_call_errhandler(comm, MPI_ERR_OTHER) == MPI_SUCCESS ? MPI_ERR_OTHER : MPI_ERR_INTERN;
}

int MPI_Allreduce(const void *values, void *sums, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
    size_t elements = 1;
    int bytes = 0;
    /* The MPI library reports what is wrong with arguments. */
    if (job == NULL || count <= 0 || type == MPI_DATATYPE_NULL || comm == MPI_COMM_NULL
        || PMPI_Type_size(type, &bytes) != MPI_SUCCESS)
        return PMPI_Allreduce(values, sums, count, type, op, comm);
    tributary_type own = type_of(type, &elements);
    uint64_t all = (uint64_t)bytes * (uint64_t)count;
    enum way way = decide(all, own, op, comm);
    calls[way]++;
    bytes_of[way] += all;
    if (way != FABRIC) return PMPI_Allreduce(values, sums, count, type, op, comm);
    return reduce(values == MPI_IN_PLACE ? sums : values, sums, (size_t)count * elements, own, comm);
}

static void report(void) {
    message("%llu MPI_Allreduce went over the fabric: %.1f MB in %.3f s (rank 0)", (unsigned long long)calls[FABRIC],
            (double)bytes_of[FABRIC] / 1e6, seconds);
    for (int way = FABRIC + 1; way < WAYS; way++) {
        char threshold[48] = "";
        if (calls[way] == 0) continue;
        if (way == SMALL)
            snprintf(threshold, sizeof threshold, " of %llu bytes", (unsigned long long)settings.threshold);
        message("%llu MPI_Allreduce stayed with the MPI library: %.1f MB, %s%s", (unsigned long long)calls[way],
                (double)bytes_of[way] / 1e6, REASONS[way], threshold);
    }
}

int MPI_Finalize(void) {
    if (job != NULL) {
        if (world_rank == 0) report();
        if (tributary_close(job) != TRIBUTARY_OK) message("rank %d: %s", world_rank, tributary_error_message());
        job = NULL;
    }
    return PMPI_Finalize();
}

#ifdef OPEN_MPI
/* Fortran's functions of Open MPI call PMPI_Allreduce, and not MPI_Allreduce. Those of `use mpi_f08` call
 * ompi_allreduce_f. */
extern int mpi_fortran_in_place_ __attribute__((weak));
extern int mpi_fortran_bottom_ __attribute__((weak));

static void *from_fortran(void *buffer) {
    if (buffer == &mpi_fortran_in_place_) return MPI_IN_PLACE;
    return buffer == &mpi_fortran_bottom_ ? MPI_BOTTOM : buffer;
}

static void answer(MPI_Fint *error, int result) {
    if (error != NULL) *error = result;
}

void mpi_init_(MPI_Fint *error) {
    answer(error, MPI_Init(NULL, NULL));
}

void mpi_init_thread_(MPI_Fint *required, MPI_Fint *provided, MPI_Fint *error) {
    answer(error, MPI_Init_thread(NULL, NULL, *required, provided));
}

void mpi_finalize_(MPI_Fint *error) {
    answer(error, MPI_Finalize());
}

void mpi_allreduce_(void *values, void *sums, MPI_Fint *count, MPI_Fint *type, MPI_Fint *op, MPI_Fint *comm,
                    MPI_Fint *error) {
    answer(error, MPI_Allreduce(from_fortran(values), from_fortran(sums), *count, PMPI_Type_f2c(*type), PMPI_Op_f2c(*op),
                                PMPI_Comm_f2c(*comm)));
}

void ompi_init_f(MPI_Fint *error) __attribute__((alias("mpi_init_")));
void ompi_init_thread_f(MPI_Fint *, MPI_Fint *, MPI_Fint *) __attribute__((alias("mpi_init_thread_")));
void ompi_finalize_f(MPI_Fint *error) __attribute__((alias("mpi_finalize_")));
void ompi_allreduce_f(void *, void *, MPI_Fint *, MPI_Fint *, MPI_Fint *, MPI_Fint *, MPI_Fint *)
    __attribute__((alias("mpi_allreduce_")));
#endif
