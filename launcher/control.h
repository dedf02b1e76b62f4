/* The way to corral from inside a sandbox that another program has made. */
#ifndef CORRAL_CONTROL_H
#define CORRAL_CONTROL_H

#include <stddef.h>

enum {
    MOST_GIVEN = 32,
    MOST_SENT = 156,       /* the sockets of a gateway */
    REQUEST_BYTES = 65536, /* of a command for a kept sandbox; a longer spec comes as a file */
};

/* Says hello at `where`, the number of a descriptor or the path of a socket, and puts what corral sends to the
 * descriptors from 0 on: those of every launch, then files of control groups. Returns how many, or -errno. */
int control_take(const char *where);

/* Waits for one message with descriptors, and words of at most `*size` bytes. Returns how many descriptors came, in
 * `given`; 0 at the end; or -errno. `flags` are for recvmsg. */
int control_receive(int control, int given[MOST_GIVEN], void *words, size_t *size, int flags);

/* Sends descriptors, at most MOST_SENT, with some words. */
int control_send(int control, const void *words, size_t size, const int *descriptors, int count);

/* Sends one, with a word, to whoever has a datagram socket at `path`. */
int control_send_to(const char *path, const char *word, int descriptor);

/* Puts each to its number: the first to 0, the second to 1. */
int control_arrange(int given[MOST_GIVEN], int count);

#endif
