/* notify: after it, no process of this launch connects by itself: the kernel asks corral about every connect(2), and
 * corral makes those that it permits. For launches without a network namespace, where the command has the addresses
 * of the host before it. A filter of its own, and in the first process: all others inherit it, whichever way they are
 * started, and the filter of the commands stays what it is. Before anything is started, so that nobody inside ever
 * holds the descriptor that questions are answered on.
 *
 * INVARIANT: this alone is never what keeps a command from the network. Landlock refuses every port to it, so a
 * connection that nobody is asked about is refused as well; and the kernel refuses those that nobody answers. */
#include <errno.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "kernel.h"
#include "launch.h"

/* What another architecture calls by this number, the commands' own filter ends. */
static struct k_sock_filter ASK_ABOUT_CONNECT[] = {
    {.code = 0x20, .k = 0},                              /* BPF_LD: the number of the call */
    {.code = 0x15, .jt = 0, .jf = 1, .k = SYS_connect},  /* BPF_JEQ */
    {.code = 0x06, .k = K_SECCOMP_RET_USER_NOTIF},       /* BPF_RET */
    {.code = 0x06, .k = K_SECCOMP_RET_ALLOW},
};

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
    struct k_sock_fprog program = {.len = sizeof ASK_ABOUT_CONNECT / sizeof *ASK_ABOUT_CONNECT, .filter = ASK_ABOUT_CONNECT};
    if (!(launch->spec.gateway_flags & GATEWAY_NOTIFY)) return 0;
    set_detail(launch, "take a descriptor of another process (pidfd_getfd)");
    int err = check_taking();
    if (err) return err;
    if ((err = phase_no_new_privs(launch))) return err; /* required where there is no privilege */
    set_detail(launch, "a filter that asks about connections");
    int listener = k_result(syscall(SYS_seccomp, K_SECCOMP_SET_MODE_FILTER,
                                    K_SECCOMP_FLAG_NEW_LISTENER | K_SECCOMP_FLAG_WAIT_KILLABLE_RECV, &program));
    if (listener < 0) return listener;
    set_detail(launch, "send the filter's descriptor to corral");
    err = gateway_send(&listener, 1);
    close(listener);
    return err;
}
