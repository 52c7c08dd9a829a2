/* The plugin's device, its messages, and the registration of memory.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#define _GNU_SOURCE
#include <ifaddrs.h>
#include <limits.h>
#include <net/if.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plugin.h"

/* Mbit/s of an interface whose speed the kernel does not know. */
#define DEFAULT_SPEED 10000

static _Atomic(nccl_logger) logger;
static struct device found;
static int has_device;

void set_logger(nccl_logger new_logger) {
    if (new_logger != NULL) logger = new_logger;
}

void message(nccl_log_level level, const char *format, ...) {
    char text[2 * TEXT_BYTES];
    nccl_logger log = logger;
    va_list arguments;
    if (log == NULL) return;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    log(level, level == NCCL_LOG_WARN ? NCCL_LOG_ALL : NCCL_LOG_INIT_AND_NET, "NET/Tributary", 0, "NET/Tributary: %s",
        text);
}

/* Returns 1 if a list of NCCL_SOCKET_IFNAME names the interface: prefixes, or whole names after "=". */
static int is_in_list(const char *list, const char *name) {
    int is_exact = *list == '=';
    if (is_exact) list++;
    while (*list != '\0') {
        size_t length = strcspn(list, ",");
        if (length > 0 && strncmp(list, name, length) == 0 && (!is_exact || name[length] == '\0')) return 1;
        list += length + (list[length] == ',');
    }
    return 0;
}

/* Returns the preference for an interface's address; 0: it is not used. */
static int preference(const struct ifaddrs *at) {
    const char *list = getenv("NCCL_SOCKET_IFNAME");
    int is_ipv6;
    if (at->ifa_addr == NULL || !(at->ifa_flags & IFF_UP) || !(at->ifa_flags & IFF_RUNNING)) return 0;
    is_ipv6 = at->ifa_addr->sa_family == AF_INET6;
    if (!is_ipv6 && at->ifa_addr->sa_family != AF_INET) return 0;
    /* The address would need the number of an interface of the other host. */
    if (is_ipv6 && IN6_IS_ADDR_LINKLOCAL(&((struct sockaddr_in6 *)at->ifa_addr)->sin6_addr)) return 0;
    if (list != NULL && *list == '^') {
        if (is_in_list(list + 1, at->ifa_name)) return 0;
    } else if (list != NULL && *list != '\0') {
        return is_in_list(list, at->ifa_name) ? 6 - is_ipv6 : 0;
    }
    if (at->ifa_flags & IFF_LOOPBACK) return 2 - is_ipv6;
    return (strncmp(at->ifa_name, "docker", 6) == 0 ? 4 : 6) - is_ipv6;
}

static void find_device(void) {
    struct ifaddrs *all, *best = NULL;
    char path[PATH_MAX], *line = NULL;
    size_t room = 0;
    FILE *file;
    if (getifaddrs(&all) != 0) return;
    for (struct ifaddrs *at = all; at != NULL; at = at->ifa_next)
        if (preference(at) > (best == NULL ? 0 : preference(best))) best = at;
    if (best != NULL) {
        size_t bytes = best->ifa_addr->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
        snprintf(found.name, sizeof found.name, "%s", best->ifa_name);
        memcpy(&found.address, best->ifa_addr, bytes);
        snprintf(path, sizeof path, "/sys/class/net/%s/device", found.name);
        found.has_pci_path = realpath(path, found.pci_path) != NULL;
        found.speed = DEFAULT_SPEED;
        snprintf(path, sizeof path, "/sys/class/net/%s/speed", found.name);
        file = fopen(path, "r");
        if (file != NULL) {
            int speed = getline(&line, &room, file) > 0 ? atoi(line) : 0;
            if (speed > 0) found.speed = speed;
            free(line);
            fclose(file);
        }
        has_device = 1;
    }
    freeifaddrs(all);
}

const struct device *device(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, find_device);
    return has_device ? &found : NULL;
}

nccl_result properties_v12(int number, nccl_properties_v12 *properties) {
    const struct device *own = device();
    if (number != 0 || own == NULL || properties == NULL) return NCCL_INVALID_ARGUMENT;
    *properties = (nccl_properties_v12){
        .name = (char *)own->name,
        .pci_path = own->has_pci_path ? (char *)own->pci_path : NULL,
        .memory = NCCL_MEMORY_HOST,
        .speed = own->speed,
        .max_comms = 1 << 16,
        .max_receives = 1,
        .merged = {.count = 1},
        .max_message_bytes = MAX_MESSAGE_BYTES,
        .max_collective_bytes = MAX_MESSAGE_BYTES,
        .max_requests_at_once = 1,
        .rail = -1,
        .plane = -1,
    };
    return NCCL_SUCCESS;
}

nccl_result properties_v9(int number, nccl_properties_v9 *properties) {
    nccl_properties_v12 all;
    nccl_result result = properties == NULL ? NCCL_INVALID_ARGUMENT : properties_v12(number, &all);
    if (result != NCCL_SUCCESS) return result;
    *properties = (nccl_properties_v9){
        .name = all.name,
        .pci_path = all.pci_path,
        .memory = all.memory,
        .speed = all.speed,
        .max_comms = all.max_comms,
        .max_receives = all.max_receives,
        .merged = {.count = 1},
        .max_message_bytes = all.max_message_bytes,
        .max_collective_bytes = all.max_collective_bytes,
    };
    return NCCL_SUCCESS;
}

nccl_result properties_v11(int number, nccl_properties_v11 *properties) {
    if (properties == NULL) return NCCL_INVALID_ARGUMENT;
    properties->max_requests_at_once = 1;
    return properties_v9(number, &properties->v9);
}

nccl_result properties_v8(int number, nccl_properties_v8 *properties) {
    nccl_properties_v12 all;
    nccl_result result = properties == NULL ? NCCL_INVALID_ARGUMENT : properties_v12(number, &all);
    if (result != NCCL_SUCCESS) return result;
    *properties = (nccl_properties_v8){
        .name = all.name,
        .pci_path = all.pci_path,
        .memory = all.memory,
        .speed = all.speed,
        .max_comms = all.max_comms,
        .max_receives = all.max_receives,
    };
    return NCCL_SUCCESS;
}

nccl_result register_memory(void *comm, void *data, size_t bytes, int memory, void **registered) {
    (void)comm, (void)data, (void)bytes;
    *registered = NULL;
    if (memory == NCCL_MEMORY_HOST) return NCCL_SUCCESS;
    warn("this plugin reads and writes memory of the host only, and NCCL has passed memory of kind %d: report this", memory);
    return NCCL_INVALID_ARGUMENT;
}

nccl_result register_dma(void *comm, void *data, size_t bytes, int memory, uint64_t offset, int fd, void **registered) {
    (void)offset, (void)fd;
    return register_memory(comm, data, bytes, memory, registered);
}

nccl_result deregister(void *comm, void *registered) {
    (void)comm, (void)registered;
    return NCCL_SUCCESS;
}
