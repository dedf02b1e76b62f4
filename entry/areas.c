/* What a command wrote where it vanishes: src/corral/runtime/discarded.py tells of what somebody may miss. Here it is only
 * asked whether there could be anything of that kind.
 *
 * TRUST: the command chose every name. No link is followed, and a bounded number of entries is looked at. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "run.h"
#include "tables.h"

enum { MOST_ENTRIES = 10000, MOST_DEPTH = 64, DIRECTORY = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC };

struct walk {
    const struct run *run;
    bool is_temporary;
    int left;
};

static bool is_in(const char *path, const char *top) {
    size_t length = strlen(top);
    while (length > 1 && top[length - 1] == '/') length--;
    return strncmp(path, top, length) == 0 && (path[length] == '/' || path[length] == 0 || length == 1);
}

/* In a home: what programs write there for themselves, and make anew. */
static bool is_cache(const char *path, const char *home) {
    size_t length = strlen(home);
    if (strncmp(path, home, length) != 0 || path[length] != '/') return false;
    const char *name = path + length + 1;
    size_t size = strcspn(name, "/");
    for (size_t i = 0; i < sizeof CACHES / sizeof *CACHES; i++)
        if (strlen(CACHES[i]) == size && memcmp(CACHES[i], name, size) == 0) return true;
    return size >= 7 && memcmp(name + size - 7, "history", 7) == 0;
}

/* Whether corral itself has put it there, as it is. */
static bool is_own(const struct run *run, int directory, const char *name, const char *path) {
    struct cursor rest = run->stored->records, payload;
    uint32_t at = 0;
    static uint8_t content[65536];
    while (stored_next(run->stored, &rest, &at, STORED_OWN, &payload)) {
        uint32_t size = cursor_u32(&payload);
        const uint8_t *known = cursor_take(&payload, size);
        if (strcmp(cursor_string(&payload), path) != 0) continue;
        if (size == 0) return true;
        int fd = openat(directory, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        ssize_t got = fd < 0 ? -1 : read(fd, content, sizeof content);
        if (fd >= 0) close(fd);
        return got >= 0 && (size_t)got == size && memcmp(content, known, size) == 0;
    }
    return false;
}

static bool is_private(const struct run *run, const char *path) {
    struct cursor rest = run->stored->records, payload;
    uint32_t at = 0;
    while (stored_next(run->stored, &rest, &at, STORED_AREA, &payload)) {
        (void)cursor_u32(&payload);
        if (strcmp(cursor_string(&payload), path) == 0) return true;
    }
    return false;
}

/* Beside the workspace, or a directory above that, but not at the top of an area, as discarded.py: _is_beside. */
static bool is_beside(const char *path, const char *workspace) {
    char above[PATH_MAX];
    snprintf(above, sizeof above, "%s", workspace);
    for (char *slash = strrchr(above, '/'); slash && slash != above; slash = strrchr(above, '/')) {
        *slash = 0;
        if (strrchr(above, '/') == above || strcmp(above, "/var/tmp") == 0 || strcmp(above, "/dev/shm") == 0) return false;
        if (is_in(path, above) && !is_in(workspace, path)) return true;
    }
    return false;
}

/* Where everybody knows that nothing stays, only what lies beside the workspace is told. */
static bool may_be_missed(const struct walk *walk, const char *path) {
    return !walk->is_temporary || is_beside(path, walk->run->stored->workspace);
}

static bool is_entered(const struct walk *walk, const char *path) {
    return may_be_missed(walk, path) || is_in(walk->run->stored->workspace, path);
}

static bool is_bare(struct walk *walk, int fd, const char *path, int depth);

static bool is_entry_bare(struct walk *walk, int directory, const struct dirent *entry, const char *path, int depth) {
    struct stat status;
    const struct stored *stored = walk->run->stored;
    if (fstatat(directory, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) < 0) return false;
    if (!S_ISDIR(status.st_mode))
        return is_cache(path, stored->home) || is_own(walk->run, directory, entry->d_name, path) || !may_be_missed(walk, path);
    if (is_private(walk->run, path) || is_cache(path, stored->home) || !is_entered(walk, path)) return true;
    int fd = openat(directory, entry->d_name, DIRECTORY);
    return fd >= 0 && depth < MOST_DEPTH && is_bare(walk, fd, path, depth + 1);
}

static bool is_bare(struct walk *walk, int fd, const char *path, int depth) {
    char place[PATH_MAX];
    bool result = true;
    DIR *listing = fdopendir(fd);
    if (!listing) return close(fd), false;
    for (struct dirent *entry = NULL; result && (entry = readdir(listing));) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
        int length = snprintf(place, sizeof place, "%s/%s", path, entry->d_name);
        result = --walk->left >= 0 && length > 0 && (size_t)length < sizeof place && is_entry_bare(walk, fd, entry, place, depth);
    }
    closedir(listing);
    return result;
}

bool areas_are_bare(const struct run *run) {
    struct cursor rest = run->stored->records, payload;
    uint32_t at = 0;
    char name[16];
    if (run->areas < 0) return true; /* the launcher tells of none, and then nobody looks */
    for (unsigned number = 0; stored_next(run->stored, &rest, &at, STORED_AREA, &payload); number++) {
        struct walk walk = {.run = run, .is_temporary = cursor_u32(&payload) == 0, .left = MOST_ENTRIES};
        const char *path = cursor_string(&payload);
        if (walk.is_temporary && !is_in(run->stored->workspace, path)) continue; /* nothing beside the workspace */
        snprintf(name, sizeof name, "%u", number);
        int fd = openat(run->areas, name, DIRECTORY);
        if (fd < 0 || !is_bare(&walk, fd, path, 0)) return false;
    }
    return true;
}
