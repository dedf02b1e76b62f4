/* notify: after it, there is a way by which corral is asked about every connect(2) of commands, and makes those that it
 * permits. For launches without a network namespace, where the command has the addresses of the host before it. Whoever
 * answers the calls of the commands' filter passes these on (listen.c): a process can have one filter with a listener,
 * and that one tells of what is refused as well.
 *
 * INVARIANT: this alone is never what keeps a command from the network. Landlock refuses every port to it, so a
 * connection that nobody is asked about is refused as well; and whoever cannot ask corral refuses. */
#include <errno.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "kernel.h"
#include "launch.h"

/* Corral takes the sockets of commands this way, and a container may forbid it. Better no sandbox than one in which
 * every connection fails. */
static int check_taking(void) {
    int self = k_result(syscall(NR_PIDFD_OPEN, getpid(), 0));
    if (self < 0) return self;
    int taken = k_result(syscall(NR_PIDFD_GETFD, self, STDIN_FILENO, 0));
    close(self);
    if (taken >= 0) close(taken);
    return taken < 0 ? taken : 0;
}

int phase_notify(struct launch *launch) {
    if (!(launch->spec.gateway_flags & GATEWAY_NOTIFY)) return 0;
    set_detail(launch, "take a descriptor of another process (pidfd_getfd)");
    int err = check_taking();
    if (err) return err;
    set_detail(launch, "a way to ask corral about connections");
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0) return -errno;
    launch->asks_fd = pair[0];
    err = gateway_send(&pair[1], 1);
    close(pair[1]);
    return err;
}
