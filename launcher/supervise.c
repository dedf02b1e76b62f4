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
#include <unistd.h>

#include "clock.h"
#include "guard.h"
#include "hear.h"
#include "kernel.h"
#include "launch.h"
#include "listen.h"
#include "report.h"
#include "trace.h"
#include "watch.h"

struct watch {
    struct launch *launch;
    int signals;
    bool executing, failed, started; /* the setup reports */
    bool is_refused;                 /* a phase failed: there never was a command */
    bool ended, gone;                /* the command has ended; its whole tree is gone */
    bool killed, is_silent;          /* by us; init will say no more */
    bool has_more;                   /* of the dead, perhaps, that were not waited for yet */
    bool over_time, over_cpu;        /* its time, or its processor time, is over, and it was told so */
    bool has_left;                   /* the command has ended, and what it left running may go on */
    int64_t term_at, kill_at;        /* monotonic milliseconds, or NEVER */
    int64_t look_at;                 /* when to look at its processor time */
    long processors;
    struct notice account;           /* init's last words */
    struct watcher watcher;          /* of what no control group holds, where there is no init to look after it */
};

enum { SIGNALS = 16, SETUP_MS = 10000 }; /* the most that one turn reads; that a sandbox may take to stand */

static const struct rusage *spent_by(const struct launch *launch) { return launch->is_job ? &tree_spent : NULL; }
static void forward(const struct watch *w, int signal) {
    if (has_namespaces(w->launch)) kill(w->launch->child, signal); /* init passes it on */
    else if (w->has_left) (void)tree_signal(signal); /* the command's own number may be another's by now */
    else signals_forward(w->launch, w->launch->child, signal);
}

static void kill_all(struct watch *w) {
    w->killed = true;
    w->term_at = w->kill_at = NEVER;
    kill(w->launch->child, SIGKILL); /* with init, the kernel ends the rest */
    if (has_namespaces(w->launch)) return;
    cgroup_kill(w->launch);
    (void)tree_signal(SIGKILL); /* and tree_end() whoever slips through */
}

/* The command runs. On a busy machine a sandbox takes long to stand, and that is not the command's time. */
static void begin(struct watch *w) {
    status_line("started\n");
    w->started = true;
    if (w->launch->spec.wall_ms && !w->killed && !w->over_time) w->term_at = after_ms(w->launch->spec.wall_ms);
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
        w->failed = w->is_refused = true;
    }
    if (w->launch->setup_fd < 0 || (got < 0 && (errno == EAGAIN || errno == EINTR))) return;
    close(w->launch->setup_fd);
    w->launch->setup_fd = -1;
    if (!w->executing || w->failed) return;
    begin(w);
}

static void on_ended(struct watch *w, int wait_status) {
    if (w->ended) return;
    read_setup(w); /* what it said before it ended comes first */
    w->ended = true;
    w->term_at = w->kill_at = NEVER;
    if (!w->failed) status_ended(wait_status);
}

static void end_tree(struct watch *w) {
    w->gone = true;
    if (tree_end(w->launch) == 0) return;
    status_line("lost\n"); /* something that SIGKILL does not end is still there: say so */
    w->failed = true;
}

/* In a kept sandbox what a command leaves running goes on, for as long as corral holds the lifeline. */
static void leave_the_rest(struct watch *w) {
    if (w->has_left) return;
    w->has_left = true;
    w->account = take_account(w->launch);
    listen_settle();
    status_line("left\n"); /* ORDER: before the account, which ends what is said of a command */
    status_usage(&w->account, spent_by(w->launch));
}

/* Without namespaces: the command is our child, and so is every orphan it leaves. */
static void reap_command(struct watch *w) {
    int status = 0;
    bool is_found = false;
    int reaped = tree_reap(w->launch->child, &status, &is_found);
    w->has_more = reaped > 0;
    if (is_found) on_ended(w, status);
    if (!w->ended) return;
    /* Who heeds the signal at the end of his time must not leave in his place what does not. */
    bool is_kept = w->launch->spec.count[RECORD_KEEP] && w->started && !w->killed && !w->over_time && !w->over_cpu;
    if (is_kept && reaped >= 0) leave_the_rest(w);
    else end_tree(w);
}

static void on_exceeded(struct watch *w, uint32_t notice) {
    if (w->killed) return;
    status_line(notice == NOTICE_MEMORY ? "limit memory\n" : "limit processes\n");
    kill_all(w);
}

/* What the command had too much of, or how it ended, in init's words. */
static void read_channel(struct watch *w) {
    struct notice notice;
    ssize_t got = 0;
    while (!w->ended && (got = recv(w->launch->channel_fd, &notice, sizeof notice, MSG_DONTWAIT)) > 0) {
        if (got != (ssize_t)sizeof notice) continue; /* INVARIANT: a message comes whole; this cannot be */
        if (notice.kind == NOTICE_ENDED) {
            w->account = notice;
            on_ended(w, notice.wait_status);
        } else {
            on_exceeded(w, notice.kind);
        }
    }
    if (got == 0 && !w->ended) w->is_silent = true; /* init is gone, and SIGCHLD will tell */
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

/* INVARIANT: one turn handles a bounded number of signals and reaps one batch, so a command that forks or signals
 * without pause cannot delay the lifeline or the time limit. poll() returns at once for whatever is left. */
static void on_signals(struct watch *w) {
    for (int i = 0; i < SIGNALS && !w->gone; i++) {
        int signal = signals_next(w->signals);
        if (signal == SIGCHLD) w->has_more = trace_act(w->launch);
        if (signal == SIGCHLD) return has_namespaces(w->launch) ? reap_init(w) : reap_command(w);
        if (signal <= 0) return;
        if (signal == SIGIO) guard_stir();
        /* Those for the command of a job come by the lifeline; others are from commands. */
        else if (!w->launch->is_job) forward(w, signal);
    }
}

/* A byte is a signal to pass on, for a launcher that corral cannot signal; anything else, and the end of it, means
 * that corral wants no more, is gone or confused. */
static void on_lifeline(struct watch *w) {
    unsigned char byte = 0;
    ssize_t got = read(LIFELINE_FD, &byte, 1);
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) return;
    if (got == 1 && signals_may_pass(byte)) return forward(w, byte);
    kill_all(w);
    if (w->has_left) end_tree(w);
}

static void on_time(struct watch *w) {
    int64_t now = now_ms();
    if (now >= w->kill_at) kill_all(w);
    if (now < w->term_at) return;
    status_line("timed-out\n");
    w->over_time = true;
    w->term_at = NEVER;
    w->kill_at = after_ms(w->launch->spec.grace_ms);
    if (w->launch->spec.grace_ms == 0) kill_all(w);
    else forward(w, SIGTERM);
}

/* All processors together cannot use up what is left before `left / processors` has passed, so that a look then
 * is early enough. Whoever heeds SIGTERM has a little more time for it. */
static void on_cpu_time(struct watch *w) {
    const struct cpu_time_record *limit = &w->launch->spec.cpu_time;
    if (w->launch->cpu_fd < 0 || is_server(w->launch) || w->killed || now_ms() < w->look_at) return;
    int64_t used = cgroup_cpu_us(w->launch), most = (int64_t)limit->limit_us;
    if (used < 0) return kill_all(w); /* nothing is held that cannot be seen */
    used -= w->launch->cpu_before_us;
    if (used >= most && !w->over_cpu && !w->over_time) { /* who was told already gets no more time by this */
        status_line("limit cpu-time\n");
        w->over_cpu = true;
        w->term_at = NEVER;
        w->kill_at = after_ms(limit->grace_ms);
        forward(w, SIGTERM);
    }
    if (w->over_cpu || w->over_time) most += most / 32;
    if (used >= most) return kill_all(w);
    w->look_at = after_ms((uint64_t)(most - used) / 1000 / (uint64_t)w->processors + 1);
}

static void on_watch(struct watch *w) {
    uint32_t found = has_namespaces(w->launch) ? 0 : watcher_act(&w->watcher);
    if (found) on_exceeded(w, found);
}

static int poll_timeout(const struct watch *w) {
    if (w->has_more) return 0;
    int64_t look = has_namespaces(w->launch) || w->killed ? -1 : watcher_wait(&w->watcher);
    if (look >= 0) look = now_ms() + look / 1000000 + 1;
    int64_t next = w->term_at < w->kill_at ? w->term_at : w->kill_at;
    if (w->launch->cpu_fd >= 0 && !is_server(w->launch) && !w->killed && w->look_at < next) next = w->look_at;
    if (look >= 0 && look < next) next = look;
    if (next == NEVER) return -1;
    int64_t left = next - now_ms();
    return left < 0 ? 0 : left > 60000 ? 60000 : (int)left;
}

/* Nothing can be watched any more: all must end, and be waited for, without looking. */
static void give_up(struct watch *w) {
    kill_all(w);
    if (!has_namespaces(w->launch)) (void)tree_end(w->launch);
    else while (waitpid(w->launch->child, NULL, 0) < 0 && errno == EINTR) continue;
    status_line("lost\n");
    w->failed = w->gone = true;
}

static void watch_loop(struct watch *w) {
    struct launch *launch = w->launch;
    while (!w->gone) {
        struct pollfd fds[] = {
            {.fd = w->signals, .events = POLLIN},
            {.fd = w->killed ? -1 : LIFELINE_FD, .events = POLLIN},
            {.fd = launch->setup_fd, .events = POLLIN},
            {.fd = has_namespaces(launch) && !w->ended && !w->is_silent ? launch->channel_fd : -1, .events = POLLIN},
            w->started || is_traced(launch) ? listen_awaits(launch) : (struct pollfd){.fd = -1},
        };
        if (poll(fds, 5, listen_wait(guard_wait(poll_timeout(w)))) < 0 && errno != EINTR) return give_up(w);
        if (fds[2].revents) read_setup(w);
        if (fds[3].revents) read_channel(w);
        if (fds[4].revents) listen_act(launch, fds[4].revents);
        hear_say();
        if (fds[1].revents) on_lifeline(w);
        if (fds[0].revents) on_signals(w);
        else if (w->has_more && !has_namespaces(launch)) reap_command(w);
        else if (w->has_more) w->has_more = trace_act(launch);
        /* ORDER: last, so that an end in time is never called late */
        if (!w->ended && !w->gone) on_time(w);
        if (!w->ended && !w->gone) on_cpu_time(w);
        if (!w->ended && !w->gone) on_watch(w);
        if (!w->gone && guard_look() && !w->killed) kill_all(w); /* what a command leaves may go on for a moment */
    }
}

int supervisor_run(struct launch *launch) {
    long count = sysconf(_SC_NPROCESSORS_ONLN);
    struct watch w = {.launch = launch, .term_at = NEVER, .kill_at = NEVER, .processors = count > 0 ? count : 1};
    /* Its copies of the command's stdio would keep their readers waiting. */
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) close(fd);
    uint64_t wall_ms = launch->spec.wall_ms;
    if (wall_ms) w.term_at = after_ms(wall_ms < INT64_MAX ? wall_ms + SETUP_MS : wall_ms);
    if ((w.executing = launch->is_executing)) begin(&w); /* a job knows */
    if (!has_namespaces(launch)) watcher_start(&w.watcher, launch, false);
    w.signals = signals_open(guard_is_open());
    bool has_setup = launch->setup_fd >= 0;
    if (w.signals < 0 || (has_setup && fcntl(launch->setup_fd, F_SETFL, O_NONBLOCK) < 0)) {
        status_failed("namespaces", w.signals < 0 ? -w.signals : errno, "watch the child");
        kill(launch->child, SIGKILL);
        if (!has_namespaces(launch)) (void)tree_end(launch); /* it may have children by now */
        return EXIT_SETUP_FAILED;
    }
    watch_loop(&w);
    listen_finish(launch);
    if (!w.is_refused) guard_sweep(); /* ORDER: everything is gone, and the account ends what is said */
    if (!has_namespaces(launch)) w.account = take_account(launch);
    if (!w.failed && !w.has_left) status_usage(&w.account, spent_by(launch));
    close(w.signals);
    supervisor_linger(launch);
    return w.failed ? EXIT_SETUP_FAILED : 0;
}
