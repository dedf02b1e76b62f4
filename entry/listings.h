/* What directories hold, as far as it matters to a look, and what is remembered of that from one run to the next. */
#ifndef CORRAL_LISTINGS_H
#define CORRAL_LISTINGS_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "plan.h"

/* By which rules a directory was judged: what is fine in one of git's may not be so in another. */
enum kind { TREE, GIT_DIRECTORY, OBJECTS, ANY_FILES, REFERENCES, PACKS, OBJECTS_INFO, LOOSE_OBJECTS, NOTHING, INDEX, KINDS };

/* Of one name: nothing there may be, nothing that has to be looked at again, something that has. */
enum verdict { REFUSED, PASSED, KEPT };

struct stamp {
    uint64_t device, inode, changed_ns;
};

/* A directory in which every name was permitted; or an index that was. */
struct listing {
    struct stamp stamp;
    uint32_t kind, marks;
    uint32_t names_at, names_size; /* those that were kept: `d` for a directory or `f`, the name, NUL */
};

struct listings {
    struct listing *known;
    uint32_t count, room, *places, places_size; /* a table of numbers in `known`, from 1; 0: free */
    bool *is_used;                              /* by this look */
    struct bytes names;
    uint64_t began_ns; /* of this look */
    uint32_t fresh;    /* listed by this look, since nothing was known of them */
};

/* Where a look is: a path, of which `path + skip` begins at the descriptor `root`. */
struct place {
    int root;
    char path[PATH_MAX];
    size_t length, skip;
};

typedef enum verdict judge(enum kind kind, const char *name, unsigned char type, uint32_t *marks);

/* Goes one name further down; where it was before, or 0 if the path would be too long. */
size_t place_enter(struct place *place, const char *name);
void place_leave(struct place *place, size_t before);
const char *place_relative(const struct place *place);

void listings_begin(struct listings *listings);
/* What is in a directory; false: it cannot be read, it is none, a name in it is refused, or there are more than `left`. */
bool listings_look(struct listings *listings, const struct place *place, enum kind kind, judge *judge, int *left, struct listing *found);
/* The next name that was kept, from `at`, which begins as 0; NULL after the last. Valid until the next look. */
const char *listing_next(const struct listings *listings, const struct listing *listing, uint32_t *at);
/* The same for a file that was judged by what it says: whether it is as it was then; and that it is to be remembered. */
bool listings_know(struct listings *listings, const struct place *place, enum kind kind, struct listing *now);
void listings_add(struct listings *listings, const struct place *place, const struct listing *now);

/* One that another run has found. */
void listings_restore(struct listings *listings, const struct listing *listing);

/* remembered.c: from the state directory, and back there if this look has found much that is new. Nothing depends on either. */
void listings_load(struct listings *listings, int directory, const char *name);
void listings_save(const struct listings *listings, int directory, const char *name);

#endif
