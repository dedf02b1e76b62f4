/* Git directories in what a command may write, for plans that nobody checks afterwards. */
#ifndef CORRAL_SEARCH_H
#define CORRAL_SEARCH_H

#include "launch.h"

/* Before there is a command: every git directory must be one that the plan holds read-only. Returns 0 or -errno; -ESTALE:
 * there is another one, -EACCES or -E2BIG: nobody can say. */
int search_before(struct launch *launch);

/* When nothing runs any more: takes away those that are there now, and links that would lead git elsewhere. Tells each. */
void search_afterwards(struct launch *launch);

#endif
