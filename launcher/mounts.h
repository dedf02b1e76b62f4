/* Building the command's file system. */
#ifndef CORRAL_MOUNTS_H
#define CORRAL_MOUNTS_H

#include <limits.h>
#include <sys/stat.h>

#include "launch.h"

/* A tmpfs that this launch has made. */
struct own_mount {
    int fd;
    dev_t device;
    bool read_only; /* becomes so at the end: mount points may still have to be made in it */
};

/* Of one record: where its target is looked up. */
struct place {
    struct place *base; /* of the mount that the target lies in; NULL: from the root */
    size_t length;      /* of what the target begins with, the base's own target */
    int fd;             /* its own mount, if others lie in it; -1 until it is there */
    int tree;           /* what is to be bound, if it was cloned early; else -1 */
    bool is_base, is_needed, is_early;
    bool lies_in_bind;  /* what is there is the host's, and must be what was planned */
    bool lies_in_overlay; /* or shows it, under numbers of its own */
};

struct view {
    struct launch *launch;
    bool is_in_place; /* the root is somebody else's */
    struct place *places, *place; /* of all records; of the one that is being applied */
    int old_root, new_root; /* neither has a name the other could reach; in place both are the same */
    int host_proc;          /* in the old root, or -1 while nobody has asked; what is mounted upon it is not seen by it */
    int covers;             /* a tmpfs of ours, where masks are made */
    int lower;              /* the host's directory beneath an overlay, or -1; */
    size_t lower_length;    /* and of its path */
    struct own_mount *own;
    size_t owned;
    bool has_masks;
    unsigned areas; /* that were made so far */
    bool has_old_areas; /* of the sandbox that this one is the successor of */
    int parent_fd;      /* the directory that something was made in last, or -1; */
    bool is_parent_sealed; /* in the end: nobody writes there */
    char parent[PATH_MAX]; /* most of what is made lies beside what was made before */
};

/* target.c: finding and making places to mount on, inside the new root.
 * INVARIANT: nothing is ever created on a file system of the host, and no symbolic link is ever followed. */
int target_open(struct view *view, const char *path);
int target_parent(struct view *view, const char *path, const char **name); /* the view keeps it open */
void parent_forget(struct view *view, const char *mounted);
int target_make_directory(struct view *view, const char *path, mode_t mode);
int target_make_file(struct view *view, const char *path, mode_t mode);
bool target_is_own(const struct view *view, dev_t device);
int beneath_open(int root, const char *path);

/* base.c: what lies in a mount is looked up from there. */
int bases_plan(struct view *view);
int base_hold(struct view *view, int fd);
void bases_close(struct view *view);

/* mount_fs.c: new file systems, detached. */
int filesystem_new(const char *type, const char *const options[][2], unsigned attributes);
int attach(struct view *view, int fd, const char *path);
int view_add_own(struct view *view, int fd, bool read_only);
int mount_tmpfs(struct view *view, const struct mount_record *m);
int mount_area(struct view *view, const struct mount_record *m);
int mount_proc(struct view *view, const struct mount_record *m);
int mount_devpts(struct view *view, const struct mount_record *m);

/* mount_ops.c: what is shown or hidden of the host, and what is made up. */
int tell_changed(struct view *view);
int check_planned(struct view *view, const struct mount_record *m, const struct stat *found);
int clone_tree(int source, const char *path, uint64_t attributes);
int bind_clone(struct view *view, const struct mount_record *m); /* what a record binds, detached */
int mount_bind(struct view *view, const struct mount_record *m);
int mount_mask(struct view *view, const struct mount_record *m);
int mount_link(struct view *view, const struct mount_record *m);
int mount_symlink(struct view *view, const struct mount_record *m);
int mount_file(struct view *view, const struct mount_record *m);
int mount_copy(struct view *view, const struct mount_record *m);
int mount_directory(struct view *view, const struct mount_record *m);
int masks_remove(struct view *view);
int host_proc(struct view *view); /* mounts.c: the view keeps it open until the old root goes */
int covers_open(struct view *view); /* mounts.c: in place, the tmpfs that somebody else has made for masks */

/* identity.c: what the launch has made belongs to the command. */
int identity_give(struct view *view);

/* overlay.c: the layers of a trial, and what is held in them. */
int mount_overlay(struct view *view, const struct mount_record *m);
int overlay_check(struct view *view, const struct mount_record *m);
int overlay_bind(struct view *view, const struct mount_record *m, uint64_t attributes);

#endif
