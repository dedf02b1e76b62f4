/* Where things go that a command must not leave, for their owner to look at. What is on another file system is removed,
 * when nothing runs any more. The twin is src/corral/untrusted_files/quarantine.py.
 *
 * TRUST: what is handled here was made by a hostile command: without rights, without end, full of links. Everything is
 * done by descriptor, one level deep, and no link is followed. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "guard.h"
#include "kernel.h"

enum { MOST_COPIED = 1 << 20, MOST_ENTRIES = 1000000, ASIDE_SIZE = 48 };

struct aside {
    int directory;
    char name[ASIDE_SIZE];
    struct aside *next;
};

static struct aside *asides;
static int kept_count;

static void make_name(char name[ASIDE_SIZE], const char *prefix) {
    uint64_t chance = 0;
    (void)!getrandom(&chance, sizeof chance, 0);
    snprintf(name, ASIDE_SIZE, "%s%016llx", prefix, (unsigned long long)chance);
}

int open_up(int directory, const char *name) {
    char link[40];
    int held = k_result(openat(directory, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (held < 0) return held;
    snprintf(link, sizeof link, "/proc/self/fd/%d", held);
    int fd = chmod(link, 0700) < 0 ? -errno : k_result(openat(held, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    close(held);
    return fd;
}

/* Makes a directory and what is missing above it, for this user alone. */
static int make_private(const char *place) {
    char path[PATH_MAX];
    if (mkdir(place, 0700) == 0 || errno == EEXIST) return 0;
    if (errno != ENOENT || strlen(place) >= sizeof path) return -errno;
    strcpy(path, place);
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        if (mkdir(path, 0700) < 0 && errno != EEXIST) return -errno;
        *slash = '/';
    }
    return mkdir(path, 0700) < 0 && errno != EEXIST ? -errno : 0;
}

static int copy(int from, int to) {
    char block[65536];
    ssize_t got = 0;
    for (size_t all = 0; (got = read(from, block, sizeof block)) > 0; all += (size_t)got)
        if (all > MOST_COPIED || write(to, block, (size_t)got) != got) return -EIO;
    return got < 0 ? -errno : 0;
}

/* Lets nobody write there by another name that the file may have; false if it had to be removed. */
static bool make_own(int directory, const char *name) {
    struct stat status;
    if (fstatat(directory, name, &status, AT_SYMLINK_NOFOLLOW) < 0) return false;
    if (!S_ISREG(status.st_mode) || status.st_nlink == 1) return true;
    bool is_small = status.st_size <= MOST_COPIED;
    int from = is_small ? openat(directory, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK) : -1;
    bool is_gone = unlinkat(directory, name, 0) == 0;
    int to = is_gone && from >= 0 ? openat(directory, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600) : -1;
    bool is_own = to >= 0 && copy(from, to) == 0;
    if (to >= 0 && !is_own) (void)unlinkat(directory, name, 0);
    if (from >= 0) close(from);
    if (to >= 0) close(to);
    return is_own;
}

/* Its number in the quarantine, FATE_REMOVED, or -errno. */
static int keep(const char *place, int directory, const char *aside, const char *name) {
    char kept[NAME_MAX + 16];
    int err = *place ? make_private(place) : -ENOENT;
    if (err) return err;
    int to = k_result(open(place, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (to < 0) return to;
    snprintf(kept, sizeof kept, "%d-%s", kept_count, name);
    int fate = renameat(directory, aside, to, kept) < 0 ? -errno : kept_count++;
    if (fate >= 0 && !make_own(to, kept)) fate = FATE_REMOVED;
    close(to);
    return fate;
}

/* First out of the way, in the same directory: that is quick, and nothing can hold it up. */
int quarantine_take(const char *place, int directory, const char *name) {
    struct aside *taken = malloc(sizeof *taken);
    if (!taken) return -ENOMEM - 1;
    make_name(taken->name, ".corral-quarantine-");
    if (renameat(directory, name, directory, taken->name) < 0) {
        int err = errno;
        free(taken);
        return -err - 1;
    }
    int opened = open_up(directory, taken->name); /* moving a directory needs the right to write in it */
    if (opened >= 0) close(opened);
    int before = kept_count, fate = keep(place, directory, taken->name, name);
    if (fate >= 0 || kept_count > before) {
        free(taken);
        return fate;
    }
    taken->directory = fcntl(directory, F_DUPFD_CLOEXEC, 0);
    taken->next = asides;
    asides = taken;
    return FATE_REMOVED;
}

/* The entries of a directory are moved up to the top, and it is removed: so no depth is too deep. */
static int flatten(int top, const char *name, size_t *moved) {
    char aside[ASIDE_SIZE];
    int inner = open_up(top, name);
    DIR *listing = inner < 0 ? NULL : fdopendir(inner);
    if (!listing) return inner < 0 ? inner : -errno;
    int err = 0;
    for (struct dirent *entry; !err && (entry = readdir(listing));) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
        int opened = open_up(inner, entry->d_name);
        if (opened >= 0) close(opened);
        make_name(aside, ".corral-");
        if (renameat(inner, entry->d_name, top, aside) < 0) err = -errno;
        if (++*moved > MOST_ENTRIES) err = -E2BIG;
    }
    closedir(listing);
    return err ? err : unlinkat(top, name, AT_REMOVEDIR) < 0 ? -errno : 0;
}

static int empty(int top) {
    size_t moved = 0, found = 1;
    int err = 0, own = fcntl(top, F_DUPFD_CLOEXEC, 0);
    DIR *listing = own < 0 ? NULL : fdopendir(own);
    if (!listing) return -errno;
    for (; found && !err; rewinddir(listing)) {
        found = 0;
        for (struct dirent *entry; !err && (entry = readdir(listing));) {
            if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
            found++;
            if (unlinkat(top, entry->d_name, 0) < 0 && errno != ENOENT) err = flatten(top, entry->d_name, &moved);
        }
    }
    closedir(listing);
    return err;
}

static void remove_tree(int directory, const char *name) {
    if (unlinkat(directory, name, 0) == 0 || errno == ENOENT) return;
    int top = open_up(directory, name);
    if (top < 0) return;
    if (empty(top) == 0) (void)unlinkat(directory, name, AT_REMOVEDIR);
    close(top);
}

/* Each has lost its name already: one that cannot be removed is a leftover, and nothing else. */
void quarantine_clear(void) {
    while (asides) {
        struct aside *first = asides;
        struct stat status;
        asides = first->next;
        bool is_known = first->directory >= 0 && fstat(first->directory, &status) == 0;
        if (is_known && (status.st_mode & 0700) != 0700) (void)fchmod(first->directory, (status.st_mode & 07777) | 0700);
        if (is_known) remove_tree(first->directory, first->name);
        if (is_known && (status.st_mode & 0700) != 0700) (void)fchmod(first->directory, status.st_mode & 07777);
        if (first->directory >= 0) close(first->directory);
        free(first);
    }
}
