/* A run that other processes of its user see, in `corral top`: one file, as src/corral/live_runs/README.md has it. Whatever
 * goes wrong here, the run goes on unseen: the file protects nothing. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "run.h"

enum { MOST_VALUE = 512, MOST_ARGUMENTS = 32, MOST_RECORD = 32768 };

static char record[MOST_RECORD];
static size_t size;

/* `name=value` and a NUL byte. What does not fit is left out: it was cut to its bounds before. */
static void put(const char *name, const char *value) {
    size_t room = sizeof record - size;
    int length = snprintf(record + size, room, "%s=%.*s", name, MOST_VALUE, value);
    if (length >= 0 && (size_t)length + 2 <= room) size += (size_t)length + 1;
}

static void put_time(const char *name) {
    struct timespec now;
    char text[32];
    clock_gettime(CLOCK_REALTIME, &now);
    snprintf(text, sizeof text, "%lld.%03ld", (long long)now.tv_sec, now.tv_nsec / 1000000);
    put(name, text);
}

static void put_number(const char *name, unsigned long long number) {
    char text[32];
    snprintf(text, sizeof text, "%llu", number);
    put(name, text);
}

static void end_record(void) { record[size++] = 0; }

static bool flush(const struct run *run) {
    bool is_written = write(run->live, record, size) == (ssize_t)size;
    size = 0;
    return is_written;
}

static void put_command(const struct run *run) {
    static char *shell[] = {"/bin/sh", "-c", NULL};
    char **words = run->request->words ? run->request->words : shell;
    for (int i = 0; i < MOST_ARGUMENTS && words[i]; i++) put("arg", words[i]);
    if (!run->request->words) put("arg", run->request->argv[run->request->line_at]);
}

static int open_place(const char *path) {
    struct stat status;
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0 && fstat(fd, &status) == 0 && status.st_uid == geteuid() && !(status.st_mode & 077)) return fd;
    if (fd >= 0) close(fd);
    return -1;
}

void live_begin(struct run *run) {
    struct cursor rest = run->stored->records, payload;
    uint32_t at = 0;
    struct stat namespace = {0};
    char hidden[RUN_ID_SIZE + 2];
    if (!stored_next(run->stored, &rest, &at, STORED_LIVE, &payload)) return;
    run->live_place = open_place(cursor_string(&payload));
    if (run->live_place < 0) return;
    snprintf(hidden, sizeof hidden, ".%s", run->id);
    run->live = openat(run->live_place, hidden, O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0600);
    put("corral-run", "1");
    put("id", run->id);
    put_number("pid", (unsigned long long)getpid());
    put_time("began");
    stat("/proc/self/ns/pid", &namespace);
    put_number("pidns", namespace.st_ino);
    for (rest = run->stored->records, at = 0; stored_next(run->stored, &rest, &at, STORED_FACT, &payload);) {
        const char *name = cursor_string(&payload);
        put(name, cursor_string(&payload));
    }
    put_command(run);
    end_record();
    put("state", "running");
    put_time("at");
    end_record();
    /* ORDER: a name that begins with a dot is read by nobody; under the other one the lock is held. */
    bool is_seen = run->live >= 0 && flock(run->live, LOCK_EX | LOCK_NB) == 0 && flush(run) &&
                   renameat(run->live_place, hidden, run->live_place, run->id) == 0;
    size = 0;
    if (is_seen) return;
    if (run->live >= 0) unlinkat(run->live_place, hidden, 0);
    if (run->live >= 0) close(run->live);
    run->live = -1;
}

void live_leave(struct run *run) {
    if (run->live < 0) return;
    unlinkat(run->live_place, run->id, 0);
    close(run->live);
    run->live = -1;
}

void live_end(struct run *run, int exit_code) {
    char text[64];
    if (run->live < 0) return;
    snprintf(text, sizeof text, "exit status %d", exit_code);
    put("state", "ended");
    put_time("at");
    put_number("status", (unsigned long long)exit_code);
    put("text", text);
    end_record();
    flush(run);
    live_leave(run);
}
