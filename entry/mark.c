/* A mark in the state directory stands from before a command starts until what it left was found harmless. It is locked as
 * long as the run lasts: the next run that finds one without a lock checks that first (src/corral/git_check/unchecked.py),
 * and that is Python's. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "trees.h"

enum { TICK_NS = 20000000, MOST_MARKS = 256, MOST_MARK = 1 << 20 };

static const char MAGIC[8] = {'C', 'O', 'R', 'M', 'A', 'R', 'K', 1};

/* Whether a mark has this path, as Python's marshal writes it: after its length, in one byte, or in four if it is long or
 * not of ASCII alone. Something else may look like it: then Python finds out. */
static bool names_path(const uint8_t *bytes, size_t size, const char *path, size_t length) {
    for (const uint8_t *at = bytes, *end = bytes + size; (at = memmem(at, (size_t)(end - at), path, length)); at++)
        if (at > bytes && (at[-1] == (uint8_t)length || at[-1] == 0)) return true;
    return false;
}

/* Whether one of its roots lies beneath one of ours, or above it. */
static bool is_near(const struct stored *stored, const uint8_t *bytes, size_t size) {
    struct cursor rest = stored->records, payload;
    uint32_t at = 0;
    while (stored_next(stored, &rest, &at, STORED_ROOT, &payload)) {
        const char *root = cursor_string(&payload);
        size_t length = strlen(root);
        if (memmem(bytes, size, root, length)) return true;
        for (; length > 1; length--)
            if (root[length - 1] == '/' && names_path(bytes, size, root, length - 1 ? length - 1 : 1)) return true;
        if (names_path(bytes, size, "/", 1)) return true;
    }
    return false;
}

/* Of a run that nobody checked: whether that was elsewhere. */
static bool is_of_another(const struct stored *stored, int fd) {
    static uint8_t bytes[MOST_MARK];
    struct stat status;
    if (fstat(fd, &status) < 0 || !S_ISREG(status.st_mode) || status.st_size > MOST_MARK) return false;
    ssize_t got = pread(fd, bytes, sizeof bytes, 0);
    return got == status.st_size && !is_near(stored, bytes, (size_t)got);
}

/* Whether every mark there is belongs to a run that goes on, or to another place. */
static bool are_all_held(const struct stored *stored, int directory) {
    int copy = openat(directory, ".", DIRECTORY_FLAGS), left = MOST_MARKS;
    DIR *listing = copy < 0 ? NULL : fdopendir(copy);
    bool result = listing != NULL;
    for (struct dirent *entry = NULL; result && (entry = readdir(listing));) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
        int fd = openat(directory, entry->d_name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        if (fd < 0 && errno == ENOENT) continue; /* gone meanwhile */
        struct stat status;
        result = fd >= 0 && --left >= 0 && flock(fd, LOCK_EX | LOCK_NB) < 0;
        /* It may have ended between our two looks: then its name is gone. */
        if (!result && fd >= 0) result = (fstat(fd, &status) == 0 && status.st_nlink == 0) || is_of_another(stored, fd);
        if (fd >= 0) close(fd);
    }
    if (listing) closedir(listing);
    return result;
}

static bool write_mark(int fd, uint64_t since, struct cursor mark) {
    uint8_t head[16];
    uint32_t size = cursor_u32(&mark);
    const uint8_t *state = cursor_take(&mark, size);
    memcpy(head, MAGIC, sizeof MAGIC);
    for (int i = 0; i < 8; i++) head[8 + i] = (uint8_t)(since >> (8 * i));
    return state && write(fd, head, sizeof head) == (ssize_t)sizeof head && write(fd, state, size) == (ssize_t)size;
}

/* ORDER: locked before it has its name. */
bool mark_set(struct run *run) {
    struct timespec now;
    char name[RUN_ID_SIZE + 8];
    if (!run->stored->marks) return true; /* a plan that looks at no repository */
    clock_gettime(CLOCK_REALTIME, &now);
    run->since_ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec - TICK_NS;
    int directory = open_trusted(run->stored->marks);
    if (directory < 0) return false;
    snprintf(name, sizeof name, "%s.new", run->id);
    bool is_fine = are_all_held(run->stored, directory);
    run->mark = is_fine ? openat(directory, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600) : -1;
    is_fine = run->mark >= 0 && flock(run->mark, LOCK_EX) == 0 && write_mark(run->mark, run->since_ns, run->stored->mark) &&
              renameat(directory, name, directory, run->id) == 0;
    if (!is_fine && run->mark >= 0) unlinkat(directory, name, 0);
    close(directory);
    int length = snprintf(run->mark_path, sizeof run->mark_path, "%s/%s", run->stored->marks, run->id);
    return is_fine && length > 0 && (size_t)length < sizeof run->mark_path;
}

void mark_remove(struct run *run) {
    if (run->mark < 0) return;
    unlink(run->mark_path);
    close(run->mark);
    run->mark = -1;
}
