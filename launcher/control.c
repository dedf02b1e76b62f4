/* Control: where another program made the sandbox, nothing reaches the launcher but a socket. By it corral learns
 * that the sandbox is there, and hands over the same descriptors that the launcher otherwise starts with. */
#include "control.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "kernel.h"
#include "launch.h"

static const char HELLO[] = "corral-launch 1";

static int connect_to(const char *path, int kind) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t length = strlen(path);
    if (length >= sizeof address.sun_path) return -ENAMETOOLONG;
    memcpy(address.sun_path, path, length + 1);
    int fd = k_result(socket(AF_UNIX, kind | SOCK_CLOEXEC, 0));
    if (fd < 0) return fd;
    int err = 0;
    do err = connect(fd, (struct sockaddr *)&address, sizeof address) < 0 ? -errno : 0;
    while (err == -EINTR);
    if (!err) return fd;
    close(fd);
    return err;
}

static int open_control(const char *where) {
    if (where[0] == '/') return connect_to(where, SOCK_SEQPACKET);
    char *end = NULL;
    long number = strtol(where, &end, 10);
    if (end == where || *end || number < 0 || number > 1023) return -EINVAL;
    return fcntl((int)number, F_GETFD) < 0 ? -errno : (int)number;
}

static void close_all(const int *given, size_t count) {
    for (size_t i = 0; i < count; i++) close(given[i]);
}

/* INVARIANT: what comes with a message that is refused is closed: a server must not run out of descriptors. */
int control_receive(int control, int given[MOST_GIVEN], void *words, size_t *size, int flags) {
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(sizeof(int) * MOST_GIVEN)];
    } ancillary;
    struct iovec data = {.iov_base = words, .iov_len = *size};
    struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1, .msg_control = ancillary.room,
                             .msg_controllen = sizeof ancillary.room};
    ssize_t got = 0;
    do got = recvmsg(control, &message, MSG_CMSG_CLOEXEC | flags);
    while (got < 0 && errno == EINTR);
    if (got < 0) return -errno;
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    if (got == 0 && !header) return 0;
    if (!header || header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) return -EPROTO;
    size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    memcpy(given, CMSG_DATA(header), count * sizeof(int));
    *size = (size_t)got;
    if (got > 0 && count > 0 && !(message.msg_flags & (MSG_CTRUNC | MSG_TRUNC))) return (int)count;
    close_all(given, count);
    return -EPROTO;
}

int control_send(int control, const void *words, size_t size, const int *descriptors, int count) {
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(sizeof(int) * MOST_SENT)];
    } ancillary = {0};
    struct iovec data = {.iov_base = (void *)(uintptr_t)words, .iov_len = size};
    struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1, .msg_control = ancillary.room,
                             .msg_controllen = CMSG_SPACE(sizeof(int) * (size_t)count)};
    if (count < 1 || count > MOST_SENT) return -EINVAL;
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    *header = (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS,
                               .cmsg_len = CMSG_LEN(sizeof(int) * (size_t)count)};
    memcpy(CMSG_DATA(header), descriptors, sizeof(int) * (size_t)count);
    return sendmsg(control, &message, MSG_NOSIGNAL) < 0 ? -errno : 0;
}

int control_send_to(const char *path, const char *word, int descriptor) {
    int fd = connect_to(path, SOCK_DGRAM);
    if (fd < 0) return fd;
    int err = control_send(fd, word, strlen(word), &descriptor, 1);
    close(fd);
    return err;
}

/* First out of the way of the numbers that others have to get. */
int control_arrange(int given[MOST_GIVEN], int count) {
    for (int i = 0; i < count; i++) {
        int away = k_result(fcntl(given[i], F_DUPFD_CLOEXEC, count));
        if (away < 0) return away;
        close(given[i]);
        given[i] = away;
    }
    for (int i = 0; i < count; i++) {
        if (dup2(given[i], i) < 0) return -errno;
        close(given[i]); /* a second holder of a pipe would keep its reader waiting */
    }
    return 0;
}

int control_take(const char *where) {
    int given[MOST_GIVEN];
    int control = open_control(where);
    if (control < 0) return control;
    /* TRUST: what corral reads is who sent it, as the kernel says; the words are for people with a debugger. */
    if (send(control, HELLO, sizeof HELLO - 1, MSG_NOSIGNAL) < 0) return -errno;
    char go = 0;
    size_t size = sizeof go;
    int count = control_receive(control, given, &go, &size, 0);
    if (count < FIRST_FOREIGN_FD) return count < 0 ? count : -EPROTO;
    int err = control_arrange(given, count);
    return err ? err : count;
}
