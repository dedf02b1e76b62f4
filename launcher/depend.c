/* Whether a plan still holds. Planning is a function of the policy's files and of what it saw of the host; the plan
 * has a record of all that it saw, and every one is looked at again. If all answers are the same, planning anew would
 * give the same plan. What is mounted is compared once more, by device and inode, when it is opened. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "kernel.h"
#include "plan.h"

static const char STALE[] = "the plan is out of date";
static const char COMPILE[] = "compile it again with `corral compile`";

enum trait { TRAIT_EXECUTABLE = 1, TRAIT_CLOSED = 2 };
enum { SILENT_MOST = 1024 * 1024 };

static uint32_t kind_of(mode_t mode) {
    return S_ISDIR(mode) ? OBJECT_DIRECTORY : S_ISLNK(mode) ? OBJECT_LINK : S_ISSOCK(mode) ? OBJECT_SOCKET : OBJECT_OTHER;
}

/* As RealHost.lstat tells them to the planner. */
static uint32_t traits_of(const struct stat *status) {
    uint32_t traits = S_ISREG(status->st_mode) && status->st_mode & 0111 ? TRAIT_EXECUTABLE : 0;
    if ((status->st_mode & 0500) != 0500 && geteuid() != 0 && status->st_uid == geteuid()) traits |= TRAIT_CLOSED;
    return traits;
}

static bool is_same_object(struct cursor c, const char **path) {
    uint32_t kind = cursor_u32(&c), traits = cursor_u32(&c), names = cursor_u32(&c);
    uint64_t device = cursor_u64(&c), inode = cursor_u64(&c);
    struct stat status;
    *path = cursor_string(&c);
    if (lstat(*path, &status) < 0 || kind != kind_of(status.st_mode) || traits != traits_of(&status)) return false;
    /* A directory has another number of names whenever one is made in it, and nobody asks for it. */
    if (!S_ISDIR(status.st_mode) && names != (uint32_t)status.st_nlink) return false;
    return device == (uint64_t)status.st_dev && inode == (uint64_t)status.st_ino;
}

static bool still_fails(struct cursor c, const char **path) {
    uint32_t follows = cursor_u32(&c), number = cursor_u32(&c);
    struct stat status;
    *path = cursor_string(&c);
    return (follows ? stat(*path, &status) : lstat(*path, &status)) < 0 && (uint32_t)errno == number;
}

static bool is_same_link(struct cursor c, const char **path) {
    char text[4096];
    const char *known = cursor_string(&c);
    *path = cursor_string(&c);
    ssize_t length = readlink(*path, text, sizeof text);
    return length >= 0 && (size_t)length == strlen(known) && memcmp(text, known, (size_t)length) == 0;
}

static uint64_t nanoseconds(const struct timespec *time) {
    return (uint64_t)time->tv_sec * 1000000000u + (uint64_t)time->tv_nsec;
}

static bool has_same_stamp(struct cursor c, const char **path) {
    uint64_t device = cursor_u64(&c), inode = cursor_u64(&c), size = cursor_u64(&c);
    uint64_t modified = cursor_u64(&c), changed = cursor_u64(&c);
    struct stat status;
    *path = cursor_string(&c);
    return stat(*path, &status) == 0 && device == (uint64_t)status.st_dev && inode == (uint64_t)status.st_ino &&
           size == (uint64_t)status.st_size && modified == nanoseconds(&status.st_mtim) &&
           changed == nanoseconds(&status.st_ctim);
}

static bool speaks_of_corral(int fd) {
    static const char WORD[] = "corral";
    enum { OVERLAP = sizeof WORD - 2 };
    char buffer[OVERLAP + 16384];
    size_t kept = 0, total = 0;
    for (;;) {
        ssize_t got = read(fd, buffer + kept, sizeof buffer - kept);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0 || (total += (size_t)got) > SILENT_MOST) return true; /* what cannot be read may say anything */
        if (got == 0) return false;
        size_t have = kept + (size_t)got;
        if (memmem(buffer, have, WORD, sizeof WORD - 1)) return true;
        kept = have < OVERLAP ? have : OVERLAP;
        memmove(buffer, buffer + have - kept, kept);
    }
}

/* A pyproject.toml that is for others may change as it likes, as long as it says nothing to corral. */
static bool is_silent(struct cursor c, const char **path) {
    struct stat status;
    *path = cursor_string(&c);
    int fd = open(*path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0) return errno == ENOENT || errno == ENOTDIR;
    bool silent = fstat(fd, &status) == 0 && (!S_ISREG(status.st_mode) || !speaks_of_corral(fd));
    close(fd);
    return silent;
}

/* Of the caller's control groups: a group is made beneath them, and must not free it from a limit that it has. */
static bool reads_the_same(struct cursor c, const char **path) {
    char text[16384];
    const char *known = cursor_string(&c);
    size_t have = 0;
    ssize_t got = 0;
    *path = cursor_string(&c);
    int fd = open(*path, O_RDONLY | O_CLOEXEC);
    while (fd >= 0 && have < sizeof text && (got = read(fd, text + have, sizeof text - have)) > 0) have += (size_t)got;
    if (fd >= 0) close(fd);
    return fd >= 0 && got == 0 && have == strlen(known) && memcmp(text, known, have) == 0;
}

/* Whether one is the other, or a path above it; neither ends with a slash, but for the root itself. */
static bool is_beneath(const char *path, size_t path_length, const char *top, size_t length) {
    if (length == 1) return path_length > 0 && path[0] == '/';
    return path_length >= length && memcmp(path, top, length) == 0 && (path_length == length || path[length] == '/');
}

/* `text` is "DEVICE ROOT POINT", `places` has lines "DEVICE PATH". See src/corral/planning/second_mounts.py. */
static bool shows_a_place(const char *text, const char *places) {
    const char *root = strchr(text, ' ') + 1;
    size_t device = (size_t)(root - text), root_length = strcspn(root, " ");
    for (const char *end; (end = strchr(places, '\n')); places = end + 1) {
        if (strncmp(places, text, device) != 0) continue;
        const char *place = places + device;
        size_t length = (size_t)(end - place);
        if (is_beneath(root, root_length, place, length) || is_beneath(place, length, root, root_length)) return true;
    }
    return false;
}

/* Of a line of the table what counts, without its end; NULL where it has less. */
static char *cut_line(char *line) {
    for (int i = 0; i < 2 && line; i++) line = strchr(line, ' ') ? strchr(line, ' ') + 1 : NULL;
    char *end = line;
    for (int i = 0; i < 3 && end; i++) end = strchr(end, ' ') ? strchr(end, ' ') + 1 : NULL;
    if (!end) return NULL;
    end[-1] = '\0';
    return line;
}

/* What is denied may be mounted once more, inside what is granted. Other mounts come and go as they like. */
static bool has_same_mounts(struct cursor c, const char **path) {
    const char *places = cursor_string(&c);
    const char *known = cursor_string(&c);
    char *line = NULL;
    size_t room = 0;
    *path = cursor_string(&c);
    FILE *file = fopen(*path, "re");
    bool is_same = file != NULL;
    while (is_same && getline(&line, &room, file) > 0) {
        const char *text = cut_line(line);
        is_same = text != NULL;
        if (!is_same || !shows_a_place(text, places)) continue;
        size_t length = strlen(text);
        is_same = strncmp(known, text, length) == 0 && known[length] == '\n';
        known += is_same ? length + 1 : 0;
    }
    is_same = is_same && !*known && !ferror(file);
    free(line);
    if (file) fclose(file);
    return is_same;
}

static const struct {
    bool (*holds)(struct cursor, const char **path);
    const char *otherwise;
} CHECKS[PLAN_TYPES] = {
    [PLAN_OBJECT] = {is_same_object, "is not what it was"},
    [PLAN_FAILS] = {still_fails, "is there now"},
    [PLAN_LINK] = {is_same_link, "leads elsewhere now"},
    [PLAN_STAMP] = {has_same_stamp, "has changed"},
    [PLAN_SILENT] = {is_silent, "now configures corral"},
    [PLAN_MOUNTS] = {has_same_mounts, "says otherwise: something else is mounted"},
    [PLAN_TEXT] = {reads_the_same, "says otherwise: this is another control group"},
};

static bool is_this_boot(const char *known) {
    char id[64];
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t got = fd < 0 ? -1 : read(fd, id, sizeof id);
    if (fd >= 0) close(fd);
    return got > 0 && (size_t)(got - 1) == strlen(known) && memcmp(id, known, (size_t)(got - 1)) == 0;
}

int plan_check_host(const struct plan *plan, struct problem *problem) {
    struct cursor c = plan->host;
    uint32_t uid = cursor_u32(&c), gid = cursor_u32(&c);
    const char *build = cursor_string(&c), *boot = cursor_string(&c), *kernel = cursor_string(&c);
    struct utsname name;
    if (getuid() != geteuid() || getgid() != getegid())
        return problem_set(problem, "corral-launch runs as somebody else than its caller",
                           "take the set-user-id or set-group-id bit off it", "real and effective ids differ");
    if (uid != geteuid() || gid != getegid())
        return problem_set(problem, STALE, COMPILE, "it is for user %u and group %u, and this is user %u and group %u",
                           uid, gid, (unsigned)geteuid(), (unsigned)getegid());
    if (strcmp(build, CORRAL_BUILD) != 0)
        return problem_set(problem, STALE, COMPILE, "it was compiled for another build of corral-launch");
    if (!is_this_boot(boot)) return problem_set(problem, STALE, COMPILE, "the machine has been started again");
    if (uname(&name) < 0 || strcmp(kernel, name.release) != 0)
        return problem_set(problem, STALE, COMPILE, "the kernel was %s", kernel);
    return 0;
}

int plan_check(const struct plan *plan, struct problem *problem) {
    struct cursor rest = plan->records, payload;
    uint32_t type = 0;
    if (plan_check_host(plan, problem)) return -1;
    for (uint32_t i = 0; i < plan->count && plan_next(&rest, &type, &payload); i++) {
        const char *path = "";
        if (CHECKS[type].holds && !CHECKS[type].holds(payload, &path))
            return problem_set(problem, STALE, COMPILE, "%s %s", path, CHECKS[type].otherwise);
    }
    return 0;
}
