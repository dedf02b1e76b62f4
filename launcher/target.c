/* Finding and making places to mount on, inside the new root. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kernel.h"
#include "mounts.h"

/* TRUST: parts of the tree are writable for other runs of other commands, right now. No link is followed, and
 * the answer is a descriptor: what is checked is what is used. */
int beneath_open(int root, const char *path) {
    const char *relative = path[0] && path[1] ? path + 1 : ".";
    return k_openat2(root, relative, O_PATH | O_CLOEXEC, K_RESOLVE_BENEATH | K_RESOLVE_NO_SYMLINKS);
}

/* INVARIANT: a base is held before anything is looked up in it: records are applied in the order that it was found by. */
static int base_fd(const struct view *view) {
    return view->place && view->place->base ? view->place->base->fd : view->new_root;
}

static size_t base_length(const struct view *view) { return view->place ? view->place->length : 0; }

int target_open(struct view *view, const char *path) { return beneath_open(base_fd(view), path + base_length(view)); }

static const struct own_mount *find_own(const struct view *view, dev_t device) {
    for (size_t i = 0; i < view->owned; i++)
        if (view->own[i].device == device) return &view->own[i];
    return NULL;
}

bool target_is_own(const struct view *view, dev_t device) { return find_own(view, device) != NULL; }

static int check_own(struct view *view, int directory) {
    struct stat status;
    if (fstat(directory, &status) < 0) return -errno;
    const struct own_mount *own = find_own(view, status.st_dev);
    view->is_parent_sealed = own && own->read_only;
    if (own) return 0;
    set_detail(view->launch, "would create a mount point on the host");
    return -EROFS;
}

/* Opens `name` in `directory`, which is closed; makes it when it is missing and may be made. */
static int enter(struct view *view, int directory, const char *name) {
    uint64_t resolve = K_RESOLVE_BENEATH | K_RESOLVE_NO_SYMLINKS;
    int fd = k_openat2(directory, name, O_PATH | O_CLOEXEC | O_DIRECTORY, resolve);
    if (fd == -ENOENT) {
        int err = check_own(view, directory);
        if (!err && mkdirat(directory, name, 0755) < 0) err = -errno;
        fd = err ? err : k_openat2(directory, name, O_PATH | O_CLOEXEC | O_DIRECTORY, resolve);
    }
    close(directory);
    return fd;
}

static int make_directories(struct view *view, char *path) {
    int fd = beneath_open(base_fd(view), "/");
    char *rest = NULL;
    for (char *name = strtok_r(path + base_length(view), "/", &rest); name && fd >= 0; name = strtok_r(NULL, "/", &rest))
        fd = enter(view, fd, name);
    return fd;
}

/* The directory that holds the last component of `path`, on a file system of our own; missing ones are made. */
int target_parent(struct view *view, const char *path, const char **name) {
    char parent[PATH_MAX];
    size_t length = strlen(path);
    if (length >= sizeof parent) return -ENAMETOOLONG;
    memcpy(parent, path, length + 1);
    char *slash = strrchr(parent, '/');
    *name = path + (slash - parent) + 1;
    *slash = 0;
    if (view->parent_fd >= 0 && strcmp(view->parent, parent) == 0) return view->parent_fd;
    parent_forget(view, "");
    memcpy(view->parent, parent, (size_t)(slash - parent) + 1);
    int fd = target_open(view, *parent ? parent : "/");
    if (fd == -ENOENT) fd = make_directories(view, parent);
    if (fd < 0) return fd;
    int err = check_own(view, fd);
    if (err) close(fd);
    else view->parent_fd = fd;
    return err ? err : fd;
}

/* INVARIANT: a directory is not used again once something was mounted upon it, or above it: its path leads elsewhere. */
void parent_forget(struct view *view, const char *mounted) {
    size_t length = strlen(mounted);
    bool is_covered = strncmp(view->parent, mounted, length) == 0 &&
                      (!length || !view->parent[length] || view->parent[length] == '/');
    if (view->parent_fd < 0 || !is_covered) return;
    close(view->parent_fd);
    view->parent_fd = -1;
}

int target_make_directory(struct view *view, const char *path, mode_t mode) {
    const char *name = NULL;
    int parent = target_parent(view, path, &name);
    if (parent < 0) return parent;
    int fd = mkdirat(parent, name, mode) < 0 ? -errno : 0;
    if (fd == 0) {
        fd = openat(parent, name, O_PATH | O_CLOEXEC | O_NOFOLLOW | O_DIRECTORY);
        if (fd < 0) fd = -errno;
    }
    return fd;
}

int target_make_file(struct view *view, const char *path, mode_t mode) {
    const char *name = NULL;
    int parent = target_parent(view, path, &name);
    if (parent < 0) return parent;
    return k_result(openat(parent, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode));
}
