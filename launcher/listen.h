/* The listener of the commands' filter: which calls it has, and what is heard by it. */
#ifndef CORRAL_LISTEN_H
#define CORRAL_LISTEN_H

#include <poll.h>

#include "launch.h"

/* Before a command's process is made: a way for the listener to come from it to its supervisor. */
int listen_prepare(struct launch *launch);

/* In the supervisor, when that process is there: its end of the way is its own. */
void listen_begin(struct launch *launch);

/* In a job, before it waits for a command: the filter that all of its commands inherit, and the listener of it. */
int listen_install_early(struct launch *launch);

/* For the seccomp phase: installs the filter and, where somebody listens, sends its listener to the supervisor. */
int listen_install(struct launch *launch);

/* In the supervisor: takes the listener when it comes, then answers one call. */
void listen_act(struct launch *launch, short events);

/* What it waits for meanwhile. Nothing, while questions wait: much was refused, and the policy wants it throttled. */
struct pollfd listen_awaits(const struct launch *launch);

/* Milliseconds until they are answered again, or the given ones, if that is sooner; -1: never. */
int listen_wait(int timeout);

/* Before the last is said of a command: what was heard, and how often. Later calls are answered, and not told. */
void listen_settle(void);

/* When everything is over. */
void listen_finish(struct launch *launch);

#endif
