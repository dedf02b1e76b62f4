/* Stdio: what may be descriptor 0, 1 and 2 of a command, and what it gets in the place of a device. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "launch.h"

/* A directory of the host would lead around every mount: openat() on it is no lookup from /. What is open for its path
 * alone is open for nothing, and could be opened through /proc for more than its giver was asked about. */
bool is_fit_stdio(int fd) {
    struct stat status;
    int flags = fcntl(fd, F_GETFL);
    return flags >= 0 && !(flags & O_PATH) && fstat(fd, &status) == 0 && !S_ISDIR(status.st_mode);
}

int pipe_above(int lowest, int ends[2]) {
    if (pipe2(ends, O_CLOEXEC) < 0) return -errno;
    for (int i = 0; i < 2; i++) {
        int low = ends[i];
        ends[i] = fcntl(low, F_DUPFD_CLOEXEC, lowest);
        close(low);
        if (ends[i] < 0) return -errno;
    }
    return 0;
}

static const struct { const char *path; unsigned minor; } DEVICES[] = {
    {"/dev/null", 3}, {"/dev/zero", 5}, {"/dev/full", 7}, {"/dev/random", 8}, {"/dev/urandom", 9},
};

static const char *device_name(const struct stat *status) {
    for (size_t i = 0; i < sizeof DEVICES / sizeof *DEVICES; i++)
        if (S_ISCHR(status->st_mode) && status->st_rdev == makedev(1, DEVICES[i].minor)) return DEVICES[i].path;
    return NULL;
}

/* TRUST: in a kept container an earlier command may have put something else there. So no link is followed, nobody is
 * waited for, and what is found must be the device. */
static int open_device(const char *path, int flags, dev_t device) {
    struct stat status;
    int fd = open(path, (flags & O_ACCMODE) | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0) return -errno;
    bool is_device = fstat(fd, &status) == 0 && S_ISCHR(status.st_mode) && status.st_rdev == device;
    if (is_device && fcntl(fd, F_SETFL, flags & (O_APPEND | O_NONBLOCK)) == 0) return fd;
    close(fd);
    return -ENODEV;
}

static int use_own_device(int number) {
    struct stat status;
    int flags = fcntl(number, F_GETFL);
    if (flags < 0 || fstat(number, &status) < 0) return -errno;
    const char *path = device_name(&status);
    if (!path) return 0;
    int own = open_device(path, flags, status.st_rdev);
    if (own < 0) return own;
    int err = dup2(own, number) < 0 ? -errno : 0;
    close(own);
    return err;
}

/* The host's null device came through the host's mounts, and its owner, root, could change its mode by the descriptor.
 * Inside it is a read-only mount, which keeps mode, owner and times. Without mounts there is no other one to give. */
int stdio_use_own_devices(struct launch *launch) {
    const struct spec *spec = &launch->spec;
    int err = 0;
    if (!spec->count[RECORD_MOUNT] && !spec->count[RECORD_INSIDE]) return 0;
    for (int fd = STDIN_FILENO; !err && fd <= STDERR_FILENO; fd++) {
        set_detail(launch, "the device that is descriptor %d", fd);
        err = use_own_device(fd);
    }
    return err;
}

int find_writable(const char *text) {
    char *end = NULL;
    long number = strtol(text, &end, 10);
    bool is_number = end != text && !*end && number > STDIN_FILENO && number < INT_MAX;
    int mode = is_number ? fcntl((int)number, F_GETFL) : -1;
    return mode >= 0 && (mode & O_ACCMODE) != O_RDONLY && !(mode & O_PATH) ? (int)number : -1;
}
