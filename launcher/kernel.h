/* The kernel interfaces the launcher uses, with our own names and numbers.
 *
 * The build host's headers may be older than the kernel the launcher will meet, and a static program
 * cannot ask libc for wrappers it does not have. Everything here exists since Linux 5.13 at the latest
 * (later Landlock fields are passed as zero where unused, which older kernels accept). No header below linux/
 * is used: a C library of its own, such as musl, comes without them. */
#ifndef CORRAL_KERNEL_H
#define CORRAL_KERNEL_H

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

/* New-style system calls have one number on every architecture but alpha, which corral does not serve. */
enum {
    NR_OPEN_TREE = 428,
    NR_MOVE_MOUNT = 429,
    NR_FSOPEN = 430,
    NR_FSCONFIG = 431,
    NR_FSMOUNT = 432,
    NR_PIDFD_OPEN = 434,
    NR_CLONE3 = 435,
    NR_CLOSE_RANGE = 436,
    NR_OPENAT2 = 437,
    NR_PIDFD_GETFD = 438,
    NR_MOUNT_SETATTR = 442,
    NR_LANDLOCK_CREATE_RULESET = 444,
    NR_LANDLOCK_ADD_RULE = 445,
    NR_LANDLOCK_RESTRICT_SELF = 446,
};

/* netlink(7), rtnetlink(7) */
enum {
    K_NETLINK_ROUTE = 0,
    K_NLMSG_ERROR = 2,
    K_RTM_NEWROUTE = 24,
    K_NLM_F_REQUEST = 0x1,
    K_NLM_F_ACK = 0x4,
    K_NLM_F_REPLACE = 0x100,
    K_NLM_F_CREATE = 0x400,
    K_RT_TABLE_LOCAL = 255,
    K_RTPROT_STATIC = 4,
    K_RT_SCOPE_HOST = 254,
    K_RTN_LOCAL = 2,
    K_RTA_OIF = 4,
};

struct k_nlmsghdr {
    uint32_t length;
    uint16_t type, flags;
    uint32_t sequence, port;
};

struct k_rtmsg {
    uint8_t family, destination_length, source_length, tos, table, protocol, scope, type;
    uint32_t flags;
};

struct k_rtattr {
    uint16_t length, type;
};

#define K_CLONE_NEWNS 0x00020000u
#define K_CLONE_NEWCGROUP 0x02000000u
#define K_CLONE_NEWUTS 0x04000000u
#define K_CLONE_NEWIPC 0x08000000u
#define K_CLONE_NEWUSER 0x10000000u
#define K_CLONE_NEWPID 0x20000000u
#define K_CLONE_NEWNET 0x40000000u
#define K_CLONE_INTO_CGROUP 0x200000000ull

#define K_RESOLVE_NO_SYMLINKS 0x04u
#define K_RESOLVE_BENEATH 0x08u
#define K_RENAME_EXCHANGE 2u

#define K_AT_RECURSIVE 0x8000u
#define K_AT_SYMLINK_NOFOLLOW 0x100u
#define K_AT_EMPTY_PATH 0x1000u
#define K_OPEN_TREE_CLONE 1u
#define K_MOVE_MOUNT_F_EMPTY_PATH 0x04u
#define K_MOVE_MOUNT_T_EMPTY_PATH 0x40u

#define K_FSOPEN_CLOEXEC 1u
#define K_FSMOUNT_CLOEXEC 1u
enum { K_FSCONFIG_SET_FLAG = 0, K_FSCONFIG_SET_STRING = 1, K_FSCONFIG_CMD_CREATE = 6 };

#define K_MOUNT_ATTR_RDONLY 0x1u
#define K_MOUNT_ATTR_NOSUID 0x2u
#define K_MOUNT_ATTR_NODEV 0x4u
#define K_MOUNT_ATTR_NOEXEC 0x8u
#define K_MOUNT_ATTR_IDMAP 0x100000u
#define K_PIPEFS_MAGIC 0x50495045

#define K_CLOSE_RANGE_CLOEXEC 4u

#define K_STATX_ATTR_MOUNT_ROOT 0x2000u

enum { K_LANDLOCK_RULE_PATH_BENEATH = 1, K_LANDLOCK_RULE_NET_PORT = 2 };
#define K_LANDLOCK_CREATE_RULESET_VERSION 1u

#define K_KEYCTL_JOIN_SESSION_KEYRING 1

#define K_LANDLOCK_FS_WRITE_FILE (1ull << 1)
#define K_LANDLOCK_FS_READ_FILE (1ull << 2)
#define K_LANDLOCK_FS_TRUNCATE (1ull << 14)
#define K_LANDLOCK_FS_IOCTL_DEV (1ull << 15)
#define K_LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET (1ull << 0)
#define K_LANDLOCK_SCOPE_SIGNAL (1ull << 1)

#define K_SECCOMP_MODE_FILTER 2
#define K_SECCOMP_SET_MODE_FILTER 1
#define K_SECCOMP_FLAG_NEW_LISTENER (1u << 3)
#define K_SECCOMP_FLAG_WAIT_KILLABLE_RECV (1u << 5) /* Linux 5.19 */
#define K_SECCOMP_RET_USER_NOTIF 0x7fc00000u
#define K_SECCOMP_RET_ALLOW 0x7fff0000u
#define K_SECCOMP_RET_ERRNO 0x00050000u

#define K_CAPABILITY_VERSION_3 0x20080522u
#define K_CAP_DAC_OVERRIDE 1
#define K_CAP_SETPCAP 8
/* securebits(7): each with its lock */
#define K_SECBITS_NOROOT 0x03u
#define K_SECBITS_NO_SETUID_FIXUP 0x0cu
#define K_SECBIT_KEEP_CAPS_LOCKED 0x20u
#define K_SECBITS_NO_CAP_AMBIENT_RAISE 0xc0u

struct k_sock_filter {
    uint16_t code;
    uint8_t jt, jf;
    uint32_t k;
};

struct k_sock_fprog {
    unsigned short len;
    struct k_sock_filter *filter;
};

struct k_cap_header {
    uint32_t version;
    int32_t pid;
};

struct k_cap_data {
    uint32_t effective, permitted, inheritable;
};

/* Since Linux 5.7 with its last field. */
struct k_clone_args {
    uint64_t flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls, set_tid, set_tid_size, cgroup;
};

struct k_open_how {
    uint64_t flags, mode, resolve;
};

struct k_mount_attr {
    uint64_t attr_set, attr_clr, propagation, userns_fd;
};

struct k_statx {
    uint32_t mask, block_size;
    uint64_t attributes;
    uint32_t links, uid, gid;
    uint16_t mode, padding;
    uint64_t inode, size, blocks, attributes_known, rest[24];
};

struct k_landlock_ruleset_attr {
    uint64_t handled_access_fs, handled_access_net, scoped;
};

struct k_landlock_path_beneath_attr {
    uint64_t allowed_access;
    int32_t parent_fd;
} __attribute__((packed));

struct k_landlock_net_port_attr {
    uint64_t allowed_access, port;
};

/* -1 and errno become -errno: the launcher's one error convention. */
static inline int k_result(long value) { return value < 0 ? -errno : (int)value; }

static inline int k_openat2(int directory, const char *path, uint64_t flags, uint64_t resolve) {
    struct k_open_how how = {.flags = flags, .resolve = resolve};
    return k_result(syscall(NR_OPENAT2, directory, path, &how, sizeof how));
}

/* Whether a descriptor is the top of a mount; -ENOSYS when the kernel cannot tell (before Linux 5.8). */
static inline int k_is_mount_root(int fd) {
    struct k_statx status;
    if (syscall(SYS_statx, fd, "", K_AT_EMPTY_PATH, 0, &status) < 0) return -errno;
    if (!(status.attributes_known & K_STATX_ATTR_MOUNT_ROOT)) return -ENOSYS;
    return (status.attributes & K_STATX_ATTR_MOUNT_ROOT) != 0;
}

static inline int k_open_tree(int directory, const char *path, unsigned flags) {
    return k_result(syscall(NR_OPEN_TREE, directory, path, flags));
}

static inline int k_move_mount(int from, int to) {
    return k_result(syscall(NR_MOVE_MOUNT, from, "", to, "", K_MOVE_MOUNT_F_EMPTY_PATH | K_MOVE_MOUNT_T_EMPTY_PATH));
}

static inline int k_mount_setattr(int mount, unsigned flags, uint64_t set) {
    struct k_mount_attr attr = {.attr_set = set};
    return k_result(syscall(NR_MOUNT_SETATTR, mount, "", K_AT_EMPTY_PATH | flags, &attr, sizeof attr));
}

static inline int k_fsopen(const char *type) { return k_result(syscall(NR_FSOPEN, type, K_FSOPEN_CLOEXEC)); }

static inline int k_fsconfig(int context, unsigned command, const char *key, const char *value) {
    return k_result(syscall(NR_FSCONFIG, context, command, key, value, 0));
}

static inline int k_fsmount(int context, unsigned attributes) {
    return k_result(syscall(NR_FSMOUNT, context, K_FSMOUNT_CLOEXEC, attributes));
}

static inline int k_close_range(unsigned first, unsigned flags) {
    return k_result(syscall(NR_CLOSE_RANGE, first, ~0u, flags));
}

static inline int k_landlock_create(const struct k_landlock_ruleset_attr *attr, size_t size, unsigned flags) {
    return k_result(syscall(NR_LANDLOCK_CREATE_RULESET, attr, size, flags));
}

static inline int k_landlock_add(int ruleset, int type, const void *rule) {
    return k_result(syscall(NR_LANDLOCK_ADD_RULE, ruleset, type, rule, 0));
}

static inline int k_landlock_restrict(int ruleset) {
    return k_result(syscall(NR_LANDLOCK_RESTRICT_SELF, ruleset, 0));
}

static inline int k_join_session_keyring(void) {
    return k_result(syscall(SYS_keyctl, K_KEYCTL_JOIN_SESSION_KEYRING, NULL));
}

/* Not by libc, which keeps some signals to itself, and whose posix_spawn leaves those ignored in its children. */
static inline int k_default_signal(int signal) {
    static const uint64_t STANDARD[8] = {0}; /* all fields of the kernel's sigaction, on every architecture */
    return k_result(syscall(SYS_rt_sigaction, signal, STANDARD, NULL, sizeof(uint64_t)));
}

static inline int k_pivot_root(const char *new_root, const char *put_old) {
    return k_result(syscall(SYS_pivot_root, new_root, put_old));
}

/* Like fork(), in new namespaces. The program has one thread and no fork handlers, so libc needs no say. */
static inline int k_clone(unsigned long flags) {
#if defined(__s390__)
    return k_result(syscall(SYS_clone, NULL, flags, NULL, NULL, NULL));
#else
    return k_result(syscall(SYS_clone, flags, NULL, NULL, NULL, NULL));
#endif
}

static inline int k_clone3(const struct k_clone_args *args) { return k_result(syscall(NR_CLONE3, args, sizeof *args)); }

#endif
