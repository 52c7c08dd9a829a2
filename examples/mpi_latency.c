/* Measures MPI_Allreduce of sums, in the manner of OSU's benchmark, and checks every sum.
 *
 *     mpicc -O2 mpi_latency.c -o mpi_latency
 *     mpirun -n 4 mpi_latency [float|double|int|long] [LEAST_BYTES [MOST_BYTES]]
 *
 * For each size, a line has the bytes, the median, the fastest and the slowest time of the all-reduces in microseconds,
 * and the bandwidth by the median time in megabytes a second. An all-reduce ends with its slowest rank.
 */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_ITERATIONS = 20, WARM_UP = 2 };

static int rank, ranks;

/* Small integers, which are exact in all types; of another sequence in each rank and iteration. */
static int contribution(size_t at, int of, int iteration) {
    return (int)((at * 31 + (size_t)of * (at % 127 + 17) + (size_t)iteration * 7) % 256) - 128;
}

#define DEFINE(TYPE)                                                                            \
    static void fill_##TYPE(TYPE *values, size_t count, int iteration) {                        \
        for (size_t at = 0; at < count; at++) values[at] = (TYPE)contribution(at, rank, iteration); \
    }                                                                                           \
    static size_t right_##TYPE(const TYPE *sums, size_t count, int iteration) {                 \
        for (size_t at = 0; at < count; at++) {                                                 \
            int sum = 0;                                                                        \
            for (int of = 0; of < ranks; of++) sum += contribution(at, of, iteration);          \
            if (sums[at] != (TYPE)sum) return at;                                               \
        }                                                                                       \
        return count;                                                                           \
    }
DEFINE(float)
DEFINE(double)
DEFINE(int)
DEFINE(long)

static void fill(MPI_Datatype type, void *values, size_t count, int iteration) {
    if (type == MPI_FLOAT) fill_float(values, count, iteration);
    else if (type == MPI_DOUBLE) fill_double(values, count, iteration);
    else if (type == MPI_INT) fill_int(values, count, iteration);
    else fill_long(values, count, iteration);
}

static void check(MPI_Datatype type, const void *sums, size_t count, int iteration) {
    size_t right = type == MPI_FLOAT    ? right_float(sums, count, iteration)
                   : type == MPI_DOUBLE ? right_double(sums, count, iteration)
                   : type == MPI_INT    ? right_int(sums, count, iteration)
                                        : right_long(sums, count, iteration);
    if (right == count) return;
    fprintf(stderr, "rank %d: element %zu of %zu is wrong\n", rank, right, count);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static int compare(const void *one, const void *other) {
    double a = *(const double *)one, b = *(const double *)other;
    return (a > b) - (a < b);
}

static void measure(MPI_Datatype type, size_t count, size_t bytes) {
    double times[MOST_ITERATIONS];
    void *values = malloc(bytes), *sums = malloc(bytes);
    int iterations = bytes < 1 << 20 ? MOST_ITERATIONS : bytes < 16 << 20 ? 5 : 3;
    if (values == NULL || sums == NULL) MPI_Abort(MPI_COMM_WORLD, 2);
    for (int iteration = -WARM_UP; iteration < iterations; iteration++) {
        /* Every other all-reduce is in place. */
        int in_place = iteration % 2 != 0;
        fill(type, in_place ? sums : values, count, iteration + WARM_UP);
        MPI_Barrier(MPI_COMM_WORLD);
        double began = MPI_Wtime();
        MPI_Allreduce(in_place ? MPI_IN_PLACE : values, sums, (int)count, type, MPI_SUM, MPI_COMM_WORLD);
        double took = MPI_Wtime() - began, slowest;
        /* Ranks check, which takes the processor, when no rank measures any more. */
        MPI_Barrier(MPI_COMM_WORLD);
        check(type, sums, count, iteration + WARM_UP);
        MPI_Allreduce(&took, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
        if (iteration >= 0) times[iteration] = slowest * 1e6;
    }
    qsort(times, (size_t)iterations, sizeof *times, compare);
    double median = times[iterations / 2];
    if (rank == 0) {
        printf("%zu %.1f %.1f %.1f %.1f\n", bytes, median, times[0], times[iterations - 1], (double)bytes / median);
        fflush(stdout);
    }
    free(values);
    free(sums);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    const char *name = argc > 1 ? argv[1] : "float";
    MPI_Datatype type = strcmp(name, "double") == 0 ? MPI_DOUBLE
                        : strcmp(name, "int") == 0  ? MPI_INT
                        : strcmp(name, "long") == 0 ? MPI_LONG
                                                    : MPI_FLOAT;
    int size;
    MPI_Type_size(type, &size);
    size_t least = argc > 2 ? strtoull(argv[2], NULL, 10) : 4;
    size_t most = argc > 3 ? strtoull(argv[3], NULL, 10) : 64 << 20;
    if (rank == 0) printf("bytes median_us fastest_us slowest_us MB_per_s\n");
    for (size_t bytes = least; bytes <= most; bytes *= 4)
        if (bytes >= (size_t)size) measure(type, bytes / (size_t)size, bytes);
    MPI_Finalize();
    return 0;
}
