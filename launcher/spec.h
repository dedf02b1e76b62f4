/* What the launcher is told to do: the decoded spec. Python's twin is src/corral/linux/spec.py. */
#ifndef CORRAL_SPEC_H
#define CORRAL_SPEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernel.h"

enum {
    SPEC_MAX_BYTES = 8 * 1024 * 1024,
    SPEC_MAX_RECORDS = 1000000,
    SPEC_MAX_FILTER = 4096, /* instructions */
    SPEC_MAX_HOSTNAME = 64,
    SPEC_MAX_PORTS = 128, /* of a gateway */
    SPEC_MAX_GROUPS = 10, /* that are made: each has a digit */
};

enum record_type {
    RECORD_NAMESPACES = 1,
    RECORD_ID_MAP,
    RECORD_CGROUP,
    RECORD_MOUNT,
    RECORD_HOSTNAME,
    RECORD_LOOPBACK,
    RECORD_RLIMIT,
    RECORD_LANDLOCK,
    RECORD_LANDLOCK_PATH,
    RECORD_LANDLOCK_PORT,
    RECORD_SECCOMP,
    RECORD_CWD,
    RECORD_ARGUMENT,
    RECORD_ENVIRONMENT,
    RECORD_WALL,
    RECORD_TERMINAL,
    RECORD_FAULT,
    RECORD_AREAS,
    RECORD_CGROUP_KILL,
    RECORD_CPU_TIME,
    RECORD_WATCH,
    RECORD_LINGER,
    RECORD_INSIDE,
    RECORD_EXPECT,
    RECORD_IMAGE_ENVIRONMENT,
    RECORD_SERVE,
    RECORD_KEEP,
    RECORD_GATEWAY,
    RECORD_LOCK,
    RECORD_GROUP,
    RECORD_GROUP_SETTING,
    RECORD_LISTEN,
    RECORD_GUARD,
    RECORD_GUARDED,
    RECORD_NAME,
    RECORD_SEARCHED,
    RECORD_AWAIT = 50, /* there are none between */
    RECORD_IDENTITY,
    RECORD_TYPES,
};

enum mount_kind {
    MOUNT_BIND = 1,
    MOUNT_TMPFS,
    MOUNT_PROC,
    MOUNT_DEVPTS,
    MOUNT_SYMLINK,
    MOUNT_FILE,
    MOUNT_DIRECTORY,
    MOUNT_MASK,
    MOUNT_AREA,
    MOUNT_LINK,
    MOUNT_COPY,
    MOUNT_OVERLAY,
    MOUNT_KINDS,
};

enum mount_flag {
    MOUNT_READ_ONLY = 1,
    MOUNT_NO_EXEC = 2,
    MOUNT_DEVICES = 4,
    MOUNT_UNVERIFIED = 8,
    MOUNT_FLAGS = 15,
};

/* All strings point into spec.bytes and end in NUL there. */
struct mount_record {
    uint32_t kind, flags, mode;
    uint64_t device, inode, size;
    const char *source, *target;
    const uint8_t *content;
    uint32_t content_size;
};

enum cgroup_kind {
    CGROUP_TASKS = 1, /* a file of version 1 to which the child writes itself */
    CGROUP_BIRTH,     /* a directory of version 2 that the child is born in */
};

enum cgroup_kill_kind {
    CGROUP_KILL_FILE = 1, /* cgroup.kill of version 2 */
    CGROUP_KILL_FREEZER,  /* a directory of version 1's freezer */
};

/* A path of a control group may be "%N" or "%N/file": in the N-th one that the launcher makes. */
struct cgroup_record {
    uint32_t kind;
    const char *path;
};

/* A control group that the launcher makes, and removes in the end. */
struct group_record {
    const char *parent; /* a directory */
    char *path;         /* the group's own */
};

struct group_setting {
    const char *path, *value;
};

/* How much processor time the whole tree may use, and the file that tells how much it has. */
struct cpu_time_record {
    uint64_t limit_us, grace_ms;
    uint32_t divisor; /* of the number in the file, to get microseconds */
    const char *path;
};

/* Limits that no control group holds: the launcher looks itself, and ends or stops the tree. 0: none. */
struct watch_record {
    uint64_t memory, processes;
    uint32_t share_permille, processors; /* runs so much of the time, on so many processors at most */
};

enum expect_flag {
    EXPECT_READ_ONLY = 1,
    EXPECT_MOUNT_POINT = 2,
    EXPECT_TMPFS = 4, /* a private area */
    EXPECT_OTHER = 8, /* the object with this device and inode is hidden */
    EXPECT_ANY = 16,  /* nothing of the path is looked at; but with one such record no mount is that none names */
    EXPECT_BENEATH = 32, /* of the path no more is looked at than whether anything is mounted, beneath a cover */
    EXPECT_FLAGS = 63,
};

/* What must be found at a path inside a sandbox that somebody else has made. */
struct expect_record {
    uint32_t flags;
    uint64_t device, inode;
    const char *path;
};

enum serve_flag {
    SERVE_FILTERED = 1, /* the server itself is bound by the filter, so that its commands are from the beginning */
    SERVE_SIGNALS = 2,  /* commands may signal each other: a PID namespace holds them together */
    SERVE_SOCKETS = 4,  /* and meet at abstract sockets: a network namespace holds those */
    SERVE_FLAGS = 7,
};

enum gateway_flag {
    GATEWAY_ROUTES = 1, /* every address is made the sandbox's own */
    GATEWAY_NOTIFY = 2, /* no sockets: the filter tells corral about connections, and corral makes them */
    GATEWAY_PUBLISH = 4, /* sockets as well by which corral connects to servers inside */
    GATEWAY_FLAGS = 7,
};

enum listen_mask {
    LISTEN_STRINGS = 0x3f,     /* a bit for each argument */
    LISTEN_DIRECTORY = 8,      /* a bit from here on for each string: relative to the directory in the argument before */
    LISTEN_TRACED = 1 << 16,   /* it is not sent to the supervisor, but traced by it */
    LISTEN_THROTTLED = 1 << 17, /* of every call or none: whoever is refused much waits for the answers */
    LISTEN_HELD = 1 << 18,      /* the same: what is refused waits for its end, which corral sees to */
    LISTEN_MASK = 0x73f3f,
};

/* A call that the filter sends to the supervisor, and which of its arguments are strings. */
struct listen_record {
    uint32_t number, strings; /* enum listen_mask */
};

/* A directory with protected names, and which of the spec's names are in it. */
struct guarded_record {
    uint64_t device, inode;
    const char *path;
    size_t first, end;
};

enum name_flag {
    NAME_REPOSITORY = 1, /* a directory may be made there */
    NAME_FLAGS = 1,
};

struct name_record {
    uint32_t flags;
    const char *name;
    const char *link;  /* the text of a symbolic link that is there, and stays; empty: there is nothing */
    const char *label; /* as the policy names it */
};

struct rlimit_record {
    uint32_t resource;
    uint64_t soft, hard;
};

struct path_rule {
    uint64_t rights, device, inode; /* device and inode 0: not compared */
    const char *path;
};

struct port_rule {
    uint64_t rights, port;
};

struct spec {
    uint8_t *bytes;
    size_t count[RECORD_TYPES]; /* of records of each type: the length of the arrays below */

    uint32_t namespaces;
    const char *id_map[2]; /* uid, gid */
    uint32_t identity_first, identity_count; /* ids of the host that the command has as 0 and so on */
    struct cgroup_record *cgroups;
    struct cgroup_record cgroup_kill;
    struct group_record groups[SPEC_MAX_GROUPS];
    struct group_setting *settings;
    struct cpu_time_record cpu_time;
    struct watch_record watch;
    uint64_t areas_size, areas_inodes; /* of the file system that all private areas lie in */
    struct mount_record *mounts;
    struct expect_record *expects;
    const char *quarantine; /* where what was removed is kept; empty: it is removed */
    struct guarded_record *guarded;
    struct name_record *names;
    struct guarded_record *searched; /* for git directories, of which there may be none but those that mounts hold */
    const char *hostname;
    struct rlimit_record *rlimits;
    uint64_t handled_fs, handled_net, scoped;
    struct path_rule *paths;
    struct port_rule *ports;
    struct k_sock_filter *filter;
    uint16_t filter_length;
    struct listen_record *listens;
    const char *cwd;
    char **argv, **envp; /* end in NULL */
    uint64_t wall_ms, grace_ms;
    uint32_t serve_flags;
    uint32_t gateway_flags;
    uint16_t gateway_port[SPEC_MAX_PORTS];
    size_t gateway_ports;
    const char *fault;
};

/* Reads the whole of `fd` and decodes it. On -EINVAL, `why` says what is malformed. */
int spec_read(int fd, struct spec *spec, const char **why);

/* Decodes `size` bytes that spec->bytes will own from now on, whatever the outcome. */
int spec_decode(struct spec *spec, uint8_t *bytes, size_t size, const char **why);

void spec_free(struct spec *spec);

#endif
