/* A trial: the host's directory, with a layer over it that takes all that is written. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "control.h"
#include "kernel.h"
#include "mounts.h"

enum { MOST_LAYERS = 64, NAME_SIZE = sizeof "self/fd/2147483647" };
enum { OWN_FILES = 5 }; /* in a layer in memory: its root, both directories, what the kernel makes there, attributes */

static const char SOCKET[] = "socket"; /* in the directory of a trial, where corral waits for its layer */

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

static void name_layer(char *text, int fd) { snprintf(text, NAME_SIZE, "self/fd/%d", fd); }

static int memory_new(const struct mount_record *m) {
    char size[24], inodes[24];
    snprintf(size, sizeof size, "%llu", (unsigned long long)m->size);
    snprintf(inodes, sizeof inodes, "%llu", (unsigned long long)m->mode + OWN_FILES);
    const char *const options[][2] = {{"mode", "0700"}, {"size", size}, {"nr_inodes", inodes}, {NULL, NULL}};
    return filesystem_new("tmpfs", options, K_MOUNT_ATTR_NOSUID | K_MOUNT_ATTR_NODEV);
}

/* Corral has a socket there, and keeps what it gets: nobody else could say what was in the layer when all that runs
 * here has gone. */
static int memory_hand_out(struct view *view, int directory, int memory) {
    char name[NAME_SIZE];
    int door = k_openat2(directory, SOCKET, O_PATH | O_CLOEXEC, K_RESOLVE_BENEATH | K_RESOLVE_NO_SYMLINKS);
    if (door < 0) return door;
    int proc = host_proc(view);
    name_layer(name, door);
    int err = proc < 0 ? proc : fchdir(proc) < 0 ? -errno : control_send_to(name, "l", memory);
    if (fchdir(view->new_root) < 0 && !err) err = -errno;
    close(door);
    return err;
}

/* What was removed is told by attributes; without them it would come back. */
static int memory_check(struct view *view, int upper) {
    static const char NAME[] = "user.overlay.test";
    int fd = k_result(openat(upper, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (fd < 0) return fd;
    int err = fsetxattr(fd, NAME, "", 0, 0) < 0 || fremovexattr(fd, NAME) < 0 ? -errno : 0;
    close(fd);
    if (err) set_detail(view->launch, "a layer in memory needs Linux 6.6");
    return err;
}

/* It shows what the workspace does: the command sees its mode, and owner, as those of the workspace. */
static int memory_make(struct view *view, const struct mount_record *m, int memory, const char *name) {
    struct stat status;
    int lower = beneath_open(view->old_root, m->source);
    if (lower < 0) return lower;
    int err = fstat(lower, &status) < 0 ? -errno : 0;
    close(lower);
    if (!err && mkdirat(memory, name, 0700) < 0) err = -errno;
    if (!err && fchownat(memory, name, status.st_uid, status.st_gid, AT_SYMLINK_NOFOLLOW) < 0 && errno != EPERM && errno != EINVAL)
        err = -errno;
    return !err && fchmodat(memory, name, status.st_mode & 07777, 0) < 0 ? -errno : err;
}

static int memory_layers(struct view *view, const struct mount_record *m, int memory, struct layers *layers) {
    static const char *const NAMES[] = {"upper", "work"};
    int err = 0;
    for (size_t i = 0; !err && i < sizeof NAMES / sizeof *NAMES; i++) {
        err = memory_make(view, m, memory, NAMES[i]);
        int fd = err ? err : k_result(openat(memory, NAMES[i], O_PATH | O_CLOEXEC | O_NOFOLLOW));
        if (fd >= 0) layers->fds[layers->count++] = fd;
        err = fd < 0 ? fd : 0;
    }
    return err;
}

/* A layer in memory has a size of its own, in bytes and in files. It is mounted upon the trial's own directory, as long
 * as there is one: an overlay can be made of nothing else. */
static int layers_in_memory(struct view *view, const struct mount_record *m, struct layers *layers) {
    int directory = beneath_open(view->old_root, (const char *)m->content);
    if (directory < 0) return directory;
    set_detail(view->launch, "a layer in memory");
    int fd = memory_new(m);
    int err = fd < 0 ? fd : k_move_mount(fd, directory);
    int memory = err ? err : k_result(openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    err = memory < 0 ? memory : memory_layers(view, m, memory, layers);
    if (!err) err = memory_check(view, layers->fds[0]);
    if (!err) err = memory_hand_out(view, directory, memory);
    if (!err) view->launch->layer_fd = k_result(openat(fd, ".", O_PATH | O_CLOEXEC));
    if (!err && view->launch->layer_fd < 0) err = view->launch->layer_fd;
    if (memory >= 0) close(memory);
    if (fd >= 0) close(fd);
    close(directory);
    return err;
}

/* TRUST: layers are corral's own directories, which no command is granted. The lowest is the host's, and must be the
 * planned one. No link is followed on the way to any of them. */
static int layers_open(struct view *view, const struct mount_record *m, struct layers *layers) {
    const char *path = (const char *)m->content, *end = path + m->content_size;
    int err = m->size ? layers_in_memory(view, m, layers) : 0;
    if (m->size) path += strlen(path) + 1;
    for (; !err && path < end; path += strlen(path) + 1) err = layers_add(view, layers, path);
    if (!err) err = layers_add(view, layers, m->source);
    if (err) return err;
    struct stat status;
    int lower = layers->fds[layers->count - 1];
    if (fstat(lower, &status) < 0) return -errno;
    err = check_planned(view, m, &status);
    if (err) return err;
    view->lower = k_result(fcntl(lower, F_DUPFD_CLOEXEC, 0));
    view->lower_length = strlen(m->target);
    return view->lower < 0 ? view->lower : 0;
}

/* The kernel notes there that a layer may be incomplete after a power failure, and would not take it again. What else
 * may be noted there is not corral's to forget. */
static int forget_volatile(struct view *view, int work) {
    unsigned long long how = K_RESOLVE_BENEATH | K_RESOLVE_NO_SYMLINKS;
    int notes = k_openat2(work, "work/incompat", O_PATH | O_DIRECTORY | O_CLOEXEC, how);
    if (notes == -ENOENT) return 0;
    int note = notes < 0 ? notes : k_openat2(notes, "volatile", O_PATH | O_DIRECTORY | O_CLOEXEC, how);
    int err = note < 0 ? note : unlinkat(note, "dirty", 0) < 0 && errno != ENOENT ? -errno : 0;
    if (!err && unlinkat(notes, "volatile", AT_REMOVEDIR) < 0) err = -errno;
    if (note >= 0) close(note);
    if (notes >= 0) close(notes);
    if (note == -ENOENT) return 0;
    if (err) set_detail(view->launch, "the kernel's note in the layer, incompat/volatile");
    return err;
}

/* Volatile: otherwise its end waits until all that anybody has written on that file system is on the disk. Not in
 * memory, where the note would take files of the trial's.
 * Names are descriptors, seen from the host's /proc: so they need no escapes, what was checked is what is used, and the
 * list of mounts inside does not tell where the layers lie. */
static int layers_mount(struct view *view, const struct layers *layers, bool in_memory) {
    char upper[NAME_SIZE], work[NAME_SIZE], lower[MOST_LAYERS * NAME_SIZE];
    size_t length = 0;
    name_layer(upper, layers->fds[0]);
    name_layer(work, layers->fds[1]);
    for (size_t i = 2; i < layers->count; i++) {
        if (length) lower[length++] = ':';
        name_layer(lower + length, layers->fds[i]);
        length += strlen(lower + length);
    }
    const char *const options[][2] = {{"userxattr", NULL}, {"lowerdir", lower},  {"upperdir", upper},
                                      {"workdir", work},   {in_memory ? NULL : "volatile", NULL}, {NULL, NULL}};
    int proc = host_proc(view);
    if (proc < 0) return proc;
    int err = forget_volatile(view, layers->fds[1]);
    if (err) return err;
    if (fchdir(proc) < 0) return -errno;
    int fd = filesystem_new("overlay", options, K_MOUNT_ATTR_NOSUID | K_MOUNT_ATTR_NODEV);
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
    int fd = err ? err : layers_mount(view, &layers, m->size);
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
    int found = beneath_open(view->lower, m->target + view->lower_length);
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
