/* One run of a stored plan: from the start to the moment when it is over and there is nothing to tell, or Python goes on. */
#ifndef CORRAL_RUN_H
#define CORRAL_RUN_H

#include <signal.h>
#include <time.h>

#include "entry.h"
#include "launch.h"
#include "relay.h"

enum { STREAMS = 2, MOST_SOCKETS_GIVEN = 160, MOST_STATUS = 65536, MOST_COPIES = 256 };

/* Of a repository that the plan holds, or of one that a command may make. */
struct worktree {
    const char *path, *head; /* what its HEAD said when the plan was made */
    size_t head_size;        /* 0: there was none */
    uint64_t objects[2];     /* where it had its objects: device and inode */
};

struct run {
    const struct request *request;
    struct stored *stored;
    struct launch launch;
    char id[RUN_ID_SIZE + 1];
    pid_t supervisor;
    int signals, status, lifeline; /* lifeline: -1 when it was cut */
    sigset_t mask;                 /* as the caller had it */
    sigset_t early;                /* came before the command was there */
    struct sigaction of_children;  /* what the caller does about SIGCHLD */
    struct relays relays;
    int given[MOST_SOCKETS_GIVEN]; /* sockets in the sandbox's network, at which nobody is served */
    int given_count;
    int areas;                     /* its private areas; -1 */
    char said[MOST_STATUS];        /* all that the supervisor has said */
    size_t said_size;
    bool is_ended, is_at_end;      /* the supervisor is; its words are */
    bool is_looked_at, is_clean;   /* what the command has left; it leaves nothing to tell */
    struct timespec began;         /* of the wall's clock, before the command was there */
    uint64_t since_ns;             /* what has changed since then may be the command's work */
    struct worktree *worktrees;    /* by path */
    int copies, mark;              /* locked descriptors; -1 */
    uint8_t *originals[MOST_COPIES];
    size_t original_sizes[MOST_COPIES];
    char mark_path[4096];
    int live_place, live;          /* where the user's other processes see it; -1 */
    uint8_t tails[2][TAIL_SIZE];   /* the end of each stream that passes through here */
};

/* run.c: the exit code; -1: nothing ran, and Python does it. */
int run_stored(const struct request *request, struct stored *stored);
void give_signals_back(struct run *run);
void send_early_again(const struct run *run);

/* streams.c: makes the command's ends; whether all that is on its way may still be printed. */
bool streams_prepare(struct run *run, int given[5]);
bool streams_have_room(const struct run *run);

/* judge.c: whether all that was said so far is what every run says; and whether there is nothing to tell at its end. */
bool is_plain_so_far(struct run *run);
bool is_quiet(struct run *run, int *exit_code);

/* judge.c: as soon as nobody is inside any more: what they have left is looked at while the supervisor takes its leave. */
void look_early(struct run *run);

/* areas.c: whether a command has left nothing in its private areas that anybody would miss. */
bool areas_are_bare(const struct run *run);

/* trees.c: whether nothing is there for git but what is known to be harmless. */
bool trees_are_clean(struct run *run, bool is_afterwards);

/* copies.c: of git configurations, for a command to change. */
bool copies_make(struct run *run);
void copies_add(const struct run *run, struct bytes *spec); /* their mounts, to a whole spec */
bool copies_are_unchanged(const struct run *run);
void copies_remove(struct run *run);

/* mark.c: what says in the state directory that a run has not been checked. */
bool mark_set(struct run *run);
void mark_remove(struct run *run);

/* live.c: the user's other processes see the run: from here on, no longer, until its end. */
void live_begin(struct run *run);
void live_leave(struct run *run);
void live_end(struct run *run, int exit_code);

/* continue.c: Python goes on with the run, in our place. */
_Noreturn void continue_in_python(struct run *run);

#endif
