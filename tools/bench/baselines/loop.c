/* The bare loop of `tributary-bench switch`: takes frames from the interfaces of some children, adds up those of a
 * slice, and sends the sum from another interface. That is all it does: no checks, no tables, no retransmissions.
 * So it shows what a switch of this machine's packet sockets could do at most.
 *
 *     loop WINDOW BYTES SEQ TALLY COUNT VALUES OUT IN...
 *
 * Frames have BYTES bytes, the slice's number at SEQ, and big-endian 32-bit numbers to add up: COUNT of them at TALLY,
 * and from VALUES to the end. Prints "ready" when it receives.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

/* Frames that one system call moves at most. */
#define BATCH 64
#define MAX_CHILDREN 32
/* Room for windows of long frames, which the kernel's default has not. */
#define RECEIVE_BUFFER (64 << 20)

/* As it lies in a frame: with no alignment. */
typedef uint32_t lane __attribute__((aligned(1), may_alias));

struct slot {
    uint32_t seq;
    /* By child. Without it a frame that is lost and sent again would be a wrong sum. */
    uint32_t have;
    uint8_t *sum;
};

struct child {
    int socket;
    uint32_t bit;
    struct mmsghdr messages[BATCH];
    struct iovec vectors[BATCH];
};

static size_t frame_bytes, seq_at, tally_at, tally_count, values_at;
static uint32_t window, everyone;
static struct slot *slots;
static int out;

static void fail(const char *what, const char *where) {
    fprintf(stderr, "loop: cannot %s %s: %s\n", what, where, strerror(errno));
    exit(1);
}

static void *memory(size_t bytes) {
    void *memory = calloc(1, bytes);
    if (memory == NULL) fail("get memory for", "frames");
    return memory;
}

static int open_port(const char *interface, uint16_t protocol) {
    int size = RECEIVE_BUFFER, port = socket(AF_PACKET, SOCK_RAW, 0);
    if (port < 0) fail("open a packet socket on", interface);
    struct sockaddr_ll address = {
        .sll_family = AF_PACKET,
        .sll_protocol = htons(protocol),
        .sll_ifindex = (int)if_nametoindex(interface),
    };
    if (address.sll_ifindex == 0) fail("find", interface);
    /* Without root's rights the kernel gives no more than net.core.rmem_max. A smaller buffer loses more frames, and they
     * are sent again. */
    if (setsockopt(port, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof size) < 0)
        setsockopt(port, SOL_SOCKET, SO_RCVBUF, &size, sizeof size);
    if (bind(port, (struct sockaddr *)&address, sizeof address) < 0) fail("bind to", interface);
    return port;
}

static void open_child(struct child *child, const char *interface, int number) {
    /* A byte more than a frame has, so that longer ones are seen. */
    uint8_t *frames = memory(BATCH * (frame_bytes + 1));
    child->socket = open_port(interface, ETH_P_IP);
    child->bit = UINT32_C(1) << number;
    for (int at = 0; at < BATCH; at++) {
        child->vectors[at] = (struct iovec){frames + (size_t)at * (frame_bytes + 1), frame_bytes + 1};
        child->messages[at].msg_hdr = (struct msghdr){.msg_iov = &child->vectors[at], .msg_iovlen = 1};
    }
}

static void add_lanes(uint8_t *restrict to, const uint8_t *restrict from, size_t count) {
    lane *sums = (lane *)to;
    const lane *values = (const lane *)from;
    for (size_t at = 0; at < count; at++) sums[at] = htonl(ntohl(sums[at]) + ntohl(values[at]));
}

static void add(uint8_t *to, const uint8_t *from) {
    add_lanes(to + tally_at, from + tally_at, tally_count);
    add_lanes(to + values_at, from + values_at, (frame_bytes - values_at) / sizeof(lane));
}

/* Whether the frame is a sum to be sent now. */
static int take(const struct child *child, uint8_t *frame) {
    uint32_t seq = ntohl(*(const lane *)(frame + seq_at));
    struct slot *slot = &slots[seq & (window - 1)];
    if (slot->have == 0 || slot->seq != seq) {
        memcpy(slot->sum, frame, frame_bytes);
        slot->seq = seq;
        slot->have = child->bit;
    } else if ((slot->have & child->bit) == 0) {
        slot->have |= child->bit;
        if (slot->have == everyone) {
            add(frame, slot->sum);
            slot->have = 0;
            return 1;
        }
        add(slot->sum, frame);
    }
    return 0;
}

static void send_all(struct mmsghdr *messages, int count) {
    for (int done = 0; done < count;) {
        int sent = sendmmsg(out, messages + done, (unsigned)(count - done), 0);
        /* What the kernel has no room for is lost, as on any network. */
        if (sent < 0 && errno != EINTR && errno != ENOBUFS) fail("send", "frames");
        done += sent > 0 ? sent : errno == ENOBUFS;
    }
}

/* Takes what is there of one child, and returns how much that was. */
static int turn(struct child *child) {
    struct mmsghdr sums[BATCH];
    struct iovec vectors[BATCH];
    int count = 0, came = recvmmsg(child->socket, child->messages, BATCH, MSG_DONTWAIT, NULL);
    if (came < 0 && (errno == EAGAIN || errno == EINTR)) return 0;
    if (came < 0) fail("receive", "frames");
    for (int at = 0; at < came; at++) {
        uint8_t *frame = child->vectors[at].iov_base;
        if (child->messages[at].msg_len != frame_bytes || !take(child, frame)) continue;
        vectors[count] = (struct iovec){frame, frame_bytes};
        sums[count].msg_hdr = (struct msghdr){.msg_iov = &vectors[count], .msg_iovlen = 1};
        count++;
    }
    send_all(sums, count);
    return came;
}

int main(int argc, char **argv) {
    struct child children[MAX_CHILDREN];
    struct pollfd ports[MAX_CHILDREN];
    int count = argc - 8;
    if (count < 1 || count >= MAX_CHILDREN) {
        fprintf(stderr, "usage: loop WINDOW BYTES SEQ TALLY COUNT VALUES OUT IN...\n");
        return 2;
    }
    window = (uint32_t)atol(argv[1]);
    frame_bytes = (size_t)atol(argv[2]);
    seq_at = (size_t)atol(argv[3]);
    tally_at = (size_t)atol(argv[4]);
    tally_count = (size_t)atol(argv[5]);
    values_at = (size_t)atol(argv[6]);
    everyone = (UINT32_C(1) << count) - 1;
    slots = memory(window * sizeof *slots);
    for (uint32_t at = 0; at < window; at++) slots[at].sum = memory(frame_bytes);
    out = open_port(argv[7], 0);
    for (int at = 0; at < count; at++) {
        open_child(&children[at], argv[8 + at], at);
        ports[at] = (struct pollfd){children[at].socket, POLLIN, 0};
    }
    puts("ready");
    fflush(stdout);
    for (;;) {
        int came = 0;
        for (int at = 0; at < count; at++) came += turn(&children[at]);
        if (came == 0 && poll(ports, (nfds_t)count, -1) < 0 && errno != EINTR) fail("wait for", "frames");
    }
}
