/* The kernel interfaces by which the supervisor observes commands, as in kernel.h. */
#ifndef CORRAL_KERNEL_OBSERVE_H
#define CORRAL_KERNEL_OBSERVE_H

#include "kernel.h"

/* linux/seccomp.h: a call that a filter asks about, and the answer */
struct k_seccomp_data {
    int32_t number;
    uint32_t architecture;
    uint64_t instruction, arguments[6];
};

struct k_notif {
    uint64_t id;
    uint32_t pid, flags;
    struct k_seccomp_data data;
};

struct k_notif_answer {
    uint64_t id;
    int64_t value;
    int32_t error;
    uint32_t flags;
};

/* ptrace(2), since Linux 5.3 */
enum {
    K_PTRACE_CONT = 7, K_PTRACE_SYSCALL = 24, K_PTRACE_SEIZE = 0x4206, K_PTRACE_LISTEN = 0x4208,
    K_PTRACE_GET_SYSCALL_INFO = 0x420e,
    K_TRACE_SYSGOOD = 1, K_TRACE_FORK = 2, K_TRACE_VFORK = 4, K_TRACE_CLONE = 8, K_TRACE_EXEC = 16, K_TRACE_SECCOMP = 128,
    K_TRACE_EXITKILL = 1 << 20,
    K_TRACE_EVENT_SECCOMP = 7, K_TRACE_EVENT_STOP = 128,
    K_SYSCALL_EXIT = 2, K_SYSCALL_SECCOMP = 3,
    K_WALL = 0x40000000,
};

struct k_syscall_info {
    uint8_t operation, padding[3];
    uint32_t architecture;
    uint64_t instruction, stack;
    union {
        struct { int64_t value; uint8_t is_error; } exit;
        struct { uint64_t number, arguments[6]; uint32_t data; } seccomp;
    };
};

#define K_NOTIF_RECV 0xc0502100u
#define K_NOTIF_SEND 0xc0182101u
#define K_NOTIF_ID_VALID 0x40082102u
#define K_NOTIF_SET_FLAGS 0x40082104u
#define K_NOTIF_CONTINUE 1u
#define K_NOTIF_SYNC_WAKE_UP 1u

/* Not by libc, which has an enumeration of its own for the requests. */
static inline int k_ptrace(long request, int pid, unsigned long address, unsigned long data) {
    return k_result(syscall(SYS_ptrace, request, (long)pid, address, data));
}

#endif
