/* Git directories in what a command may write, for plans that nobody checks afterwards. */
#ifndef CORRAL_SEARCH_H
#define CORRAL_SEARCH_H

#include "launch.h"

/* Before there is a command: every git directory must be one that the plan holds read-only. Returns 0 or -errno; -ESTALE:
 * there is another one, -EACCES or -E2BIG: nobody can say. */
int search_before(struct launch *launch);

/* When nothing runs any more: removes those that are there now, links that would lead git elsewhere, and traps. Tells each. */
void search_afterwards(struct launch *launch);

/* Whether git would write through what is there by this name, or wait for it; `type` as in a listing. */
bool is_trap_for_git(const char *name, unsigned char type);

#endif
