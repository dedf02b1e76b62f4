/* Init: PID 1 of the new namespaces. It prepares them, starts the command, reaps, and forwards signals. When
 * the command has ended it tells the supervisor and exits; the kernel then kills whatever else lives inside. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kernel.h"
#include "launch.h"
#include "report.h"

/* True when the command itself was among the dead. */
static bool reap(pid_t command, int *wait_status) {
    for (;;) {
        int status = 0;
        pid_t pid = waitpid(-1, &status, WNOHANG);
        if (pid == command) {
            *wait_status = status;
            return true;
        }
        if (pid <= 0 && !(pid < 0 && errno == EINTR)) return false;
    }
}

static int serve(struct launch *launch, pid_t command, int signals) {
    struct pollfd poller = {.fd = signals, .events = POLLIN};
    int wait_status = 0;
    for (;;) {
        int signal = signals_next(signals);
        if (signal < 0) return EXIT_SETUP_FAILED;
        if (signal == 0) {
            if (poll(&poller, 1, -1) < 0 && errno != EINTR) return EXIT_SETUP_FAILED;
        } else if (signal != SIGCHLD) {
            signals_forward(launch, command, signal);
        } else if (reap(command, &wait_status)) {
            /* The supervisor takes silence for the loss of init, so a failing send needs no other answer. */
            ssize_t sent = send(launch->channel_fd, &wait_status, sizeof wait_status, MSG_NOSIGNAL);
            return sent == (ssize_t)sizeof wait_status ? 0 : EXIT_SETUP_FAILED;
        }
    }
}

static int fail(struct launch *launch, const char *detail, int err) {
    if (detail) set_detail(launch, "%s", detail);
    report_failed(launch, -err);
    return EXIT_SETUP_FAILED;
}

/* INVARIANT: init holds nothing the command could want: no privilege, no memory that may be traced, and no
 * copy of stdin, stdout or stderr, so that their readers see the end when the last real holder is gone. */
int init_run(struct launch *launch) {
    int err = run_phases(launch, INIT_PHASES);
    if (err) return fail(launch, NULL, err);
    int signals = signals_open();
    if (signals < 0) return fail(launch, "signalfd", signals);
    pid_t command = k_clone(SIGCHLD);
    if (command < 0) return fail(launch, "fork", command);
    if (command == 0) _exit(command_run(launch));
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (close(fd) < 0) return EXIT_SETUP_FAILED;
    if (close(launch->setup_fd) < 0) return EXIT_SETUP_FAILED;
    return serve(launch, command, signals);
}
