/* hear: what commands write to standard error is heard on its way, where it goes past corral (a terminal, `2>&1`). The
 * filter asks about such writes, and each goes on (listen.c).
 *
 * INVARIANT: nothing is decided by what is read from a command's memory. */
#include "hear.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <termios.h>
#include <unistd.h>

#include "clock.h"
#include "report.h"

enum {
    HEARD = 16384,    /* bytes of standard error that are kept: its end */
    PIECE = 1024,     /* of them in one line of the status */
    VECTORS = 16,
    SAY_MS = 40,      /* what is heard is told so much later, with what came meanwhile, */
    SAID = 4096,      /* if that was not more than this: then its end */
};

static struct {
    struct stat errors;       /* standard error, as the command got it */
    char bytes[2 * HEARD];
    size_t length, said;      /* of these bytes, and how many of them were told */
    int64_t say_at;           /* when the rest is to be told; monotonic milliseconds */
} heard;

int hear_begin(void) {
    heard.length = heard.said = 0;
    heard.say_at = 0;
    return fstat(STDERR_FILENO, &heard.errors) < 0 ? -errno : 0;
}

/* Some of a command's memory; a call that is over meanwhile may have left its number to another process. */
size_t hear_memory(const struct launch *launch, const struct k_notif *call, uint64_t at, void *into, size_t size) {
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
    if (heard.length + size > sizeof heard.bytes) {
        size_t gone = heard.length - HEARD;
        memmove(heard.bytes, heard.bytes + gone, HEARD);
        heard.length = HEARD;
        heard.said = heard.said > gone ? heard.said - gone : 0;
    }
    if (!heard.say_at) heard.say_at = now_ms() + SAY_MS;
    heard.length += hear_memory(launch, call, at, heard.bytes + heard.length, (size_t)size);
}

/* A command may have given its own standard error to something else (`2>/dev/null`): that is nobody's business. */
static bool is_its_errors(const struct k_notif *call) {
    char path[40];
    struct stat found;
    snprintf(path, sizeof path, "/proc/%u/fd/2", (unsigned)call->pid);
    return stat(path, &found) == 0 && found.st_dev == heard.errors.st_dev && found.st_ino == heard.errors.st_ino;
}

void hear_write(const struct launch *launch, const struct k_notif *call) {
    struct iovec parts[VECTORS];
    const uint64_t *arguments = call->data.arguments;
    if (!is_its_errors(call)) return;
    if (call->data.number == SYS_write) return hear_bytes(launch, call, arguments[1], arguments[2]);
    size_t count = arguments[2] < VECTORS ? (size_t)arguments[2] : VECTORS;
    count = hear_memory(launch, call, arguments[1], parts, count * sizeof *parts) / sizeof *parts;
    for (size_t i = 0; i < count; i++)
        hear_bytes(launch, call, (uint64_t)(uintptr_t)parts[i].iov_base, parts[i].iov_len);
}

int hear_wait(int timeout) { return heard.say_at ? sooner(timeout, heard.say_at) : timeout; }

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
    heard.say_at = 0;
    if (heard.length - heard.said > most) heard.said = heard.length - most;
    while (heard.said < heard.length) {
        size_t left = heard.length - heard.said, size = left < PIECE ? left : PIECE;
        memcpy(line, "said ", 5);
        size_t length = 5 + hex_put(line + 5, heard.bytes + heard.said, size);
        line[length++] = '\n';
        status_write(line, length);
        heard.said += size;
    }
}

void hear_say(void) {
    if (!heard.say_at || now_ms() < heard.say_at) return;
    if (is_all_read()) say_heard(SAID);
    else heard.say_at = now_ms() + SAY_MS;
}

void hear_finish(void) { say_heard(HEARD); }
