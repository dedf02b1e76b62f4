/* gateway: listening sockets in the sandbox's own network namespace, sent to corral, which so takes the connections of
 * the command outside, where the policy is. A socket keeps the namespace that it was made in.
 *
 * INVARIANT: nothing in here gives the sandbox a way out: without corral at the other end its connections are refused. */
#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "control.h"
#include "kernel.h"
#include "launch.h"

enum {
    BACKLOG = 4096,
    DNS_PORT = 53,
    PUBLISHED = 24, /* for half as many connections at once to servers inside; corral uses each again and again */
    MOST_SOCKETS = SPEC_MAX_PORTS + 4 + PUBLISHED, /* for names, UDP and TCP, and those that hear of refusals */
    TCP_FLAGS = 13, TCP_SEQUENCE = 4,  /* where they are in a segment */
    FLAGS_OF_REFUSAL = 0x14,           /* RST and ACK */
    ENOUGH_OF_REFUSAL = 128,
};

/* One route: every address of a family is the sandbox's own, so that whoever is asked for, the gateway hears it. */
static int make_all_local(int family) {
    struct {
        struct k_nlmsghdr header;
        struct k_rtmsg route;
        struct k_rtattr attribute;
        uint32_t device;
    } request = {
        .header = {.length = sizeof request, .type = K_RTM_NEWROUTE,
                   .flags = K_NLM_F_REQUEST | K_NLM_F_ACK | K_NLM_F_CREATE | K_NLM_F_REPLACE},
        .route = {.family = (uint8_t)family, .table = K_RT_TABLE_LOCAL, .protocol = K_RTPROT_STATIC,
                  .scope = K_RT_SCOPE_HOST, .type = K_RTN_LOCAL},
        .attribute = {.length = sizeof(struct k_rtattr) + sizeof(uint32_t), .type = K_RTA_OIF},
        .device = if_nametoindex("lo"),
    };
    struct {
        struct k_nlmsghdr header;
        int32_t error;
        char rest[256]; /* the request, once more */
    } answer = {0};
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, K_NETLINK_ROUTE);
    if (fd < 0) return -errno;
    int err = 0;
    if (send(fd, &request, sizeof request, 0) < 0) err = -errno;
    ssize_t got = err ? 0 : recv(fd, &answer, sizeof answer, 0);
    if (got < 0) err = -errno;
    close(fd);
    if (err) return err;
    bool is_told = (size_t)got >= sizeof answer.header + sizeof answer.error && answer.header.type == K_NLMSG_ERROR;
    return is_told ? answer.error : -EPROTO;
}

static int make_routes(struct launch *launch) {
    set_detail(launch, "every address of IPv4 leads to the gateway");
    int err = make_all_local(AF_INET);
    if (err) return err;
    set_detail(launch, "every address of IPv6 leads to the gateway");
    err = make_all_local(AF_INET6);
    return err == -EAFNOSUPPORT || err == -EOPNOTSUPP ? 0 : err; /* a kernel without IPv6 */
}

/* INVARIANT: without SO_REUSEADDR. A command that may use low ports could put a socket of its own in front otherwise. */
static int bind_any(int fd, int family, int port) {
    struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port)};
    struct sockaddr_in four = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int off = 0;
    if (family == AF_INET) return bind(fd, (struct sockaddr *)&four, sizeof four) < 0 ? -errno : 0;
    if (setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off) < 0) return -errno;
    return bind(fd, (struct sockaddr *)&six, sizeof six) < 0 ? -errno : 0;
}

/* At every address of both families, or of IPv4 where there is no other. */
static int open_socket(struct launch *launch, int kind, int port) {
    int family = AF_INET6;
    set_detail(launch, "listen at port %d", port);
    int fd = k_result(socket(family, kind | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (fd == -EAFNOSUPPORT) fd = k_result(socket(family = AF_INET, kind | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (fd < 0) return fd;
    int err = bind_any(fd, family, port);
    if (err == -EADDRNOTAVAIL && family == AF_INET6) { /* IPv6 is there, and switched off */
        close(fd);
        fd = k_result(socket(AF_INET, kind | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
        if (fd < 0) return fd;
        err = bind_any(fd, AF_INET, port);
    }
    if (!err && kind == SOCK_STREAM && listen(fd, BACKLOG) < 0) err = -errno;
    if (err) close(fd);
    return err ? err : fd;
}

/* Which packets a raw socket is told of: the kernel's answer to a connection to a port where nobody listens. A raw
 * socket of IPv4 has the header of IP before the segment, whose length is in X; one of IPv6 has none. */
static int hear_refusals(int fd, bool has_header) {
    uint16_t of_x = has_header ? 0x40 : 0x20;                      /* BPF_IND or BPF_ABS */
    struct k_sock_filter filter[] = {
        {.code = has_header ? 0xb1 : 0x01, .k = 0},                /* BPF_LDX: 4 * (byte & 15), or a constant */
        {.code = 0x10 | of_x, .k = TCP_FLAGS},                     /* BPF_LD, a byte */
        {.code = 0x15, .jt = 0, .jf = 3, .k = FLAGS_OF_REFUSAL},   /* BPF_JEQ */
        {.code = 0x00 | of_x, .k = TCP_SEQUENCE},                  /* BPF_LD, a word: 0, since nothing was said before */
        {.code = 0x15, .jt = 0, .jf = 1, .k = 0},
        {.code = 0x06, .k = ENOUGH_OF_REFUSAL},                    /* BPF_RET */
        {.code = 0x06, .k = 0},
    };
    struct k_sock_fprog program = {.len = sizeof filter / sizeof *filter, .filter = filter};
    return setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program) < 0 ? -errno : 0;
}

/* So that corral can say which ports were asked for in vain. What keeps them closed is that nobody listens there: where
 * such a socket cannot be had, nothing is said. */
static void open_refusals(int *found, int *count) {
    static const int FAMILIES[] = {AF_INET, AF_INET6};
    for (int i = 0; i < 2; i++) {
        int fd = socket(FAMILIES[i], SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_TCP);
        if (fd < 0) continue;
        if (hear_refusals(fd, FAMILIES[i] == AF_INET)) close(fd);
        else found[(*count)++] = fd;
    }
}

int gateway_send(const int *descriptors, int count) {
    return control_send(STATUS_FD, "gateway\n", 8, descriptors, count);
}

/* Who limits the network to nothing at all has no use for names. */
static int open_listening(struct launch *launch, int *found, int *count) {
    const struct spec *spec = &launch->spec;
    for (size_t i = 0; i < spec->gateway_ports; i++) {
        int fd = open_socket(launch, SOCK_STREAM, spec->gateway_port[i]);
        if (fd < 0) return fd;
        found[(*count)++] = fd;
    }
    static const int KINDS[] = {SOCK_DGRAM, SOCK_STREAM};
    for (int i = 0; i < (spec->gateway_ports ? 2 : 0); i++) {
        int fd = open_socket(launch, KINDS[i], DNS_PORT);
        if (fd < 0) return fd;
        found[(*count)++] = fd;
    }
    if (spec->gateway_flags & GATEWAY_ROUTES) open_refusals(found, count);
    return 0;
}

/* Neither bound nor connected: corral, outside, connects them to what listens in here, by one of IPv4 or of IPv6. */
static int open_published(struct launch *launch, int *found, int *count) {
    static const int FAMILIES[] = {AF_INET, AF_INET6};
    set_detail(launch, "sockets to servers inside");
    for (int i = 0; i < PUBLISHED; i++) {
        int fd = k_result(socket(FAMILIES[i % 2], SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
        if (fd == -EAFNOSUPPORT) continue;
        if (fd < 0) return fd;
        found[(*count)++] = fd;
    }
    return 0;
}

static int open_all(struct launch *launch, int *found, int *count) {
    int err = open_listening(launch, found, count);
    if (!err && launch->spec.gateway_flags & GATEWAY_PUBLISH) err = open_published(launch, found, count);
    if (err) return err;
    set_detail(launch, "send the sockets to corral");
    return gateway_send(found, *count);
}

bool has_gateway(const struct launch *launch) {
    return launch->spec.count[RECORD_GATEWAY] && !(launch->spec.gateway_flags & GATEWAY_NOTIFY);
}

/* Corral looks at what the command has left in the private areas, when nothing of it runs any more. */
static int send_areas(struct launch *launch) {
    if (launch->areas_fd < 0 || !has_namespaces(launch) || is_server(launch)) return 0;
    set_detail(launch, "send the private areas to corral");
    return control_send(STATUS_FD, "areas\n", 6, &launch->areas_fd, 1);
}

int phase_gateway(struct launch *launch) {
    int found[MOST_SOCKETS], count = 0;
    if (!has_gateway(launch)) return 0;
    int err = launch->spec.gateway_flags & GATEWAY_ROUTES ? make_routes(launch) : 0;
    if (!err) err = open_all(launch, found, &count);
    if (!err) err = send_areas(launch);
    while (count > 0) close(found[--count]); /* INVARIANT: nobody inside holds one */
    if (err || !has_namespaces(launch)) return err;
    /* Init has kept the way to corral for this alone. A server's descriptors keep their numbers. */
    if (is_server(launch)) return dup2(STDOUT_FILENO, STATUS_FD) < 0 ? -errno : 0;
    return close(STATUS_FD) < 0 ? -errno : 0;
}

int phase_gateway_inside(struct launch *launch) { return has_namespaces(launch) ? 0 : phase_gateway(launch); }
