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
    const char **cgroups;
    struct mount_record *mounts;
    const char *hostname;
    struct rlimit_record *rlimits;
    uint64_t handled_fs, handled_net, scoped;
    struct path_rule *paths;
    struct port_rule *ports;
    struct k_sock_filter *filter;
    uint16_t filter_length;
    const char *cwd;
    char **argv, **envp; /* end in NULL */
    uint64_t wall_ms, grace_ms;
    const char *fault;
};

/* Reads the whole of `fd` and decodes it. On -EINVAL, `why` says what is malformed. */
int spec_read(int fd, struct spec *spec, const char **why);

/* Decodes `size` bytes that spec->bytes will own from now on, whatever the outcome. */
int spec_decode(struct spec *spec, uint8_t *bytes, size_t size, const char **why);

void spec_free(struct spec *spec);

#endif
