/* expect: after it, what another program was told to do is known to be done: what was planned lies where it was
 * planned, and is as writable as it should be. Before the command, which must not run otherwise. */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "kernel.h"
#include "launch.h"

enum { TMPFS_TYPE = 0x01021994 };

static int fail(struct launch *launch, const struct expect_record *e, const char *what, int err) {
    set_detail(launch, "%s %s", e->path, what);
    return err;
}

static int check_object(struct launch *launch, const struct expect_record *e, int fd) {
    struct stat found;
    if (e->flags & EXPECT_TMPFS) return 0; /* nobody knew its number */
    if (fstat(fd, &found) < 0) return -errno;
    bool is_same = found.st_dev == (dev_t)e->device && found.st_ino == (ino_t)e->inode;
    if (!(e->flags & EXPECT_OTHER)) return is_same ? 0 : fail(launch, e, "changed since it was planned", -ESTALE);
    return is_same ? fail(launch, e, "is not hidden", -EPERM) : 0;
}

static int check_place(struct launch *launch, const struct expect_record *e, int fd) {
    struct statfs system;
    if (fstatfs(fd, &system) < 0) return -errno;
    if (e->flags & EXPECT_TMPFS && system.f_type != TMPFS_TYPE) return fail(launch, e, "is not private", -EPERM);
    if (e->flags & EXPECT_READ_ONLY && !(system.f_flags & ST_RDONLY)) return fail(launch, e, "is writable", -EPERM);
    if (!(e->flags & (EXPECT_MOUNT_POINT | EXPECT_TMPFS))) return 0;
    int is_root = k_is_mount_root(fd);
    if (is_root < 0) return is_root;
    return is_root ? 0 : fail(launch, e, "is not a separate mount", -EPERM);
}

int expect_check(struct launch *launch, const struct expect_record *e) {
    set_detail(launch, "%s", e->path);
    int fd = k_openat2(AT_FDCWD, e->path, O_PATH | O_CLOEXEC, K_RESOLVE_NO_SYMLINKS);
    if (fd == -ENOENT || fd == -ENOTDIR || fd == -ELOOP) return fail(launch, e, "is not what was planned", -ESTALE);
    if (fd < 0) return fd;
    int err = check_object(launch, e, fd);
    if (!err) err = check_place(launch, e, fd);
    close(fd);
    return err;
}

int phase_expect(struct launch *launch) {
    const struct spec *spec = &launch->spec;
    for (size_t i = 0; i < spec->count[RECORD_EXPECT]; i++) {
        bool is_unseen = spec->expects[i].flags & (EXPECT_ANY | EXPECT_BENEATH);
        int err = is_unseen ? 0 : expect_check(launch, &spec->expects[i]);
        if (err) return err;
    }
    return expect_mounts(launch);
}

bool expect_areas_full(const struct launch *launch) {
    const struct spec *spec = &launch->spec;
    for (size_t i = 0; i < spec->count[RECORD_EXPECT]; i++) {
        struct statfs system;
        if (!(spec->expects[i].flags & EXPECT_TMPFS) || statfs(spec->expects[i].path, &system) < 0) continue;
        if (system.f_bfree == 0 || system.f_ffree == 0) return true;
    }
    return false;
}
