/* lock: after it, no mount comes off what it covers, not even when the sandbox has ended.
 *
 * A descriptor of a directory outlives its sandbox: it can be sent to somebody else through a socket. When the last
 * process of a mount namespace goes, the kernel takes its mounts apart, and what was shielded or hidden beneath that
 * directory lies open. Mounts that a more privileged user namespace has handed down are locked: they stay together.
 * So all of them are handed down once, to a second user and mount namespace, in which the command runs.
 *
 * A process that makes a user namespace can map only its own id in it. So the maps are written by the helper, a
 * process that stays behind in the first one; it also makes the network, which takes as long as all mounts, while
 * init mounts. INVARIANT: it is gone before a command is there. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kernel.h"
#include "launch.h"

bool is_locked(const struct launch *launch) { return launch->spec.count[RECORD_LOCK] != 0; }

bool has_helper(const struct launch *launch) { return is_locked(launch) || has_own_network(launch); }

static int write_proc(struct launch *launch, pid_t pid, const char *name, const char *text) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, name);
    set_detail(launch, "write %s", name);
    int fd = k_result(open(path, O_WRONLY | O_CLOEXEC));
    if (fd < 0) return fd;
    size_t size = strlen(text);
    ssize_t written = write(fd, text, size);
    int err = written < 0 ? -errno : (size_t)written == size ? 0 : -EIO;
    close(fd);
    return err;
}

/* ORDER: setgroups before gid_map: an unprivileged writer must first give up dropping groups, since a group
 * can also be what *denies* access. */
int id_maps_write(struct launch *launch, pid_t pid, bool is_identity) {
    const struct spec *spec = &launch->spec;
    char identity[IDENTITY_MAP_SIZE];
    if (is_identity) identity_map(spec, identity);
    int err = 0;
    if (spec->id_map[1]) err = write_proc(launch, pid, "setgroups", "deny");
    if (!err && spec->id_map[0]) err = write_proc(launch, pid, "uid_map", is_identity ? identity : spec->id_map[0]);
    if (!err && spec->id_map[1]) err = write_proc(launch, pid, "gid_map", is_identity ? identity : spec->id_map[1]);
    return err;
}

/* What the helper says of each of its works. */
struct done {
    int error; /* 0 or -errno */
    char detail[DETAIL_SIZE];
};

static bool tell(const struct launch *launch, int error) {
    struct done done = {.error = error};
    memcpy(done.detail, launch->detail, sizeof done.detail);
    return send(launch->helper_fd, &done, sizeof done, MSG_NOSIGNAL) == sizeof done;
}

static int helper_main(struct launch *launch, pid_t parent) {
    char word = 0;
    if (child_obey(parent)) return EXIT_SETUP_FAILED;
    if (has_own_network(launch) && !tell(launch, network_make(launch))) return EXIT_SETUP_FAILED;
    if (recv(launch->helper_fd, &word, 1, 0) != 1) return EXIT_SETUP_FAILED;
    return !is_locked(launch) || tell(launch, id_maps_write(launch, parent, has_identity(launch))) ? 0 : EXIT_SETUP_FAILED;
}

int phase_helper(struct launch *launch) {
    int pair[2];
    pid_t parent = getpid();
    if (!has_helper(launch)) return 0;
    set_detail(launch, "a helper");
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0) return -errno;
    launch->helper = k_clone(SIGCHLD);
    if (launch->helper < 0) return launch->helper;
    launch->helper_fd = pair[launch->helper == 0];
    close(pair[launch->helper != 0]);
    if (launch->helper == 0) _exit(helper_main(launch, parent));
    return 0;
}

int helper_answer(struct launch *launch) {
    struct done done;
    set_detail(launch, "the helper is gone");
    if (recv(launch->helper_fd, &done, sizeof done, 0) != sizeof done) return -ECHILD;
    done.detail[sizeof done.detail - 1] = 0;
    set_detail(launch, "%s", done.detail);
    return done.error;
}

static int helper_tell(const struct launch *launch) {
    return send(launch->helper_fd, "g", 1, MSG_NOSIGNAL) == 1 ? 0 : -errno;
}

static int helper_end(struct launch *launch) {
    int status = 0;
    set_detail(launch, "the helper is gone");
    if (close(launch->helper_fd) < 0) return -errno;
    while (waitpid(launch->helper, &status, 0) < 0)
        if (errno != EINTR) return -errno;
    return status == 0 ? 0 : -ECHILD;
}

/* Read-only keeps even uid 0 from writing /proc/sys, where a file's owner needs no capability. */
static int seal_proc(struct launch *launch) {
    set_detail(launch, "/proc, read-only");
    int fd = k_openat2(AT_FDCWD, "/proc", O_PATH | O_DIRECTORY | O_CLOEXEC, K_RESOLVE_NO_SYMLINKS);
    int err = fd < 0 ? fd : k_mount_setattr(fd, 0, K_MOUNT_ATTR_RDONLY);
    if (fd >= 0) close(fd);
    return err;
}

/* ORDER: after everything that needs authority in the first user namespace, which is left for good: mounts, network,
 * the gateway's sockets. /proc is read-only not before the maps are written. */
static int lock(struct launch *launch) {
    set_detail(launch, "a second user namespace");
    int err = k_result(syscall(SYS_unshare, K_CLONE_NEWUSER | K_CLONE_NEWNS));
    if (!err) err = helper_tell(launch);
    if (!err) err = helper_answer(launch);
    if (!err) err = identity_assume(launch);
    return err ? err : seal_proc(launch);
}

int phase_lock(struct launch *launch) {
    if (!has_helper(launch)) return 0;
    int err = is_locked(launch) ? lock(launch) : helper_tell(launch);
    if (!err) err = helper_end(launch);
    if (err) return err;
    set_detail(launch, "be traced by nobody");
    return prctl(PR_SET_DUMPABLE, 0) < 0 ? -errno : 0;
}

int phase_lock_inside(struct launch *launch) {
    if (!launch->spec.count[RECORD_INSIDE] || !is_locked(launch)) return 0;
    int err = phase_helper(launch);
    return err ? err : phase_lock(launch);
}
