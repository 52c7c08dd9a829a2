/* Uses all functions of tributary.h as a rank of a lab, and checks every result. It fails with the line of the first
 * wrong result.
 *
 *     c_library           all operations
 *     c_library alone     rank 1 leaves; the other ranks must not receive a sum without it unnoticed
 *     c_library different ranks start different operations, which is an error on all of them
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <tributary.h>
#include <unistd.h>

#define CHECK(condition)                                                                              \
    do {                                                                                              \
        if (!(condition)) {                                                                           \
            fprintf(stderr, "%s:%d: %s (last error: %s)\n", __FILE__, __LINE__, #condition,           \
                    tributary_error_message());                                                       \
            exit(1);                                                                                  \
        }                                                                                             \
    } while (0)
#define RIGHT(call) CHECK((call) == TRIBUTARY_OK)

enum { COUNT = 40000, WIDTH = 8 };

static tributary_job *job;
static uint32_t rank, size;

static int64_t contribution(size_t at, uint32_t of) {
    return (int64_t)((at * 31 + of * (at % 127 + 17)) % 251) - 125;
}

static int64_t sum(size_t at) {
    int64_t all = 0;
    for (uint32_t of = 0; of < size; of++) all += contribution(at, of);
    return all;
}

/* Small integers, whose sums are exact in all types except bfloat16, which this program does not read. */
static void write_to(void *to, size_t at, tributary_type type, int64_t value) {
    switch (type) {
        case TRIBUTARY_FLOAT64: ((double *)to)[at] = (double)value; break;
        case TRIBUTARY_INT32: ((int32_t *)to)[at] = (int32_t)value; break;
        case TRIBUTARY_INT64: ((int64_t *)to)[at] = value << 40; break;
        default: ((float *)to)[at] = (float)value;
    }
}

static int is_at(const void *from, size_t at, tributary_type type, int64_t value) {
    switch (type) {
        case TRIBUTARY_FLOAT64: return ((const double *)from)[at] == (double)value;
        case TRIBUTARY_INT32: return ((const int32_t *)from)[at] == (int32_t)value;
        case TRIBUTARY_INT64: return ((const int64_t *)from)[at] == value * ((int64_t)1 << 40);
        default: return ((const float *)from)[at] == (float)value;
    }
}

static void fill(void *values, size_t count, tributary_type type) {
    for (size_t at = 0; at < count; at++) write_to(values, at, type, contribution(at, rank));
}

static void check_sums(const void *sums, size_t first, size_t count, tributary_type type) {
    for (size_t at = 0; at < count; at++) CHECK(is_at(sums, at, type, sum(first + at)));
}

static void all_reduces(void *shared) {
    static const tributary_type TYPES[] = {TRIBUTARY_FLOAT32_EXACT, TRIBUTARY_FLOAT64, TRIBUTARY_INT32,
                                           TRIBUTARY_INT64};
    static const size_t COUNTS[] = {1, 3, COUNT};
    static char values[COUNT * WIDTH], sums[COUNT * WIDTH];
    for (size_t type = 0; type < sizeof TYPES / sizeof *TYPES; type++) {
        for (size_t count = 0; count < 3; count++) {
            uint32_t contributors = 0;
            fill(values, COUNTS[count], TYPES[type]);
            RIGHT(tributary_all_reduce(job, "copied", values, sums, COUNTS[count], TYPES[type], &contributors));
            CHECK(contributors == size);
            check_sums(sums, 0, COUNTS[count], TYPES[type]);
            fill(sums, COUNTS[count], TYPES[type]);
            CHECK(memcmp(values, sums, COUNTS[count] * 4) == 0);
            RIGHT(tributary_all_reduce(job, "in place", values, values, COUNTS[count], TYPES[type], NULL));
            check_sums(values, 0, COUNTS[count], TYPES[type]);
            RIGHT(tributary_all_reduce(job, "to shared", sums, shared, COUNTS[count], TYPES[type], NULL));
            check_sums(shared, 0, COUNTS[count], TYPES[type]);
            fill(shared, COUNTS[count], TYPES[type]);
            RIGHT(tributary_all_reduce(job, "shared", shared, shared, COUNTS[count], TYPES[type], NULL));
            check_sums(shared, 0, COUNTS[count], TYPES[type]);
        }
    }
    float near = 1000.0f + (float)rank;
    RIGHT(tributary_all_reduce(job, "rounded", &near, &near, 1, TRIBUTARY_FLOAT32, NULL));
    float expected = 1000.0f * (float)size + (float)(size * (size - 1) / 2);
    CHECK(near > expected * 0.9997f && near < expected * 1.0003f);
    /* 1 in half precision is 0x3c00, and in bfloat16 0x3f80. 2, 4 and 8 add 1, 2 and 3 to the exponent. */
    uint16_t half = 0x3c00, brain = 0x3f80, doublings = 0;
    while ((1u << doublings) < size) doublings++;
    CHECK((1u << doublings) == size);
    RIGHT(tributary_all_reduce(job, "half", &half, &half, 1, TRIBUTARY_FLOAT16, NULL));
    RIGHT(tributary_all_reduce(job, "brain", &brain, &brain, 1, TRIBUTARY_BFLOAT16, NULL));
    CHECK(half == 0x3c00 + (doublings << 10) && brain == 0x3f80 + (doublings << 7));
    RIGHT(tributary_all_reduce(job, "none", NULL, NULL, 0, TRIBUTARY_FLOAT32, NULL));
}

static void other_operations(void *shared) {
    static float values[COUNT], part[COUNT];
    size_t share = COUNT / size;
    fill(values, share * size, TRIBUTARY_FLOAT32_EXACT);
    RIGHT(tributary_reduce_scatter(job, "parts", values, part, share, TRIBUTARY_FLOAT32_EXACT, NULL));
    check_sums(part, rank * share, share, TRIBUTARY_FLOAT32_EXACT);
    /* All bytes arrive as they are, whatever they mean as integers or floats. */
    for (uint32_t root = 0; root < size; root++) {
        for (size_t bytes = 1; bytes <= 1021; bytes += 204) {
            unsigned char data[1024], *places[] = {data, shared};
            for (int place = 0; place < 2; place++) {
                unsigned char *to = places[place];
                memset(to, (int)rank, 1024);
                if (rank == root)
                    for (size_t at = 0; at < bytes; at++) to[at] = (unsigned char)(at * 7 + root + 0x7f);
                RIGHT(tributary_broadcast(job, "bytes", to, bytes, root));
                for (size_t at = 0; at < bytes; at++) CHECK(to[at] == (unsigned char)(at * 7 + root + 0x7f));
                CHECK(bytes >= 1024 || to[bytes] == (unsigned char)rank);
            }
        }
    }
    uint32_t present = 0;
    RIGHT(tributary_barrier(job, &present));
    CHECK(present == size);
}

static void requests(void *shared) {
    static float values[COUNT], sums[COUNT], part[COUNT];
    tributary_request *all[5] = {NULL};
    unsigned char byte = (unsigned char)(rank + 1);
    size_t half = COUNT / 2, share = COUNT / size;
    float *own = shared;
    fill(values, COUNT, TRIBUTARY_FLOAT32_EXACT);
    fill(own, COUNT, TRIBUTARY_FLOAT32_EXACT);
    /* Both use the same allocation. */
    RIGHT(tributary_start_all_reduce(job, "first half", own, own, half, TRIBUTARY_FLOAT32_EXACT, &all[0]));
    RIGHT(tributary_start_all_reduce(job, "second half", own + half, own + half, half, TRIBUTARY_FLOAT32_EXACT, &all[1]));
    RIGHT(tributary_start_reduce_scatter(job, "parts", values, part, share, TRIBUTARY_FLOAT32_EXACT, &all[2]));
    RIGHT(tributary_start_broadcast(job, "byte", &byte, 1, size - 1, &all[3]));
    RIGHT(tributary_start_barrier(job, &all[4]));
    /* Requests may end in any order. */
    RIGHT(tributary_wait(&all[4], NULL));
    CHECK(all[4] == NULL && tributary_wait(&all[4], NULL) == TRIBUTARY_INVALID_ARGUMENT);
    for (int at = 0; at < 4; at++) {
        int done = 0;
        while (!done) RIGHT(tributary_test(&all[at], &done, NULL));
        CHECK(all[at] == NULL);
    }
    check_sums(own, 0, half, TRIBUTARY_FLOAT32_EXACT);
    for (size_t at = 0; at < half; at++) CHECK(own[half + at] == (float)sum(half + at));
    check_sums(part, rank * share, share, TRIBUTARY_FLOAT32_EXACT);
    CHECK(byte == (unsigned char)size);
    RIGHT(tributary_all_reduce(job, "again", values, sums, COUNT, TRIBUTARY_FLOAT32_EXACT, NULL));
    check_sums(sums, 0, COUNT, TRIBUTARY_FLOAT32_EXACT);
}

/* A request that nobody waits for leaves the job as it was. */
static void abandoned_requests(void *shared) {
    static float values[COUNT], sums[COUNT];
    tributary_request *request = NULL;
    float *own = shared;
    tributary_abandon(&request);
    fill(values, COUNT, TRIBUTARY_FLOAT32_EXACT);
    sums[0] = -1;
    RIGHT(tributary_start_all_reduce(job, "abandoned", values, sums, COUNT, TRIBUTARY_FLOAT32_EXACT, &request));
    tributary_abandon(&request);
    CHECK(request == NULL);
    RIGHT(tributary_start_all_reduce(job, "abandoned", own, own, COUNT, TRIBUTARY_FLOAT32_EXACT, &request));
    tributary_abandon(&request);
    RIGHT(tributary_barrier(job, NULL));
    CHECK(request == NULL && sums[0] == -1);
    fill(own, COUNT, TRIBUTARY_FLOAT32_EXACT);
    RIGHT(tributary_all_reduce(job, "again", own, own, COUNT, TRIBUTARY_FLOAT32_EXACT, NULL));
    check_sums(own, 0, COUNT, TRIBUTARY_FLOAT32_EXACT);
}

/* The first and the last rank have two groups, and sum in them in different orders. */
static void groups(void) {
    const uint32_t ranks[] = {0, size - 1}, unknown[] = {0, size};
    const char *const names[] = {"one", "two"};
    tributary_options options = TRIBUTARY_OPTIONS_INIT;
    tributary_job *both[2] = {NULL};
    tributary_request *requests[2];
    int64_t sums[2] = {1, 1};
    options.process = 0;
    options.processes = 1;
    if (rank == 0 || rank == size - 1) {
        CHECK(tributary_join_group(job, "none", unknown, 2, &options, &both[0]) == TRIBUTARY_ERROR && both[0] == NULL);
        CHECK(strstr(tributary_error_message(), "no rank"));
        CHECK(tributary_join_group(job, NULL, ranks, 2, &options, &both[0]) == TRIBUTARY_INVALID_ARGUMENT);
        CHECK(tributary_join_group(job, "none", NULL, 2, &options, &both[0]) == TRIBUTARY_INVALID_ARGUMENT);
        for (int at = 0; at < 2; at++) RIGHT(tributary_join_group(job, names[at], ranks, 2, &options, &both[at]));
        for (int turn = 0; turn < 2; turn++) {
            int at = rank == 0 ? turn : 1 - turn;
            CHECK(tributary_size(both[at]) == 2 && tributary_rank(both[at]) == (uint32_t)(rank != 0));
            RIGHT(tributary_start_all_reduce(both[at], names[at], &sums[at], &sums[at], 1, TRIBUTARY_INT64, &requests[at]));
        }
        for (int at = 0; at < 2; at++) RIGHT(tributary_wait(&requests[at], NULL));
        CHECK(sums[0] == 2 && sums[1] == 2);
        for (int at = 0; at < 2; at++) RIGHT(tributary_finish(both[at]));
    }
    RIGHT(tributary_barrier(job, NULL));
}

static void *in_other_thread(void *unused) {
    (void)unused;
    CHECK(strcmp(tributary_error_message(), "") == 0);
    CHECK(tributary_join(NULL, NULL) == TRIBUTARY_INVALID_ARGUMENT);
    CHECK(strstr(tributary_error_message(), "NULL"));
    return NULL;
}

static void errors(void) {
    tributary_options options = TRIBUTARY_OPTIONS_INIT;
    tributary_job *none;
    float value = 1;
    options.size--;
    CHECK(tributary_join(&options, &none) == TRIBUTARY_INVALID_ARGUMENT && none == NULL);
    CHECK(strstr(tributary_error_message(), "sizeof(tributary_options)"));
    options.size++;
    options.token_file = "/dev/null/token";
    CHECK(tributary_join(&options, &none) == TRIBUTARY_INVALID_ARGUMENT);
    CHECK(strstr(tributary_error_message(), "/dev/null/token"));
    options.token_file = NULL;
    options.socket = "/dev/null/agent";
    CHECK(tributary_join(&options, &none) == TRIBUTARY_AGENT_UNREACHABLE);
    CHECK(strstr(tributary_error_message(), "/dev/null/agent"));
    options.socket = NULL;
    options.process = options.processes = 1;
    CHECK(tributary_join(&options, &none) == TRIBUTARY_INVALID_ARGUMENT);
    CHECK(tributary_all_reduce(NULL, NULL, &value, &value, 1, TRIBUTARY_FLOAT32, NULL) == TRIBUTARY_INVALID_ARGUMENT);
    CHECK(tributary_all_reduce(job, NULL, NULL, &value, 1, TRIBUTARY_FLOAT32, NULL) == TRIBUTARY_INVALID_ARGUMENT);
    CHECK(tributary_all_reduce(job, "\xff", &value, &value, 1, TRIBUTARY_FLOAT32, NULL) == TRIBUTARY_INVALID_ARGUMENT);
    CHECK(tributary_all_reduce(job, NULL, &value, &value, 1, 99, NULL) == TRIBUTARY_INVALID_ARGUMENT);
    CHECK(tributary_all_reduce(job, NULL, &value, &value, SIZE_MAX / 2, TRIBUTARY_FLOAT32, NULL)
          == TRIBUTARY_INVALID_ARGUMENT);
    CHECK(tributary_broadcast(job, NULL, &value, 4, size) == TRIBUTARY_INVALID_ARGUMENT);
    CHECK(tributary_start_barrier(job, NULL) == TRIBUTARY_INVALID_ARGUMENT);
    CHECK(tributary_free(job, &value) == TRIBUTARY_INVALID_ARGUMENT);
    CHECK(tributary_free(job, NULL) == TRIBUTARY_OK);
    CHECK(tributary_rank(NULL) == 0 && tributary_size(NULL) == 0 && tributary_host(NULL) == NULL);
    /* An error on all ranks, after which the job continues. */
    int32_t large = INT32_MAX;
    CHECK(tributary_all_reduce(job, "overflow", &large, &large, 1, TRIBUTARY_INT32, NULL) == TRIBUTARY_NO_SUM);
    CHECK(large == INT32_MAX && strstr(tributary_error_message(), "overflow"));
    pthread_t thread;
    char kept[512];
    snprintf(kept, sizeof kept, "%s", tributary_error_message());
    CHECK(pthread_create(&thread, NULL, in_other_thread, NULL) == 0 && pthread_join(thread, NULL) == 0);
    CHECK(strcmp(tributary_error_message(), kept) == 0);
    pid_t child = fork();
    if (child == 0) {
        int result = tributary_barrier(job, NULL);
        _exit(result == TRIBUTARY_ERROR && strstr(tributary_error_message(), "fork") ? 0 : 1);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
}

/* Ranks that start different operations get an error, and the job ends. */
static void different_names(void) {
    tributary_request *request;
    float value = 1;
    char name[16];
    snprintf(name, sizeof name, "name %u", rank);
    RIGHT(tributary_start_all_reduce(job, name, &value, &value, 1, TRIBUTARY_FLOAT32, &request));
    /* Some ranks hear of the end of the job first. */
    int result = tributary_wait(&request, NULL);
    CHECK((result == TRIBUTARY_NO_SUM || result == TRIBUTARY_JOB_OVER) && value == 1);
}

/* Rank 1 has left: a sum without it is an error, or a number that the caller has asked for. */
static void without_rank_1(void) {
    uint32_t contributors = size;
    float value = 1;
    RIGHT(tributary_barrier(job, NULL));
    if (rank == 1) {
        RIGHT(tributary_leave(job));
        exit(0);
    }
    int result = tributary_all_reduce(job, "without", &value, &value, 1, TRIBUTARY_FLOAT32_EXACT, NULL);
    CHECK(result == TRIBUTARY_NO_SUM && value == 1);
    CHECK(strstr(tributary_error_message(), "rank 1 has left the job"));
    RIGHT(tributary_all_reduce(job, "without", &value, &value, 1, TRIBUTARY_FLOAT32_EXACT, &contributors));
    CHECK(contributors == size - 1 && value == (float)contributors);
    CHECK(tributary_barrier(job, NULL) == TRIBUTARY_NO_SUM);
    RIGHT(tributary_barrier(job, &contributors));
    CHECK(tributary_broadcast(job, "of rank 1", &value, sizeof value, 1) == TRIBUTARY_NO_SUM);
    CHECK(strstr(tributary_error_message(), "rank 1"));
    value = (float)rank;
    RIGHT(tributary_broadcast(job, "of rank 0", &value, sizeof value, 0));
    CHECK(value == 0);
}

int main(int argc, char **argv) {
    void *shared;
    RIGHT(tributary_join(NULL, &job));
    rank = tributary_rank(job);
    size = tributary_size(job);
    CHECK(strlen(tributary_host(job)) > 0);
    if (argc == 2) {
        if (strcmp(argv[1], "alone") == 0) without_rank_1();
        else different_names();
        printf("rank %u of %u: right\n", rank, size);
        RIGHT(tributary_leave(job));
        return 0;
    }
    RIGHT(tributary_alloc(job, COUNT * WIDTH, &shared));
    for (size_t at = 0; at < COUNT * WIDTH; at++) CHECK(((char *)shared)[at] == 0);
    all_reduces(shared);
    other_operations(shared);
    requests(shared);
    abandoned_requests(shared);
    groups();
    errors();
    RIGHT(tributary_free(job, shared));
    CHECK(tributary_free(job, shared) == TRIBUTARY_INVALID_ARGUMENT);
    RIGHT(tributary_barrier(job, NULL));
    printf("rank %u of %u: right\n", rank, size);
    RIGHT(tributary_close(job));
    return 0;
}
