/* Ending every descendant where there is no PID namespace to do it.
 *
 * The supervisor is a subreaper: a process whose parent dies becomes its child, so nothing leaves its sight by
 * double fork or setsid. A forker is beaten by stopping all before killing any: a stopped process has no
 * further children. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "launch.h"

enum {
    STOP_PASSES = 20,
    KILL_ROUNDS = 500, /* of up to 10 ms */
    DEPTH = 100, /* who is deeper comes up when those above are gone */
};

/* Signals one process, then all below it. Returns how many. Children are listed by the kernel in one short file
 * per thread; only a multi-threaded parent has more than one, hence the directory. */
static int signal_below(pid_t parent, int signal, int depth);

static int signal_listed(const char *path, int signal, int depth) {
    FILE *list = fopen(path, "re");
    int count = 0, pid = 0;
    if (!list) return 0; /* the thread is gone, and its children with it: they are ours now */
    while (fscanf(list, "%d", &pid) == 1) {
        kill(pid, signal);
        count += 1 + signal_below(pid, signal, depth + 1);
    }
    fclose(list);
    return count;
}

static int signal_below(pid_t parent, int signal, int depth) {
    char path[320];
    snprintf(path, sizeof path, "/proc/%d/task", (int)parent);
    DIR *threads = depth < DEPTH ? opendir(path) : NULL;
    int count = 0;
    if (!threads) return 0;
    for (struct dirent *entry; (entry = readdir(threads));) {
        if (entry->d_name[0] == '.') continue;
        snprintf(path, sizeof path, "/proc/%d/task/%s/children", (int)parent, entry->d_name);
        count += signal_listed(path, signal, depth);
    }
    closedir(threads);
    return count;
}

/* For kernels without lists of children: signals the direct ones. When they die, theirs become ours. */
static int signal_scanned(int signal) {
    DIR *processes = opendir("/proc");
    int count = 0;
    if (!processes) return 0;
    for (struct dirent *entry; (entry = readdir(processes));) {
        char path[320];
        int pid = atoi(entry->d_name), parent = 0;
        if (pid <= 0) continue;
        snprintf(path, sizeof path, "/proc/%d/stat", pid);
        FILE *status = fopen(path, "re");
        if (!status) continue;
        /* The name may hold spaces and parentheses, but nothing after it does: look from the last ")". */
        char line[512] = "";
        size_t size = fread(line, 1, sizeof line - 1, status);
        line[size] = 0;
        fclose(status);
        const char *after = strrchr(line, ')');
        if (!after || sscanf(after, ") %*c %d", &parent) != 1 || parent != (int)getpid()) continue;
        kill(pid, signal);
        count++;
    }
    closedir(processes);
    return count;
}

int tree_signal(int signal) {
    int count = signal_below(getpid(), signal, 0);
    return count ? count : signal_scanned(signal);
}

/* False when no child is left. */
static bool reap_all(void) {
    pid_t pid = 0;
    while ((pid = waitpid(-1, NULL, WNOHANG)) > 0) continue;
    return !(pid < 0 && errno == ECHILD);
}

static void stop_all(void) {
    int before = -1;
    for (int pass = 0; pass < STOP_PASSES; pass++) {
        int found = tree_signal(SIGSTOP);
        if (found == before) return;
        before = found;
    }
}

int tree_end(void) {
    if (!reap_all()) return 0;
    stop_all();
    for (int round = 0; round < KILL_ROUNDS; round++) {
        tree_signal(SIGKILL);
        if (!reap_all()) return 0;
        struct timespec pause = {.tv_nsec = round < 10 ? 200000 : 10000000};
        nanosleep(&pause, NULL);
    }
    return -ETIMEDOUT;
}
