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

typedef void (*visitor)(int pid, void *context);

/* Visits one process, then all below it. Returns how many. Children are listed by the kernel in one short file
 * per thread; only a multi-threaded parent has more than one, hence the directory. */
static int visit_below(pid_t parent, visitor visit, void *context, int depth);

static int visit_listed(const char *path, visitor visit, void *context, int depth) {
    FILE *list = fopen(path, "re");
    int count = 0, pid = 0;
    if (!list) return 0; /* the thread is gone, and its children with it: they are ours now */
    while (fscanf(list, "%d", &pid) == 1) {
        visit(pid, context);
        count += 1 + visit_below(pid, visit, context, depth + 1);
    }
    fclose(list);
    return count;
}

static int visit_below(pid_t parent, visitor visit, void *context, int depth) {
    char path[320];
    snprintf(path, sizeof path, "/proc/%d/task", (int)parent);
    DIR *threads = depth < DEPTH ? opendir(path) : NULL;
    int count = 0;
    if (!threads) return 0;
    for (struct dirent *entry; (entry = readdir(threads));) {
        if (entry->d_name[0] == '.') continue;
        snprintf(path, sizeof path, "/proc/%d/task/%s/children", (int)parent, entry->d_name);
        count += visit_listed(path, visit, context, depth);
    }
    closedir(threads);
    return count;
}

/* For kernels without lists of children: the direct ones. When they die, theirs become ours. */
static int visit_scanned(visitor visit, void *context) {
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
        visit(pid, context);
        count++;
    }
    closedir(processes);
    return count;
}

static int visit_all(visitor visit, void *context) {
    int count = visit_below(getpid(), visit, context, 0);
    return count ? count : visit_scanned(visit, context);
}

void tree_visit(visitor visit, void *context) { (void)visit_all(visit, context); }

static void send_signal(int pid, void *signal) { kill(pid, *(int *)signal); }

int tree_signal(int signal) { return visit_all(send_signal, &signal); }

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

int tree_end(const struct launch *launch) {
    if (!reap_all()) return 0;
    cgroup_kill(launch);
    stop_all();
    for (int round = 0; round < KILL_ROUNDS; round++) {
        tree_signal(SIGKILL);
        if (!reap_all()) return 0;
        struct timespec pause = {.tv_nsec = round < 10 ? 200000 : 10000000};
        nanosleep(&pause, NULL);
    }
    return -ETIMEDOUT;
}
