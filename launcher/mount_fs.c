/* New file systems: tmpfs, proc, devpts. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "control.h"
#include "kernel.h"
#include "mounts.h"

/* A mounted but not yet attached file system. `options` ends with a null name; one without a value is a flag. */
int filesystem_new(const char *type, const char *const options[][2], unsigned attributes) {
    int context = k_fsopen(type);
    int fd = context;
    for (size_t i = 0; fd >= 0 && options[i][0]; i++) {
        unsigned command = options[i][1] ? K_FSCONFIG_SET_STRING : K_FSCONFIG_SET_FLAG;
        int err = k_fsconfig(context, command, options[i][0], options[i][1]);
        if (err) fd = err;
    }
    if (fd >= 0) {
        int err = k_fsconfig(context, K_FSCONFIG_CMD_CREATE, NULL, NULL);
        fd = err ? err : k_fsmount(context, attributes);
    }
    if (context >= 0) close(context);
    return fd;
}

/* From now on, mount points may be made on it. `fd` belongs to the view. */
int view_add_own(struct view *view, int fd, bool read_only) {
    struct stat status;
    if (fstat(fd, &status) < 0) return -errno;
    view->own[view->owned++] = (struct own_mount){.fd = fd, .device = status.st_dev, .read_only = read_only};
    return 0;
}

/* Attaches at the target, which is made as a directory when it is missing. */
int attach(struct view *view, int fd, const char *path) {
    int target = target_open(view, path);
    if (target == -ENOENT) target = target_make_directory(view, path, 0755);
    if (target < 0) return target;
    int err = k_move_mount(fd, target);
    if (!err) err = base_hold(view, fd);
    close(target);
    return err;
}

static unsigned attributes_of(const struct mount_record *m) {
    return K_MOUNT_ATTR_NOSUID | (m->flags & MOUNT_DEVICES ? 0 : K_MOUNT_ATTR_NODEV) |
           (m->flags & MOUNT_NO_EXEC ? K_MOUNT_ATTR_NOEXEC : 0);
}

int mount_tmpfs(struct view *view, const struct mount_record *m) {
    char size[24], mode[16];
    snprintf(size, sizeof size, "%llu", (unsigned long long)m->size);
    snprintf(mode, sizeof mode, "%o", (unsigned)(m->mode & 07777));
    const char *const options[][2] = {{"mode", mode}, {m->size ? "size" : NULL, size}, {NULL, NULL}};
    int fd = filesystem_new("tmpfs", options, attributes_of(m));
    if (fd < 0) return fd;
    int err = attach(view, fd, m->target);
    if (!err) err = view_add_own(view, fd, m->flags & MOUNT_READ_ONLY);
    if (err) close(fd);
    return err;
}

/* All private areas lie in one file system, whose size is what they may have together. Its root is seen nowhere: it
 * is mounted for as long as the areas are cut out of it, in the old root, and goes when that is detached. To detach a
 * mount is what costs most of all: the kernel waits until every processor has seen it. Nothing is ever bound from
 * /proc of the host, and who needs it has its descriptor. */

static int areas_new(const struct spec *spec) {
    char size[24], inodes[24];
    snprintf(size, sizeof size, "%llu", (unsigned long long)spec->areas_size);
    snprintf(inodes, sizeof inodes, "%llu", (unsigned long long)spec->areas_inodes);
    const char *const options[][2] = {{"mode", "0700"}, {"size", size}, {"nr_inodes", inodes}, {NULL, NULL}};
    return filesystem_new("tmpfs", options, K_MOUNT_ATTR_NOSUID | K_MOUNT_ATTR_NODEV);
}

/* A kept sandbox may be the successor of another one, whose areas go along. Corral sends them, as a mount that is
 * attached nowhere, before it starts the launcher: so they are there by now, or there are none. */
static int areas_take(struct view *view) {
    int given[MOST_GIVEN];
    char word = 0;
    size_t size = sizeof word;
    int count = control_receive(STDIN_FILENO, given, &word, &size, MSG_DONTWAIT);
    view->has_old_areas = count == 1;
    return count == 1 ? given[0] : count < 0 ? count : -EPROTO;
}

/* Corral holds the areas of a kept sandbox from now on, for a successor. ORDER: at once, whatever fails later: the mount
 * that was taken is used up. */
static int areas_hand_out(int fd) {
    int tree = k_open_tree(fd, "", K_OPEN_TREE_CLONE | O_CLOEXEC | K_AT_EMPTY_PATH);
    if (tree < 0) return tree;
    int err = control_send(STDIN_FILENO, "a", 1, &tree, 1);
    close(tree);
    return err;
}

static int areas_attach(struct view *view, int fd) {
    if (view->is_in_place) return -EINVAL; /* the only root there is would show it */
    int target = host_proc(view);
    return target < 0 ? target : k_move_mount(fd, target);
}

static int areas_make(struct view *view) {
    bool is_kept = is_server(view->launch);
    int fd = is_kept ? areas_take(view) : -EAGAIN;
    if (fd == -EAGAIN) fd = areas_new(&view->launch->spec);
    if (fd < 0) return fd;
    int err = areas_attach(view, fd);
    if (!err && is_kept) err = areas_hand_out(fd);
    if (!err) err = view_add_own(view, fd, false);
    if (err) close(fd);
    else view->launch->areas_fd = k_result(openat(fd, ".", O_PATH | O_CLOEXEC));
    return err ? err : view->launch->areas_fd < 0 ? view->launch->areas_fd : 0;
}

int mount_area(struct view *view, const struct mount_record *m) {
    char name[16];
    int err = view->launch->areas_fd < 0 ? areas_make(view) : 0;
    if (err) return err;
    snprintf(name, sizeof name, "%u", view->areas++);
    err = mkdirat(view->launch->areas_fd, name, m->mode & 07777) < 0 ? -errno : 0;
    if (err && !(err == -EEXIST && view->has_old_areas)) return err;
    int tree = k_open_tree(view->launch->areas_fd, name, K_OPEN_TREE_CLONE | O_CLOEXEC);
    if (tree < 0) return tree;
    err = attach(view, tree, m->target);
    close(tree);
    return err;
}

static int mount_new(struct view *view, const struct mount_record *m, const char *type, const char *const options[][2],
                     unsigned attributes) {
    if (m->flags & MOUNT_READ_ONLY) attributes |= K_MOUNT_ATTR_RDONLY;
    int fd = filesystem_new(type, options, attributes);
    if (fd < 0) return fd;
    int err = attach(view, fd, m->target);
    close(fd);
    return err;
}

/* Read-only keeps even uid 0 from writing /proc/sys, where a file's owner needs no capability. */
int mount_proc(struct view *view, const struct mount_record *m) {
    static const char *const NONE[][2] = {{NULL, NULL}};
    return mount_new(view, m, "proc", NONE, K_MOUNT_ATTR_NOSUID | K_MOUNT_ATTR_NODEV | K_MOUNT_ATTR_NOEXEC);
}

/* Each mount of devpts is an instance of its own since Linux 4.7. Group 5 (tty) exists only where it is mapped. */
int mount_devpts(struct view *view, const struct mount_record *m) {
    static const char *const WITH_GROUP[][2] = {{"ptmxmode", "0666"}, {"mode", "0620"}, {"gid", "5"}, {NULL, NULL}};
    static const char *const PLAIN[][2] = {{"ptmxmode", "0666"}, {"mode", "0620"}, {NULL, NULL}};
    unsigned attributes = K_MOUNT_ATTR_NOSUID | K_MOUNT_ATTR_NOEXEC;
    int err = mount_new(view, m, "devpts", WITH_GROUP, attributes);
    return err == -EINVAL ? mount_new(view, m, "devpts", PLAIN, attributes) : err;
}
