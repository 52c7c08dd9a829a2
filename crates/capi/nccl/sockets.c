/* Point-to-point messages over TCP.
 *
 * NCCL takes a plugin's collectives only together with the same plugin's point-to-point messages, and its own TCP transport
 * is not available to plugins. So this file has one: a connection for each pair of communicators' ends, with messages of
 * 8 bytes for the length and then the data.
 *
 * Only the thread that calls the functions sends and receives, so that nothing waits here: NCCL polls by `test`.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/uio.h>
#include <unistd.h>

#include "plugin.h"

/* A message that is sent or received. */
struct transfer {
    struct transfer *next;
    struct link *link;
    char *data;
    /* The bytes of the message; of the memory, until a receiver has the header. */
    size_t bytes;
    uint64_t header;
    size_t header_done, data_done;
    int is_complete;
};

/* A connection, in one direction. */
struct link {
    int fd, sends;
    /* The first bytes on the connection, by which the listening end knows it. */
    uint64_t nonce;
    size_t nonce_done;
    /* The text of the first error. */
    char problem[TEXT_BYTES];
    char peer[96];
    /* All transfers that NCCL has not collected, in order. */
    struct transfer *transfers;
};

struct listening {
    int fd;
    uint64_t nonce;
    /* A connection that has not sent the nonce yet. */
    struct link *pending;
};

/* The content of a handle. */
struct handle {
    uint64_t magic, nonce;
    uint16_t family, port;
    uint8_t address[16];
    /* The connection under way, in the connecting process's copy. */
    struct link *pending;
};
_Static_assert(sizeof(struct handle) <= NCCL_HANDLE_BYTES, "a handle has no room");
#define MAGIC UINT64_C(0x7472696275746330)

static nccl_result no_memory(void) {
    warn("there is no memory");
    return NCCL_SYSTEM_ERROR;
}

static void name_peer(struct link *link, const struct sockaddr_storage *address) {
    char text[INET6_ADDRSTRLEN] = "";
    const struct sockaddr_in *v4 = (const void *)address;
    const struct sockaddr_in6 *v6 = (const void *)address;
    int is_ipv6 = address->ss_family == AF_INET6;
    inet_ntop(address->ss_family, is_ipv6 ? (const void *)&v6->sin6_addr : (const void *)&v4->sin_addr, text, sizeof text);
    snprintf(link->peer, sizeof link->peer, is_ipv6 ? "[%s]:%u" : "%s:%u", text,
             (unsigned)ntohs(is_ipv6 ? v6->sin6_port : v4->sin_port));
}

static void close_link(struct link *link) {
    if (link == NULL) return;
    while (link->transfers != NULL) {
        struct transfer *next = link->transfers->next;
        free(link->transfers);
        link->transfers = next;
    }
    close(link->fd);
    free(link);
}

static struct link *open_link(int fd, int sends) {
    int one = 1;
    struct link *link = calloc(1, sizeof *link);
    if (link == NULL) {
        close(fd);
        return NULL;
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    link->fd = fd;
    link->sends = sends;
    return link;
}

static nccl_result listen_for(int number, void *opaque, void **to) {
    const struct device *own = device();
    struct handle handle = {.magic = MAGIC};
    struct sockaddr_storage address;
    socklen_t length = sizeof address;
    struct listening *listening;
    if (number != 0 || own == NULL || opaque == NULL || to == NULL) return NCCL_INVALID_ARGUMENT;
    *to = NULL;
    listening = calloc(1, sizeof *listening);
    if (listening == NULL) return no_memory();
    address = own->address;
    listening->fd = socket(address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (listening->fd < 0 || getrandom(&listening->nonce, sizeof listening->nonce, 0) != sizeof listening->nonce
        || bind(listening->fd, (struct sockaddr *)&address, length) != 0 || listen(listening->fd, SOMAXCONN) != 0
        || getsockname(listening->fd, (struct sockaddr *)&address, &length) != 0) {
        warn("cannot listen on the address of %s: %s: set NCCL_SOCKET_IFNAME to an interface that reaches the other hosts",
             own->name, strerror(errno));
        if (listening->fd >= 0) close(listening->fd);
        free(listening);
        return NCCL_SYSTEM_ERROR;
    }
    handle.nonce = listening->nonce;
    handle.family = address.ss_family;
    if (address.ss_family == AF_INET6) {
        handle.port = ((struct sockaddr_in6 *)&address)->sin6_port;
        memcpy(handle.address, &((struct sockaddr_in6 *)&address)->sin6_addr, 16);
    } else {
        handle.port = ((struct sockaddr_in *)&address)->sin_port;
        memcpy(handle.address, &((struct sockaddr_in *)&address)->sin_addr, 4);
    }
    memset(opaque, 0, NCCL_HANDLE_BYTES);
    memcpy(opaque, &handle, sizeof handle);
    *to = listening;
    return NCCL_SUCCESS;
}

/* Starts a connection to the address in a handle. */
static nccl_result start_connection(const struct handle *handle, struct link **to) {
    struct sockaddr_storage address = {.ss_family = handle->family};
    int fd, is_ipv6 = handle->family == AF_INET6;
    socklen_t length = is_ipv6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
    if (is_ipv6) {
        ((struct sockaddr_in6 *)&address)->sin6_port = handle->port;
        memcpy(&((struct sockaddr_in6 *)&address)->sin6_addr, handle->address, 16);
    } else {
        ((struct sockaddr_in *)&address)->sin_port = handle->port;
        memcpy(&((struct sockaddr_in *)&address)->sin_addr, handle->address, 4);
    }
    fd = socket(handle->family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        warn("cannot open a socket: %s", strerror(errno));
        return NCCL_SYSTEM_ERROR;
    }
    *to = open_link(fd, 1);
    if (*to == NULL) return no_memory();
    name_peer(*to, &address);
    (*to)->nonce = htobe64(handle->nonce);
    if (connect(fd, (struct sockaddr *)&address, length) == 0 || errno == EINPROGRESS) return NCCL_SUCCESS;
    warn("cannot connect to %s: %s: check that the hosts reach each other on this network (NCCL_SOCKET_IFNAME)",
         (*to)->peer, strerror(errno));
    close_link(*to);
    *to = NULL;
    return NCCL_SYSTEM_ERROR;
}

static nccl_result connect_to(int number, void *opaque, void **to, void **offload) {
    struct handle handle;
    struct pollfd ready;
    int error = 0;
    socklen_t length = sizeof error;
    ssize_t sent;
    (void)offload;
    if (number != 0 || opaque == NULL || to == NULL) return NCCL_INVALID_ARGUMENT;
    *to = NULL;
    memcpy(&handle, opaque, sizeof handle);
    if (handle.magic != MAGIC || (handle.family != AF_INET && handle.family != AF_INET6)) {
        warn("a process has sent a handle of another plugin: set NCCL_NET_PLUGIN alike on all hosts");
        return NCCL_INVALID_USAGE;
    }
    if (handle.pending == NULL) {
        nccl_result result = start_connection(&handle, &handle.pending);
        if (result != NCCL_SUCCESS) return result;
        memcpy(opaque, &handle, sizeof handle);
    }
    ready = (struct pollfd){.fd = handle.pending->fd, .events = POLLOUT};
    if (poll(&ready, 1, 0) <= 0) return NCCL_SUCCESS;
    if (getsockopt(handle.pending->fd, SOL_SOCKET, SO_ERROR, &error, &length) != 0) error = errno;
    sent = error != 0 ? -1 : send(handle.pending->fd, &handle.pending->nonce, sizeof handle.nonce, MSG_NOSIGNAL);
    if (sent != sizeof handle.nonce) {
        warn("cannot connect to %s: %s: check that the hosts reach each other on this network (NCCL_SOCKET_IFNAME)",
             handle.pending->peer, strerror(error != 0 ? error : errno));
        close_link(handle.pending);
        handle.pending = NULL;
        memcpy(opaque, &handle, sizeof handle);
        return NCCL_SYSTEM_ERROR;
    }
    *to = handle.pending;
    return NCCL_SUCCESS;
}

static nccl_result accept_from(void *opaque, void **to, void **offload) {
    struct listening *listening = opaque;
    struct link *link;
    ssize_t got;
    (void)offload;
    if (listening == NULL || to == NULL) return NCCL_INVALID_ARGUMENT;
    *to = NULL;
    if (listening->pending == NULL) {
        struct sockaddr_storage address = {0};
        socklen_t length = sizeof address;
        int fd = accept4(listening->fd, (struct sockaddr *)&address, &length, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0) {
            /* The connection may have been aborted before it was accepted. */
            if (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED) return NCCL_SUCCESS;
            warn("cannot accept a connection: %s", strerror(errno));
            return NCCL_SYSTEM_ERROR;
        }
        listening->pending = open_link(fd, 0);
        if (listening->pending == NULL) return no_memory();
        name_peer(listening->pending, &address);
    }
    link = listening->pending;
    got = recv(link->fd, (char *)&link->nonce + link->nonce_done, sizeof link->nonce - link->nonce_done, 0);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return NCCL_SUCCESS;
    if (got > 0) {
        link->nonce_done += (size_t)got;
        if (link->nonce_done < sizeof link->nonce) return NCCL_SUCCESS;
    }
    listening->pending = NULL;
    if (link->nonce_done == sizeof link->nonce && be64toh(link->nonce) == listening->nonce) {
        *to = link;
    } else {
        /* Another program has connected to the port. */
        close_link(link);
    }
    return NCCL_SUCCESS;
}

__attribute__((format(printf, 2, 3))) static void fail(struct link *link, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(link->problem, sizeof link->problem, format, arguments);
    va_end(arguments);
    warn("%s", link->problem);
}

/* Reports a call that has moved no bytes, and returns 0 if a later call may move some. */
static int has_ended(struct link *link, ssize_t moved) {
    if (moved < 0 && (errno == EAGAIN || errno == EINTR)) return 0;
    fail(link, "the connection with %s is lost: %s: check the process and its host", link->peer,
         moved == 0 ? "it has closed the connection" : strerror(errno));
    return 1;
}

/* Moves bytes of a transfer. Returns 1 if it is complete. */
static int move(struct transfer *transfer) {
    struct link *link = transfer->link;
    while (transfer->header_done < sizeof transfer->header || transfer->data_done < transfer->bytes) {
        size_t header = sizeof transfer->header - transfer->header_done;
        struct iovec parts[2] = {{(char *)&transfer->header + transfer->header_done, header},
                                 {transfer->data + transfer->data_done, transfer->bytes - transfer->data_done}};
        /* A receiver reads the header first, because the message may be shorter than the memory. */
        struct msghdr message = {.msg_iov = header > 0 ? parts : parts + 1,
                                 .msg_iovlen = header > 0 && link->sends ? 2 : 1};
        ssize_t moved = link->sends ? sendmsg(link->fd, &message, MSG_NOSIGNAL) : recvmsg(link->fd, &message, 0);
        if (moved <= 0) {
            has_ended(link, moved);
            return 0;
        }
        size_t of_header = (size_t)moved < header ? (size_t)moved : header;
        transfer->header_done += of_header;
        transfer->data_done += (size_t)moved - of_header;
        if (!link->sends && of_header > 0 && transfer->header_done == sizeof transfer->header) {
            uint64_t bytes = be64toh(transfer->header);
            if (bytes > transfer->bytes) {
                fail(link, "%s has sent %llu bytes, and this process expects at most %zu: start the same collectives on "
                           "all ranks", link->peer, (unsigned long long)bytes, transfer->bytes);
                return 0;
            }
            transfer->bytes = bytes;
        }
    }
    return 1;
}

static void progress(struct link *link) {
    for (struct transfer *at = link->transfers; at != NULL && *link->problem == '\0'; at = at->next) {
        if (at->is_complete) continue;
        if (!move(at)) return;
        at->is_complete = 1;
    }
}

static nccl_result start(struct link *link, void *data, size_t bytes, void **request) {
    struct transfer *transfer, **last;
    if (link == NULL || request == NULL || (data == NULL && bytes > 0)) return NCCL_INVALID_ARGUMENT;
    *request = NULL;
    if (*link->problem != '\0') return NCCL_REMOTE_ERROR;
    transfer = calloc(1, sizeof *transfer);
    if (transfer == NULL) return no_memory();
    *transfer = (struct transfer){.link = link, .data = data, .bytes = bytes, .header = htobe64(bytes)};
    for (last = &link->transfers; *last != NULL;) last = &(*last)->next;
    *last = transfer;
    progress(link);
    *request = transfer;
    return NCCL_SUCCESS;
}

static nccl_result send_v8(void *comm, void *data, int bytes, int tag, void *registered, void **request) {
    (void)tag, (void)registered;
    return bytes < 0 ? NCCL_INVALID_ARGUMENT : start(comm, data, (size_t)bytes, request);
}

static nccl_result send_v12(void *comm, void *data, size_t bytes, int tag, void *registered, void *profiled,
                            void **request) {
    (void)tag, (void)registered, (void)profiled;
    return start(comm, data, bytes, request);
}

static nccl_result receive_v8(void *comm, int count, void **data, int *bytes, int *tags, void **registered,
                              void **request) {
    (void)tags, (void)registered;
    if (count != 1 || data == NULL || bytes == NULL || *bytes < 0) return NCCL_INVALID_ARGUMENT;
    return start(comm, *data, (size_t)*bytes, request);
}

static nccl_result receive_v12(void *comm, int count, void **data, size_t *bytes, int *tags, void **registered,
                               void **profiled, void **request) {
    (void)tags, (void)registered, (void)profiled;
    if (count != 1 || data == NULL || bytes == NULL) return NCCL_INVALID_ARGUMENT;
    return start(comm, *data, *bytes, request);
}

/* The data is in the host's memory, where everyone sees it. */
static nccl_result flush(void *comm, int count, void **data, int *bytes, void **registered, void **request) {
    (void)comm, (void)count, (void)data, (void)bytes, (void)registered;
    *request = NULL;
    return NCCL_SUCCESS;
}

static nccl_result test(void *request, int *done, int *bytes) {
    struct transfer *transfer = request, **at;
    struct link *link;
    if (transfer == NULL || done == NULL) return NCCL_INVALID_ARGUMENT;
    *done = 0;
    link = transfer->link;
    if (!transfer->is_complete) progress(link);
    /* A message that arrived before the connection was lost is complete. */
    if (!transfer->is_complete) return *link->problem == '\0' ? NCCL_SUCCESS : NCCL_REMOTE_ERROR;
    *done = 1;
    if (bytes != NULL) *bytes = (int)transfer->bytes;
    for (at = &link->transfers; *at != transfer;) at = &(*at)->next;
    *at = transfer->next;
    free(transfer);
    return NCCL_SUCCESS;
}

static nccl_result close_comm(void *comm) {
    close_link(comm);
    return NCCL_SUCCESS;
}

static nccl_result close_listening(void *opaque) {
    struct listening *listening = opaque;
    if (listening == NULL) return NCCL_SUCCESS;
    close_link(listening->pending);
    close(listening->fd);
    free(listening);
    return NCCL_SUCCESS;
}

static nccl_result devices(int *count) {
    *count = device() != NULL;
    if (*count == 0) warn("no network interface is up: set NCCL_SOCKET_IFNAME to the interface of this host");
    else inform("point-to-point messages use %s", device()->name);
    return NCCL_SUCCESS;
}

static nccl_result init_v8(nccl_logger logger) {
    set_logger(logger);
    return NCCL_SUCCESS;
}

static nccl_result init_v12(void **context, uint64_t communicator, void *settings, nccl_logger logger, void *profiler) {
    (void)communicator, (void)settings, (void)profiler;
    *context = NULL;
    return init_v8(logger);
}

static nccl_result listen_v12(void *context, int number, void *handle, void **listening) {
    (void)context;
    return listen_for(number, handle, listening);
}

static nccl_result connect_v12(void *context, int number, void *handle, void **comm, void **offload) {
    (void)context;
    return connect_to(number, handle, comm, offload);
}

static nccl_result finalize(void *context) {
    (void)context;
    return NCCL_SUCCESS;
}

#define COMMON                                                                                       \
    .name = "Tributary", .devices = devices, .accept = accept_from, .register_memory = register_memory, \
    .register_dma = register_dma, .deregister = deregister, .flush = flush, .test = test,            \
    .close_sending = close_comm, .close_receiving = close_comm, .close_listening = close_listening

VISIBLE const nccl_net_v8 ncclNetPlugin_v8 = {
    COMMON, .init = init_v8, .properties = properties_v8, .listen = listen_for, .connect = connect_to,
    .send = send_v8, .receive = receive_v8,
};
VISIBLE const nccl_net_v12 ncclNetPlugin_v12 = {
    COMMON, .init = init_v12, .properties = properties_v12, .listen = listen_v12, .connect = connect_v12,
    .send = send_v12, .receive = receive_v12, .finalize = finalize,
};
