/* The function tables by which NCCL calls a network plugin, and their constants.
 *
 * NCCL looks tables up by the names ncclNetPlugin_vN (point-to-point) and ncclCollNetPlugin_vN (collectives in the network),
 * and takes the largest N that it knows. The names of types and fields are this file's own. Layouts, numbers and signatures
 * are those of NCCL 2.30.7; docs/nccl.md says which NCCL uses which version.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef TRIBUTARY_NCCL_ABI_H
#define TRIBUTARY_NCCL_ABI_H

#include <stddef.h>
#include <stdint.h>

/* The size of the memory for a handle, which NCCL sends from a listening process to those that connect. */
#define NCCL_HANDLE_BYTES 128

typedef enum {
    NCCL_SUCCESS = 0,
    NCCL_SYSTEM_ERROR = 2,
    NCCL_INTERNAL_ERROR = 3,
    NCCL_INVALID_ARGUMENT = 4,
    NCCL_INVALID_USAGE = 5,
    NCCL_REMOTE_ERROR = 6
} nccl_result;

typedef enum {
    NCCL_INT8 = 0,
    NCCL_UINT8 = 1,
    NCCL_INT32 = 2,
    NCCL_UINT32 = 3,
    NCCL_INT64 = 4,
    NCCL_UINT64 = 5,
    NCCL_FLOAT16 = 6,
    NCCL_FLOAT32 = 7,
    NCCL_FLOAT64 = 8,
    NCCL_BFLOAT16 = 9
} nccl_type;

typedef enum { NCCL_SUM = 0, NCCL_PRODUCT = 1, NCCL_MAX = 2, NCCL_MIN = 3, NCCL_AVERAGE = 4 } nccl_operation;

/* Kinds of memory: of the host, and of a GPU. */
enum { NCCL_MEMORY_HOST = 1, NCCL_MEMORY_CUDA = 2 };

/* Levels and subsystems of messages. */
typedef enum { NCCL_LOG_WARN = 2, NCCL_LOG_INFO = 3 } nccl_log_level;
#define NCCL_LOG_INIT_AND_NET 0x11ul
#define NCCL_LOG_ALL (~0ul)

/* NCCL's function for messages; `place` and `line` are those of the source. */
typedef void (*nccl_logger)(nccl_log_level level, unsigned long subsystems, const char *place, int line,
                            const char *format, ...);

/* Properties of a device. A later version adds fields at the end, except for `force_flush`. */
typedef struct {
    char *name;
    /* The path of the PCI device in /sys, or NULL. */
    char *pci_path;
    uint64_t guid;
    /* The kinds of memory that it can read and write. */
    int memory;
    int registers_globally;
    /* In Mbit/s. */
    int speed;
    int port;
    /* In microseconds; 0: NCCL estimates it. */
    float latency;
    int max_comms;
    /* The number of receives that one call may start. */
    int max_receives;
    /* 0: the host runs the transport. */
    int offload_type, offload_version;
} nccl_properties_v8;

typedef struct {
    int count, devices[4];
} nccl_merged_v9;

typedef struct {
    char *name;
    char *pci_path;
    uint64_t guid;
    int memory;
    int registers_globally;
    int force_flush;
    int speed;
    int port;
    float latency;
    int max_comms;
    int max_receives;
    int offload_type, offload_version;
    /* The devices of which this one consists. */
    nccl_merged_v9 merged;
    size_t max_message_bytes, max_collective_bytes;
} nccl_properties_v9;

typedef struct {
    nccl_properties_v9 v9;
    int max_requests_at_once;
} nccl_properties_v11;

typedef struct {
    int count, devices[8];
} nccl_merged_v12;

typedef struct {
    char *name;
    char *pci_path;
    uint64_t guid;
    int memory;
    int registers_globally;
    int force_flush;
    int speed;
    int port;
    float latency;
    int max_comms;
    int max_receives;
    int offload_type, offload_version;
    nccl_merged_v12 merged;
    size_t max_message_bytes, max_collective_bytes;
    int max_requests_at_once;
    /* -1: not known. */
    int16_t rail, plane;
} nccl_properties_v12;

/* Functions that all versions have. Functions that return "not yet" set their last pointer to NULL. */
typedef nccl_result (*nccl_devices)(int *count);
typedef nccl_result (*nccl_register)(void *comm, void *data, size_t bytes, int memory, void **registered);
typedef nccl_result (*nccl_register_dma)(void *comm, void *data, size_t bytes, int memory, uint64_t offset, int fd,
                                         void **registered);
typedef nccl_result (*nccl_deregister)(void *comm, void *registered);
typedef nccl_result (*nccl_close)(void *comm);
/* `bytes` may be NULL. */
typedef nccl_result (*nccl_test)(void *request, int *done, int *bytes);
typedef nccl_result (*nccl_connect_all)(void *handles[], int ranks, int rank, void *listening, void **comm);
typedef nccl_result (*nccl_supports)(nccl_type type, nccl_operation operation, int *supported);
typedef nccl_result (*nccl_flush)(void *comm, void *data, int bytes, void *registered, void **request);
typedef nccl_result (*nccl_all_reduce)(void *comm, void *values, void *sums, size_t count, nccl_type type,
                                       nccl_operation operation, void *registered_values, void *registered_sums,
                                       void **request);
/* Functions that this plugin does not have. */
typedef void (*nccl_absent)(void);

typedef struct {
    const char *name;
    nccl_result (*init)(nccl_logger logger);
    nccl_devices devices;
    nccl_result (*properties)(int device, nccl_properties_v8 *properties);
    nccl_result (*listen)(int device, void *handle, void **listening);
    nccl_connect_all connect;
    nccl_supports supports;
    nccl_register register_memory;
    nccl_register_dma register_dma;
    nccl_deregister deregister;
    nccl_result (*all_reduce)(void *comm, void *values, void *sums, int count, nccl_type type,
                              nccl_operation operation, void *registered_values, void *registered_sums,
                              void **request);
    nccl_absent all_gather, reduce_scatter;
    nccl_flush flush;
    nccl_test test;
    nccl_close close, close_listening;
} nccl_collnet_v8;

/* Versions 9 and 10. */
typedef struct {
    const char *name;
    nccl_result (*init)(nccl_logger logger);
    nccl_devices devices;
    nccl_result (*properties)(int device, nccl_properties_v9 *properties);
    nccl_result (*listen)(int device, void *handle, void **listening);
    nccl_connect_all connect;
    nccl_supports supports;
    nccl_register register_memory;
    nccl_register_dma register_dma;
    nccl_deregister deregister;
    nccl_all_reduce all_reduce;
    nccl_absent all_gather, reduce_scatter;
    nccl_flush flush;
    nccl_test test;
    nccl_close close, close_listening;
    nccl_absent merge_devices;
} nccl_collnet_v9;

/* From version 11, NCCL calls `init` for each of its communicators. */
#define NCCL_COLLNET_FROM_11(properties_type)                                                    \
    struct {                                                                                     \
        const char *name;                                                                        \
        nccl_result (*init)(void **context, uint64_t communicator, nccl_logger logger);          \
        nccl_devices devices;                                                                    \
        nccl_result (*properties)(int device, properties_type *properties);                      \
        nccl_result (*listen)(void *context, int device, void *handle, void **listening);        \
        nccl_connect_all connect;                                                                \
        nccl_supports supports;                                                                  \
        nccl_register register_memory;                                                           \
        nccl_register_dma register_dma;                                                          \
        nccl_deregister deregister;                                                              \
        nccl_all_reduce all_reduce;                                                              \
        nccl_absent all_gather, reduce_scatter;                                                  \
        nccl_flush flush;                                                                        \
        nccl_test test;                                                                          \
        nccl_close close, close_listening;                                                       \
        nccl_absent merge_devices;                                                               \
        nccl_result (*finalize)(void *context);                                                  \
    }
typedef NCCL_COLLNET_FROM_11(nccl_properties_v11) nccl_collnet_v11;
typedef NCCL_COLLNET_FROM_11(nccl_properties_v12) nccl_collnet_v12;

typedef struct {
    const char *name;
    nccl_result (*init)(nccl_logger logger);
    nccl_devices devices;
    nccl_result (*properties)(int device, nccl_properties_v8 *properties);
    nccl_result (*listen)(int device, void *handle, void **listening);
    /* `offload` is NULL, or points to a request for an offload. */
    nccl_result (*connect)(int device, void *handle, void **comm, void **offload);
    nccl_result (*accept)(void *listening, void **comm, void **offload);
    nccl_register register_memory;
    nccl_register_dma register_dma;
    nccl_deregister deregister;
    nccl_result (*send)(void *comm, void *data, int bytes, int tag, void *registered, void **request);
    nccl_result (*receive)(void *comm, int count, void **data, int *bytes, int *tags, void **registered,
                           void **request);
    nccl_result (*flush)(void *comm, int count, void **data, int *bytes, void **registered, void **request);
    nccl_test test;
    nccl_close close_sending, close_receiving, close_listening;
    nccl_absent offload_memory, offload_received;
} nccl_net_v8;

typedef struct {
    const char *name;
    nccl_result (*init)(void **context, uint64_t communicator, void *settings, nccl_logger logger, void *profiler);
    nccl_devices devices;
    nccl_result (*properties)(int device, nccl_properties_v12 *properties);
    nccl_result (*listen)(void *context, int device, void *handle, void **listening);
    nccl_result (*connect)(void *context, int device, void *handle, void **comm, void **offload);
    nccl_result (*accept)(void *listening, void **comm, void **offload);
    nccl_register register_memory;
    nccl_register_dma register_dma;
    nccl_deregister deregister;
    nccl_result (*send)(void *comm, void *data, size_t bytes, int tag, void *registered, void *profiled,
                        void **request);
    nccl_result (*receive)(void *comm, int count, void **data, size_t *bytes, int *tags, void **registered,
                           void **profiled, void **request);
    nccl_result (*flush)(void *comm, int count, void **data, int *bytes, void **registered, void **request);
    nccl_test test;
    nccl_close close_sending, close_receiving, close_listening;
    nccl_absent offload_memory, offload_received, merge_devices;
    nccl_result (*finalize)(void *context);
    nccl_absent set_attributes;
} nccl_net_v12;

#endif
