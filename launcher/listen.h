/* The listener of the commands' filter: which calls it has, and what is heard by it. */
#ifndef CORRAL_LISTEN_H
#define CORRAL_LISTEN_H

#include "launch.h"

/* Before the launcher's child is made: a way for the listener to come from the command to the supervisor. */
int listen_prepare(struct launch *launch);
void listen_choose_side(struct launch *launch, bool is_child);

/* For the seccomp phase: installs the filter and, where somebody listens, sends its listener to the supervisor. */
int listen_install(struct launch *launch);

/* In the supervisor: takes the listener when it comes, then answers one call. */
void listen_act(struct launch *launch, short events);

/* Whether questions wait: much was refused, and the policy wants it throttled. */
bool listen_is_paused(void);

/* Milliseconds until they are answered again, or the given ones, if that is sooner; -1: never. */
int listen_wait(int timeout);

/* Tells what was heard of standard error, when it is time to. */
void listen_say(void);

/* When everything is over: what was heard, and how often. */
void listen_finish(struct launch *launch);

#endif
