/* What is shown or hidden of the host, and what is made up. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kernel.h"
#include "mounts.h"

/* Gone before the command starts; until then nothing else runs in this mount namespace. */
static const char MASK_FILE[] = ".corral-mask-file", MASK_DIRECTORY[] = ".corral-mask-directory";
static const char LINK[] = ".corral-link";

int tell_changed(struct view *view) {
    set_detail(view->launch, "changed since it was planned");
    return -ESTALE;
}

/* TRUST: the planner looked at a path, time has passed, and somebody may have put something else there. */
int check_planned(struct view *view, const struct mount_record *m, const struct stat *found) {
    if (m->flags & MOUNT_UNVERIFIED) return 0;
    if (found->st_dev == (dev_t)m->device && found->st_ino == (ino_t)m->inode) return 0;
    return tell_changed(view);
}

/* Clones the tree below `source` and restricts it before it can be seen anywhere. */
int clone_tree(int source, const char *path, uint64_t attributes) {
    unsigned flags = K_OPEN_TREE_CLONE | O_CLOEXEC | K_AT_RECURSIVE | K_AT_SYMLINK_NOFOLLOW;
    if (!*path) flags |= K_AT_EMPTY_PATH;
    int tree = k_open_tree(source, path, flags);
    if (tree < 0) return tree;
    int err = k_mount_setattr(tree, K_AT_RECURSIVE, attributes);
    if (!err) return tree;
    close(tree);
    return err;
}

/* Whether the target is in a tree of the host's: then it was there when it was planned, and nothing is made. */
static bool lies_in_bind(const struct view *view) { return view->place && view->place->lies_in_bind; }

static bool lies_in_overlay(const struct view *view) { return view->place && view->place->lies_in_overlay; }

/* What is covered must be the planned object, or in an overlay what shows it. */
static int check_covered(struct view *view, const struct mount_record *m, const struct stat *found) {
    return lies_in_overlay(view) ? overlay_check(view, m) : check_planned(view, m, found);
}

/* A path bound onto itself inside another bind must hit the very object that was verified; were it renamed away
 * in between, the mount would follow it and leave its name unprotected. */
static int check_target(struct view *view, const struct mount_record *m, int target) {
    struct stat status;
    if (strcmp(m->source, m->target) != 0) return 0;
    if (fstat(target, &status) < 0) return -errno;
    bool is_made = target_is_own(view, status.st_dev) && !lies_in_bind(view);
    return is_made ? 0 : check_planned(view, m, &status);
}

static int attach_bind(struct view *view, const struct mount_record *m, int tree, bool is_directory) {
    int target = target_open(view, m->target);
    if (target == -ENOENT && lies_in_bind(view) && strcmp(m->source, m->target) == 0) return tell_changed(view);
    if (target == -ENOENT)
        target = is_directory ? target_make_directory(view, m->target, 0755) : target_make_file(view, m->target, 0444);
    if (target < 0) return target;
    int err = check_target(view, m, target);
    if (!err) err = k_move_mount(tree, target);
    if (!err) err = base_hold(view, tree);
    close(target);
    return err;
}

static uint64_t bind_attributes(const struct mount_record *m) {
    uint64_t attributes = K_MOUNT_ATTR_NOSUID;
    if (!(m->flags & MOUNT_DEVICES)) attributes |= K_MOUNT_ATTR_NODEV;
    if (m->flags & MOUNT_READ_ONLY) attributes |= K_MOUNT_ATTR_RDONLY;
    if (m->flags & MOUNT_NO_EXEC) attributes |= K_MOUNT_ATTR_NOEXEC;
    return attributes;
}

static int clone_source(struct view *view, const struct mount_record *m, int source) {
    struct stat status;
    if (fstat(source, &status) < 0) return -errno;
    int err = check_planned(view, m, &status);
    return err ? err : clone_tree(source, "", bind_attributes(m));
}

int bind_clone(struct view *view, const struct mount_record *m) {
    int source = beneath_open(view->old_root, m->source);
    if (source < 0) {
        set_detail(view->launch, source == -ELOOP ? "source %s: has a symbolic link" : "source %s", m->source);
        return source;
    }
    int tree = clone_source(view, m, source);
    close(source);
    return tree;
}

/* With an identity, what is mapped already is bound again where it is shown. */
static int clone_shown(struct view *view, const struct mount_record *m) {
    int shown = target_open(view, m->target);
    if (shown == -ENOENT) return tell_changed(view);
    int tree = shown < 0 ? shown : clone_source(view, m, shown);
    if (shown >= 0) close(shown);
    return tree;
}

int mount_bind(struct view *view, const struct mount_record *m) {
    struct stat status;
    if (lies_in_overlay(view)) return overlay_bind(view, m, bind_attributes(m));
    int tree = view->place ? view->place->tree : -1;
    if (view->place) view->place->tree = -1;
    bool is_shown = has_identity(view->launch) && lies_in_bind(view) && strcmp(m->source, m->target) == 0;
    if (tree < 0) tree = is_shown ? clone_shown(view, m) : bind_clone(view, m);
    if (tree < 0) return tree;
    int err = fstat(tree, &status) < 0 ? -errno : attach_bind(view, m, tree, S_ISDIR(status.st_mode));
    close(tree);
    return err;
}

static int masks_make(struct view *view) {
    if (view->has_masks) return 0;
    if (view->covers < 0) view->covers = covers_open(view);
    if (view->covers < 0) return view->covers;
    int fd = openat(view->covers, MASK_FILE, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0);
    if (fd < 0) return -errno;
    close(fd);
    if (mkdirat(view->covers, MASK_DIRECTORY, 0) < 0) return -errno;
    view->has_masks = true;
    return 0;
}

int masks_remove(struct view *view) {
    if (!view->has_masks) return 0;
    if (unlinkat(view->covers, MASK_FILE, 0) < 0) return -errno;
    return unlinkat(view->covers, MASK_DIRECTORY, AT_REMOVEDIR) < 0 ? -errno : 0;
}

/* An empty object of mode 0 covers the target. Read-only, so that an owner cannot chmod it. */
static int mask_target(struct view *view, const struct mount_record *m, int target) {
    struct stat status;
    if (fstat(target, &status) < 0) return -errno;
    int err = check_covered(view, m, &status);
    if (!err) err = masks_make(view);
    if (err) return err;
    const char *cover = S_ISDIR(status.st_mode) ? MASK_DIRECTORY : MASK_FILE;
    int tree = clone_tree(view->covers, cover,
                          K_MOUNT_ATTR_RDONLY | K_MOUNT_ATTR_NOSUID | K_MOUNT_ATTR_NODEV | K_MOUNT_ATTR_NOEXEC);
    if (tree < 0) return tree;
    err = k_move_mount(tree, target);
    close(tree);
    return err;
}

int mount_mask(struct view *view, const struct mount_record *m) {
    int target = target_open(view, m->target);
    if (target < 0) return target;
    int err = mask_target(view, m, target);
    close(target);
    return err;
}

static int cover_by_link(struct view *view, int target) {
    int tree = clone_tree(view->covers, LINK,
                          K_MOUNT_ATTR_RDONLY | K_MOUNT_ATTR_NOSUID | K_MOUNT_ATTR_NODEV | K_MOUNT_ATTR_NOEXEC);
    if (tree < 0) return tree;
    int err = k_move_mount(tree, target);
    close(tree);
    return err;
}

/* A link covers the target, which must be the planned object. Who opens the name comes to a place of our own, and
 * what is written there is not written here; like every mount point it can neither be renamed nor replaced. */
static int link_target(struct view *view, const struct mount_record *m, int target) {
    struct stat status;
    if (fstat(target, &status) < 0) return -errno;
    int err = check_covered(view, m, &status);
    if (err) return err;
    if (view->covers < 0) view->covers = covers_open(view);
    if (view->covers < 0) return view->covers;
    if (symlinkat(m->source, view->covers, LINK) < 0) return -errno;
    err = cover_by_link(view, target);
    return unlinkat(view->covers, LINK, 0) < 0 && !err ? -errno : err;
}

int mount_link(struct view *view, const struct mount_record *m) {
    int target = target_open(view, m->target);
    if (target < 0) return target;
    int err = link_target(view, m, target);
    close(target);
    return err;
}

/* Several parts of a plan may want the same link; a different one in its place is a mistake. */
static int accept_same_link(int parent, const char *name, const char *text) {
    char found[PATH_MAX];
    ssize_t length = readlinkat(parent, name, found, sizeof found);
    if (length < 0) return -EEXIST;
    return (size_t)length == strlen(text) && memcmp(found, text, (size_t)length) == 0 ? 0 : -EEXIST;
}

/* In areas that a successor has taken over, commands had their say about what is there: it is theirs, and nothing of it
 * is opened or followed. */
static int accept_own(struct view *view, int parent) {
    struct stat areas, status;
    if (fstat(view->launch->areas_fd, &areas) < 0 || fstat(parent, &status) < 0) return -errno;
    return areas.st_dev == status.st_dev ? 0 : -EEXIST;
}

int mount_symlink(struct view *view, const struct mount_record *m) {
    const char *name = NULL;
    int parent = target_parent(view, m->target, &name);
    if (parent < 0) return parent;
    int err = symlinkat(m->source, parent, name) < 0 ? -errno : 0;
    if (err == -EEXIST && !view->has_old_areas) err = accept_same_link(parent, name, m->source);
    if (err == -EEXIST && view->has_old_areas) err = accept_own(view, parent);
    return err;
}

static int write_whole(int fd, const uint8_t *bytes, size_t size) {
    while (size) {
        ssize_t written = write(fd, bytes, size);
        if (written < 0 && errno == EINTR) continue;
        if (written < 0) return -errno;
        bytes += written;
        size -= (size_t)written;
    }
    return 0;
}

int mount_file(struct view *view, const struct mount_record *m) {
    int fd = target_make_file(view, m->target, m->mode & 07777);
    if (fd == -EEXIST && view->has_old_areas) return 0;
    if (fd < 0) return fd;
    int err = write_whole(fd, m->content, m->content_size);
    if (close(fd) < 0 && !err) err = -errno;
    return err;
}

/* A file that everyone may read is read instead of bound: a mount costs four times as much, counts again when all are
 * locked and taken apart, and asks for a rule of its own. */
enum { COPY_MOST = 64 * 1024, COPY_PART = 16 * 1024 };

static bool is_for_everyone(const struct stat *status) {
    return S_ISREG(status->st_mode) && (status->st_mode & 0444) == 0444 && status->st_size <= COPY_MOST;
}

static int copy_content(int from, int to, size_t size) {
    uint8_t part[COPY_PART];
    int err = 0;
    for (ssize_t got = 1; !err && size && got; size -= (size_t)got) {
        do got = read(from, part, size < sizeof part ? size : sizeof part);
        while (got < 0 && errno == EINTR);
        if (got < 0) return -errno;
        err = write_whole(to, part, (size_t)got);
    }
    return err;
}

static int make_copy(struct view *view, const struct mount_record *m, int source, const struct stat *status) {
    const char *name = NULL;
    int parent = target_parent(view, m->target, &name);
    if (parent < 0) return parent;
    if (!view->is_parent_sealed) return mount_bind(view, m);
    int fd = target_make_file(view, m->target, status->st_mode & 0555);
    if (fd < 0) return fd;
    int err = copy_content(source, fd, (size_t)status->st_size);
    if (close(fd) < 0 && !err) err = -errno;
    return err;
}

/* TRUST: by descriptor, and of the planned object: nobody else's file is read in its place. What cannot be read by
 * everyone, or is large, or no file, is bound; and so is what would lie where commands write. */
int mount_copy(struct view *view, const struct mount_record *m) {
    struct stat status;
    int source = k_openat2(view->old_root, m->source + 1, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY,
                           K_RESOLVE_BENEATH | K_RESOLVE_NO_SYMLINKS);
    if (source < 0) return mount_bind(view, m);
    int err = fstat(source, &status) < 0 ? -errno : check_planned(view, m, &status);
    if (!err) err = is_for_everyone(&status) ? make_copy(view, m, source, &status) : mount_bind(view, m);
    close(source);
    return err;
}

int mount_directory(struct view *view, const struct mount_record *m) {
    int fd = target_make_directory(view, m->target, m->mode & 07777);
    if (fd < 0) return fd;
    close(fd);
    return 0;
}
