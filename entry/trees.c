/* Every directory of what commands may write: no repository is there but those that the plan holds, and nothing that git
 * would follow, or wait for, by a name that it reads or writes. src/corral/untrusted_files/unchanged.py has the names. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "search.h"
#include "trees.h"

enum { MOST_DIRECTORIES = 32768, MOST_NAMES = 1 << 20, MOST_DEPTH = 100 };

struct look {
    struct run *run;
    struct listings *listings;
    struct place place;
    bool is_afterwards;
    int left, names_left; /* directories; names in those that are listed */
};

/* What a directory has, of what makes a repository of it. */
enum mark { HAS_GIT = 1, HAS_HEAD = 2, HAS_OBJECTS = 4, HAS_REFS = 8, HAS_COMMONDIR = 16, HAS_REMOTE = 32 };

/* A name that some file system may take for one of git's own, though it is spelled otherwise. */
static bool is_odd(const char *name) {
    static const char *const NAMES[] = {".git", "HEAD", "objects", "refs", "commondir",
                                        ".gitignore", ".gitattributes", ".gitmodules", ".mailmap"};
    for (const char *c = name; *c; c++)
        if ((unsigned char)*c & 0x80) return true;
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++)
        if (strcasecmp(name, NAMES[i]) == 0 && strcmp(name, NAMES[i]) != 0) return true;
    return false;
}

/* `git push origin`, where no remote has that name, takes it for a path. */
static bool is_name_of_remote(const char *name) {
    return strncmp(name, "origin", 6) == 0 ? !name[6] || strcmp(name + 6, ".git") == 0
                                           : strncmp(name, "upstream", 8) == 0 && (!name[8] || strcmp(name + 8, ".git") == 0);
}

static int compare(const void *one, const void *other) {
    return strcmp(((const struct worktree *)one)->path, ((const struct worktree *)other)->path);
}

static bool read_worktrees(struct run *run) {
    struct cursor rest = run->stored->records, payload;
    uint32_t at = 0, count = 0;
    if (run->worktrees || !run->stored->numbers[STORED_WORKTREE]) return true;
    run->worktrees = calloc(run->stored->numbers[STORED_WORKTREE], sizeof *run->worktrees);
    while (run->worktrees && stored_next(run->stored, &rest, &at, STORED_WORKTREE, &payload)) {
        struct worktree *worktree = &run->worktrees[count++];
        worktree->head_size = cursor_u32(&payload);
        worktree->head = (const char *)cursor_take(&payload, worktree->head_size);
        worktree->path = cursor_string(&payload);
    }
    if (run->worktrees) qsort(run->worktrees, count, sizeof *run->worktrees, compare);
    return run->worktrees != NULL;
}

/* Which of the plan's worktrees this is; NULL: none. */
static struct worktree *find_worktree(const struct run *run, const char *path) {
    struct worktree wanted = {.path = path};
    uint32_t count = run->stored->numbers[STORED_WORKTREE];
    return count ? bsearch(&wanted, run->worktrees, count, sizeof wanted, compare) : NULL;
}

static enum verdict judge_entry(enum kind kind, const char *name, unsigned char type, uint32_t *marks) {
    (void)kind;
    if (is_odd(name) || is_trap_for_git(name, type)) return REFUSED;
    if (strcmp(name, ".git") == 0) return *marks |= HAS_GIT, type == DT_DIR ? PASSED : REFUSED;
    if (strcmp(name, "HEAD") == 0) *marks |= HAS_HEAD;
    if (strcmp(name, "objects") == 0) *marks |= HAS_OBJECTS;
    if (strcmp(name, "refs") == 0) *marks |= HAS_REFS;
    if (strcmp(name, "commondir") == 0) *marks |= HAS_COMMONDIR;
    if (is_name_of_remote(name)) *marks |= HAS_REMOTE;
    return type == DT_DIR ? KEPT : PASSED;
}

static bool is_bare(uint32_t marks) {
    return marks & HAS_HEAD && (marks & HAS_COMMONDIR || (marks & HAS_OBJECTS && marks & HAS_REFS));
}

static bool is_tree_clean(struct look *look, int depth) {
    struct listing found;
    struct listings *listings = look->listings;
    uint32_t at = 0, fresh = listings->fresh;
    if (--look->left < 0 || depth >= MOST_DEPTH) return false;
    if (!listings_look(listings, &look->place, TREE, judge_entry, &look->names_left, &found) || is_bare(found.marks)) return false;
    for (const char *name = NULL; (name = listing_next(listings, &found, &at));) {
        size_t before = place_enter(&look->place, name + 1);
        if (!before || !is_tree_clean(look, depth + 1)) return false;
        place_leave(&look->place, before);
    }
    struct worktree *worktree = find_worktree(look->run, look->place.path);
    bool has_git = found.marks & HAS_GIT;
    if (!worktree || !worktree->head_size) return !has_git && !(worktree && found.marks & HAS_REMOTE);
    if (found.marks & HAS_REMOTE || !has_git) return false; /* it had one */
    /* A worktree whose `.git` the plan holds. */
    struct git_directory git = {.place = &look->place, .listings = listings, .is_worktree_known = fresh == listings->fresh,
                                .head = worktree->head, .head_size = worktree->head_size, .objects = worktree->objects,
                                .since_ns = look->is_afterwards ? look->run->since_ns : UINT64_MAX};
    return git_directory_is_clean(&git);
}

/* The index of a repository around a root has directories in there as well: that is Python's. */
static bool is_alone(const char *root) {
    char path[PATH_MAX];
    struct stat status;
    for (size_t length = strlen(root); length > 1;) {
        while (length > 1 && root[length - 1] != '/') length--;
        int size = snprintf(path, sizeof path, "%.*s.git", (int)length, root);
        if (size < 0 || (size_t)size >= sizeof path || lstat(path, &status) == 0 || errno != ENOENT) return false;
        length--;
    }
    return true;
}

static bool are_roots_clean(struct look *look) {
    struct cursor rest = look->run->stored->records, payload;
    uint32_t at = 0;
    while (stored_next(look->run->stored, &rest, &at, STORED_ROOT, &payload)) {
        const char *root = cursor_string(&payload);
        struct place *place = &look->place;
        place->length = strlen(root);
        place->skip = place->length + 1;
        place->root = place->length < sizeof place->path && is_alone(root) ? open(root, DIRECTORY_FLAGS) : -1;
        if (place->root < 0) return false;
        memcpy(place->path, root, place->length + 1);
        bool is_clean = is_tree_clean(look, 0);
        close(place->root);
        if (!is_clean) return false;
    }
    return true;
}

/* What is remembered of a workspace is named by the first of its roots. */
static void name_memory(const struct stored *stored, char name[2 * KEY_SIZE + 8]) {
    struct cursor rest = stored->records, payload;
    uint8_t digest[KEY_SIZE];
    uint32_t at = 0;
    stored_next(stored, &rest, &at, STORED_ROOT, &payload);
    const char *root = cursor_string(&payload);
    sha256((const uint8_t *)root, strlen(root), digest);
    write_hex(digest, name);
    strcat(name, ".seen");
}

/* What a look before has found is what the one afterwards begins with, and the next run. */
bool trees_are_clean(struct run *run, bool is_afterwards) {
    static struct listings listings;
    static struct look look;
    char name[2 * KEY_SIZE + 8];
    if (!run->stored->numbers[STORED_ROOT]) return true;
    int place = is_afterwards ? -1 : stored_directory();
    name_memory(run->stored, name);
    if (place >= 0) listings_load(&listings, place, name);
    listings_begin(&listings);
    look = (struct look){.run = run, .listings = &listings, .is_afterwards = is_afterwards, .left = MOST_DIRECTORIES,
                         .names_left = MOST_NAMES};
    bool is_clean = read_worktrees(run) && are_roots_clean(&look);
    if (is_clean && place >= 0) listings_save(&listings, place, name);
    if (place >= 0) close(place);
    return is_clean;
}
