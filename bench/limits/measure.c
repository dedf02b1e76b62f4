/* measure: takes more and more of one resource, and says after each step how much it has got.
 *
 * Each line is one write(2), so the last line before a kill is the truth. Every subcommand stops at its MAX:
 * without any limit it is harmless. Build it with `cc -O2 -static -pthread -o measure measure.c`.
 *
 *   memory STEP_KIB MAX_MIB [CHILDREN]   touched memory, of this process or of all its children together
 *   pids MAX                             processes that live at the same time, this one included
 *   cpu SECONDS [THREADS]                processor time against wall time
 *   file PATH STEP_KIB MAX_MIB           bytes of one file; it stays where it is
 *   files DIR MAX                        empty files in a directory; they stay where they are
 *   descriptors MAX                      open files, those from the start included
 *   sleep SECONDS                        nothing at all
 *
 * Lines: `got NUMBER UNIT` after each step, `stopped: REASON` where something was refused.
 * Exit status: 0 if MAX was reached, 3 if something stopped it before, 2 if it was called in another way. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { REACHED = 0, MISUSED = 2, STOPPED = 3, MOST_CHILDREN = 4096, MOST_THREADS = 256 };

static const double MIB = 1024.0 * 1024.0;

/* One write, so that a kill leaves no half line and nothing in a buffer. */
__attribute__((format(printf, 1, 2))) static void say(const char *format, ...) {
    char line[256];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    if (length >= (int)sizeof line) length = (int)sizeof line - 1;
    if (write(STDOUT_FILENO, line, (size_t)length) != length) _exit(MISUSED);
}

static int stopped(const char *reason) {
    say("stopped: %s\n", reason);
    return STOPPED;
}

static long number(const char *text, long least, long most) {
    char *end;
    errno = 0;
    long value = strtol(text, &end, 10);
    if (errno || *end || end == text || value < least || value > most) {
        fprintf(stderr, "measure: %s is not a number from %ld to %ld\n", text, least, most);
        exit(MISUSED);
    }
    return value;
}

static double clock_seconds(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void pause_for(double seconds) {
    struct timespec rest = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
    while (nanosleep(&rest, &rest) && errno == EINTR) continue;
}

/* ---- memory ---------------------------------------------------------------------------------------- */

/* Every page is written to: memory that is only mapped costs nothing. Huge pages would come in lumps. */
static int take_memory(size_t bytes) {
    char *block = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (block == MAP_FAILED) return -1;
    madvise(block, bytes, MADV_NOHUGEPAGE);
    for (size_t at = 0; at < bytes; at += 4096) *(volatile char *)(block + at) = 1;
    return 0;
}

static int memory_alone(size_t step, size_t most) {
    for (size_t got = 0; got < most;) {
        if (take_memory(step)) return stopped(strerror(errno));
        got += step;
        say("got %.3f MiB\n", (double)got / MIB);
    }
    return REACHED;
}

struct child {
    int ask, told;
};

/* A child takes one step for each byte it reads, answers each, and ends with its parent. */
static _Noreturn void serve(int asked, int tell, size_t step) {
    char byte;
    while (read(asked, &byte, 1) == 1)
        if (take_memory(step) || write(tell, &byte, 1) != 1) _exit(STOPPED);
    _exit(REACHED);
}

static int start_child(struct child *child, size_t step) {
    int down[2], up[2];
    if (pipe2(down, O_CLOEXEC) || pipe2(up, O_CLOEXEC)) return -1;
    pid_t pid = fork();
    if (pid < 0) return -1;
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(down[1]);
        close(up[0]);
        serve(down[0], up[1], step);
    }
    close(down[0]);
    close(up[1]);
    *child = (struct child){down[1], up[0]};
    return 0;
}

/* In turns, so that the children have the same. The first one that does not answer ends the measurement: what
 * a killed child had is free again, and would be counted twice. */
static int memory_together(size_t step, size_t most, long children) {
    static struct child child[MOST_CHILDREN];
    char byte = '.';
    signal(SIGPIPE, SIG_IGN);
    for (long i = 0; i < children; i++)
        if (start_child(&child[i], step)) return stopped(strerror(errno));
    for (size_t got = 0, turn = 0; got < most; turn++) {
        struct child *next = &child[turn % (size_t)children];
        if (write(next->ask, &byte, 1) != 1 || read(next->told, &byte, 1) != 1)
            return stopped("a child was ended");
        got += step;
        say("got %.3f MiB\n", (double)got / MIB);
    }
    return REACHED;
}

static int measure_memory(int count, char **words) {
    size_t step = (size_t)number(words[0], 4, 1 << 20) << 10;
    size_t most = (size_t)number(words[1], 1, 1 << 20) << 20;
    return count > 2 ? memory_together(step, most, number(words[2], 1, MOST_CHILDREN))
                     : memory_alone(step, most);
}

/* ---- processes ------------------------------------------------------------------------------------- */

static int measure_pids(int count, char **words) {
    long most = number(words[count - 1], 1, 1 << 20);
    int gate[2];
    if (pipe2(gate, O_CLOEXEC)) return stopped(strerror(errno));
    for (long got = 1;; got++) {
        say("got %ld processes\n", got);
        if (got >= most) return REACHED;
        pid_t pid = fork();
        if (pid < 0) return stopped(strerror(errno));
        if (pid == 0) { /* it ends when its parent does, who alone holds the gate open */
            char byte;
            close(gate[1]);
            _exit(read(gate[0], &byte, 1) == 0 ? 0 : 1);
        }
    }
}

/* ---- processors ------------------------------------------------------------------------------------ */

static volatile int burning = 1;

static void *burn(void *nothing) {
    while (burning) continue;
    return nothing;
}

/* The first quarter of a second does not count: a share that nobody has used yet is given out at once. */
static int measure_cpu(int count, char **words) {
    double seconds = (double)number(words[0], 1, 3600);
    long threads = count > 1 ? number(words[1], 1, MOST_THREADS) : 1;
    pthread_t thread;
    for (long i = 0; i < threads; i++) {
        int error = pthread_create(&thread, NULL, burn, NULL);
        if (error) return stopped(strerror(error));
    }
    pause_for(0.25);
    double began = clock_seconds(CLOCK_MONOTONIC), spent = clock_seconds(CLOCK_PROCESS_CPUTIME_ID);
    for (double wall = 0; wall < seconds;) {
        pause_for(0.1);
        wall = clock_seconds(CLOCK_MONOTONIC) - began;
        double cpu = clock_seconds(CLOCK_PROCESS_CPUTIME_ID) - spent;
        say("got %.4f processors in %.3f s\n", cpu / wall, wall);
    }
    burning = 0;
    return REACHED;
}

/* ---- files ----------------------------------------------------------------------------------------- */

static int measure_file(int count, char **words) {
    size_t step = (size_t)number(words[count - 2], 1, 1 << 20) << 10;
    size_t most = (size_t)number(words[count - 1], 1, 1 << 20) << 20;
    char *block = calloc(1, step);
    int file = open(words[0], O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (file < 0 || !block) return stopped(strerror(errno));
    signal(SIGXFSZ, SIG_IGN); /* then write fails with EFBIG, and can be reported */
    for (size_t got = 0; got < most;) {
        ssize_t written = write(file, block, step);
        if (written < 0) return stopped(strerror(errno));
        got += (size_t)written;
        say("got %.3f MiB\n", (double)got / MIB);
    }
    return REACHED;
}

static int measure_files(int count, char **words) {
    long most = number(words[count - 1], 1, 1 << 24);
    char path[PATH_MAX];
    for (long got = 1; got <= most; got++) {
        if (snprintf(path, sizeof path, "%s/%ld", words[0], got) >= (int)sizeof path) return MISUSED;
        int file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        if (file < 0) return stopped(strerror(errno));
        close(file);
        say("got %ld files\n", got);
    }
    return REACHED;
}

static int measure_descriptors(int count, char **words) {
    long most = number(words[count - 1], 4, 1 << 20);
    for (long got = 3; got < most;) {
        int copy = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
        if (copy < 0) return stopped(strerror(errno));
        got = copy + 1; /* all below are open too: the lowest free number is given */
        say("got %ld files\n", got);
    }
    return REACHED;
}

static int measure_sleep(int count, char **words) {
    pause_for((double)number(words[count - 1], 0, 86400));
    return REACHED;
}

static const struct {
    const char *name;
    int least, most; /* words after the name */
    int (*measure)(int count, char **words);
} SUBCOMMANDS[] = {
    {"memory", 2, 3, measure_memory}, {"pids", 1, 1, measure_pids},
    {"cpu", 1, 2, measure_cpu},       {"file", 3, 3, measure_file},
    {"files", 2, 2, measure_files},   {"descriptors", 1, 1, measure_descriptors},
    {"sleep", 1, 1, measure_sleep},
};

int main(int argc, char **argv) {
    int count = argc - 2;
    for (size_t i = 0; argc > 1 && i < sizeof SUBCOMMANDS / sizeof *SUBCOMMANDS; i++)
        if (!strcmp(argv[1], SUBCOMMANDS[i].name) && count >= SUBCOMMANDS[i].least &&
            count <= SUBCOMMANDS[i].most)
            return SUBCOMMANDS[i].measure(count, argv + 2);
    fprintf(stderr, "usage: measure memory STEP_KIB MAX_MIB [CHILDREN] | pids MAX | cpu SECONDS [THREADS] |\n"
                    "       file PATH STEP_KIB MAX_MIB | files DIR MAX | descriptors MAX | sleep SECONDS\n");
    return MISUSED;
}
