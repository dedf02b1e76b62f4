/* trace: with `corral run --trace` the supervisor traces the command and all that it starts. The filter stops calls on
 * files (SECCOMP_RET_TRACE) and no others; each is stopped once more at its end, and told if it failed.
 *
 * INVARIANT: the tracer changes nothing: neither a call nor its outcome nor memory. What it reads from memory is told as
 * claimed. The kernel asks the filter whatever a tracer does, and with the tracer all that is traced ends. */
#include "trace.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kernel_observe.h"
#include "report.h"

enum {
    CALLS = 4096,    /* that can be under way at once; of more the outcome is not seen */
    TOLD = 2048,     /* different failures; of more nothing is told */
    TURN = 256,      /* stops in one turn of the supervisor's loop */
    NAME = 450,      /* of a path, no more is told: a line has four of them at most */
    CLONES = K_TRACE_FORK | K_TRACE_VFORK | K_TRACE_CLONE,
};

static struct call {
    pid_t thread;
    uint32_t number;
    uint64_t arguments[6];
} calls[CALLS];

static uint64_t told[2 * TOLD];
static size_t told_count;

bool is_traced(const struct launch *launch) {
    for (size_t i = 0; i < launch->spec.count[RECORD_LISTEN]; i++)
        if (launch->spec.listens[i].strings & LISTEN_TRACED) return true;
    return false;
}

int trace_ask(struct launch *launch) {
    char answer = 0;
    if (!is_traced(launch)) return 0;
    set_detail(launch, "be traced by the supervisor");
    /* The supervisor may trace who is dumpable alone. There is nobody else inside yet. */
    if (prctl(PR_SET_DUMPABLE, 1) < 0) return -errno;
    if (send(launch->listen_other_fd, "trace", 5, MSG_NOSIGNAL) < 0) return -errno;
    if (recv(launch->listen_other_fd, &answer, 1, 0) != 1) return -EPIPE;
    return -answer;
}

/* Who asks, in numbers of the supervisor's own namespace: the kernel says so. */
static pid_t read_asking(int socket) {
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(sizeof(struct ucred))];
    } ancillary;
    char word[8];
    struct iovec data = {.iov_base = word, .iov_len = sizeof word};
    struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1, .msg_control = ancillary.room,
                             .msg_controllen = sizeof ancillary.room};
    struct ucred asking = {0};
    if (recvmsg(socket, &message, MSG_DONTWAIT) <= 0) return 0;
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    if (!header || header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_CREDENTIALS) return 0;
    memcpy(&asking, CMSG_DATA(header), sizeof asking);
    return asking.pid;
}

static int expect_names(int socket, int on) {
    return setsockopt(socket, SOL_SOCKET, SO_PASSCRED, &on, sizeof on) < 0 ? -errno : 0;
}

int trace_prepare(struct launch *launch) { return is_traced(launch) ? expect_names(launch->listen_fd, 1) : 0; }

bool trace_begin(struct launch *launch) {
    static bool has_begun;
    long options = K_TRACE_SYSGOOD | CLONES | K_TRACE_EXEC | K_TRACE_SECCOMP | K_TRACE_EXITKILL;
    if (has_begun || !is_traced(launch)) return false;
    has_begun = true;
    pid_t pid = read_asking(launch->listen_fd);
    if (!pid) return false;
    (void)expect_names(launch->listen_fd, 0);
    char answer = k_ptrace(K_PTRACE_SEIZE, pid, 0, (unsigned long)options) < 0 ? (char)errno : 0;
    while (send(launch->listen_fd, &answer, 1, MSG_NOSIGNAL) < 0 && errno == EINTR) continue;
    return true;
}

static struct call *find_call(pid_t thread, bool is_new) {
    size_t first = (size_t)thread % CALLS;
    for (size_t i = 0; i < 16; i++) {
        struct call *one = &calls[(first + i) % CALLS];
        if (one->thread == thread) return one;
        if (is_new && !one->thread) {
            one->thread = thread;
            return one;
        }
    }
    return NULL;
}

static void read_string(pid_t thread, uint64_t at, char into[NAME]) {
    struct iovec here = {.iov_base = into, .iov_len = NAME - 1}, there = {.iov_base = (void *)(uintptr_t)at, .iov_len = NAME - 1};
    ssize_t got = process_vm_readv(thread, &here, 1, &there, 1, 0);
    into[got > 0 ? got : 0] = 0;
}

/* The directory that a path is relative to, as the kernel has it. */
static void read_base(pid_t thread, const struct call *call, uint32_t strings, unsigned which, char into[NAME]) {
    char link[64];
    int directory = strings & 1u << (LISTEN_DIRECTORY + which) ? (int)call->arguments[which - 1] : -1;
    if (directory < 0) snprintf(link, sizeof link, "/proc/%d/cwd", (int)thread);
    else snprintf(link, sizeof link, "/proc/%d/fd/%d", (int)thread, directory);
    ssize_t got = readlink(link, into, NAME - 1);
    into[got > 0 ? got : 0] = 0;
}

/* Whether a line is another one than all before. */
static bool is_new_line(const char *line) {
    uint64_t sum = 0xcbf29ce484222325u;
    for (; *line; line++) sum = (sum ^ (unsigned char)*line) * 0x100000001b3u;
    if (!sum || told_count == TOLD) return false;
    size_t at = (size_t)(sum % (2 * TOLD));
    for (; told[at]; at = (at + 1) % (2 * TOLD))
        if (told[at] == sum) return false;
    told[at] = sum;
    told_count++;
    return true;
}

/* Which argument says how a file is opened; of the others none is told, and the same failure is one line. */
static int flags_of(uint32_t number) {
#ifdef SYS_open
    if (number == SYS_open) return 1;
#endif
    return number == SYS_openat ? 2 : -1;
}

static void tell_failed(const struct launch *launch, const struct call *call, pid_t thread, int error) {
    char line[160 + 4 * 2 * NAME], text[NAME];
    const struct listen_record *one = launch->spec.listens;
    const struct listen_record *end = one + launch->spec.count[RECORD_LISTEN];
    while (one < end && one->number != call->number) one++;
    if (one == end) return;
    size_t length = (size_t)snprintf(line, 160, "traced %x %x", (unsigned)call->number, (unsigned)error);
    for (int i = 0; i < 6; i++)
        length += (size_t)snprintf(line + length, 20, " %x", i == flags_of(call->number) ? (unsigned)call->arguments[i] : 0u);
    for (unsigned i = 0, count = 0; i < 6 && count < 2; i++) {
        if (!(one->strings & 1u << i)) continue;
        count++;
        line[length++] = ' ';
        read_base(thread, call, one->strings, i, text);
        length += hex_put(line + length, text, strlen(text));
        line[length++] = ' ';
        read_string(thread, call->arguments[i], text);
        length += hex_put(line + length, text, strlen(text));
    }
    line[length] = 0;
    if (!is_new_line(line)) return;
    line[length++] = '\n';
    status_write(line, length);
}

static bool is_refusal(int64_t value) {
    return value == -EACCES || value == -EPERM || value == -EROFS || value == -EBUSY || value == -ENOENT;
}

/* Says how to go on. */
static long on_call(const struct launch *launch, pid_t thread) {
    struct k_syscall_info info = {0};
    if (k_ptrace(K_PTRACE_GET_SYSCALL_INFO, thread, sizeof info, (unsigned long)&info) < 0) return K_PTRACE_CONT;
    struct call *call = find_call(thread, info.operation == K_SYSCALL_SECCOMP);
    if (!call) return K_PTRACE_CONT;
    if (info.operation == K_SYSCALL_SECCOMP) {
        call->number = (uint32_t)info.seccomp.number;
        memcpy(call->arguments, info.seccomp.arguments, sizeof call->arguments);
        return K_PTRACE_SYSCALL; /* until its end */
    }
    if (info.operation == K_SYSCALL_EXIT && is_refusal(info.exit.value))
        tell_failed(launch, call, thread, (int)-info.exit.value);
    call->thread = 0;
    return K_PTRACE_CONT;
}

static void on_stop(const struct launch *launch, pid_t thread, int status) {
    int signal = WSTOPSIG(status), event = status >> 16;
    long way = K_PTRACE_CONT;
    if (event == K_TRACE_EVENT_SECCOMP || signal == (SIGTRAP | 0x80)) {
        way = on_call(launch, thread);
        signal = 0;
    } else if (event == K_TRACE_EVENT_STOP && signal != SIGTRAP) {
        way = K_PTRACE_LISTEN; /* it is stopped as a group, and stays so */
        signal = 0;
    } else if (event) {
        signal = 0;
    }
    (void)k_ptrace(way, thread, 0, (unsigned long)signal); /* ESRCH: it was ended meanwhile */
}

bool trace_act(const struct launch *launch) {
    if (!is_traced(launch)) return false;
    for (int i = 0; i < TURN; i++) {
        siginfo_t info = {0};
        int status = 0;
        int flags = WEXITED | WSTOPPED | WNOHANG | WNOWAIT | K_WALL;
        if (waitid(P_ALL, 0, &info, flags) < 0 || !info.si_pid || info.si_pid == launch->child) return false;
        if (waitpid(info.si_pid, &status, WNOHANG | K_WALL) != info.si_pid) continue;
        if (WIFSTOPPED(status)) on_stop(launch, info.si_pid, status);
        else {
            struct call *call = find_call(info.si_pid, false);
            if (call) call->thread = 0;
        }
    }
    return true;
}
