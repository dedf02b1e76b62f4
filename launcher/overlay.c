/* A trial: the host's directory, with a layer over it that takes all that is written. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kernel.h"
#include "mounts.h"

enum { MOST_LAYERS = 64, NAME_SIZE = sizeof "self/fd/2147483647" };

struct layers {
    int fds[MOST_LAYERS]; /* upper, work, lower ones from the top down */
    size_t count;
};

static void layers_close(struct layers *layers) {
    while (layers->count) close(layers->fds[--layers->count]);
}

static int layers_add(struct view *view, struct layers *layers, const char *path) {
    int fd = layers->count < MOST_LAYERS ? beneath_open(view->old_root, path) : -E2BIG;
    if (fd < 0) set_detail(view->launch, "layer %s", path);
    else layers->fds[layers->count++] = fd;
    return fd < 0 ? fd : 0;
}

/* TRUST: layers are corral's own directories, which no command is granted. The lowest is the host's, and must be the
 * planned one. No link is followed on the way to any of them. */
static int layers_open(struct view *view, const struct mount_record *m, struct layers *layers) {
    const char *path = (const char *)m->content, *end = path + m->content_size;
    int err = 0;
    for (; !err && path < end; path += strlen(path) + 1) err = layers_add(view, layers, path);
    if (!err) err = layers_add(view, layers, m->source);
    struct stat status;
    if (!err && fstat(layers->fds[layers->count - 1], &status) < 0) err = -errno;
    return err ? err : check_planned(view, m, &status);
}

static void name_layer(char *text, int fd) { snprintf(text, NAME_SIZE, "self/fd/%d", fd); }

/* Names are descriptors, seen from the host's /proc: so they need no escapes, what was checked is what is used, and the
 * list of mounts inside does not tell where the layers lie. */
static int layers_mount(struct view *view, const struct layers *layers) {
    char upper[NAME_SIZE], work[NAME_SIZE], lower[MOST_LAYERS * NAME_SIZE];
    size_t length = 0;
    name_layer(upper, layers->fds[0]);
    name_layer(work, layers->fds[1]);
    for (size_t i = 2; i < layers->count; i++) {
        if (length) lower[length++] = ':';
        name_layer(lower + length, layers->fds[i]);
        length += strlen(lower + length);
    }
    const char *const options[][2] = {{"lowerdir", lower}, {"upperdir", upper}, {"workdir", work}, {NULL, NULL}};
    int proc = host_proc(view);
    if (proc < 0) return proc;
    if (fchdir(proc) < 0) return -errno;
    int fd = filesystem_new_flagged("overlay", options, "userxattr", K_MOUNT_ATTR_NOSUID | K_MOUNT_ATTR_NODEV);
    if (fchdir(view->new_root) < 0 && fd >= 0) {
        close(fd);
        return -errno;
    }
    return fd;
}

/* ORDER: before anything is mounted in it: what is writable inside of a read-only bind could then only be had
 * read-only. */
static int clone_early(struct view *view, int overlay, size_t length) {
    const struct spec *spec = &view->launch->spec;
    for (size_t i = 0; i < spec->count[RECORD_MOUNT]; i++) {
        struct place *place = &view->places[i];
        if (!place->is_early || place->base != view->place) continue;
        int found = beneath_open(overlay, spec->mounts[i].target + length);
        place->tree = found < 0 ? found : clone_tree(found, "", K_MOUNT_ATTR_NOSUID | K_MOUNT_ATTR_NODEV);
        if (found >= 0) close(found);
        if (place->tree < 0) return place->tree == -ENOENT ? tell_changed(view) : place->tree;
    }
    return 0;
}

int mount_overlay(struct view *view, const struct mount_record *m) {
    struct layers layers = {.count = 0};
    int err = layers_open(view, m, &layers);
    int fd = err ? err : layers_mount(view, &layers);
    layers_close(&layers);
    if (fd < 0) return fd;
    err = attach(view, fd, m->target);
    if (!err) err = clone_early(view, fd, strlen(m->target));
    close(fd);
    return err;
}

/* What is held inside of an overlay has other numbers than on the host; the host's own is looked at instead. Nothing
 * runs in the overlay yet, so its names lead where the host's do. */
int overlay_check(struct view *view, const struct mount_record *m) {
    struct stat status;
    int found = beneath_open(view->old_root, m->target);
    if (found == -ENOENT || found == -ELOOP || found == -ENOTDIR) return tell_changed(view);
    if (found < 0) return found;
    int err = fstat(found, &status) < 0 ? -errno : check_planned(view, m, &status);
    close(found);
    return err;
}

/* A path onto itself: the overlay's own, never the host's, which a writable bind would lay open. */
int overlay_bind(struct view *view, const struct mount_record *m, uint64_t attributes) {
    int err = overlay_check(view, m);
    int target = err ? err : target_open(view, m->target);
    if (target == -ENOENT) return tell_changed(view);
    if (target < 0) return target;
    int tree = view->place->tree >= 0 ? view->place->tree : clone_tree(target, "", attributes);
    view->place->tree = -1;
    err = tree < 0 ? tree : k_move_mount(tree, target);
    if (tree >= 0) close(tree);
    close(target);
    return err;
}
