/* The guard over protected names that do not exist yet: no mount can cover them, so what appears is removed. */
#ifndef CORRAL_GUARD_H
#define CORRAL_GUARD_H

#include <stdbool.h>
#include <stdint.h>

#include "launch.h"

/* Holds the planned directories and has the kernel tell of changes. ORDER: before there is a command, and after the
 * child that will start it was born, which so holds none of them. Returns 0 or -errno; -ESTALE: one is another by now. */
int guard_open(struct launch *launch);

bool guard_is_open(void);

/* Something has changed, or may have: look when it is time to. */
void guard_stir(void);

/* Milliseconds until guard_look() is to be called, or the given ones, if that is sooner; -1: never. */
int guard_wait(int timeout);

/* Puts right what it finds. True, once, if the command has tried too often, and is to be ended; that is told. */
bool guard_look(void);

/* The last look, at everything, when nothing runs any more; says "swept" in the end. */
void guard_sweep(void);

/* A descriptor of a planned directory, or -errno; -ESTALE: it is not there, or another one. */
int guarded_open(const struct guarded_record *planned);

/* quarantine.c: what was removed, and where it is kept. */
enum { FATE_REMOVED = -1 };

int quarantine_take(const char *place, int directory, const char *name); /* its number there, FATE_REMOVED or -errno - 1 */
void quarantine_clear(void);                                             /* removes what could not be kept */
int open_up(int directory, const char *name); /* a directory whose owner may have taken his own rights away */

#endif
