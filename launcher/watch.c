/* The watch: how often to look, and when to stop and wake the tree.
 *
 * Between two looks a tree can take what its processors can fill in that time, so the nearer it comes to its
 * limit the sooner the next look is. A share of the processors is kept without any look: all processes run for
 * that part of the time, on no more processors than the share was divided by. */
#include "watch.h"

#include <signal.h>
#include <time.h>

#include "report.h"

static const int64_t NEVER = INT64_MAX, MILLISECOND = 1000000;

enum {
    BYTES_PER_NANOSECOND = 4, /* as fast as memory can be filled, more or less */
    LONGEST_LOOK_MS = 10,
    LONGEST_COUNT_MS = 2, /* processes are made faster than memory is filled */
    PERIOD_MS = 50,
    SHORTEST_RUN_MS = 2,
    SWEEP_MS = 2,
};

static int64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 * MILLISECOND + now.tv_nsec;
}

/* At least SHORTEST_RUN_MS at a time, so that small shares run seldom and not for nothing. */
static int64_t run_time(const struct watch_record *limits) {
    int64_t run = PERIOD_MS * MILLISECOND * limits->share_permille / 1000;
    return run < SHORTEST_RUN_MS * MILLISECOND ? SHORTEST_RUN_MS * MILLISECOND : run;
}

/* A tree that ran longer than planned, because we were scheduled late, is stopped for longer. Its running time counts
 * from just before SIGCONT, since it may take our processor at once, until just after SIGSTOP. */
static int64_t stop_time(const struct watch_record *limits, int64_t ran) {
    return ran * (1000 - limits->share_permille) / limits->share_permille;
}

void watcher_start(struct watcher *watcher, const struct launch *launch, bool in_namespace) {
    const struct watch_record *limits = &launch->spec.watch;
    int64_t now = now_ns();
    *watcher = (struct watcher){.launch = launch, .in_namespace = in_namespace, .look_at = NEVER, .turn_at = NEVER,
                                .sweep_at = NEVER};
    if (limits->memory || limits->processes) watcher->look_at = now;
    if (limits->memory) watcher->shared_before = sample_shared();
    watcher->turned_at = now;
    if (limits->share_permille && limits->share_permille < 1000) watcher->turn_at = now + run_time(limits);
}

int64_t watcher_wait(const struct watcher *watcher) {
    int64_t next = watcher->look_at < watcher->turn_at ? watcher->look_at : watcher->turn_at;
    if (watcher->sweep_at < next) next = watcher->sweep_at;
    if (next == NEVER) return -1;
    int64_t left = next - now_ns();
    return left > 0 ? left : 0;
}

/* INVARIANT: only PID 1 comes here; its kill(-1) reaches everyone in the namespace at the same moment, and a fork
 * under way fails or is stopped with the rest. What the kernel itself may wake, a sweep stops again. */
static void turn(struct watcher *watcher, int64_t now) {
    const struct watch_record *limits = &watcher->launch->spec.watch;
    if (now >= watcher->turn_at) {
        watcher->is_stopped = !watcher->is_stopped;
        kill(-1, watcher->is_stopped ? SIGSTOP : SIGCONT);
        if (watcher->is_stopped) now = now_ns();
        watcher->turn_at = now + (watcher->is_stopped ? stop_time(limits, now - watcher->turned_at) : run_time(limits));
        watcher->turned_at = now;
    } else if (now >= watcher->sweep_at) {
        kill(-1, SIGSTOP);
    }
    watcher->sweep_at = watcher->is_stopped ? now + SWEEP_MS * MILLISECOND : NEVER;
}

static uint32_t look(struct watcher *watcher, int64_t now) {
    const struct watch_record *limits = &watcher->launch->spec.watch;
    int64_t longest = (limits->processes ? LONGEST_COUNT_MS : LONGEST_LOOK_MS) * MILLISECOND, pause = longest;
    struct sample sample;
    sample_tree(watcher, false, &sample);
    if (limits->processes && sample.processes > limits->processes) return NOTICE_PROCESSES;
    if (limits->memory) {
        if (sample.memory > limits->memory) sample_tree(watcher, true, &sample);
        if (sample.memory > limits->memory) return NOTICE_MEMORY;
        pause = (int64_t)((limits->memory - sample.memory) / BYTES_PER_NANOSECOND);
    }
    int64_t after = now_ns(), spent = after - now;
    if (pause < MILLISECOND / 2) pause = MILLISECOND / 2;
    if (pause > longest) pause = longest;
    if (spent > LONGEST_LOOK_MS * MILLISECOND) spent = LONGEST_LOOK_MS * MILLISECOND;
    if (pause < 4 * spent) pause = 4 * spent; /* a fifth of a processor for looking, or not much more */
    watcher->look_at = after + pause;
    return 0;
}

uint32_t watcher_act(struct watcher *watcher) {
    int64_t now = now_ns();
    if (now >= watcher->turn_at || now >= watcher->sweep_at) turn(watcher, now);
    if (watcher->is_over || now < watcher->look_at) return 0;
    uint32_t found = look(watcher, now);
    if (found) {
        watcher->is_over = true;
        watcher->look_at = NEVER;
    }
    return found;
}
