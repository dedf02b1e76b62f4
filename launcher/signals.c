/* Signals are read, never handled: supervisor and init block all of them and look at a signalfd. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "launch.h"

static const int WATCHED[] = {
    SIGCHLD, /* for ourselves; the others are passed on */
    SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGWINCH, SIGTSTP, SIGCONT,
};

/* An inherited SIG_IGN for SIGCHLD would have the kernel reap our children itself and not tell us. */
int signals_block_all(void) {
    struct sigaction standard = {.sa_handler = SIG_DFL};
    sigset_t all;
    if (sigaction(SIGCHLD, &standard, NULL) < 0) return -errno;
    sigfillset(&all);
    return sigprocmask(SIG_SETMASK, &all, NULL) < 0 ? -errno : 0;
}

bool signals_may_pass(int signal) {
    for (size_t i = 1; i < sizeof WATCHED / sizeof *WATCHED; i++)
        if (signal == WATCHED[i]) return true;
    return false;
}

int signals_open(bool has_changes) {
    sigset_t watched;
    sigemptyset(&watched);
    for (size_t i = 0; i < sizeof WATCHED / sizeof *WATCHED; i++) sigaddset(&watched, WATCHED[i]);
    if (has_changes) sigaddset(&watched, SIGIO);
    int fd = signalfd(-1, &watched, SFD_CLOEXEC | SFD_NONBLOCK);
    return fd < 0 ? -errno : fd;
}

int signals_next(int fd) {
    struct signalfd_siginfo info;
    ssize_t got = read(fd, &info, sizeof info);
    if (got == (ssize_t)sizeof info) return (int)info.ssi_signo;
    return got < 0 && errno != EAGAIN && errno != EINTR ? -errno : 0;
}

/* The command leads a session of its own, so its group is orphaned, and in an orphaned group the kernel
 * discards SIGTSTP: without a terminal of its own the command is stopped the hard way. */
void signals_forward(const struct launch *launch, pid_t command, int signal) {
    if (signal == SIGTSTP && !launch->spec.count[RECORD_TERMINAL]) signal = SIGSTOP;
    if (kill(-command, signal) < 0 && errno == ESRCH)
        kill(command, signal); /* it has not led its group yet; gone is fine, too */
}
