/* libtributary: all-reduces in the network, from C. docs/c.md describes it.
 *
 * A program joins a job through the agent of its host, and then starts the same operations in the same order as all
 * other ranks of the job. Functions that return an `int` return TRIBUTARY_OK or an error, and
 * tributary_error_message() returns the error's text. All functions may be called by several threads. A process that
 * was forked from a rank cannot use the rank's job.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef TRIBUTARY_H
#define TRIBUTARY_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The results of functions. */
enum {
    TRIBUTARY_OK = 0,
    /* An error of another kind, for example an agent's refusal or a lack of memory. */
    TRIBUTARY_ERROR = 1,
    /* An argument is out of its range, or a default is missing in the environment. */
    TRIBUTARY_INVALID_ARGUMENT = 2,
    /* No agent listens on the socket, this user may not connect, or the agent has ended. */
    TRIBUTARY_AGENT_UNREACHABLE = 3,
    /* The token does not belong to the job. */
    TRIBUTARY_PERMISSION_DENIED = 4,
    /* The job has failed, or continues without this host. */
    TRIBUTARY_JOB_OVER = 5,
    /* The job has ended without a failure. */
    TRIBUTARY_JOB_ENDED = 6,
    /* The ranks' values have no sum: an integer sum overflows, ranks have started different operations, or the sum
     * lacks a rank. */
    TRIBUTARY_NO_SUM = 7,
    /* A deadline has passed. */
    TRIBUTARY_DEADLINE_PASSED = 8
};

/* The types of elements. docs/numbers.md states the precision of their sums. */
typedef enum {
    /* float, with an error of at most 2^-12 of the sum of the contributions' magnitudes. */
    TRIBUTARY_FLOAT32 = 1,
    /* float, with the float that is nearest to the exact sum. */
    TRIBUTARY_FLOAT32_EXACT = 2,
    TRIBUTARY_FLOAT16 = 3,
    TRIBUTARY_BFLOAT16 = 4,
    /* double, with the double that is nearest to the exact sum. */
    TRIBUTARY_FLOAT64 = 5,
    TRIBUTARY_INT32 = 6,
    TRIBUTARY_INT64 = 7,
    /* As float16; the sum is the float32 nearest to the exact sum, rounded to float16. */
    TRIBUTARY_FLOAT16_EXACT = 8,
    /* As bfloat16; the sum is the float32 nearest to the exact sum, rounded to bfloat16. */
    TRIBUTARY_BFLOAT16_EXACT = 9
} tributary_type;

/* A rank's part in a job. */
typedef struct tributary_job tributary_job;
/* An operation that was started and not yet waited for. */
typedef struct tributary_request tributary_request;

/* The terms on which a process joins. All zeros, except for `size`, means all defaults. */
typedef struct {
    /* sizeof(tributary_options), by which the library knows the program's version of this struct. */
    size_t size;
    /* The job's name. NULL: TRIBUTARY_JOB. */
    const char *job;
    /* The path of a file with the job's token, which `tributary jobs create` has written. NULL: TRIBUTARY_TOKEN_FILE. */
    const char *token_file;
    /* The socket of this host's agent. NULL: TRIBUTARY_SOCKET, or /run/tributary/agent.sock. */
    const char *socket;
    /* The number of this process among the host's processes in the job, from 0, and the number of these processes. If
     * `processes` is 0, both come from TRIBUTARY_PROCESS and TRIBUTARY_PROCESSES, or the process is the only one. */
    uint32_t process, processes;
    /* Not 0 if this process may begin a new run of a job whose last run is over. */
    int new_run;
    /* The longest wait for the other ranks to join, in milliseconds. 0: no limit. */
    uint64_t join_milliseconds;
    /* The time that each operation may take, in milliseconds. 0: no limit. */
    uint64_t deadline_milliseconds;
    /* A thread of the library calls this function with `context` after two seconds without progress, and then every
     * five seconds. It must return soon, and must not call this library. May be NULL. */
    void (*waiting)(const char *what, void *context);
    void *context;
} tributary_options;

#define TRIBUTARY_OPTIONS_INIT {sizeof(tributary_options), NULL, NULL, NULL, 0, 0, 0, 0, 0, NULL, NULL}

/* Returns the text of this thread's last error. It is valid until this thread's next error. */
const char *tributary_error_message(void);

/* Joins a job, and waits until all ranks have joined. `options` may be NULL. */
int tributary_join(const tributary_options *options, tributary_job **job);
/* Joins the job of a group of a job's ranks, and waits until all of the group's processes have joined. The first process
 * that calls this function for the group creates the job, with the token of `job`. The job ends when all its processes have
 * called tributary_finish, and with `job` at the latest.
 *
 * `group` is an id of 1 to 64 bytes, which all processes of the group pass, and no other group of `job`. `ranks` are the
 * `count` ranks of the group in `job`, which must be on two or more hosts. `options` are those of tributary_join, except for
 * the job's name; `process` and `processes` count the group's processes on this host. */
int tributary_join_group(tributary_job *job, const char *group, const uint32_t *ranks, size_t count,
                         const tributary_options *options, tributary_job **joined);
/* Each of these functions frees `job`, even after an error. Requests must be waited for or abandoned before. */
/* Ends this process's part. The host stays a member, so that another process of it can continue. */
int tributary_close(tributary_job *job);
/* Ends this process's part. The job ends when all ranks have called this function. */
int tributary_finish(tributary_job *job);
/* Leaves the job, for example after an error. It continues without this host, or fails if it is rigid. */
int tributary_leave(tributary_job *job);

/* This process's rank, the number of ranks at the start, and this host's name in the topology. */
uint32_t tributary_rank(const tributary_job *job);
uint32_t tributary_size(const tributary_job *job);
const char *tributary_host(const tributary_job *job);

/* Allocates memory that the agent reads and writes directly. All other memory is copied. It contains zeros, and is
 * aligned to a page. tributary_free, or the end of the job, frees it. */
int tributary_alloc(tributary_job *job, size_t bytes, void **memory);
int tributary_free(tributary_job *job, void *memory);

/* Operations. `name` describes the operation in messages, and must be equal on all ranks; NULL means "unnamed". `sums`
 * may be equal to `values`, and must not overlap with it otherwise.
 *
 * `contributors` receives the smallest number of ranks in any element of the sum. If it is NULL, a sum that lacks a
 * rank is the error TRIBUTARY_NO_SUM. After an error, `sums` is unchanged, unless tributary_alloc allocated it. */

/* Adds `count` elements over all ranks. */
int tributary_all_reduce(tributary_job *job, const char *name, const void *values, void *sums, size_t count,
                         tributary_type type, uint32_t *contributors);
/* Adds `count` elements for each rank of the job over all ranks. Rank k receives the k-th `count` elements in `part`. */
int tributary_reduce_scatter(tributary_job *job, const char *name, const void *values, void *part, size_t count,
                             tributary_type type, uint32_t *contributors);
/* Replaces `bytes` bytes on all ranks by those of rank `root`. */
int tributary_broadcast(tributary_job *job, const char *name, void *data, size_t bytes, uint32_t root);
/* Waits until all ranks have called this function. */
int tributary_barrier(tributary_job *job, uint32_t *contributors);

/* The same operations as requests. Operations begin in the order of the calls. The values must not change, and the sums
 * must not be read, until the request has ended. */
int tributary_start_all_reduce(tributary_job *job, const char *name, const void *values, void *sums, size_t count,
                               tributary_type type, tributary_request **request);
int tributary_start_reduce_scatter(tributary_job *job, const char *name, const void *values, void *part, size_t count,
                                   tributary_type type, tributary_request **request);
int tributary_start_broadcast(tributary_job *job, const char *name, void *data, size_t bytes, uint32_t root,
                              tributary_request **request);
int tributary_start_barrier(tributary_job *job, tributary_request **request);

/* Waits for the end of a request, returns its result, frees it, and sets `*request` to NULL. */
int tributary_wait(tributary_request **request, uint32_t *contributors);
/* Sets `*done` to 1 and acts like tributary_wait if the request has ended. Otherwise, sets `*done` to 0. */
int tributary_test(tributary_request **request, int *done, uint32_t *contributors);
/* Frees a request without waiting for it, and sets `*request` to NULL; `*request` may be NULL. The operation continues, and
 * its result is lost. The memory of the values and the sums can be used again, unless tributary_alloc allocated it: the
 * agent may write there until the operation ends. */
void tributary_abandon(tributary_request **request);

#ifdef __cplusplus
}
#endif

#endif
