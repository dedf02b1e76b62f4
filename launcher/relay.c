/* The output of a command whose output is limited goes through pipes and is counted here, as streams/streams.py and
 * streams/sinks.py do it. A reader that stops reading stops the command, not the launcher. */
#include "relay.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

enum {
    READY_BYTES = 4096, /* what a pipe that is ready takes without waiting: PIPE_BUF, see pipe(7) */
    FIRST_FREE = 10,    /* below it the launcher's own descriptors have their places */
    TICK_MS = 200,
    PAUSE_MS = 10,
    PIPE_DEFAULT = 65536,
};

#define PTMX makedev(5, 2) /* the maker of terminals: its descriptors are their masters */

int64_t monotonic_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static int open_again(int fd, int flags) {
    char path[32];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    return open(path, flags | O_NOCTTY | O_CLOEXEC);
}

int open_for_reading_only(int fd) {
    int again = isatty(fd) ? open_again(fd, O_RDONLY) : -1; /* another user's terminal cannot be opened */
    return again >= 0 ? again : fd;
}

/* The caller's descriptor is not made non-blocking: that would change it for everyone who shares it, the shell too. It
 * is asked before each write, and given what it surely takes. A terminal takes one byte for sure: it is opened anew. */
static int open_target(int fd) {
    struct stat status;
    if (!isatty(fd) || fstat(fd, &status) < 0 || status.st_rdev == PTMX) return fd; /* that would make another one */
    int again = open_again(fd, O_WRONLY | O_NONBLOCK);
    return again >= 0 ? again : fd;
}

static int out_of_the_way(int fd) {
    int higher = fcntl(fd, F_DUPFD_CLOEXEC, FIRST_FREE);
    int err = errno;
    close(fd);
    return higher < 0 ? -err : higher;
}

/* As after `2>&1`: one file, open in the same way. All masters of terminals have one inode, and so has what the kernel
 * makes without a file (a mode of no kind): nothing that can be seen here tells those apart, so they count as two. */
bool relay_is_same_file(int one, int other) {
    struct stat first, second;
    if (fstat(one, &first) < 0 || fstat(other, &second) < 0) return false;
    if (!(first.st_mode & S_IFMT) || first.st_rdev == PTMX) return false;
    bool is_open_alike = fcntl(one, F_GETFL) == fcntl(other, F_GETFL);
    return is_open_alike && first.st_dev == second.st_dev && first.st_ino == second.st_ino;
}

/* `2>&1`: through one pipe as well, else lines would come out of order, and in pieces. */
static int share(struct relays *relays, int theirs[2]) {
    relays->streams[1].source = -1;
    theirs[1] = fcntl(theirs[0], F_DUPFD_CLOEXEC, FIRST_FREE);
    return theirs[1] < 0 ? -errno : 0;
}

int relays_open(struct relays *relays, uint64_t limit, const bool is_wanted[2], int theirs[2]) {
    relays->is_used = true;
    relays->room = limit;
    for (int i = 0; i < 2; i++) {
        struct relay *relay = &relays->streams[i];
        int ends[2];
        relay->source = -1;
        if (!is_wanted[i]) continue;
        if (pipe2(ends, O_CLOEXEC) < 0) return -errno;
        relay->source = out_of_the_way(ends[0]);
        theirs[i] = out_of_the_way(ends[1]);
        relay->target = open_target(STDOUT_FILENO + i);
        relay->is_terminal = isatty(relay->target) == 1;
        if (relay->source < 0 || theirs[i] < 0 || fcntl(relay->source, F_SETFL, O_NONBLOCK) < 0) return -EMFILE;
        if (i == 0 && relay_is_same_file(STDOUT_FILENO, STDERR_FILENO)) return share(relays, theirs);
    }
    return 0;
}

static void forget(struct relay *relay) {
    if (relay->source >= 0) close(relay->source); /* the command learns it by SIGPIPE */
    relay->source = -1;
    relay->start = relay->end = 0;
}

/* A terminal that was hung up says EIO; anything else does so when its content is lost. */
static bool is_reader_gone(const struct relay *relay, int error) {
    return error == EPIPE || error == ECONNRESET || (error == EIO && relay->is_terminal);
}

static void give_up(struct relay *relay, int error) {
    if (!is_reader_gone(relay, error)) relay->error = error;
    forget(relay);
}

/* Writes what can be written now. */
static void push(struct relay *relay) {
    while (relay->start < relay->end) {
        struct pollfd ready = {.fd = relay->target, .events = POLLOUT};
        if (poll(&ready, 1, 0) <= 0) return;
        size_t left = relay->end - relay->start;
        ssize_t written = write(relay->target, relay->pending + relay->start, left < READY_BYTES ? left : READY_BYTES);
        if (written < 0 && (errno == EAGAIN || errno == EINTR)) return;
        if (written < 0) return give_up(relay, errno);
        relay->start += (size_t)written;
    }
}

/* The end of what was printed, where somebody wants it. */
static void keep_end(struct relay *relay, const uint8_t *bytes, size_t size) {
    size_t room = relay->tail_room;
    if (size > room) bytes += size - room, size = room;
    size_t old = relay->tail_size + size > room ? room - size : relay->tail_size;
    memmove(relay->tail, relay->tail + relay->tail_size - old, old);
    memcpy(relay->tail + old, bytes, size);
    relay->tail_size = old + size;
}

/* Reads once; past the limit it is read all the same, and thrown away. How much it was; 0: at its end; -1: none now. */
static ssize_t take(struct relays *relays, struct relay *relay) {
    ssize_t got = read(relay->source, relay->pending, sizeof relay->pending);
    if (got < 0) return -1; /* the command itself may read its own pipe empty before we do */
    relay->start = 0;
    relay->end = (size_t)got;
    if (relay->tail) keep_end(relay, relay->pending, (size_t)got);
    if ((uint64_t)got > relays->room) {
        relays->is_over = true;
        relay->end = (size_t)relays->room;
    }
    relays->room -= relay->end;
    push(relay);
    return got;
}

struct pollfd relay_waits_for(const struct relay *relay) {
    if (relay->start < relay->end) return (struct pollfd){.fd = relay->target, .events = POLLOUT};
    return (struct pollfd){.fd = relay->source, .events = POLLIN};
}

void relay_carry(struct relays *relays, struct relay *relay) {
    if (relay->start < relay->end) push(relay);
    else if (relay->source >= 0 && take(relays, relay) == 0) forget(relay);
}

static void pause_ms(long milliseconds) {
    nanosleep(&(struct timespec){.tv_nsec = milliseconds * 1000000}, NULL);
}

/* Waits for one reader; false when it was enough. */
static bool flush(struct relay *relay, bool (*is_enough)(void *, int64_t), void *context) {
    int64_t last = monotonic_ms();
    while (relay->start < relay->end) {
        struct pollfd ready = {.fd = relay->target, .events = POLLOUT};
        size_t before = relay->start;
        bool is_ready = poll(&ready, 1, TICK_MS) > 0;
        push(relay);
        if (relay->start != before) last = monotonic_ms();
        else if (is_enough(context, monotonic_ms() - last)) return false;
        else if (is_ready) pause_ms(PAUSE_MS); /* it says that it is ready, and takes nothing */
    }
    return true;
}

void relays_finish(struct relays *relays, bool (*is_enough)(void *context, int64_t idle_ms), void *context) {
    for (int i = 0; relays->is_used && i < 2; i++) {
        struct relay *relay = &relays->streams[i];
        /* No more than the pipe holds now: somebody who lives on may be writing without end. */
        long left = relay->source < 0 ? 0 : fcntl(relay->source, F_GETPIPE_SZ);
        if (left < 0) left = PIPE_DEFAULT;
        while (flush(relay, is_enough, context) && relay->source >= 0 && left > 0) {
            ssize_t got = take(relays, relay);
            if (got <= 0) break;
            left -= got;
        }
    }
}

int relays_error(const struct relays *relays) {
    return relays->streams[0].error ? relays->streams[0].error : relays->streams[1].error;
}
