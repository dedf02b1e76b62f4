/* Building the command's file system. */
#ifndef CORRAL_MOUNTS_H
#define CORRAL_MOUNTS_H

#include <sys/stat.h>

#include "launch.h"

/* A tmpfs that this launch has made. */
struct own_mount {
    int fd;
    dev_t device;
    bool read_only; /* becomes so at the end: mount points may still have to be made in it */
};

struct view {
    struct launch *launch;
    int old_root, new_root; /* neither has a name the other could reach; in place both are the same */
    int covers;             /* a tmpfs of ours, where masks are made */
    struct own_mount *own;
    size_t owned;
    bool has_masks;
    unsigned areas; /* that were made so far */
    bool has_old_areas; /* of the sandbox that this one is the successor of */
};

/* target.c: finding and making places to mount on, inside the new root.
 * INVARIANT: nothing is ever created on a file system of the host, and no symbolic link is ever followed. */
int target_open(struct view *view, const char *path);
int target_parent(struct view *view, const char *path, const char **name);
int target_make_directory(struct view *view, const char *path, mode_t mode);
int target_make_file(struct view *view, const char *path, mode_t mode);
bool target_is_own(const struct view *view, dev_t device);
int beneath_open(int root, const char *path);

/* mount_fs.c: new file systems, detached. */
int filesystem_new(const char *type, const char *const options[][2], unsigned attributes);
int view_add_own(struct view *view, int fd, bool read_only);
int mount_tmpfs(struct view *view, const struct mount_record *m);
int mount_area(struct view *view, const struct mount_record *m);
int areas_detach(struct view *view);
int mount_proc(struct view *view, const struct mount_record *m);
int mount_devpts(struct view *view, const struct mount_record *m);

/* mount_ops.c: what is shown or hidden of the host, and what is made up. */
int mount_bind(struct view *view, const struct mount_record *m);
int mount_mask(struct view *view, const struct mount_record *m);
int mount_link(struct view *view, const struct mount_record *m);
int mount_symlink(struct view *view, const struct mount_record *m);
int mount_file(struct view *view, const struct mount_record *m);
int mount_directory(struct view *view, const struct mount_record *m);
int masks_remove(struct view *view);
int covers_open(struct view *view); /* mounts.c: in place, the tmpfs that somebody else has made for masks */

#endif
