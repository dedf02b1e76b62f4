/* Output on its way from the command to the caller, counted. */
#ifndef CORRAL_RELAY_H
#define CORRAL_RELAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <poll.h>

enum { RELAY_CHUNK = 65536 };

struct relay {
    int source; /* our end of the command's pipe; -1 when it is at its end, or nobody wants it */
    int target; /* the caller's own descriptor, or our own one for his terminal */
    bool is_terminal;
    int error; /* why not all could be written, if not for want of a reader */
    size_t start, end;
    uint8_t *tail; /* where the end of what was printed is kept, if anybody wants it */
    size_t tail_room, tail_size;
    uint8_t pending[RELAY_CHUNK]; /* INVARIANT: while there is some, no more is read of the command */
};

/* Both streams of a command, with one limit for both together. */
struct relays {
    bool is_used, is_over; /* is_over: it has printed more than it may */
    uint64_t room;
    struct relay streams[2];
};

/* Makes the pipes that are wanted; `theirs` are the command's ends. 0 or -errno. */
int relays_open(struct relays *relays, uint64_t limit, const bool is_wanted[2], int theirs[2]);

struct pollfd relay_waits_for(const struct relay *relay);
void relay_carry(struct relays *relays, struct relay *relay);

/* All has ended: what the pipes hold is handed on. `is_enough` is asked now and then, with the milliseconds since
 * somebody last took something. */
void relays_finish(struct relays *relays, bool (*is_enough)(void *context, int64_t idle_ms), void *context);

/* Why the output is not all where it was to go: an errno, or 0. */
int relays_error(const struct relays *relays);

/* A terminal is open for both; whoever's output is limited must not print through his input. */
int open_for_reading_only(int fd);

bool relay_is_same_file(int one, int other);

int64_t monotonic_ms(void);

#endif
