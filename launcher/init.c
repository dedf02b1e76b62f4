/* Init: PID 1 of the new namespaces. It prepares them, starts the command, reaps, and forwards signals. When
 * the command has ended it tells the supervisor and exits; the kernel then kills whatever else lives inside. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "kernel.h"
#include "launch.h"
#include "report.h"
#include "watch.h"

static bool is_full(int fd) {
    struct statfs status;
    return fd >= 0 && fstatfs(fd, &status) == 0 && (status.f_bfree == 0 || status.f_ffree == 0);
}

bool areas_are_full(const struct launch *launch) { return is_full(launch->areas_fd); }

bool layer_is_full(const struct launch *launch) { return is_full(launch->layer_fd); }

static void tell_end(const struct launch *launch, int wait_status) {
    notice_send(launch, &(struct notice){.kind = NOTICE_ENDED, .wait_status = wait_status,
                                         .processes = count_processes(launch), .is_full = areas_are_full(launch),
                                         .is_layer_full = layer_is_full(launch)});
}

/* The kernel would end them as well; but what nobody has waited for is missing in the account. Whoever lives in here is
 * a child of init, or descends from one: without children there is nobody, and kill() would go through all processes of
 * the host to find that out. */
static void end_the_rest(void) {
    if (waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD) return;
    kill(-1, SIGKILL);
    while (waitpid(-1, NULL, 0) > 0 || errno == EINTR) continue;
}

/* Until there is a signal. Init only tells of a limit that is broken: the supervisor ends everyone, and init. */
static bool wait_and_watch(const struct launch *launch, struct watcher *watcher, int signals, bool has_more) {
    struct pollfd poller = {.fd = signals, .events = POLLIN};
    int64_t left = has_more ? 0 : watcher_wait(watcher);
    const struct timespec wait = {.tv_sec = left / 1000000000, .tv_nsec = left % 1000000000};
    if (ppoll(&poller, 1, left < 0 ? NULL : &wait, NULL) < 0 && errno != EINTR) return false;
    uint32_t found = watcher_act(watcher);
    if (found) notice_send(launch, &(struct notice){.kind = found});
    return true;
}

static int serve(struct launch *launch, pid_t command, int signals) {
    struct watcher watcher;
    int wait_status = 0;
    bool has_ended = false, has_more = false;
    watcher_start(&watcher, launch, true);
    /* Each turn does a little of everything: no flood of signals or of dead children keeps it from looking. */
    while (!has_ended) {
        if (!wait_and_watch(launch, &watcher, signals, has_more)) return EXIT_SETUP_FAILED;
        int signal = signals_next(signals);
        if (signal < 0) return EXIT_SETUP_FAILED;
        if (signal > 0 && signal != SIGCHLD) signals_forward(launch, command, signal);
        if (signal == SIGCHLD || has_more) has_more = tree_reap(command, &wait_status, &has_ended) > 0;
    }
    tell_end(launch, wait_status);
    end_the_rest();
    return 0;
}

static int fail(struct launch *launch, const char *detail, int err) {
    if (detail) set_detail(launch, "%s", detail);
    report_failed(launch, -err);
    return EXIT_SETUP_FAILED;
}

/* INVARIANT: init holds nothing the command could want: no privilege, no memory that may be traced, and no
 * copy of stdin, stdout or stderr, so that their readers see the end when the last real holder is gone. */
int init_run(struct launch *launch) {
    int err = is_server(launch) ? server_reserve() : 0;
    if (!err) err = run_phases(launch, INIT_PHASES);
    if (err) return fail(launch, NULL, err);
    if (!is_told_to_go(launch)) return EXIT_SETUP_FAILED;
    if (is_server(launch)) return server_run_as_init(launch);
    int signals = signals_open(false);
    if (signals < 0) return fail(launch, "signalfd", signals);
    pid_t command = k_clone(SIGCHLD);
    if (command < 0) return fail(launch, "fork", command);
    if (command == 0) _exit(command_run(launch));
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (close(fd) < 0) return EXIT_SETUP_FAILED;
    if (close(launch->setup_fd) < 0) return EXIT_SETUP_FAILED;
    return serve(launch, command, signals);
}
