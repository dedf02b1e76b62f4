/* Ending every descendant where there is no PID namespace to do it.
 *
 * The supervisor is a subreaper: a process whose parent dies becomes its child, so nothing leaves its sight by
 * double fork or setsid. A forker is beaten by stopping all before killing any: a stopped process has no
 * further children. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "launch.h"

enum {
    STOP_PASSES = 20,
    KILL_ROUNDS = 500, /* of up to 10 ms */
    MOST = 1 << 17,    /* processes; nobody makes more that SIGKILL does not meet on the way */
    REAPED = 256,      /* at a time: orphans may die faster than anyone can reap them, and there is more to do */
};

typedef void (*visitor)(int pid, void *context);

/* Everyone who is known to descend from us; it grows while it is read. */
struct family {
    int *pids;
    size_t count, room;
};

static bool family_add(struct family *family, int pid) {
    if (family->count == family->room) {
        size_t room = family->room ? family->room * 2 : 256;
        int *pids = room > MOST ? NULL : realloc(family->pids, room * sizeof *pids);
        if (!pids) return false;
        family->pids = pids;
        family->room = room;
    }
    family->pids[family->count++] = pid;
    return true;
}

static void add_listed(struct family *family, const char *path) {
    FILE *list = fopen(path, "re");
    int pid = 0;
    if (!list) return; /* the thread is gone, and its children with it: they are ours now */
    while (fscanf(list, "%d", &pid) == 1 && family_add(family, pid)) continue;
    fclose(list);
}

/* Children are listed by the kernel in one short file per thread; only a multi-threaded parent has more than one. */
static void add_children(struct family *family, pid_t parent) {
    char path[320];
    snprintf(path, sizeof path, "/proc/%d/task", (int)parent);
    DIR *threads = opendir(path);
    if (!threads) return;
    for (struct dirent *entry; (entry = readdir(threads));) {
        if (entry->d_name[0] == '.') continue;
        snprintf(path, sizeof path, "/proc/%d/task/%s/children", (int)parent, entry->d_name);
        add_listed(family, path);
    }
    closedir(threads);
}

static int parent_of(int pid) {
    char path[64], line[512] = "";
    int parent = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *status = fopen(path, "re");
    if (!status) return 0;
    size_t size = fread(line, 1, sizeof line - 1, status);
    line[size] = 0;
    fclose(status);
    /* The name may hold spaces and parentheses, but nothing after it does: look from the last ")". */
    const char *after = strrchr(line, ')');
    return after && sscanf(after, ") %*c %d", &parent) == 1 ? parent : 0;
}

/* For kernels without lists of children. */
static void add_scanned(struct family *family, pid_t parent) {
    DIR *processes = opendir("/proc");
    if (!processes) return;
    for (struct dirent *entry; (entry = readdir(processes));) {
        int pid = atoi(entry->d_name);
        if (pid > 0 && parent_of(pid) == (int)parent && !family_add(family, pid)) break;
    }
    closedir(processes);
}

/* Visits all, parents before their children. Returns how many. */
static int visit_all(visitor visit, void *context) {
    struct family family = {0};
    bool has_lists = access("/proc/self/task", F_OK) == 0 && access("/proc/thread-self/children", F_OK) == 0;
    void (*add)(struct family *, pid_t) = has_lists ? add_children : add_scanned;
    add(&family, getpid());
    for (size_t i = 0; i < family.count; i++) {
        visit(family.pids[i], context);
        add(&family, family.pids[i]);
    }
    free(family.pids);
    return (int)family.count;
}

void tree_visit(visitor visit, void *context) { (void)visit_all(visit, context); }

static void send_signal(int pid, void *signal) { kill(pid, *(int *)signal); }

int tree_signal(int signal) {
    if (!is_first_process()) return visit_all(send_signal, &signal);
    return kill(-1, signal) == 0 ? 1 : 0; /* everyone but ourselves, at once */
}

/* Some of the dead; the number of those that were waited for, or -1 when no child is left. */
struct rusage tree_spent;

static void add_time(struct timeval *sum, struct timeval more) {
    sum->tv_sec += more.tv_sec + (sum->tv_usec + more.tv_usec) / 1000000;
    sum->tv_usec = (sum->tv_usec + more.tv_usec) % 1000000;
}

/* The kernel's own sum is of all children that a process ever had; a job has had those of other commands. */
static void add_spent(const struct rusage *more) {
    add_time(&tree_spent.ru_utime, more->ru_utime);
    add_time(&tree_spent.ru_stime, more->ru_stime);
    if (more->ru_maxrss > tree_spent.ru_maxrss) tree_spent.ru_maxrss = more->ru_maxrss;
    tree_spent.ru_inblock += more->ru_inblock;
    tree_spent.ru_oublock += more->ru_oublock;
}

/* Whoever asks to be traced (PTRACE_TRACEME) is traced by its parent, which may be us. It goes on as if nobody did:
 * with the signal that has stopped it, but for the one that only a traced process gets when it executes something. */
static void let_go(pid_t pid, int signal) {
    siginfo_t info;
    bool is_of_exec = signal == SIGTRAP && ptrace(PTRACE_GETSIGINFO, pid, NULL, &info) == 0 && info.si_code == SI_USER &&
                      info.si_pid == pid;
    (void)ptrace(PTRACE_DETACH, pid, NULL, (void *)(intptr_t)(is_of_exec ? 0 : signal)); /* unless it was killed */
}

int tree_reap(pid_t awaited, int *wait_status, bool *is_found) {
    int count = 0, status = 0;
    struct rusage spent;
    for (pid_t pid = 0; count < REAPED && (pid = wait4(-1, &status, WNOHANG, &spent)) != 0; count++) {
        if (pid < 0 && errno == EINTR) continue;
        if (pid < 0) return -1;
        if (WIFSTOPPED(status)) let_go(pid, WSTOPSIG(status));
        if (!WIFEXITED(status) && !WIFSIGNALED(status)) continue; /* INVARIANT: only an end is an end */
        add_spent(&spent);
        if (pid != awaited) continue;
        *wait_status = status;
        *is_found = true;
    }
    return count;
}

static bool has_children(void) {
    int status = 0;
    bool is_found = false;
    return tree_reap(-1, &status, &is_found) >= 0;
}

/* The last number that was given to a process of this namespace is how many there have been, until they begin
 * anew from the bottom. Ours are the first, and its helper. */
uint32_t count_processes(const struct launch *launch) {
    char text[128] = "";
    int fd = open("/proc/loadavg", O_RDONLY | O_CLOEXEC);
    ssize_t got = fd < 0 ? 0 : read(fd, text, sizeof text - 1);
    if (fd >= 0) close(fd);
    const char *last = got > 0 ? strrchr(text, ' ') : NULL;
    long count = last ? strtol(last, NULL, 10) : 0;
    long ours = has_helper(launch) ? 2 : 1;
    return count > ours ? (uint32_t)(count - ours) : 0;
}

bool is_first_process(void) { return getpid() == 1; }

static void stop_all(void) {
    int before = -1;
    for (int pass = 0; pass < STOP_PASSES; pass++) {
        int found = tree_signal(SIGSTOP);
        if (found == before) return;
        before = found;
    }
}

int tree_end(const struct launch *launch) {
    if (!has_children()) return 0;
    cgroup_kill(launch);
    stop_all();
    for (int round = 0; round < KILL_ROUNDS; round++) {
        tree_signal(SIGKILL);
        if (!has_children()) return 0;
        struct timespec pause = {.tv_nsec = round < 10 ? 200000 : 10000000};
        nanosleep(&pause, NULL);
    }
    return -ETIMEDOUT;
}
