/* Python goes on with a run: it takes our place by execve, so that it is the supervisor's parent, has the caller's
 * descriptors and gets the signals. What it must know is in a file in memory, as lines of words; bytes are in hexadecimal
 * digits. src/corral/cli/continued.py reads it. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "run.h"

static const char SIBLING[] = "corral-python";

/* Beside our own file: pip has written it there, with the interpreter that corral was installed for. */
static bool find_python(char path[PATH_MAX]) {
    ssize_t length = readlink("/proc/self/exe", path, PATH_MAX - sizeof SIBLING);
    if (length <= 0) return false;
    path[length] = 0;
    char *name = strrchr(path, '/');
    if (!name || (size_t)(name + 1 - path) + sizeof SIBLING > PATH_MAX) return false;
    memcpy(name + 1, SIBLING, sizeof SIBLING);
    return true;
}

static _Noreturn void fail(const char *path) {
    dprintf(STDERR_FILENO, "corral: the Python part of corral cannot be started\n  because: %s: %s\n"
            "  fix: install corral again, with its whole environment\n", path, strerror(errno));
    _exit(EXIT_SETUP_FAILED);
}

_Noreturn void hand_to_python(char **argv) {
    char path[PATH_MAX] = "/proc/self/exe";
    if (find_python(path)) execve(path, argv, environ);
    fail(path);
}

static void put_hex(FILE *file, const char *name, const void *bytes, size_t size) {
    fprintf(file, "%s ", name);
    for (size_t i = 0; i < size; i++) fprintf(file, "%02x", ((const uint8_t *)bytes)[i]);
    fputc('\n', file);
}

static void put_fd(FILE *file, const char *name, int fd) {
    if (fd < 0) return;
    fcntl(fd, F_SETFD, 0); /* Python's from now on */
    fprintf(file, "%s %d\n", name, fd);
}

static void put_streams(FILE *file, struct run *run) {
    if (run->stored->plan.has_output_limit) fprintf(file, "room %llu\n", (unsigned long long)run->relays.room);
    for (int i = 0; run->relays.is_used && i < 2; i++) {
        struct relay *relay = &run->relays.streams[i];
        char name[16];
        snprintf(name, sizeof name, "source%d", i);
        put_fd(file, name, relay->source);
        snprintf(name, sizeof name, "pending%d", i);
        put_hex(file, name, relay->pending + relay->start, relay->end - relay->start);
        snprintf(name, sizeof name, "tail%d", i);
        put_hex(file, name, relay->tail, relay->tail_size);
        fprintf(file, "error%d %d\n", i, relay->error);
    }
}

static void put_all(FILE *file, struct run *run) {
    fprintf(file, "run %s\npid %d\n", run->id, (int)run->supervisor);
    fprintf(file, "began %lld\n", (long long)run->began.tv_sec * 1000000000 + run->began.tv_nsec);
    put_fd(file, "stored", run->stored->fd);
    put_fd(file, "status", run->status);
    put_fd(file, "lifeline", run->lifeline);
    put_fd(file, "areas", run->areas);
    put_fd(file, "copies", run->copies);
    for (uint32_t i = 0; run->copies >= 0 && i < run->stored->numbers[STORED_COPY]; i++)
        put_hex(file, "original", run->originals[i], run->original_sizes[i]);
    put_fd(file, "mark", run->mark);
    put_hex(file, "marked", run->mark_path, strlen(run->mark_path));
    for (int i = 0; i < run->given_count; i++) put_fd(file, "given", run->given[i]);
    put_hex(file, "said", run->said, run->said_size);
    put_streams(file, run);
    for (int number = 1; number < 65; number++)
        if (sigismember(&run->mask, number) == 1) fprintf(file, "blocked %d\n", number);
    for (int i = 1; i < run->request->argc; i++) put_hex(file, "word", run->request->argv[i], strlen(run->request->argv[i]));
}

_Noreturn void continue_in_python(struct run *run) {
    char path[PATH_MAX] = "/proc/self/exe", number[16];
    int fd = memfd_create("corral-run", 0);
    int other = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 10);
    FILE *file = other < 0 ? NULL : fdopen(other, "w");
    live_leave(run); /* Python has a file of its own */
    if (!file) fail("memfd_create"); /* with us the lifeline ends, and so does the command */
    put_all(file, run);
    send_early_again(run); /* they are blocked, and wait for Python */
    fclose(file);
    lseek(fd, 0, SEEK_SET);
    snprintf(number, sizeof number, "%d", fd);
    char *argv[] = {run->request->argv[0], "_continue", number, NULL};
    if (find_python(path)) execve(path, argv, environ);
    fail(path);
}
