/* mounts: after it, a path that no record names does not exist, and what exists is no more writable than its
 * record says. It follows namespaces, which it needs, and precedes caps, which takes its means away. The old
 * root is detached at the end: no name, descriptor or ".." leads there. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "kernel.h"
#include "mounts.h"

static const struct {
    const char *name;
    int (*apply)(struct view *, const struct mount_record *);
} KINDS[MOUNT_KINDS] = {
    [MOUNT_BIND] = {"bind", mount_bind},          [MOUNT_TMPFS] = {"tmpfs", mount_tmpfs},
    [MOUNT_PROC] = {"proc", mount_proc},          [MOUNT_DEVPTS] = {"devpts", mount_devpts},
    [MOUNT_SYMLINK] = {"symlink", mount_symlink}, [MOUNT_FILE] = {"file", mount_file},
    [MOUNT_DIRECTORY] = {"directory", mount_directory}, [MOUNT_MASK] = {"mask", mount_mask},
    [MOUNT_AREA] = {"area", mount_area},          [MOUNT_LINK] = {"link", mount_link},
    [MOUNT_COPY] = {"copy", mount_copy},          [MOUNT_OVERLAY] = {"overlay", mount_overlay},
};

/* Any directory does as the place to put the new root for a moment; it is uncovered again by pivot_root. */
static int attach_somewhere(int root) {
    static const char *const PLACES[] = {"/tmp", "/proc"};
    int err = -ENOENT;
    for (size_t i = 0; err && i < sizeof PLACES / sizeof *PLACES; i++) {
        int place = open(PLACES[i], O_PATH | O_CLOEXEC | O_DIRECTORY | O_NOFOLLOW);
        err = place < 0 ? -errno : k_move_mount(root, place);
        if (place >= 0) close(place);
    }
    return err;
}

/* pivot_root(".", ".") stacks the old root upon the new one, where no path leads: lookups begin below it, at the
 * new root. Both are used by descriptor only. */
static int enter_root(struct view *view) {
    static const char *const OPTIONS[][2] = {{"mode", "0755"}, {"size", "16m"}, {NULL, NULL}};
    /* Nothing mounted here may appear on the host, nor the other way round. */
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0) return -errno;
    view->old_root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (view->old_root < 0) return -errno;
    view->new_root = filesystem_new("tmpfs", OPTIONS, K_MOUNT_ATTR_NOSUID | K_MOUNT_ATTR_NODEV);
    if (view->new_root < 0) return view->new_root;
    view->covers = view->new_root;
    int err = view_add_own(view, view->new_root, true);
    if (!err) err = attach_somewhere(view->new_root);
    if (!err && fchdir(view->new_root) < 0) err = -errno;
    return err ? err : k_pivot_root(".", ".");
}

/* The root tmpfs holds every other mount point and "/.." leads to whatever lies on it, so nothing may. */
static int apply(struct view *view, const struct mount_record *m) {
    view->launch->detail[0] = 0;
    if (m->target[1]) return KINDS[m->kind].apply(view, m);
    set_detail(view->launch, "the root itself cannot be a target");
    return -EINVAL;
}

#ifdef CORRAL_FAULTS
/* As somebody does who holds a descriptor of the first private area: its names `a` and `b` change places. */
static void exchange(const struct view *view, uint32_t kind) {
    int areas = view->launch->areas_fd;
    if (areas >= 0 && (kind == MOUNT_BIND || kind == MOUNT_AREA) && is_fault(view->launch, "exchange"))
        (void)syscall(SYS_renameat2, areas, "0/a", areas, "0/b", K_RENAME_EXCHANGE);
}
#endif

static void tell_record(struct view *view, const struct mount_record *m) {
    char reason[DETAIL_SIZE];
    memcpy(reason, view->launch->detail, sizeof reason);
    set_detail(view->launch, *reason ? "%s %s: %s" : "%s %s", KINDS[m->kind].name, m->target, reason);
}

/* ORDER: before anything is bound. In place, the tree that is bound from is the one that is bound upon, and what is
 * writable inside of a read-only bind could then only be had read-only. */
static int clone_early(struct view *view) {
    const struct spec *spec = &view->launch->spec;
    for (size_t i = 0; i < spec->count[RECORD_MOUNT]; i++) {
        if (view->launch->trees) view->places[i].tree = view->launch->trees[i];
        if (!view->places[i].is_early || view->places[i].lies_in_overlay) continue;
        view->launch->detail[0] = 0;
        int tree = bind_clone(view, &spec->mounts[i]);
        if (tree < 0) tell_record(view, &spec->mounts[i]);
        if (tree < 0) return tree;
        view->places[i].tree = tree;
    }
    return 0;
}

static int apply_all(struct view *view) {
    const struct spec *spec = &view->launch->spec;
    int err = bases_plan(view);
    if (!err) err = clone_early(view);
    for (size_t i = 0; !err && i < spec->count[RECORD_MOUNT]; i++) {
        const struct mount_record *m = &spec->mounts[i];
        view->place = &view->places[i];
        err = apply(view, m);
#ifdef CORRAL_FAULTS
        exchange(view, m->kind);
#endif
        if (err) tell_record(view, m);
        parent_forget(view, m->target);
    }
    bases_close(view);
    return err;
}

/* The caller's terminal has a name on the host only. Programs that ask for it (ttyname(3): tty, gpg, tmux) look
 * through /dev, so it is shown there as the console. A comfort: when it cannot be had, nothing is lost. */
static void show_terminal(struct view *view, const char *name) {
    struct stat status;
    if (!*name || fstat(STDIN_FILENO, &status) < 0) return;
    struct mount_record m = {.kind = MOUNT_BIND, .flags = MOUNT_DEVICES | MOUNT_READ_ONLY, .device = status.st_dev,
                             .inode = status.st_ino, .source = name, .target = "/dev/console"};
    (void)mount_bind(view, &m);
}

/* INVARIANT: read while /proc is still the host's; empty when stdin is no terminal of the host's /dev. */
static void find_terminal(char *name, size_t size) {
    ssize_t length = isatty(STDIN_FILENO) ? readlink("/proc/self/fd/0", name, size - 1) : 0;
    name[length > 0 ? length : 0] = 0;
    if (strncmp(name, "/dev/", 5) != 0 || strstr(name, "/../")) name[0] = 0;
}

int host_proc(struct view *view) {
    if (view->host_proc < 0) view->host_proc = beneath_open(view->old_root, "/proc");
    return view->host_proc;
}

static int leave_old_root(struct view *view) {
    set_detail(view->launch, "detach the old root");
    if (view->host_proc >= 0 && close(view->host_proc) < 0) return -errno;
    if (fchdir(view->old_root) < 0 || umount2(".", MNT_DETACH) < 0) return -errno;
    if (chdir("/") < 0 || close(view->old_root) < 0) return -errno;
    return 0;
}

/* ORDER: read-only last: until here mount points were made on these file systems. */
static int seal(struct view *view) {
    set_detail(view->launch, "seal");
    int err = masks_remove(view);
    if (!err) err = identity_give(view);
    for (size_t i = 0; !err && i < view->owned; i++) {
        if (view->own[i].read_only) err = k_mount_setattr(view->own[i].fd, 0, K_MOUNT_ATTR_RDONLY);
        close(view->own[i].fd);
    }
    return err;
}

static int build(struct view *view) {
    char terminal[64];
    find_terminal(terminal, sizeof terminal);
    set_detail(view->launch, "new root");
    int err = enter_root(view);
    if (!err) err = apply_all(view);
    if (!err) show_terminal(view, terminal);
    if (!err) err = leave_old_root(view);
    return err ? err : seal(view);
}

static int carry_out(struct launch *launch, int (*make)(struct view *)) {
    size_t count = launch->spec.count[RECORD_MOUNT];
    if (count == 0) return 0;
    size_t most = count + launch->spec.count[RECORD_EXPECT] + 1;
    struct view view = {.launch = launch, .own = calloc(most, sizeof *view.own), .parent_fd = -1, .host_proc = -1,
                        .lower = -1};
    if (!view.own) return -ENOMEM;
    mode_t mask = umask(0); /* modes are meant as written; the command keeps its own mask */
    int err = make(&view);
    parent_forget(&view, "");
    if (view.lower >= 0) close(view.lower);
    umask(mask);
    free(view.own);
    return err;
}

int phase_mounts(struct launch *launch) { return carry_out(launch, build); }

/* INVARIANT: in place, nothing is made but in a tmpfs that is private to the run. */
static const char COVERS[] = "/.corral", LAYERS[] = "/.corral-layers";

int covers_open(struct view *view) {
    int fd = k_openat2(AT_FDCWD, COVERS, O_PATH | O_DIRECTORY | O_CLOEXEC, K_RESOLVE_NO_SYMLINKS);
    if (fd < 0) set_detail(view->launch, "no place for masks at %s", COVERS);
    return fd;
}

/* Then it is looked at afterwards only. */
static bool is_made_here(const struct spec *spec, const char *path) {
    for (size_t i = 0; i < spec->count[RECORD_MOUNT]; i++)
        if (spec->mounts[i].kind == MOUNT_TMPFS && strcmp(spec->mounts[i].target, path) == 0) return true;
    return false;
}

static int add_areas(struct view *view) {
    const struct spec *spec = &view->launch->spec;
    int err = 0;
    for (size_t i = 0; !err && i < spec->count[RECORD_EXPECT]; i++) {
        const struct expect_record *e = &spec->expects[i];
        if ((e->flags & (EXPECT_TMPFS | EXPECT_READ_ONLY)) != EXPECT_TMPFS || is_made_here(spec, e->path)) continue;
        err = expect_check(view->launch, e);
        int fd = err ? err : k_openat2(AT_FDCWD, e->path, O_PATH | O_CLOEXEC, K_RESOLVE_NO_SYMLINKS);
        err = fd < 0 ? fd : view_add_own(view, fd, false);
    }
    return err;
}

/* With all that is mounted in it. */
static int take_away(struct view *view, const char *path) {
    set_detail(view->launch, "take %s away", path);
    return umount2(path, MNT_DETACH) < 0 ? -errno : 0;
}

/* The root and all it shows is somebody else's; upon it, paths are bound onto themselves or hidden, by a private area
 * as well, and files are made in private areas. */
static int build_in_place(struct view *view) {
    view->covers = -1;
    view->is_in_place = true;
    /* What the host mounts from now on must not appear here: nobody would have looked at it. */
    set_detail(view->launch, "make mounts private");
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0) return -errno;
    view->new_root = view->old_root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (view->new_root < 0) return -errno;
    int err = add_areas(view);
    if (!err) err = apply_all(view);
    if (!err) err = masks_remove(view);
    for (size_t i = 0; i < view->owned; i++) close(view->own[i].fd);
    close(view->new_root);
    if (view->host_proc >= 0) close(view->host_proc);
    if (view->covers >= 0) close(view->covers);
    if (!err && view->covers >= 0) err = take_away(view, COVERS);
    return !err && view->lower >= 0 ? take_away(view, LAYERS) : err;
}

int phase_in_place(struct launch *launch) {
    return launch->spec.count[RECORD_INSIDE] ? carry_out(launch, build_in_place) : 0;
}
