/* listen: calls that the filter refuses are told when they happen.
 *
 * The kernel holds such a call and asks the supervisor, which answers with what the filter itself says: it interprets
 * the filter's program on the numbers that the kernel gives it, which no command can change. A refused call has its
 * errno in the lower half of the filter's answer; zero means that the call is permitted anyway, and goes on.
 *
 * INVARIANT: nothing is decided by what is read from a command's memory; that is told as claimed. A call that nobody
 * answers fails (ENOSYS), and with the supervisor the whole tree ends: a job of a kept sandbox is its commands'
 * supervisor, and its end is that of the sandbox. */
#include "listen.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "clock.h"
#include "control.h"
#include "hear.h"
#include "kernel_observe.h"
#include "report.h"
#include "trace.h"

enum {
    CLAIM = 200,      /* of a string that a call was given */
    NUMBERS = 1024,   /* of calls; each is told once, and counted */
    ASKED = 4095,     /* in the place of an errno: corral answers, as in linux/listening.py */
    FREE = 4, DOUBLINGS = 10, LONGEST_MS = 1000, /* of throttling, as in corral's model/throttle.py */
};

static struct {
    bool is_open;             /* launch->listen_fd is the listener itself */
    uint32_t counted[NUMBERS];
    uint64_t refused;         /* of all together */
    int64_t paused_until;     /* monotonic milliseconds */
    bool is_settled;          /* all is said */
    bool is_asking;           /* corral has not read earlier questions, and this one waits: */
    struct k_notif asked;
    bool is_early;            /* a job's own listener, for all its commands: */
    int early_fd;
} listener;

/* What a job has heard of an earlier command is forgotten. */
static void reset(void) {
    if (listener.refused) memset(listener.counted, 0, sizeof listener.counted);
    listener.is_open = listener.is_settled = listener.is_asking = false;
    listener.paused_until = 0;
    listener.refused = 0;
}

int listen_prepare(struct launch *launch) {
    launch->listen_fd = launch->listen_other_fd = -1;
    if (!launch->spec.count[RECORD_LISTEN] || is_server(launch)) return 0;
    reset();
    int err = hear_begin();
    if (err) return err;
    if (launch->is_filtered) {
        listener.is_open = listener.is_early;
        launch->listen_fd = listener.is_early ? listener.early_fd : -1;
        return 0;
    }
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0) return -errno;
    launch->listen_fd = pair[0];
    launch->listen_other_fd = pair[1];
    return trace_prepare(launch);
}

/* INVARIANT: the command's process changes neither number: that of a job shares its memory. Both ends are marked
 * close-on-exec, so none is left to the command. */
void listen_begin(struct launch *launch) {
    if (launch->listen_other_fd >= 0) close(launch->listen_other_fd);
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

/* Returns the listener, NOBODY where there can be none, or -errno. */
enum { NOBODY = INT_MAX };

static int install(struct launch *launch, bool has_listener) {
    struct k_sock_fprog program = {.len = launch->spec.filter_length, .filter = launch->spec.filter};
    int fd = -EINVAL;
    set_detail(launch, "install filter");
    if (has_listener)
        fd = k_result(syscall(SYS_seccomp, K_SECCOMP_SET_MODE_FILTER,
                              K_SECCOMP_FLAG_NEW_LISTENER | K_SECCOMP_FLAG_WAIT_KILLABLE_RECV, &program));
    bool must_ask = launch->spec.gateway_flags & GATEWAY_NOTIFY;
    if ((fd != -EBUSY && fd != -EINVAL) || must_ask) return fd;
    make_silent(program.filter, program.len);
    return prctl(PR_SET_SECCOMP, K_SECCOMP_MODE_FILTER, &program, 0, 0) < 0 ? -errno : NOBODY;
}

int listen_install(struct launch *launch) {
    int err = trace_ask(launch);
    if (err) return err;
    int fd = install(launch, launch->listen_other_fd >= 0);
    if (fd < 0 || fd == NOBODY) return fd < 0 ? fd : 0;
    set_detail(launch, "send the filter's listener to the supervisor");
    err = control_send(launch->listen_other_fd, "listener\n", 9, &fd, 1);
    close(fd);
    close(launch->listen_other_fd);
    return err;
}

/* TRUST: a job makes no call that such a filter refuses: who does is not permitted to have one (ServeFlag.FILTERED). */
int listen_install_early(struct launch *launch) {
    if (!(launch->spec.serve_flags & SERVE_FILTERED) || !launch->spec.count[RECORD_LISTEN]) return 0;
    int fd = install(launch, true);
    if (fd < 0) return fd;
    launch->is_filtered = true;
    listener.is_early = fd != NOBODY;
    listener.early_fd = fd;
    return 0;
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

static uint32_t strings_of(const struct spec *spec, uint32_t number) {
    for (size_t i = 0; i < spec->count[RECORD_LISTEN]; i++)
        if (spec->listens[i].number == number) return spec->listens[i].strings & LISTEN_STRINGS;
    return 0;
}

/* With the strings that it was given, in hexadecimal digits: as claimed, since others may change them meanwhile. */
static void tell_refused(const struct launch *launch, const struct k_notif *call, uint32_t error) {
    char line[160 + 6 * (2 * CLAIM + 1)], claim[CLAIM];
    uint32_t number = (uint32_t)call->data.number;
    listener.refused++;
    if (number >= NUMBERS || (listener.counted[number] != UINT32_MAX && listener.counted[number]++)) return;
    if (listener.is_settled) return;
    const uint64_t *arguments = call->data.arguments;
    size_t length = (size_t)snprintf(line, 160, "refused %x %x", (unsigned)number, (unsigned)error);
    for (int i = 0; i < 6; i++) length += (size_t)snprintf(line + length, 20, " %llx", (unsigned long long)arguments[i]);
    uint32_t strings = strings_of(&launch->spec, number);
    for (unsigned i = 0; i < 6; i++) {
        if (!(strings & 1u << i)) continue;
        size_t size = hear_memory(launch, call, arguments[i], claim, sizeof claim);
        line[length++] = ' ';
        length += hex_put(line + length, claim, strnlen(claim, size));
    }
    line[length++] = '\n';
    status_write(line, length);
}

/* The next question waits: twice as long as the last one, a second at most. */
static void throttle(const struct launch *launch) {
    if (listener.refused <= FREE || !(launch->spec.listens[0].strings & LISTEN_THROTTLED)) return;
    uint64_t doublings = listener.refused - FREE - 1;
    int64_t pause = (int64_t)1 << (doublings < DOUBLINGS ? doublings : DOUBLINGS);
    listener.paused_until = now_ms() + (pause < LONGEST_MS ? pause : LONGEST_MS);
}

static bool is_paused(void) { return listener.paused_until && now_ms() < listener.paused_until; }

struct pollfd listen_awaits(const struct launch *launch) {
    if (listener.is_asking) return (struct pollfd){.fd = launch->asks_fd, .events = POLLOUT};
    return (struct pollfd){.fd = is_paused() ? -1 : launch->listen_fd, .events = POLLIN};
}

int listen_wait(int timeout) {
    return hear_wait(is_paused() ? sooner(timeout, listener.paused_until) : timeout);
}

/* Each question goes to corral with the descriptor that it is answered on: so it does not matter to whom of many jobs it
 * was put. INVARIANT: nobody waits for a corral that does not read; one that is gone permits nothing. */
static void ask(const struct launch *launch) {
    int err = control_send(launch->asks_fd, &listener.asked, sizeof listener.asked, &launch->listen_fd, 1);
    listener.is_asking = err == -EAGAIN;
    struct k_notif_answer reply = {.id = listener.asked.id, .error = -ENOSYS};
    if (err && !listener.is_asking) ioctl(launch->listen_fd, K_NOTIF_SEND, &reply);
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
    if (error == ASKED && launch->asks_fd) {
        listener.asked = *call;
        return ask(launch);
    }
    struct k_notif_answer reply = {.id = call->id, .error = -(int32_t)error, .flags = error ? 0 : K_NOTIF_CONTINUE};
    if (error) tell_refused(launch, call, error);
    else if (!listener.is_settled) hear_write(launch, call);
    if (error && launch->spec.listens[0].strings & LISTEN_HELD) return; /* until it is killed, it does nothing more */
    ioctl(launch->listen_fd, K_NOTIF_SEND, &reply);
    if (error) throttle(launch);
}

void listen_act(struct launch *launch, short events) {
    int given[MOST_GIVEN];
    char words[16];
    size_t size = sizeof words;
    if (listener.is_asking) return ask(launch);
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

void listen_settle(void) {
    char line[48];
    if (listener.is_settled) return;
    listener.is_settled = true;
    hear_finish();
    if (!listener.refused) return;
    for (unsigned number = 0; number < NUMBERS; number++) {
        if (listener.counted[number] < 2) continue;
        int length = snprintf(line, sizeof line, "times %u %u\n", number, (unsigned)listener.counted[number]);
        status_write(line, (size_t)length);
    }
}

void listen_finish(struct launch *launch) {
    listen_settle();
    if (launch->listen_fd >= 0 && !launch->is_filtered) close(launch->listen_fd);
    launch->listen_fd = -1;
}
