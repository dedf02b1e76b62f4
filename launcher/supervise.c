/* The supervisor: one loop over signals, the lifeline, the reports from inside, and the clock.
 *
 * INVARIANT: it returns only when every process of the launch is gone, and it is the only writer of the status
 * pipe, so that what corral reads is in order and nothing inside holds that pipe. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "kernel.h"
#include "launch.h"
#include "report.h"

struct watch {
    struct launch *launch;
    int signals;
    bool executing, failed, started; /* the setup reports */
    bool ended, gone;                /* the command has ended; its whole tree is gone */
    bool killed;                     /* by us */
    int64_t term_at, kill_at;        /* monotonic milliseconds, or NEVER */
};

static const int64_t NEVER = INT64_MAX;

static int64_t now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static int64_t after_ms(uint64_t delay) {
    int64_t now = now_ms();
    return delay > (uint64_t)(NEVER - now) ? NEVER : now + (int64_t)delay;
}

static void forward(const struct watch *w, int signal) {
    if (has_namespaces(w->launch)) kill(w->launch->child, signal); /* init passes it on */
    else signals_forward(w->launch, w->launch->child, signal);
}

static void kill_all(struct watch *w) {
    w->killed = true;
    w->term_at = w->kill_at = NEVER;
    kill(w->launch->child, SIGKILL);                            /* with init, the kernel ends the rest */
    if (!has_namespaces(w->launch)) (void)tree_signal(SIGKILL); /* and tree_end() whoever slips through */
}

/* Reads what init and command say about the setup. The end of the pipe after "executing" is how a successful
 * execve looks: the descriptor was marked close-on-exec. */
static void read_setup(struct watch *w) {
    struct report report;
    ssize_t got = 0;
    while (w->launch->setup_fd >= 0 && (got = read(w->launch->setup_fd, &report, sizeof report)) > 0) {
        if (got != (ssize_t)sizeof report) continue; /* INVARIANT: writes are atomic; this cannot be */
        if (report.kind == REPORT_EXECUTING) w->executing = true;
        if (report.kind != REPORT_FAILED || w->failed) continue;
        report.phase[sizeof report.phase - 1] = report.detail[sizeof report.detail - 1] = 0;
        status_failed(report.phase, report.error, report.detail);
        w->failed = true;
    }
    if (w->launch->setup_fd < 0 || (got < 0 && (errno == EAGAIN || errno == EINTR))) return;
    close(w->launch->setup_fd);
    w->launch->setup_fd = -1;
    if (!w->executing || w->failed) return;
    status_line("started\n");
    w->started = true;
}

static void on_ended(struct watch *w, int wait_status) {
    if (w->ended) return;
    read_setup(w); /* what it said before it ended comes first */
    w->ended = true;
    w->term_at = w->kill_at = NEVER;
    if (!w->failed) status_ended(wait_status);
}

/* Without namespaces: the command is our child, and so is every orphan it leaves. */
static void reap_command(struct watch *w) {
    int status = 0;
    pid_t pid = 0;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
        if (pid == w->launch->child) {
            on_ended(w, status);
            w->gone = true;
            if (tree_end() == 0) return;
            status_line("lost\n"); /* something that SIGKILL does not end is still there: say so */
            w->failed = true;
            return;
        }
}

/* How the command ended, in init's words. */
static void read_channel(struct watch *w) {
    int status = 0;
    if (recv(w->launch->channel_fd, &status, sizeof status, MSG_DONTWAIT) == (ssize_t)sizeof status)
        on_ended(w, status);
}

/* With namespaces: init is the only child, and the kernel lets it be reaped when the others are gone. */
static void reap_init(struct watch *w) {
    int status = 0;
    if (waitpid(w->launch->child, &status, WNOHANG) != w->launch->child) return;
    w->gone = true;
    read_channel(w);
    if (w->ended) return;
    read_setup(w);
    if (w->failed) return;
    if (w->killed) status_ended(SIGKILL);
    else status_line("lost\n");
    w->failed = !w->killed;
}

static void on_signals(struct watch *w) {
    int signal = 0;
    while (!w->gone && (signal = signals_next(w->signals)) > 0) {
        if (signal != SIGCHLD) forward(w, signal);
        else if (has_namespaces(w->launch)) reap_init(w);
        else reap_command(w);
    }
}

/* Anything but silence means that corral is gone or confused. */
static void on_lifeline(struct watch *w) {
    char ignored;
    if (read(LIFELINE_FD, &ignored, 1) < 0 && (errno == EINTR || errno == EAGAIN)) return;
    kill_all(w);
}

static void on_time(struct watch *w) {
    int64_t now = now_ms();
    if (now >= w->kill_at) kill_all(w);
    if (now < w->term_at) return;
    status_line("timed-out\n");
    w->term_at = NEVER;
    w->kill_at = after_ms(w->launch->spec.grace_ms);
    if (w->launch->spec.grace_ms == 0) kill_all(w);
    else forward(w, SIGTERM);
}

static int poll_timeout(const struct watch *w) {
    int64_t next = w->term_at < w->kill_at ? w->term_at : w->kill_at;
    if (next == NEVER) return -1;
    int64_t left = next - now_ms();
    return left < 0 ? 0 : left > 60000 ? 60000 : (int)left;
}

static void watch_loop(struct watch *w) {
    struct launch *launch = w->launch;
    while (!w->gone) {
        struct pollfd fds[] = {
            {.fd = w->signals, .events = POLLIN},
            {.fd = w->killed ? -1 : LIFELINE_FD, .events = POLLIN},
            {.fd = launch->setup_fd, .events = POLLIN},
            {.fd = has_namespaces(launch) && !w->ended ? launch->channel_fd : -1, .events = POLLIN},
        };
        if (poll(fds, 4, poll_timeout(w)) < 0 && errno != EINTR) kill_all(w);
        if (fds[2].revents) read_setup(w);
        if (fds[3].revents) read_channel(w);
        if (fds[1].revents) on_lifeline(w);
        if (fds[0].revents) on_signals(w);
        if (!w->ended && !w->gone) on_time(w); /* ORDER: last, so that an end in time is never called late */
    }
}

int supervisor_run(struct launch *launch) {
    struct watch w = {.launch = launch, .term_at = NEVER, .kill_at = NEVER};
    /* Its copies of the command's stdio would keep their readers waiting. */
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) close(fd);
    if (launch->spec.wall_ms) w.term_at = after_ms(launch->spec.wall_ms);
    w.signals = signals_open();
    if (w.signals < 0 || fcntl(launch->setup_fd, F_SETFL, O_NONBLOCK) < 0) {
        status_failed("namespaces", w.signals < 0 ? -w.signals : errno, "watch the child");
        kill(launch->child, SIGKILL);
        return EXIT_SETUP_FAILED;
    }
    watch_loop(&w);
    if (!w.failed) status_usage();
    return w.failed ? EXIT_SETUP_FAILED : 0;
}
