/* The way to corral from inside a sandbox that another program has made. */
#ifndef CORRAL_CONTROL_H
#define CORRAL_CONTROL_H

enum { MOST_GIVEN = 32 };

/* Says hello at `where`, the number of a descriptor or the path of a socket, and puts what corral sends to the
 * descriptors from 0 on: those of every launch, then files of control groups. Returns how many, or -errno. */
int control_take(const char *where);

#endif
