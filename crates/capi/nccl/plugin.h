/* Parts of the plugin that both of its tables use.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef TRIBUTARY_NCCL_PLUGIN_H
#define TRIBUTARY_NCCL_PLUGIN_H

#include <netinet/in.h>
#include <sys/socket.h>

#include "abi.h"

#define VISIBLE __attribute__((visibility("default")))
#define TEXT_BYTES 1024
/* The largest message and collective that NCCL starts in one call. */
#define MAX_MESSAGE_BYTES ((size_t)1 << 30)

/* The only device: a network interface of this host. */
struct device {
    char name[64], pci_path[4096];
    int has_pci_path;
    /* In Mbit/s. */
    int speed;
    struct sockaddr_storage address;
};

/* Returns the device, or NULL if this host has no network interface for it. */
const struct device *device(void);

/* Write the properties of the device for a version of the tables. */
nccl_result properties_v8(int number, nccl_properties_v8 *properties);
nccl_result properties_v9(int number, nccl_properties_v9 *properties);
nccl_result properties_v11(int number, nccl_properties_v11 *properties);
nccl_result properties_v12(int number, nccl_properties_v12 *properties);

/* Sets NCCL's function for messages. */
void set_logger(nccl_logger logger);
/* Passes a message to NCCL, which writes it according to NCCL_DEBUG and keeps the last warning for its error texts. */
__attribute__((format(printf, 2, 3))) void message(nccl_log_level level, const char *format, ...);
#define warn(...) message(NCCL_LOG_WARN, __VA_ARGS__)
#define inform(...) message(NCCL_LOG_INFO, __VA_ARGS__)

/* Memory of the host needs no registration, and other memory is refused. */
nccl_result register_memory(void *comm, void *data, size_t bytes, int memory, void **registered);
nccl_result register_dma(void *comm, void *data, size_t bytes, int memory, uint64_t offset, int fd, void **registered);
nccl_result deregister(void *comm, void *registered);

#endif
