/* identity: after it, a command of root's is nobody of the host's. Its ids are of a range in which no user is, and a second
 * user namespace shows them as 0 and so on. What is granted is mounted with the same map: the host's root owns there what
 * the command is to own, and what it makes belongs to root on disk.
 *
 * Only who has authority over a file system itself may map its ids. So the supervisor clones and maps what is to be bound
 * before it sheds its privileges, and init attaches it. The promise does not rest on these mounts: without one, files
 * appear as somebody else's. INVARIANT: the ids are left, for good, by phase_lock, before there is a command. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kernel.h"
#include "mounts.h"

bool has_identity(const struct launch *launch) { return launch->spec.count[RECORD_IDENTITY] != 0; }

void identity_map(const struct spec *spec, char text[IDENTITY_MAP_SIZE]) {
    snprintf(text, IDENTITY_MAP_SIZE, "0 %u %u\n", spec->identity_first, spec->identity_count);
}

/* Mounts are mapped as a user namespace is. It lives as long as its descriptor; the process that made it does nothing. */
static int namespace_new(struct launch *launch) {
    int life[2], status = 0;
    char path[64];
    set_detail(launch, "a user namespace for mounts");
    if (pipe2(life, O_CLOEXEC) < 0) return -errno;
    pid_t child = k_clone(K_CLONE_NEWUSER | SIGCHLD);
    if (child == 0) {
        close(life[1]);
        _exit(read(life[0], path, 1) == 0 ? 0 : EXIT_SETUP_FAILED);
    }
    int fd = child < 0 ? child : id_maps_write(launch, child, true);
    snprintf(path, sizeof path, "/proc/%d/ns/user", (int)child);
    if (fd == 0) fd = k_result(open(path, O_RDONLY | O_CLOEXEC));
    close(life[0]);
    close(life[1]);
    if (child > 0) while (waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
    return fd;
}

/* Devices are for everyone. What is bound onto itself in something that is mapped, to be read-only, init clones from that. */
static bool is_prepared(const struct mount_record *m, const struct place *place) {
    if (m->kind != MOUNT_BIND || m->flags & MOUNT_DEVICES) return false;
    return !place->lies_in_bind || !(m->flags & MOUNT_READ_ONLY) || strcmp(m->source, m->target) != 0;
}

/* A file system that cannot be mapped shows root's files as nobody's: enough for what everyone may read, and of no use for
 * what is to be written. */
static int map_tree(struct launch *launch, const struct mount_record *m, int tree, int namespace) {
    struct k_mount_attr attr = {.attr_set = K_MOUNT_ATTR_IDMAP, .userns_fd = (uint64_t)namespace};
    int err = k_result(syscall(NR_MOUNT_SETATTR, tree, "", K_AT_EMPTY_PATH | K_AT_RECURSIVE, &attr, sizeof attr));
    if (err == -EINVAL && m->flags & MOUNT_READ_ONLY) return 0;
    if (err) set_detail(launch, "%s: ids of this file system, or of one that is mounted in it, cannot be mapped", m->source);
    return err;
}

static int prepare_all(struct view *view, int namespace) {
    const struct spec *spec = &view->launch->spec;
    int err = bases_plan(view);
    for (size_t i = 0; !err && i < spec->count[RECORD_MOUNT]; i++) {
        if (!is_prepared(&spec->mounts[i], &view->places[i])) continue;
        view->launch->detail[0] = 0;
        int tree = view->launch->trees[i] = bind_clone(view, &spec->mounts[i]);
        err = tree < 0 ? tree : map_tree(view->launch, &spec->mounts[i], tree, namespace);
    }
    free(view->places);
    return err;
}

/* Who opens /dev/stdout opens the pipe anew, and must be its owner. A pipe without a name is of one run or one shell line, and
 * a terminal that the command gets for its own is the run's. */
static int give_streams(struct launch *launch) {
    struct statfs system;
    set_detail(launch, "pipes of the command");
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        if (fstatfs(fd, &system) < 0) return -errno;
        bool is_own = system.f_type == K_PIPEFS_MAGIC || (launch->spec.count[RECORD_TERMINAL] && isatty(fd));
        if (is_own && fchown(fd, launch->spec.identity_first, launch->spec.identity_first) < 0) return -errno;
    }
    return 0;
}

/* ORDER: before there is a child, which inherits what is prepared, and has no groups of the host's. */
int phase_identity(struct launch *launch) {
    size_t count = launch->spec.count[RECORD_MOUNT];
    if (!has_identity(launch)) return 0;
    launch->trees = malloc((count + 1) * sizeof *launch->trees);
    if (!launch->trees) return -ENOMEM;
    for (size_t i = 0; i < count; i++) launch->trees[i] = -1;
    set_detail(launch, "groups of the caller");
    if (setgroups(0, NULL) < 0) return -errno;
    int err = give_streams(launch);
    int namespace = err ? err : namespace_new(launch);
    if (namespace < 0) return namespace;
    struct view view = {.launch = launch, .parent_fd = -1, .host_proc = -1};
    view.old_root = k_result(open("/", O_PATH | O_DIRECTORY | O_CLOEXEC));
    err = view.old_root < 0 ? view.old_root : prepare_all(&view, namespace);
    close(namespace);
    if (view.old_root >= 0) close(view.old_root);
    return err;
}

void identity_forget(struct launch *launch) {
    for (size_t i = 0; launch->trees && i < launch->spec.count[RECORD_MOUNT]; i++)
        if (launch->trees[i] >= 0) close(launch->trees[i]);
    free(launch->trees);
    launch->trees = NULL;
}

/* What lies in `directory`, which is closed, as far as it is of the same file system: what is mounted upon it is not. */
static int give_below(const struct spec *spec, int directory, dev_t device) {
    DIR *list = fdopendir(directory);
    int err = list ? 0 : -errno;
    if (!list) close(directory);
    for (const struct dirent *entry = NULL; !err && (entry = readdir(list));) {
        struct stat status;
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
        if (fstatat(dirfd(list), entry->d_name, &status, AT_SYMLINK_NOFOLLOW) < 0) err = -errno;
        if (err || status.st_dev != device) continue;
        if (S_ISDIR(status.st_mode)) {
            int below = k_result(openat(dirfd(list), entry->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
            err = below < 0 ? below : give_below(spec, below, device);
        }
        if (!err && fchownat(dirfd(list), entry->d_name, spec->identity_first, spec->identity_first, AT_SYMLINK_NOFOLLOW) < 0)
            err = -errno;
    }
    if (list) closedir(list);
    return err;
}

/* Everything that the launch has made itself. Nobody else has been there: there is no command, and no successor. */
int identity_give(struct view *view) {
    const struct spec *spec = &view->launch->spec;
    int err = 0;
    if (!has_identity(view->launch)) return 0;
    set_detail(view->launch, "give what was made to the command's ids");
    for (size_t i = 0; !err && i < view->owned; i++) {
        int top = k_result(openat(view->own[i].fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
        err = top < 0 ? top : give_below(spec, top, view->own[i].device);
        if (!err && fchownat(view->own[i].fd, "", spec->identity_first, spec->identity_first, AT_EMPTY_PATH) < 0) err = -errno;
    }
    return err;
}

/* In the second user namespace, whose ids are mapped by now: the host's are left, and no way leads back. A change of ids
 * takes the death signal away. The supervisor may have died before it is there again: then it never says go. */
int identity_assume(struct launch *launch) {
    if (!has_identity(launch)) return 0;
    set_detail(launch, "assume the ids");
    if (setresgid(0, 0, 0) < 0 || setresuid(0, 0, 0) < 0) return -errno;
    return prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 ? -errno : 0;
}
