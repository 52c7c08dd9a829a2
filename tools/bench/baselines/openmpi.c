/* Open MPI's side of `tributary-bench allreduce`: times MPI_Allreduce on f32, in place, and checks every sum.
 *
 *     mpirun -n RANKS openmpi ELEMENTS ITERATIONS
 *
 * Rank 0 prints one JSON object: for each iteration when the first rank began (Unix time) and how long the
 * slowest rank took, in seconds. A wrong sum on any rank ends all ranks with status 1.
 */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_REALTIME, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

/* Small integers, so that sums are exact in f32 in whatever order they are added; of another sequence on every
 * rank and in every iteration, so that no stale or doubled contribution goes unnoticed. */
static float contribution(int64_t element, int64_t rank, int64_t iteration) {
    return (float)((element * 31 + rank * (element % 127 + 17) + iteration * 7) % 256 - 128);
}

static int all_reduce(float *values, int elements) {
    return MPI_Allreduce(MPI_IN_PLACE, values, elements, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

static void fill(float *values, int elements, int rank, int iteration) {
    for (int at = 0; at < elements; at++) values[at] = contribution(at, rank, iteration);
}

static int first_wrong(const float *values, int elements, int ranks, int iteration) {
    for (int at = 0; at < elements; at++) {
        float expected = 0;
        for (int rank = 0; rank < ranks; rank++) expected += contribution(at, rank, iteration);
        if (values[at] != expected) return at;
    }
    return -1;
}

static void measure(float *values, int elements, int rank, int iteration) {
    int ranks;
    double began, took, first, slowest;
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    fill(values, elements, rank, iteration);
    MPI_Barrier(MPI_COMM_WORLD);
    began = now();
    all_reduce(values, elements);
    took = now() - began;
    /* Nobody checks, which takes the processor, while another rank is still at it. */
    MPI_Barrier(MPI_COMM_WORLD);
    int wrong = first_wrong(values, elements, ranks, iteration);
    if (wrong >= 0) {
        fprintf(stderr, "rank %d, iteration %d: the sum of element %d is wrong\n", rank, iteration, wrong);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    MPI_Reduce(&began, &first, 1, MPI_DOUBLE, MPI_MIN, 0, MPI_COMM_WORLD);
    MPI_Reduce(&took, &slowest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    if (rank == 0) printf("%s[%.6f, %.6f]", iteration == 0 ? "" : ", ", first, slowest);
}

int main(int argc, char **argv) {
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    int elements = argc == 3 ? atoi(argv[1]) : 0, iterations = argc == 3 ? atoi(argv[2]) : 0;
    float *values = elements > 0 ? malloc((size_t)elements * sizeof *values) : NULL;
    if (iterations < 1 || values == NULL) {
        if (rank == 0) fprintf(stderr, "usage: openmpi ELEMENTS ITERATIONS, both above 0\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    fill(values, elements, rank, 0);
    /* The warm-up opens the connections and their congestion windows. */
    all_reduce(values, elements);
    if (rank == 0) printf("{\"checked\": true, \"timeline\": [");
    for (int iteration = 0; iteration < iterations; iteration++) measure(values, elements, rank, iteration);
    if (rank == 0) printf("]}\n");
    free(values);
    MPI_Finalize();
    return 0;
}
