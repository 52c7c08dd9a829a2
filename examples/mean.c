/* Adds a vector over all ranks of a job, and prints the mean of one element.
 *
 *     cc mean.c $(pkg-config --cflags --libs tributary) -o mean
 *     tributary lab run topologies/two-leaves-4.toml -- ./mean
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <tributary.h>

enum { ELEMENTS = 1 << 20 };

static void check(int result) {
    if (result != TRIBUTARY_OK) {
        fprintf(stderr, "mean: %s\n", tributary_error_message());
        exit(1);
    }
}

int main(void) {
    tributary_job *job;
    void *memory;
    /* The job, its token and the agent's socket come from the environment. */
    check(tributary_join(NULL, &job));
    /* The agent reads this memory directly. Any other memory would be copied. */
    check(tributary_alloc(job, ELEMENTS * sizeof(float), &memory));
    float *values = memory;
    for (int at = 0; at < ELEMENTS; at++) values[at] = (float)tributary_rank(job);
    check(tributary_all_reduce(job, "values", values, values, ELEMENTS, TRIBUTARY_FLOAT32, NULL));
    printf("rank %u of %u on %s: the mean is %g\n", tributary_rank(job), tributary_size(job), tributary_host(job),
           values[0] / (float)tributary_size(job));
    check(tributary_close(job));
    return 0;
}
