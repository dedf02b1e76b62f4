/* The supervisor's watch over protected names.
 *
 * The kernel tells by a signal (fcntl, F_NOTIFY) that something was made, renamed or removed in a directory that is held
 * open. Inotify would name it as well, but to close an instance takes the kernel 20 ms, and a user has 128 of them; this
 * costs some microseconds, and which directory it was is told by its time of change. Where the kernel tells nothing, the
 * directories are looked at every two milliseconds.
 *
 * TRUST: the supervisor has the command's own user id and no capability, so that it can undo what a command could do, and
 * can be led to nothing else: directories are the planned ones, by descriptor, and no link is followed. */
#include "guard.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "kernel.h"
#include "report.h"
#include "search.h"

/* A command that keeps trying is ended: it must not find the moment between appearing and vanishing. As in guard.py. */
enum { PATIENCE = 8, ROUNDS = 4, GLANCE_MS = 2, REST_FOR_LOOK = 4, SPARE_DESCRIPTORS = 64 };
/* Times of change are as coarse as the kernel's tick; a younger one may hide a second change. */
static const int64_t TICK_NS = 20000000, MS_NS = 1000000;
static const int64_t NEVER = INT64_MAX;

struct held {
    int fd; /* -1: there are too many to hold, and it is opened for each look */
    int64_t stamp;
    bool is_gone; /* as was told */
};

static struct {
    struct launch *launch;
    struct held *held;
    bool *is_made;    /* of each name: a repository is there, as was told */
    bool is_told;     /* the kernel tells of changes in all of them */
    bool is_ended;    /* the command was ended, for having tried too often */
    size_t taken;
    int64_t look_at;  /* monotonic nanoseconds */
} guard;

static int64_t clock_ns(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

bool guard_is_open(void) { return guard.held != NULL; }

static void tell(const char *word, size_t number) {
    char line[64];
    snprintf(line, sizeof line, "%s %zu\n", word, number);
    status_line(line);
}

/* Step by step and without a link: what lies above may be exchanged by another command of the same workspace. */
int guarded_open(const struct guarded_record *planned) {
    struct stat status;
    int fd = k_openat2(AT_FDCWD, planned->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC, K_RESOLVE_NO_SYMLINKS);
    if (fd == -ENOENT || fd == -ENOTDIR || fd == -ELOOP) return -ESTALE;
    if (fd < 0) return fd;
    int err = fstat(fd, &status) < 0 ? -errno : 0;
    if (!err && ((uint64_t)status.st_dev != planned->device || (uint64_t)status.st_ino != planned->inode)) err = -ESTALE;
    if (err) close(fd);
    return err ? err : fd;
}

static bool have_told(int fd) {
#ifdef CORRAL_FAULTS
    if (is_slow(guard.launch, "tell")) return false; /* as of a kernel without it */
#endif
    return fcntl(fd, F_NOTIFY, DN_CREATE | DN_DELETE | DN_RENAME | DN_MULTISHOT) == 0;
}

/* Our own limit alone: the child has been born, and the command's is its own. */
static size_t most_held(void) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0) return 0;
    limit.rlim_cur = limit.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &limit);
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur < SPARE_DESCRIPTORS) return 0;
    return (size_t)limit.rlim_cur - SPARE_DESCRIPTORS;
}

/* Gives the right to write in a directory back to its owner, if a command has taken it away; the mode it had. */
static mode_t make_writable(int fd) {
    struct stat status;
    if (fstat(fd, &status) < 0) return 0700;
    mode_t mode = status.st_mode & 07777;
    if ((mode & 0300) != 0300) (void)fchmod(fd, mode | 0300);
    return mode;
}

static void restore(int fd, mode_t mode) {
    if ((mode & 0300) != 0300) (void)fchmod(fd, mode);
}

enum found { FOUND_NOTHING, FOUND_RIGHT, FOUND_WRONG };

/* What is under a name. Whatever cannot be seen is wrong. */
static enum found find(int fd, const struct name_record *name) {
    char text[PATH_MAX];
    struct stat status;
    ssize_t length = readlinkat(fd, name->name, text, sizeof text);
    if (length >= 0) {
        bool is_same = (size_t)length == strlen(name->link) && memcmp(text, name->link, (size_t)length) == 0;
        return is_same ? FOUND_RIGHT : FOUND_WRONG;
    }
    if (errno == ENOENT) return FOUND_NOTHING;
    if (errno != EINVAL || !(name->flags & NAME_REPOSITORY)) return FOUND_WRONG;
    bool is_there = fstatat(fd, name->name, &status, AT_SYMLINK_NOFOLLOW) == 0;
    return is_there && S_ISDIR(status.st_mode) ? FOUND_RIGHT : FOUND_WRONG;
}

static bool is_right(int fd, size_t number) {
    const struct name_record *name = &guard.launch->spec.names[number];
    enum found found = find(fd, name);
    if (found == FOUND_WRONG && errno == EACCES) { /* a directory that its owner may not search */
        mode_t mode = make_writable(fd);
        found = find(fd, name);
        restore(fd, mode);
    }
    if (found == FOUND_RIGHT && !*name->link && !guard.is_made[number]) {
        guard.is_made[number] = true;
        tell("made", number);
    }
    return found == (*name->link ? FOUND_RIGHT : FOUND_NOTHING) || (found == FOUND_RIGHT && !*name->link);
}

/* What fails now, because the command goes on, is seen to by the sweep. */
static void put_right(int fd, size_t number) {
    const struct name_record *name = &guard.launch->spec.names[number];
    char line[64];
    mode_t mode = make_writable(fd);
    int fate = find(fd, name) == FOUND_NOTHING ? -ENOENT - 1 : quarantine_take(guard.launch->spec.quarantine, fd, name->name);
    if (*name->link) (void)!symlinkat(name->link, fd, name->name);
    restore(fd, mode);
    if (fate < FATE_REMOVED) return; /* gone again by itself, or not to be had */
    guard.taken++;
    if (fate == FATE_REMOVED) snprintf(line, sizeof line, "planted %zu removed\n", number);
    else snprintf(line, sizeof line, "planted %zu %d\n", number, fate);
    status_line(line);
}

static void tell_gone(size_t directory) {
    if (!guard.held[directory].is_gone) tell("gone", directory);
    guard.held[directory].is_gone = true;
}

/* A descriptor of one, or -errno; -ESTALE: it is not there any more. */
static int borrow(size_t directory) {
    int fd = guard.held[directory].fd;
    if (fd < 0) fd = guarded_open(&guard.launch->spec.guarded[directory]);
    if (fd == -ESTALE) tell_gone(directory);
    return fd;
}

static void give_back(size_t directory, int fd) {
    if (guard.held[directory].fd < 0) close(fd);
}

/* Whether anything may have been made in it since the last look. */
static bool has_changed(struct held *held, int fd) {
    struct stat status;
    if (fstat(fd, &status) < 0) return true;
    int64_t stamp = (int64_t)status.st_ctim.tv_sec * 1000000000 + status.st_ctim.tv_nsec;
    bool is_same = stamp == held->stamp && clock_ns(CLOCK_REALTIME) - stamp > TICK_NS;
    held->stamp = stamp;
    return !is_same;
}

/* ORDER: the kernel tells from now on, and then it is seen whether everything is still as it was planned. What the host
 * has made since is its own: it is for a new plan to protect. */
static int hold(struct launch *launch, size_t directory, bool is_held) {
    const struct guarded_record *planned = &launch->spec.guarded[directory];
    struct held *held = &guard.held[directory];
    set_detail(launch, "%s", planned->path);
    int fd = guarded_open(planned), err = 0;
    if (fd < 0) return fd;
    if (!is_held || !have_told(fd)) guard.is_told = false;
    (void)has_changed(held, fd);
    for (size_t i = planned->first; !err && i < planned->end; i++) {
        const struct name_record *name = &launch->spec.names[i];
        if (find(fd, name) == (*name->link ? FOUND_RIGHT : FOUND_NOTHING)) continue;
        set_detail(launch, "%s/%s", planned->path, name->name);
        err = -ESTALE;
    }
    if (!is_held) close(fd);
    held->fd = is_held ? fd : -1;
    return err;
}

int guard_open(struct launch *launch) {
    const struct spec *spec = &launch->spec;
    size_t count = spec->count[RECORD_GUARDED], most = count ? most_held() : 0;
    if (!spec->count[RECORD_GUARD]) return 0;
    launch->phase = "guard";
    set_detail(launch, "out of memory");
    guard.launch = launch;
    guard.held = calloc(count + 1, sizeof *guard.held);
    guard.is_made = calloc(spec->count[RECORD_NAME] + 1, sizeof *guard.is_made);
    if (!guard.held || !guard.is_made) return -ENOMEM;
#ifdef CORRAL_FAULTS
    set_detail(launch, "injected fault");
    if (is_fault(launch, "guard")) return -EIO;
#endif
    guard.is_told = true;
    int err = 0;
    for (size_t i = 0; !err && i < count; i++) err = hold(launch, i, i < most);
    guard.look_at = guard.is_told ? NEVER : 0;
    return err ? err : search_before(launch);
}

/* One directory: whether everything in it is right; what is not is put right, if asked for. */
static bool look_into(size_t directory, bool is_sweep, bool is_mended) {
    const struct guarded_record *planned = &guard.launch->spec.guarded[directory];
    int fd = borrow(directory);
    if (fd < 0) return fd == -ESTALE;
    bool is_fine = true;
    if (is_sweep || has_changed(&guard.held[directory], fd)) {
        for (size_t i = planned->first; i < planned->end; i++) {
            if (is_right(fd, i)) continue;
            is_fine = false;
            if (is_mended) put_right(fd, i);
        }
    }
    give_back(directory, fd);
    return is_fine;
}

void guard_stir(void) {
    int64_t now = clock_ns(CLOCK_MONOTONIC);
    if (guard.look_at == NEVER) guard.look_at = now;
}

int guard_wait(int timeout) {
    if (!guard_is_open() || guard.look_at == NEVER) return timeout;
    int64_t left = guard.look_at - clock_ns(CLOCK_MONOTONIC);
    int wait = left <= 0 ? 0 : (int)(left / MS_NS) + 1;
    return timeout < 0 || wait < timeout ? wait : timeout;
}

/* INVARIANT: looks take a fifth of the time at most: to go through very many directories is work, and a command that
 * stirs them all the time must not keep the supervisor from the lifeline and the clock. */
bool guard_look(void) {
    int64_t began = clock_ns(CLOCK_MONOTONIC);
    if (!guard_is_open() || began < guard.look_at) return false;
#ifdef CORRAL_FAULTS
    if (is_slow(guard.launch, "look")) return guard.look_at = NEVER, false; /* as if it came too late */
#endif
    guard.look_at = NEVER;
    for (size_t i = 0; i < guard.launch->spec.count[RECORD_GUARDED]; i++) (void)look_into(i, false, true);
    int64_t ended = clock_ns(CLOCK_MONOTONIC);
    bool is_long = ended - began > MS_NS;
    if (!guard.is_told) guard.look_at = ended + GLANCE_MS * MS_NS;
    if (is_long) guard.look_at = ended + REST_FOR_LOOK * (ended - began);
    if (guard.is_ended || guard.taken < PATIENCE) return false;
    status_line("blocked\n");
    return guard.is_ended = true;
}

static bool sweep_all(bool is_mended) {
    bool is_fine = true;
    for (size_t i = 0; i < guard.launch->spec.count[RECORD_GUARDED]; i++) is_fine &= look_into(i, true, is_mended);
    return is_fine;
}

/* Names that are wrong still, and all of a directory into which nobody can look. */
static void tell_unremoved(void) {
    const struct spec *spec = &guard.launch->spec;
    for (size_t d = 0; d < spec->count[RECORD_GUARDED]; d++) {
        int fd = borrow(d);
        if (fd == -ESTALE) continue;
        for (size_t i = spec->guarded[d].first; i < spec->guarded[d].end; i++)
            if (fd < 0 || !is_right(fd, i)) tell("unremoved", i);
        if (fd >= 0) give_back(d, fd);
    }
}

void guard_sweep(void) {
    if (!guard_is_open()) return;
#ifdef CORRAL_FAULTS
    if (is_fault(guard.launch, "sweep")) _exit(EXIT_SETUP_FAILED); /* as if it were killed */
#endif
    bool is_fine = false;
    for (int round = 0; round < ROUNDS && !is_fine; round++) is_fine = sweep_all(true);
    if (!is_fine) is_fine = sweep_all(false);
    if (!is_fine) tell_unremoved();
    search_afterwards(guard.launch);
    quarantine_clear();
    status_line("swept\n");
}
