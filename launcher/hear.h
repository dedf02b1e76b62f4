/* What commands write to standard error, where it goes past corral. */
#ifndef CORRAL_HEAR_H
#define CORRAL_HEAR_H

#include "kernel_observe.h"
#include "launch.h"

/* Before a command is there: what its standard error is. What was heard of an earlier one is forgotten. */
int hear_begin(void);

/* A write to descriptor 2 that the filter asks about. */
void hear_write(const struct launch *launch, const struct k_notif *call);

/* Milliseconds until there is something to tell, or the given ones, if that is sooner; -1: never. */
int hear_wait(int timeout);

/* Tells what was heard, when it is time to; and all of it, in the end. */
void hear_say(void);
void hear_finish(void);

/* Some of the memory of a process whose call is held; how much of it. */
size_t hear_memory(const struct launch *launch, const struct k_notif *call, uint64_t at, void *into, size_t size);

#endif
