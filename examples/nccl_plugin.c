/* Plays NCCL's part against libnccl-net-tributary.so, without NCCL and without a GPU: loads the plugin, makes communicators
 * as NCCL does, and checks or measures sums in the fabric (docs/nccl.md).
 *
 *     cc -O2 -Icrates/capi/nccl examples/nccl_plugin.c -ldl -lpthread -o nccl_plugin
 *     tributary lab run TOPOLOGY -- ./nccl_plugin PLUGIN check [VERSION]
 *     tributary lab run TOPOLOGY -- ./nccl_plugin PLUGIN measure BYTES IN_FLIGHT ROUNDS
 *
 * `check` tests the whole plugin, with the tables of a version (8 to 12). `measure` prints the time of ROUNDS times
 * IN_FLIGHT sums of float; with 0 rounds, it runs until an error. Both need the variables that torchrun and labs set. The
 * processes with the same LOCAL_RANK make communicators, as NCCL's heads do.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#define _GNU_SOURCE
#include <abi.h>
#include <arpa/inet.h>
#include <dlfcn.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define CHECK(condition)                                                                                       \
    do {                                                                                                       \
        if (!(condition)) {                                                                                    \
            fprintf(stderr, "rank %d: %s:%d: %s (last warning: %s)\n", rank, __FILE__, __LINE__, #condition,   \
                    last_warning);                                                                             \
            exit(1);                                                                                           \
        }                                                                                                      \
    } while (0)
#define RIGHT(call) CHECK((call) == NCCL_SUCCESS)

enum { COMMUNICATORS = 3, IN_FLIGHT = 8, ROUNDS = 3, LARGEST = 100003, MAX_RANKS = 64 };

static int rank, ranks, head, heads, node, nodes;
static char last_warning[2048];
/* The bootstrap's connections: of rank 0 to all others, and of the others to rank 0. */
static int peers[MAX_RANKS];

/* The functions of a version, with the signatures of the newest. */
static struct {
    nccl_result (*init)(nccl_logger logger);
    nccl_result (*listen)(int device, void *handle, void **listening);
    nccl_result (*properties)(int device, size_t *largest);
    nccl_devices devices;
    nccl_connect_all connect;
    nccl_supports supports;
    nccl_register register_memory;
    nccl_deregister deregister;
    nccl_all_reduce all_reduce;
    nccl_test test;
    nccl_close close, close_listening;
} plugin;
static const nccl_collnet_v8 *v8;
static const nccl_collnet_v9 *v9;
static const nccl_collnet_v11 *v11;
static const nccl_collnet_v12 *v12;
static const nccl_net_v8 *net_v8;
static const nccl_net_v12 *net_v12;

__attribute__((format(printf, 5, 6))) static void log_message(nccl_log_level level, unsigned long subsystems,
                                                              const char *place, int line, const char *format, ...) {
    char text[2048];
    const char *wanted = getenv("NCCL_DEBUG");
    va_list arguments;
    (void)subsystems, (void)place, (void)line;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (level == NCCL_LOG_WARN) snprintf(last_warning, sizeof last_warning, "%s", text);
    if (level == NCCL_LOG_WARN || (wanted != NULL && strcmp(wanted, "INFO") == 0))
        fprintf(stderr, "rank %d: %s\n", rank, text);
}

static int number(const char *name) {
    const char *value = getenv(name);
    if (value == NULL) {
        fprintf(stderr, "%s is not set: start this program by torchrun or `tributary lab run`\n", name);
        exit(2);
    }
    return atoi(value);
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

/* Leaves the processor to others for 50 microseconds. NCCL's threads poll without a pause, but the hosts of a lab share the
 * processors of one machine. */
static void rest(void) {
    struct timespec pause = {0, 50000};
    nanosleep(&pause, NULL);
}

static void send_all(int fd, const void *data, size_t bytes) {
    for (size_t done = 0; done < bytes;) {
        ssize_t sent = send(fd, (const char *)data + done, bytes - done, MSG_NOSIGNAL);
        CHECK(sent > 0);
        done += (size_t)sent;
    }
}

static void receive_all(int fd, void *data, size_t bytes) {
    CHECK(bytes == 0 || recv(fd, data, bytes, MSG_WAITALL) == (ssize_t)bytes);
}

/* Connects all ranks with rank 0, as NCCL's bootstrap does. */
static void bootstrap(void) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)number("MASTER_PORT"))};
    int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(fd >= 0 && ranks <= MAX_RANKS);
    CHECK(getenv("MASTER_ADDR") != NULL && inet_pton(AF_INET, getenv("MASTER_ADDR"), &address.sin_addr) == 1);
    if (rank > 0) {
        struct timespec pause = {0, 10000000};
        /* Rank 0 may not listen yet. */
        while (connect(fd, (struct sockaddr *)&address, sizeof address) != 0) {
            close(fd);
            nanosleep(&pause, NULL);
            fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        }
        peers[0] = fd;
        send_all(fd, &rank, sizeof rank);
        return;
    }
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    CHECK(bind(fd, (struct sockaddr *)&address, sizeof address) == 0 && listen(fd, MAX_RANKS) == 0);
    for (int at = 1; at < ranks; at++) {
        int other, peer = accept(fd, NULL, NULL);
        CHECK(peer >= 0);
        receive_all(peer, &other, sizeof other);
        CHECK(other > 0 && other < ranks);
        peers[other] = peer;
    }
    close(fd);
}

/* Gathers `bytes` bytes of each rank. */
static void all_gather(const void *own, void *all, size_t bytes) {
    if (rank > 0) {
        send_all(peers[0], own, bytes);
        receive_all(peers[0], all, bytes * (size_t)ranks);
        return;
    }
    memcpy(all, own, bytes);
    for (int at = 1; at < ranks; at++) receive_all(peers[at], (char *)all + (size_t)at * bytes, bytes);
    for (int at = 1; at < ranks; at++) send_all(peers[at], all, bytes * (size_t)ranks);
}

static void barrier(void) {
    char own = 0, all[MAX_RANKS];
    all_gather(&own, all, 1);
}

/* Adapters of older versions. */
static nccl_result all_reduce_v8(void *comm, void *values, void *sums, size_t count, nccl_type type,
                                 nccl_operation operation, void *of_values, void *of_sums, void **request) {
    return v8->all_reduce(comm, values, sums, (int)count, type, operation, of_values, of_sums, request);
}
static nccl_result init_v11(nccl_logger logger) {
    void *context;
    return v11->init(&context, 1, logger);
}
static nccl_result listen_v11(int device, void *handle, void **listening) {
    return v11->listen(NULL, device, handle, listening);
}
static nccl_result init_v12(nccl_logger logger) {
    void *context;
    return v12->init(&context, 1, logger);
}
static nccl_result listen_v12(int device, void *handle, void **listening) {
    return v12->listen(NULL, device, handle, listening);
}
static nccl_result properties_v8(int device, size_t *largest) {
    nccl_properties_v8 properties;
    *largest = 512 << 20;
    nccl_result result = v8->properties(device, &properties);
    CHECK(result != NCCL_SUCCESS || (properties.memory == NCCL_MEMORY_HOST && *properties.name && properties.speed > 0));
    return result;
}
static nccl_result properties_v9(int device, size_t *largest) {
    nccl_properties_v9 properties;
    nccl_result result = v9->properties(device, &properties);
    if (result != NCCL_SUCCESS) return result;
    *largest = properties.max_collective_bytes;
    CHECK(properties.memory == NCCL_MEMORY_HOST && properties.merged.count == 1);
    return result;
}
static nccl_result properties_v11(int device, size_t *largest) {
    nccl_properties_v11 properties;
    nccl_result result = v11->properties(device, &properties);
    if (result != NCCL_SUCCESS) return result;
    *largest = properties.v9.max_collective_bytes;
    CHECK(properties.max_requests_at_once == 1 && properties.v9.merged.count == 1);
    return result;
}
static nccl_result properties_v12(int device, size_t *largest) {
    nccl_properties_v12 properties;
    nccl_result result = v12->properties(device, &properties);
    if (result != NCCL_SUCCESS) return result;
    *largest = properties.max_collective_bytes;
    CHECK(properties.merged.count == 1 && properties.rail == -1 && properties.max_requests_at_once == 1);
    return result;
}

#define COPY(table)                                                                                          \
    do {                                                                                                     \
        plugin.devices = (table)->devices, plugin.connect = (table)->connect;                                \
        plugin.supports = (table)->supports, plugin.register_memory = (table)->register_memory;              \
        plugin.deregister = (table)->deregister, plugin.test = (table)->test;                                \
        plugin.close = (table)->close, plugin.close_listening = (table)->close_listening;                    \
        /* Without these functions, NCCL gathers and scatters in its own way. */                             \
        CHECK((table)->all_gather == NULL && (table)->reduce_scatter == NULL);                               \
    } while (0)

static const void *table(void *library, const char *kind, int version) {
    char name[64];
    snprintf(name, sizeof name, "ncclCollNetPlugin_v%d", version);
    if (*kind == 'n') snprintf(name, sizeof name, "ncclNetPlugin_v%d", version);
    const void *found = dlsym(library, name);
    if (found == NULL) {
        fprintf(stderr, "the plugin has no %s\n", name);
        exit(1);
    }
    return found;
}

static void load(const char *path, int version) {
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    int count = 0;
    size_t largest = 0;
    if (library == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        exit(1);
    }
    net_v8 = table(library, "net", 8);
    net_v12 = table(library, "net", 12);
    const void *found = table(library, "collnet", version);
    if (version == 8) {
        v8 = found;
        COPY(v8);
        plugin.init = v8->init, plugin.listen = v8->listen, plugin.properties = properties_v8;
        plugin.all_reduce = all_reduce_v8;
    } else if (version <= 10) {
        v9 = found;
        COPY(v9);
        plugin.init = v9->init, plugin.listen = v9->listen, plugin.properties = properties_v9;
        plugin.all_reduce = v9->all_reduce;
    } else if (version == 11) {
        v11 = found;
        COPY(v11);
        plugin.init = init_v11, plugin.listen = listen_v11, plugin.properties = properties_v11;
        plugin.all_reduce = v11->all_reduce;
    } else {
        v12 = found;
        COPY(v12);
        plugin.init = init_v12, plugin.listen = listen_v12, plugin.properties = properties_v12;
        plugin.all_reduce = v12->all_reduce;
    }
    /* NCCL calls `init` for each communicator, and wants as many devices on all hosts. */
    RIGHT(plugin.init(log_message));
    RIGHT(plugin.init(log_message));
    RIGHT(plugin.devices(&count));
    CHECK(count == 1);
    RIGHT(plugin.properties(0, &largest));
    CHECK(largest > 0 && plugin.properties(1, &largest) != NCCL_SUCCESS);
}

/* Makes a communicator of the processes with this LOCAL_RANK. */
static nccl_result make(void **comm) {
    char own[NCCL_HANDLE_BYTES], all[MAX_RANKS][NCCL_HANDLE_BYTES];
    void *listening, *handles[MAX_RANKS];
    /* A failure here would make other processes of NCCL wait. */
    RIGHT(plugin.listen(0, own, &listening));
    all_gather(own, all, sizeof own);
    for (int at = 0; at < nodes; at++) handles[at] = all[at * heads + head];
    nccl_result result = plugin.connect(handles, nodes, node, listening, comm);
    CHECK((result == NCCL_SUCCESS) == (*comm != NULL));
    /* NCCL closes the listening end only after a success. */
    if (result == NCCL_SUCCESS) RIGHT(plugin.close_listening(listening));
    return result;
}

static const struct {
    nccl_type type;
    size_t bytes;
} TYPES[] = {{NCCL_FLOAT32, 4}, {NCCL_FLOAT16, 2}, {NCCL_BFLOAT16, 2}, {NCCL_FLOAT64, 8}, {NCCL_INT32, 4}, {NCCL_INT64, 8}};
enum { TYPE_COUNT = sizeof TYPES / sizeof *TYPES };

/* Small integers, whose sums over up to 16 nodes are exact in all types. */
static int contribution(size_t at, int seed, int of) {
    return (int)((at * 7 + (size_t)seed * 3 + (size_t)of * (at % 5 + 1)) % 15) - 7;
}

static uint16_t to_half(int value) {
    /* Each integer up to 2048 is a float16. */
    uint16_t sign = value < 0 ? 0x8000 : 0, exponent = 25;
    unsigned mantissa = (unsigned)abs(value);
    if (mantissa == 0) return 0;
    while (mantissa < 1024) mantissa <<= 1, exponent--;
    return (uint16_t)(sign | exponent << 10 | (mantissa & 1023));
}

static uint16_t to_bfloat(int value) {
    float single = (float)value;
    uint32_t bits;
    memcpy(&bits, &single, sizeof bits);
    return (uint16_t)(bits >> 16);
}

static void store(void *to, size_t at, nccl_type type, int value) {
    switch ((int)type) {
        case NCCL_FLOAT32: ((float *)to)[at] = (float)value; break;
        case NCCL_FLOAT16: ((uint16_t *)to)[at] = to_half(value); break;
        case NCCL_BFLOAT16: ((uint16_t *)to)[at] = to_bfloat(value); break;
        case NCCL_FLOAT64: ((double *)to)[at] = (double)value; break;
        case NCCL_INT32: ((int32_t *)to)[at] = value; break;
        default: ((int64_t *)to)[at] = (int64_t)value * ((int64_t)1 << 40);
    }
}

static void check_at(const void *from, size_t at, nccl_type type, int seed) {
    int sum = 0, magnitude = 0;
    char right[8] = {0};
    for (int of = 0; of < nodes; of++) {
        sum += contribution(at, seed, of);
        magnitude += abs(contribution(at, seed, of));
    }
    if (type == NCCL_FLOAT32) {
        float off = ((const float *)from)[at] - (float)sum;
        CHECK((off < 0 ? -off : off) <= (float)magnitude / 4096);
        return;
    }
    store(right, 0, type, sum);
    size_t bytes = 0;
    for (int type_at = 0; type_at < TYPE_COUNT; type_at++)
        if (TYPES[type_at].type == type) bytes = TYPES[type_at].bytes;
    CHECK(memcmp((const char *)from + at * bytes, right, bytes) == 0);
}

/* An all-reduce in flight. */
struct sum {
    void *values, *sums, *request;
    size_t count;
    nccl_type type;
    int seed;
};

static void start_sum(void *comm, struct sum *sum, int seed) {
    static const size_t COUNTS[] = {1, 4096, 33, LARGEST, 0, 255, 65536, 7};
    int type = seed % TYPE_COUNT;
    *sum = (struct sum){.count = COUNTS[(seed / TYPE_COUNT + seed) % 8], .type = TYPES[type].type, .seed = seed};
    size_t bytes = sum->count * TYPES[type].bytes;
    sum->values = malloc(bytes + 1);
    sum->sums = malloc(bytes + 1);
    CHECK(sum->values != NULL && sum->sums != NULL);
    for (size_t at = 0; at < sum->count; at++) store(sum->values, at, sum->type, contribution(at, seed, node));
    memset(sum->sums, 0x55, bytes + 1);
    RIGHT(plugin.all_reduce(comm, sum->values, sum->sums, sum->count, sum->type, NCCL_SUM, NULL, NULL, &sum->request));
    CHECK(sum->request != NULL);
}

/* Returns 1 if the sum has ended, after it was checked. */
static int end_sum(struct sum *sum) {
    int done = 0, bytes = -1;
    RIGHT(plugin.test(sum->request, &done, &bytes));
    if (!done) return 0;
    size_t width = 0;
    for (int type = 0; type < TYPE_COUNT; type++)
        if (TYPES[type].type == sum->type) width = TYPES[type].bytes;
    CHECK((size_t)bytes == sum->count * width && ((char *)sum->sums)[bytes] == 0x55);
    for (size_t at = 0; at < sum->count; at++) check_at(sum->sums, at, sum->type, sum->seed);
    free(sum->values);
    free(sum->sums);
    sum->request = NULL;
    return 1;
}

/* Plays the thread by which NCCL drives a communicator: starts sums while others are in flight. */
static void *play_proxy(void *comm) {
    struct sum sums[IN_FLIGHT] = {0};
    int started = 0, ended = 0;
    while (ended < ROUNDS * IN_FLIGHT) {
        struct sum *next = &sums[started % IN_FLIGHT];
        if (started < ROUNDS * IN_FLIGHT && next->request == NULL) start_sum(comm, next, started++);
        for (int at = 0; at < IN_FLIGHT; at++) ended += sums[at].request != NULL && end_sum(&sums[at]);
        rest();
    }
    return NULL;
}

/* Each host begins with another communicator. In one order of all sums, they would wait for each other. */
static void interleave(void **comms) {
    struct sum sums[COMMUNICATORS][IN_FLIGHT];
    int left = COMMUNICATORS * IN_FLIGHT;
    for (int turn = 0; turn < COMMUNICATORS; turn++) {
        int at = (turn + node) % COMMUNICATORS;
        for (int seed = 0; seed < IN_FLIGHT; seed++) start_sum(comms[at], &sums[at][seed], seed + at);
    }
    while (left > 0) {
        for (int at = COMMUNICATORS * IN_FLIGHT - 1; at >= 0; at--) {
            struct sum *sum = &sums[at / IN_FLIGHT][at % IN_FLIGHT];
            left -= sum->request != NULL && end_sum(sum);
        }
        rest();
    }
}

static void check_supports(void) {
    for (int type = 0; type < 12; type++) {
        for (int operation = 0; operation < 5; operation++) {
            int supported = -1, right = 0;
            for (int at = 0; at < TYPE_COUNT; at++) right |= (int)TYPES[at].type == type && operation == NCCL_SUM;
            RIGHT(plugin.supports(type, operation, &supported));
            CHECK(supported == right);
        }
    }
}

/* Tests a request until it has ended, and returns its result. */
static nccl_result wait_for(void *request) {
    int done = 0;
    nccl_result result;
    do {
        result = plugin.test(request, &done, NULL);
        rest();
    } while (result == NCCL_SUCCESS && !done);
    return result;
}

static void check_errors(void) {
    void *comm, *request, *requests[3];
    float value = 1, sum = 0;
    int32_t large = INT32_MAX, large_sum = 0;
    void *registered;
    RIGHT(make(&comm));
    RIGHT(plugin.register_memory(comm, &value, sizeof value, NCCL_MEMORY_HOST, &registered));
    RIGHT(plugin.deregister(comm, registered));
    CHECK(plugin.register_memory(comm, &value, sizeof value, NCCL_MEMORY_CUDA, &registered) != NCCL_SUCCESS);
    CHECK(strstr(last_warning, "memory of the host only") != NULL);
    CHECK(plugin.all_reduce(comm, &value, &sum, 1, NCCL_UINT8, NCCL_SUM, NULL, NULL, &request) != NCCL_SUCCESS);
    CHECK(request == NULL);
    CHECK(plugin.all_reduce(comm, &value, &sum, 1, NCCL_FLOAT32, NCCL_MAX, NULL, NULL, &request) != NCCL_SUCCESS);
    /* Such refusals leave the communicator as it was. */
    RIGHT(plugin.all_reduce(comm, &value, &sum, 1, NCCL_FLOAT32, NCCL_SUM, NULL, NULL, &request));
    RIGHT(wait_for(request));
    CHECK(sum == (float)nodes);
    /* An overflow is an error on all ranks, after which the communicator refuses further sums. */
    RIGHT(plugin.all_reduce(comm, &large, &large_sum, 1, NCCL_INT32, NCCL_SUM, NULL, NULL, &request));
    CHECK(wait_for(request) == NCCL_REMOTE_ERROR && strstr(last_warning, "does not fit") != NULL);
    CHECK(large_sum == 0);
    CHECK(plugin.all_reduce(comm, &value, &sum, 1, NCCL_FLOAT32, NCCL_SUM, NULL, NULL, &request) == NCCL_REMOTE_ERROR);
    RIGHT(plugin.close(comm));
    /* One process gives up its communicator with sums in flight: the others get errors, and do not wait. */
    RIGHT(make(&comm));
    if (node == nodes - 1) {
        barrier();
        RIGHT(plugin.close(comm));
        return;
    }
    for (int at = 0; at < 3; at++)
        RIGHT(plugin.all_reduce(comm, &value, &sum, 1, NCCL_FLOAT32, NCCL_SUM, NULL, NULL, &requests[at]));
    barrier();
    CHECK(wait_for(requests[1]) == NCCL_REMOTE_ERROR);
    /* The other two sums are still in flight. */
    RIGHT(plugin.close(comm));
}

/* Sends messages to the next rank and receives them from the previous one, with a version of the other table. */
static void check_messages(int version) {
    static const size_t SIZES[] = {0, 1, 3, 4096, 5 << 20, 8, 65537, 0};
    enum { MESSAGES = sizeof SIZES / sizeof *SIZES };
    char own[NCCL_HANDLE_BYTES], all[MAX_RANKS][NCCL_HANDLE_BYTES], *sent[MESSAGES], *received[MESSAGES];
    void *listening, *sending = NULL, *receiving = NULL, *sends[MESSAGES], *receives[MESSAGES], *context;
    int is_newest = version >= 12, count = 0, next = (rank + 1) % ranks, previous = (rank + ranks - 1) % ranks;
    RIGHT(is_newest ? net_v12->init(&context, 1, NULL, log_message, NULL) : net_v8->init(log_message));
    RIGHT(is_newest ? net_v12->devices(&count) : net_v8->devices(&count));
    CHECK(count == 1);
    RIGHT(is_newest ? net_v12->listen(NULL, 0, own, &listening) : net_v8->listen(0, own, &listening));
    all_gather(own, all, sizeof own);
    while (sending == NULL || receiving == NULL) {
        if (sending == NULL)
            RIGHT(is_newest ? net_v12->connect(NULL, 0, all[next], &sending, NULL) : net_v8->connect(0, all[next], &sending, NULL));
        if (receiving == NULL) RIGHT(net_v8->accept(listening, &receiving, NULL));
        rest();
    }
    RIGHT(net_v8->close_listening(listening));
    for (int at = 0; at < MESSAGES; at++) {
        /* A receiver's memory may be larger than the message. */
        size_t room = SIZES[at] + (size_t)(at % 2);
        int room_v8 = (int)room, tag = 0;
        sent[at] = malloc(SIZES[at] + 1);
        received[at] = malloc(room + 1);
        CHECK(sent[at] != NULL && received[at] != NULL);
        for (size_t byte = 0; byte < SIZES[at]; byte++) sent[at][byte] = (char)(byte * 31 + (size_t)(at + rank));
        void *memory = received[at];
        RIGHT(is_newest ? net_v12->receive(receiving, 1, &memory, &room, &tag, NULL, NULL, &receives[at])
                        : net_v8->receive(receiving, 1, &memory, &room_v8, &tag, NULL, &receives[at]));
        RIGHT(is_newest ? net_v12->send(sending, sent[at], SIZES[at], tag, NULL, NULL, &sends[at])
                        : net_v8->send(sending, sent[at], (int)SIZES[at], tag, NULL, &sends[at]));
    }
    for (int left = 2 * MESSAGES; left > 0; rest()) {
        /* The newest messages are tested first. */
        for (int at = MESSAGES - 1; at >= 0; at--) {
            int done = 0, bytes = -1;
            if (sends[at] != NULL) RIGHT(net_v8->test(sends[at], &done, &bytes));
            if (done) sends[at] = NULL, left--;
            done = 0;
            if (receives[at] != NULL) RIGHT(net_v8->test(receives[at], &done, &bytes));
            if (!done) continue;
            receives[at] = NULL, left--;
            CHECK((size_t)bytes == SIZES[at]);
            for (size_t byte = 0; byte < SIZES[at]; byte++)
                CHECK(received[at][byte] == (char)(byte * 31 + (size_t)(at + previous)));
        }
    }
    barrier();
    /* A process that waits for a message of a process that has gone gets an error. */
    if (rank % 2 == 0) RIGHT(net_v8->close_sending(sending));
    if (previous % 2 == 0 && previous != rank) {
        void *memory = received[1], *request = NULL;
        int room = 1, tag = 0, done = 0;
        nccl_result result = net_v8->receive(receiving, 1, &memory, &room, &tag, NULL, &request);
        while (result == NCCL_SUCCESS && !done) result = net_v8->test(request, &done, NULL);
        CHECK(result == NCCL_REMOTE_ERROR && strstr(last_warning, "is lost") != NULL);
    }
    if (rank % 2 == 1) RIGHT(net_v8->close_sending(sending));
    RIGHT(net_v8->close_receiving(receiving));
    for (int at = 0; at < MESSAGES; at++) free(sent[at]), free(received[at]);
    barrier();
}

static void check_all(int version) {
    void *comms[COMMUNICATORS];
    pthread_t threads[COMMUNICATORS];
    check_supports();
    check_messages(version);
    for (int at = 0; at < COMMUNICATORS; at++) RIGHT(make(&comms[at]));
    interleave(comms);
    for (int at = 0; at < COMMUNICATORS; at++) CHECK(pthread_create(&threads[at], NULL, play_proxy, comms[at]) == 0);
    for (int at = 0; at < COMMUNICATORS; at++) CHECK(pthread_join(threads[at], NULL) == 0);
    for (int at = 0; at < COMMUNICATORS; at++) RIGHT(plugin.close(comms[at]));
    check_errors();
    /* After errors, further communicators work. */
    RIGHT(make(&comms[0]));
    play_proxy(comms[0]);
    RIGHT(plugin.close(comms[0]));
    barrier();
    printf("rank %d of %d, head %d: right\n", rank, ranks, head);
}

static int measure(size_t bytes, int in_flight, long rounds) {
    void *comm, **requests = calloc((size_t)in_flight, sizeof *requests);
    size_t count = bytes / sizeof(float), all = count * (size_t)in_flight;
    float *values = malloc(all * sizeof *values), *sums = malloc(all * sizeof *sums);
    CHECK(requests != NULL && values != NULL && sums != NULL);
    for (size_t at = 0; at < all; at++) values[at] = (float)(at % 1000) / 1000 - (float)node;
    nccl_result result = make(&comm);
    if (result != NCCL_SUCCESS) {
        fprintf(stderr, "rank %d: NCCL would now use its point-to-point transport (error %d)\n", rank, result);
        return 1;
    }
    printf("rank %d of %d, head %d: measures\n", rank, ranks, head);
    fflush(stdout);
    double began = 0;
    /* The first round is not measured: it allocates memory. */
    for (long round = 0; result == NCCL_SUCCESS && (rounds == 0 || round <= rounds); round++) {
        if (round == 1) began = now();
        for (int at = 0; at < in_flight && result == NCCL_SUCCESS; at++)
            result = plugin.all_reduce(comm, values + (size_t)at * count, sums + (size_t)at * count, count, NCCL_FLOAT32,
                                       NCCL_SUM, NULL, NULL, &requests[at]);
        for (int at = 0; at < in_flight && result == NCCL_SUCCESS; at++) result = wait_for(requests[at]);
        for (size_t at = 0; at < all && result == NCCL_SUCCESS; at += 997) {
            float right = (float)nodes * (float)(at % 1000) / 1000 - (float)(nodes * (nodes - 1)) / 2;
            float off = sums[at] - right;
            CHECK((off < 0 ? -off : off) <= (float)(nodes * nodes) / 4096 + 1e-4f);
        }
    }
    double seconds = (now() - began) / (double)(rounds > 0 ? rounds : 1);
    if (result != NCCL_SUCCESS) fprintf(stderr, "rank %d: error %d of the plugin: %s\n", rank, result, last_warning);
    else
        printf("rank %d: %zu bytes, %d in flight: %.2f ms for all, %.1f MB/s\n", rank, bytes, in_flight, seconds * 1e3,
               (double)bytes * in_flight / seconds / 1e6);
    RIGHT(plugin.close(comm));
    return result != NCCL_SUCCESS;
}

int main(int argc, char **argv) {
    int is_check = argc >= 3 && strcmp(argv[2], "check") == 0;
    int version = is_check && argc == 4 ? atoi(argv[3]) : 12;
    if (!(is_check && argc <= 4 && version >= 8 && version <= 12)
        && !(argc == 6 && strcmp(argv[2], "measure") == 0 && atol(argv[3]) >= 4 && atoi(argv[4]) > 0 && atol(argv[5]) >= 0)) {
        fprintf(stderr, "usage: nccl_plugin PLUGIN check [VERSION] | PLUGIN measure BYTES IN_FLIGHT ROUNDS\n");
        return 2;
    }
    rank = number("RANK");
    ranks = number("WORLD_SIZE");
    head = number("LOCAL_RANK");
    heads = number("LOCAL_WORLD_SIZE");
    node = rank / heads;
    nodes = ranks / heads;
    bootstrap();
    load(argv[1], version);
    if (!is_check) return measure((size_t)atol(argv[3]), atoi(argv[4]), atol(argv[5]));
    check_all(version);
    return 0;
}
