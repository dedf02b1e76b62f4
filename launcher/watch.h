/* Limits that no control group holds: looked after by init, or by the supervisor where there is none. */
#ifndef CORRAL_WATCH_H
#define CORRAL_WATCH_H

#include "launch.h"

struct watcher {
    const struct launch *launch;
    bool in_namespace;             /* everyone in /proc belongs to the tree */
    bool is_stopped, is_over;
    int64_t look_at, turn_at;      /* monotonic nanoseconds; INT64_MAX: never */
    int64_t turned_at;             /* when the tree was last stopped or woken */
    int64_t sweep_at;              /* while stopped: when to stop whoever was woken */
    uint64_t shared_before;        /* bytes of shared memory on this machine when it began */
};

void watcher_start(struct watcher *watcher, const struct launch *launch, bool in_namespace);

/* Nanoseconds until something is to be done, or -1. */
int64_t watcher_wait(const struct watcher *watcher);

/* Does what is due. Returns 0, or the notice (report.h) of a limit that was found broken, once. */
uint32_t watcher_act(struct watcher *watcher);

/* sample.c. What a tree has now. The memory is an upper bound; or, if `exact`, shared pages count once. */
struct sample {
    uint64_t processes, memory; /* threads count as processes, as for every other such limit */
};

void sample_tree(const struct watcher *watcher, bool exact, struct sample *sample);
uint64_t sample_shared(void);

#endif
