/* What commands may leave for git, looked at before and after each: src/corral/git_check does the same in Python, knows
 * what is harmless among more, and takes the rest away. Here everything that is not known to be harmless is Python's. */
#ifndef CORRAL_TREES_H
#define CORRAL_TREES_H

#include <fcntl.h>

#include "listings.h"
#include "run.h"

enum { DIRECTORY_FLAGS = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC };

/* A git directory: the place is that of its worktree, and comes back as it was. */
struct git_directory {
    struct place *place;
    struct listings *listings;
    bool is_worktree_known; /* nothing in the worktree had to be listed anew */
    const char *head;       /* what its HEAD said when the plan was made */
    size_t head_size;
    uint64_t since_ns; /* when the command began; UINT64_MAX before */
    uint64_t *objects; /* device and inode of its objects: kept before, compared afterwards */
};

/* git_directory.c */
bool git_directory_is_clean(const struct git_directory *git);
bool is_plain_reference(const uint8_t *text, size_t size);
/* git_index.c: that nothing in it leads git anywhere, and no directory that it names is a link. */
bool git_index_is_clean(int worktree);
/* Reads a regular file that has one name; the size, or -1 if it is something else or longer than `room`. */
ssize_t read_regular(int directory, const char *name, uint8_t *bytes, size_t room);

#endif
