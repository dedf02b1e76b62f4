/* reopen: a file that is open for reading, opened anew through a read-only mount of its own.
 *
 * A process can open the file behind its descriptor again (/proc/self/fd), and the mount that it was opened through
 * decides what for. The caller opened it through the host's mounts, which no shield covers. Offset, size, seeking and
 * mapping work as before.
 *
 * It is done by a process that ends afterwards: it leaves the caller's mount namespace for it. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "control.h"
#include "kernel.h"
#include "launch.h"

enum { PATH_SIZE = 4096 };

static int write_own(const char *path, const char *text) {
    int fd = k_result(open(path, O_WRONLY | O_CLOEXEC));
    if (fd < 0) return fd;
    int err = write(fd, text, strlen(text)) < 0 ? -errno : 0;
    close(fd);
    return err;
}

/* Root keeps its rights over files of others, which no user namespace would leave it. */
static int leave_mount_namespace(void) {
    uid_t user = geteuid();
    char map[32];
    if (syscall(SYS_unshare, K_CLONE_NEWNS) < 0) {
        if (syscall(SYS_unshare, K_CLONE_NEWUSER | K_CLONE_NEWNS) < 0) return -errno;
        snprintf(map, sizeof map, "%u %u 1\n", (unsigned)user, (unsigned)user);
        int err = write_own("/proc/self/uid_map", map);
        if (err) return err;
    }
    /* What is mounted here must not appear on the host. */
    return mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ? -errno : 0;
}

static bool is_same(int one, int other) {
    struct stat first, second;
    return fstat(one, &first) == 0 && fstat(other, &second) == 0 && first.st_dev == second.st_dev &&
           first.st_ino == second.st_ino;
}

/* The file by its name, in a mount namespace of our own: a descriptor of the caller's is of his, and so is its name. */
static int find(int fd) {
    char link[40], path[PATH_SIZE];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0) return -errno;
    path[length] = 0;
    int err = leave_mount_namespace();
    int found = err ? err : k_openat2(AT_FDCWD, path, O_PATH | O_CLOEXEC, K_RESOLVE_NO_SYMLINKS);
    if (found < 0 || is_same(found, fd)) return found;
    close(found);
    return -ESTALE;
}

static int open_through(int tree, int fd) {
    char link[40];
    snprintf(link, sizeof link, "/proc/self/fd/%d", tree);
    int opened = k_result(open(link, O_RDONLY | O_CLOEXEC));
    if (opened < 0) return opened;
    off_t offset = lseek(fd, 0, SEEK_CUR);
    if (!is_same(opened, fd)) errno = ESTALE;
    else if (offset >= 0 && lseek(opened, offset, SEEK_SET) == offset) return opened;
    int err = -errno;
    close(opened);
    return err;
}

bool is_readable(int fd) {
    int flags = fcntl(fd, F_GETFL);
    return flags >= 0 && !(flags & O_PATH) && (flags & O_ACCMODE) != O_WRONLY;
}

/* Nobody is to read by our help what he could not. A device could be written to through a read-only mount: no device. */
static int reopen(int fd) {
    if (!is_readable(fd)) return -EBADF;
    int found = find(fd);
    if (found < 0) return found;
    int tree = k_open_tree(found, "", K_OPEN_TREE_CLONE | K_AT_EMPTY_PATH | O_CLOEXEC);
    close(found);
    if (tree < 0) return tree;
    int err = k_mount_setattr(tree, 0, K_MOUNT_ATTR_RDONLY | K_MOUNT_ATTR_NODEV);
    int opened = err ? err : open_through(tree, fd);
    close(tree);
    return opened;
}

int reopen_and_send(int fd, int socket) {
    int opened = reopen(fd);
    return opened < 0 ? opened : control_send(socket, "reopened", 8, &opened, 1);
}

int reopen_in_child(int fd) {
    int pair[2], given[MOST_GIVEN], status = 0;
    char word[16];
    size_t size = sizeof word;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0) return -errno;
    pid_t child = k_clone(SIGCHLD);
    if (child == 0) _exit(reopen_and_send(fd, pair[1]) ? EXIT_SETUP_FAILED : 0);
    close(pair[1]);
    int count = child < 0 ? child : control_receive(pair[0], given, word, &size, 0);
    close(pair[0]);
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
    if (count < 1) return count < 0 ? count : -EACCES;
    int high = k_result(fcntl(given[0], F_DUPFD_CLOEXEC, LIFELINE_FD + 1)); /* out of the way of those with a place */
    close(given[0]);
    return high;
}

static bool is_beneath(const char *path, const char *above) {
    size_t length = strlen(above);
    return strncmp(path, above, length) == 0 && (path[length] == '/' || path[length] == 0 || length == 1);
}

/* The last mount on the way decides, as it does for who goes there by name: deeper ones before it lie beneath it. */
static bool is_writable_by_mounts(const struct spec *spec, const char *path) {
    const struct mount_record *last = NULL;
    for (size_t i = 0; i < spec->count[RECORD_MOUNT]; i++)
        if (is_beneath(path, spec->mounts[i].target)) last = &spec->mounts[i];
    return last && last->kind == MOUNT_BIND && !(last->flags & MOUNT_READ_ONLY);
}

static bool is_writable_by_rules(const struct spec *spec, const char *path) {
    for (size_t i = 0; i < spec->count[RECORD_LANDLOCK_PATH]; i++)
        if (spec->paths[i].rights & K_LANDLOCK_FS_WRITE_FILE && is_beneath(path, spec->paths[i].path)) return true;
    return false;
}

bool is_door(const struct spec *spec, int fd) {
    struct stat status;
    char link[40], path[PATH_SIZE];
    bool has_mounts = spec->count[RECORD_MOUNT] != 0;
    if (fstat(fd, &status) < 0) return true;
    /* A rule of Landlock's is about the file, not about the way to it: what is open for reading stays so. */
    if (!has_mounts && (fcntl(fd, F_GETFL) & O_ACCMODE) == O_RDONLY) return false;
    if (S_ISBLK(status.st_mode)) return true;
    if (!S_ISREG(status.st_mode) || status.st_nlink == 0) return false; /* who has no name is found by nobody */
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0) return true;
    path[length] = 0;
    return !(has_mounts ? is_writable_by_mounts(spec, path) : is_writable_by_rules(spec, path));
}
