/* listen: calls that the filter refuses are told when they happen, and what commands write to standard error is heard on
 * its way, where it goes past corral (a terminal, `2>&1`).
 *
 * The kernel holds such a call and asks the supervisor, which answers with what the filter itself says: it interprets
 * the filter's program on the numbers that the kernel gives it, which no command can change. A refused call has its
 * errno in the lower half of the filter's answer; zero means that the call is permitted anyway, and goes on.
 *
 * INVARIANT: nothing is decided by what is read from a command's memory; that is told as claimed. A call that nobody
 * answers fails (ENOSYS), and with the supervisor the whole tree ends. */
#include "listen.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <termios.h>
#include <unistd.h>

#include "clock.h"
#include "control.h"
#include "kernel_observe.h"
#include "report.h"
#include "trace.h"

enum {
    HEARD = 16384,    /* bytes of standard error that are kept: its end */
    PIECE = 1024,     /* of them in one line of the status */
    CLAIM = 200,      /* of a string that a call was given */
    VECTORS = 16,
    NUMBERS = 1024,   /* of calls; each is told once, and counted */
    SAY_MS = 40,      /* what is heard is told so much later, with what came meanwhile, */
    SAID = 4096,      /* if that was not more than this: then its end */
    FREE = 4, DOUBLINGS = 10, LONGEST_MS = 1000, /* of throttling, as in corral's model/throttle.py */
};

static struct {
    bool is_open;             /* launch->listen_fd is the listener itself */
    struct stat errors;       /* standard error, as the command got it */
    char heard[2 * HEARD];
    size_t length, said;      /* of these bytes, and how many of them were told */
    int64_t say_at;           /* when the rest is to be told; monotonic milliseconds */
    uint32_t counted[NUMBERS];
    uint64_t refused;         /* of all together */
    int64_t paused_until;     /* monotonic milliseconds */
} listener;

int listen_prepare(struct launch *launch) {
    launch->listen_fd = launch->listen_other_fd = -1;
    if (!launch->spec.count[RECORD_LISTEN]) return 0;
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0) return -errno;
    launch->listen_fd = pair[0];
    launch->listen_other_fd = pair[1];
    if (fstat(STDERR_FILENO, &listener.errors) < 0) return -errno;
    return trace_prepare(launch);
}

void listen_choose_side(struct launch *launch, bool is_child) {
    if (launch->listen_fd < 0) return;
    close(is_child ? launch->listen_fd : launch->listen_other_fd);
    if (is_child) launch->listen_fd = launch->listen_other_fd;
    launch->listen_other_fd = -1;
}

/* The same filter for a host on which nobody can listen: a program around us does, or the kernel is too old. */
static void make_silent(struct k_sock_filter *filter, size_t length) {
    for (size_t i = 0; i < length; i++) {
        if (filter[i].code != 0x06 || (filter[i].k & 0xffff0000u) != K_SECCOMP_RET_USER_NOTIF) continue;
        uint32_t error = filter[i].k & 0xffffu;
        filter[i].k = error ? K_SECCOMP_RET_ERRNO | error : K_SECCOMP_RET_ALLOW;
    }
}

int listen_install(struct launch *launch) {
    struct k_sock_fprog program = {.len = launch->spec.filter_length, .filter = launch->spec.filter};
    int fd = trace_ask(launch);
    if (fd) return fd;
    set_detail(launch, "install filter");
    fd = -EINVAL;
    if (launch->listen_fd >= 0)
        fd = k_result(syscall(SYS_seccomp, K_SECCOMP_SET_MODE_FILTER,
                              K_SECCOMP_FLAG_NEW_LISTENER | K_SECCOMP_FLAG_WAIT_KILLABLE_RECV, &program));
    if (fd == -EBUSY || fd == -EINVAL) {
        make_silent(program.filter, program.len);
        return prctl(PR_SET_SECCOMP, K_SECCOMP_MODE_FILTER, &program, 0, 0) < 0 ? -errno : 0;
    }
    if (fd < 0) return fd;
    set_detail(launch, "send the filter's listener to the supervisor");
    int err = control_send(launch->listen_fd, "listener\n", &fd, 1);
    close(fd);
    close(launch->listen_fd);
    return err;
}

/* What the filter says of a call; as the kernel does it, for what Python's compiler makes. */
static uint32_t interpret(const struct spec *spec, const struct k_seccomp_data *data) {
    uint32_t word = 0;
    for (size_t at = 0; at < spec->filter_length; at++) {
        const struct k_sock_filter *one = &spec->filter[at];
        if (one->code == 0x06) return one->k;
        if (one->code == 0x20 && one->k <= sizeof *data - sizeof word) memcpy(&word, (const char *)data + one->k, sizeof word);
        else if (one->code == 0x54) word &= one->k;
        else if (one->code == 0x05) at += one->k;
        else if (one->code == 0x15) at += word == one->k ? one->jt : one->jf;
        else if (one->code == 0x35) at += word >= one->k ? one->jt : one->jf;
        else if (one->code == 0x45) at += word & one->k ? one->jt : one->jf;
        else break;
    }
    return K_SECCOMP_RET_USER_NOTIF | EPERM;
}

/* Some of a command's memory; a call that is over meanwhile may have left its number to another process. */
static size_t read_memory(const struct launch *launch, const struct k_notif *call, uint64_t at, void *into, size_t size) {
    struct iovec here = {.iov_base = into, .iov_len = size}, there = {.iov_base = (void *)(uintptr_t)at, .iov_len = size};
    ssize_t got = process_vm_readv((pid_t)call->pid, &here, 1, &there, 1, 0);
    if (got <= 0 || ioctl(launch->listen_fd, K_NOTIF_ID_VALID, &call->id) < 0) return 0;
    return (size_t)got;
}

static void hear_bytes(const struct launch *launch, const struct k_notif *call, uint64_t at, uint64_t size) {
    if (size > HEARD) {
        at += size - HEARD;
        size = HEARD;
    }
    if (listener.length + size > sizeof listener.heard) {
        size_t gone = listener.length - HEARD;
        memmove(listener.heard, listener.heard + gone, HEARD);
        listener.length = HEARD;
        listener.said = listener.said > gone ? listener.said - gone : 0;
    }
    if (!listener.say_at) listener.say_at = now_ms() + SAY_MS;
    listener.length += read_memory(launch, call, at, listener.heard + listener.length, (size_t)size);
}

/* A command may have given its own standard error to something else (`2>/dev/null`): that is nobody's business. */
static bool is_its_errors(const struct k_notif *call) {
    char path[40];
    struct stat found;
    snprintf(path, sizeof path, "/proc/%u/fd/2", (unsigned)call->pid);
    return stat(path, &found) == 0 && found.st_dev == listener.errors.st_dev && found.st_ino == listener.errors.st_ino;
}

static void hear(const struct launch *launch, const struct k_notif *call) {
    struct iovec parts[VECTORS];
    const uint64_t *arguments = call->data.arguments;
    if (!is_its_errors(call)) return;
    if (call->data.number == SYS_write) return hear_bytes(launch, call, arguments[1], arguments[2]);
    size_t count = arguments[2] < VECTORS ? (size_t)arguments[2] : VECTORS;
    count = read_memory(launch, call, arguments[1], parts, count * sizeof *parts) / sizeof *parts;
    for (size_t i = 0; i < count; i++)
        hear_bytes(launch, call, (uint64_t)(uintptr_t)parts[i].iov_base, parts[i].iov_len);
}

static uint32_t strings_of(const struct spec *spec, uint32_t number) {
    for (size_t i = 0; i < spec->count[RECORD_LISTEN]; i++)
        if (spec->listens[i].number == number) return spec->listens[i].strings & LISTEN_STRINGS;
    return 0;
}

/* With the strings that it was given, in hexadecimal digits: as claimed, since others may change them meanwhile. */
static void tell_refused(const struct launch *launch, const struct k_notif *call, uint32_t error) {
    char line[160 + 6 * (2 * CLAIM + 1)], claim[CLAIM];
    uint32_t number = (uint32_t)call->data.number;
    if (number >= NUMBERS || (listener.counted[number] != UINT32_MAX && listener.counted[number]++)) return;
    const uint64_t *arguments = call->data.arguments;
    size_t length = (size_t)snprintf(line, 160, "refused %x %x", (unsigned)number, (unsigned)error);
    for (int i = 0; i < 6; i++) length += (size_t)snprintf(line + length, 20, " %llx", (unsigned long long)arguments[i]);
    uint32_t strings = strings_of(&launch->spec, number);
    for (unsigned i = 0; i < 6; i++) {
        if (!(strings & 1u << i)) continue;
        size_t size = read_memory(launch, call, arguments[i], claim, sizeof claim);
        line[length++] = ' ';
        length += hex_put(line + length, claim, strnlen(claim, size));
    }
    line[length++] = '\n';
    status_write(line, length);
}

/* The next question waits: twice as long as the last one, a second at most. */
static void throttle(const struct launch *launch) {
    if (!(launch->spec.listens[0].strings & LISTEN_THROTTLED) || ++listener.refused <= FREE) return;
    uint64_t doublings = listener.refused - FREE - 1;
    int64_t pause = (int64_t)1 << (doublings < DOUBLINGS ? doublings : DOUBLINGS);
    listener.paused_until = now_ms() + (pause < LONGEST_MS ? pause : LONGEST_MS);
}

bool listen_is_paused(void) { return listener.paused_until && now_ms() < listener.paused_until; }

static int sooner(int timeout, int64_t at) {
    int64_t left = at - now_ms();
    if (left < 0) left = 0;
    return timeout < 0 || left < timeout ? (int)left : timeout;
}

int listen_wait(int timeout) {
    if (listen_is_paused()) timeout = sooner(timeout, listener.paused_until);
    return listener.say_at ? sooner(timeout, listener.say_at) : timeout;
}

/* INVARIANT: nobody waits for a corral that does not read, and may be stopped: the end of what was heard, and what
 * else is to be said, always has room. */
static bool is_all_read(void) {
    struct stat status;
    int unread = 0;
    if (fstat(STATUS_FD, &status) < 0) return false;
    return ioctl(STATUS_FD, S_ISSOCK(status.st_mode) ? (unsigned long)TIOCOUTQ : (unsigned long)FIONREAD, &unread) == 0 && !unread;
}

static void say_heard(size_t most) {
    char line[16 + 2 * PIECE];
    listener.say_at = 0;
    if (listener.length - listener.said > most) listener.said = listener.length - most;
    while (listener.said < listener.length) {
        size_t left = listener.length - listener.said, size = left < PIECE ? left : PIECE;
        memcpy(line, "said ", 5);
        size_t length = 5 + hex_put(line + 5, listener.heard + listener.said, size);
        line[length++] = '\n';
        status_write(line, length);
        listener.said += size;
    }
}

void listen_say(void) {
    if (!listener.say_at || now_ms() < listener.say_at) return;
    if (is_all_read()) say_heard(SAID);
    else listener.say_at = now_ms() + SAY_MS;
}

static void answer(const struct launch *launch) {
    union {
        struct k_notif call;
        char room[512]; /* a later kernel may have more to say */
    } question = {.room = {0}};
    if (ioctl(launch->listen_fd, K_NOTIF_RECV, &question) < 0) return; /* it was ended meanwhile */
    const struct k_notif *call = &question.call;
    uint32_t said = interpret(&launch->spec, &call->data), error = said & 0xffffu;
    if ((said & 0xffff0000u) != K_SECCOMP_RET_USER_NOTIF) error = EPERM; /* INVARIANT: then nobody would have asked */
    struct k_notif_answer reply = {.id = call->id, .error = -(int32_t)error, .flags = error ? 0 : K_NOTIF_CONTINUE};
    if (error) tell_refused(launch, call, error);
    else hear(launch, call);
    if (error && launch->spec.listens[0].strings & LISTEN_HELD) return; /* until it is killed, it does nothing more */
    ioctl(launch->listen_fd, K_NOTIF_SEND, &reply);
    if (error) throttle(launch);
}

void listen_act(struct launch *launch, short events) {
    int given[MOST_GIVEN];
    char words[16];
    size_t size = sizeof words;
    if (listener.is_open && events & POLLIN) return answer(launch);
    if (trace_begin(launch)) return;
    int count = listener.is_open ? 0 : control_receive(launch->listen_fd, given, words, &size, MSG_DONTWAIT);
    close(launch->listen_fd); /* nobody has the filter any more, or nobody will */
    launch->listen_fd = -1;
    if (count != 1) return;
    listener.is_open = true;
    launch->listen_fd = given[0];
    uint64_t flags = K_NOTIF_SYNC_WAKE_UP;
    (void)ioctl(launch->listen_fd, K_NOTIF_SET_FLAGS, flags); /* quicker, since Linux 6.6 */
}

void listen_finish(struct launch *launch) {
    char line[48];
    say_heard(HEARD);
    for (unsigned number = 0; number < NUMBERS; number++) {
        if (listener.counted[number] < 2) continue;
        int length = snprintf(line, sizeof line, "times %u %u\n", number, (unsigned)listener.counted[number]);
        status_write(line, (size_t)length);
    }
    if (launch->listen_fd >= 0) close(launch->listen_fd);
    launch->listen_fd = -1;
}
