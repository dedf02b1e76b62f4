/* group: after it, the control groups that the spec asks for are there, with their limits. It precedes cgroup, which
 * opens them, and everything that is counted. Corral makes groups itself where it runs; this is for compiled plans.
 *
 * INVARIANT: what is made here is removed, also when this process is killed. A name says which process made it, so that
 * corral finds what is left if the remover is killed as well. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "kernel.h"
#include "launch.h"
#include "report.h"

enum { REMOVE_ROUNDS = 4000 }; /* of half a millisecond: the kernel takes a moment to forget the dead */

static ssize_t read_file(const char *path, char *text, size_t size) {
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    ssize_t got = fd < 0 ? -1 : read(fd, text, size - 1);
    if (fd >= 0) close(fd);
    text[got > 0 ? got : 0] = 0;
    return got;
}

/* As in src/corral/limits/group.py: PID namespace, PID, and when the process was started. */
static int make_name(char *name, size_t size) {
    char text[1024];
    struct stat space;
    unsigned long long began = 0;
    if (stat("/proc/self/ns/pid", &space) < 0 || read_file("/proc/self/stat", text, sizeof text) <= 0) return -EIO;
    const char *after = strrchr(text, ')'); /* the name may hold anything, and nothing after it does */
    static const char FIELDS[] = ") %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %llu";
    if (!after || sscanf(after, FIELDS, &began) != 1) return -EIO;
    unsigned long long number = (unsigned long long)space.st_ino;
    int length = snprintf(name, size, "corral-%llu-%d-%llu-plan", number, (int)getpid(), began);
    return length > 0 && (size_t)length < size ? 0 : -ENAMETOOLONG;
}

static int choose_path(struct launch *launch, struct group_record *group, const char *name) {
    char path[PATH_MAX];
    int length = snprintf(path, sizeof path, "%s/%s", group->parent, name);
    set_detail(launch, "name a group in %s", group->parent);
    if (length < 0 || (size_t)length >= sizeof path) return -ENAMETOOLONG;
    group->path = strdup(path);
    return group->path ? 0 : -ENOMEM;
}

static void remove_all(struct launch *launch) {
    const struct timespec pause = {.tv_nsec = 500000};
    for (size_t i = 0; i < launch->spec.count[RECORD_GROUP]; i++) {
        const char *path = launch->spec.groups[i].path;
        for (int round = 0; path && rmdir(path) < 0 && errno == EBUSY && round < REMOVE_ROUNDS; round++) {
            cgroup_kill_listed(path); /* the supervisor was killed, and nobody else hunts */
            nanosleep(&pause, NULL);
        }
    }
}

/* Version 1 lets nobody remove a group at the top of its tree but who has CAP_DAC_OVERRIDE, which the supervisor gives
 * up. The remover keeps that alone, waits for the end of the supervisor, whatever kind of end, and removes. It holds
 * nothing of the caller's. */
static void remover_main(struct launch *launch, int life, int done) {
    char byte = 0;
    bool is_alone = dup2(life, 0) == 0 && dup2(done, 1) == 1 && k_close_range(2, 0) == 0;
    if (!is_alone || prctl(PR_SET_DUMPABLE, 0) < 0 || caps_keep(1ull << K_CAP_DAC_OVERRIDE)) _exit(EXIT_SETUP_FAILED);
    if (write(1, "r", 1) != 1) _exit(EXIT_SETUP_FAILED);
    while (read(0, &byte, 1) < 0 && errno == EINTR) continue;
    remove_all(launch);
    _exit(0);
}

/* ORDER: before the first group is made, so that none is ever there without somebody to remove it. */
static int start_remover(struct launch *launch) {
    int life[2], done[2], status = 0;
    char ready = 0;
    set_detail(launch, "a process that removes groups");
    if (pipe2(life, O_CLOEXEC) < 0 || pipe2(done, O_CLOEXEC) < 0) return -errno;
    pid_t child = k_clone(SIGCHLD);
    if (child < 0) return child;
    if (child == 0) {
        close(life[1]);
        close(done[0]);
        /* Without namespaces all descendants are hunted. An orphan, from before there is a subreaper, is none. */
        pid_t remover = has_namespaces(launch) ? 0 : k_clone(SIGCHLD);
        if (remover == 0) remover_main(launch, life[0], done[1]);
        _exit(remover < 0 ? EXIT_SETUP_FAILED : 0);
    }
    close(life[0]);
    close(done[1]);
    launch->remover = has_namespaces(launch) ? child : 0;
    launch->remover_fd = life[1];
    launch->removed_fd = done[0];
    if (!launch->remover) while (waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
    return status == 0 && read(done[0], &ready, 1) == 1 ? 0 : -ECHILD;
}

/* Every path in a group that was made becomes a plain one. What is replaced lives as long as the process. */
static int find_path(struct launch *launch, const char **path) {
    char whole[PATH_MAX];
    if (!*path || (*path)[0] != '%') return 0;
    int length = snprintf(whole, sizeof whole, "%s%s", launch->spec.groups[(*path)[1] - '0'].path, *path + 2);
    if (length < 0 || (size_t)length >= sizeof whole) return -ENAMETOOLONG;
    *path = strdup(whole);
    return *path ? 0 : -ENOMEM;
}

static int find_paths(struct launch *launch) {
    struct spec *spec = &launch->spec;
    int err = find_path(launch, &spec->cgroup_kill.path);
    if (!err) err = find_path(launch, &spec->cpu_time.path);
    for (size_t i = 0; !err && i < spec->count[RECORD_CGROUP]; i++) err = find_path(launch, &spec->cgroups[i].path);
    size_t settings = spec->count[RECORD_GROUP_SETTING];
    for (size_t i = 0; !err && i < settings; i++) err = find_path(launch, &spec->settings[i].path);
    return err;
}

static int set_limit(struct launch *launch, const struct group_setting *setting) {
    set_detail(launch, "write %s", setting->path);
    int fd = k_result(open(setting->path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW));
    if (fd < 0) return fd;
    size_t size = strlen(setting->value);
    ssize_t written = write(fd, setting->value, size);
    int err = written < 0 ? -errno : (size_t)written == size ? 0 : -EIO;
    close(fd);
    return err;
}

static int make(struct launch *launch, const char *path) {
    set_detail(launch, "make %s", path);
    return mkdir(path, 0755) < 0 ? -errno : 0;
}

int phase_group(struct launch *launch) {
    struct spec *spec = &launch->spec;
    size_t count = spec->count[RECORD_GROUP];
    char name[128];
    if (!count) return 0;
    set_detail(launch, "name a group");
    int err = make_name(name, sizeof name);
    for (size_t i = 0; !err && i < count; i++) err = choose_path(launch, &spec->groups[i], name);
    if (!err) err = find_paths(launch);
    if (!err) err = start_remover(launch);
    for (size_t i = 0; !err && i < count; i++) err = make(launch, spec->groups[i].path);
    for (size_t i = 0; !err && i < spec->count[RECORD_GROUP_SETTING]; i++) err = set_limit(launch, &spec->settings[i]);
    return err;
}

/* The number behind a name, in a file of "name number" lines of a group; without a name, all that is in it. -1 if there is
 * none: then nobody counts that here. */
static long long read_counter(const char *group, const char *file, const char *name) {
    char path[PATH_MAX], text[1024];
    size_t length = name ? strlen(name) : 0;
    int size = snprintf(path, sizeof path, "%s/%s", group, file);
    if (size < 0 || (size_t)size >= sizeof path || read_file(path, text, sizeof text) <= 0) return -1;
    if (!name) return strtoll(text, NULL, 10);
    char *rest = NULL;
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
        if (strncmp(line, name, length) == 0 && line[length] == ' ') return strtoll(line + length, NULL, 10);
    return -1;
}

/* As in src/corral/limits/cgroup1.py and cgroup2.py, microseconds and bytes. */
struct counted { long long user, system, memory, processes; };

static void take(long long *known, long long found) {
    if (*known < 0) *known = found;
}

/* Version 1: the whole is exact, its parts are sampled by the kernel's clock. */
static void take_times(struct counted *counted, const char *group) {
    long long whole = read_counter(group, "cpuacct.usage", NULL);
    long long user = read_counter(group, "cpuacct.usage_user", NULL), system = read_counter(group, "cpuacct.usage_sys", NULL);
    if (whole < 0 || user < 0 || system < 0) return;
    double share = user + system ? (double)user / (double)(user + system) : 1.0;
    take(&counted->user, (long long)((double)whole * share / 1000));
    take(&counted->system, (long long)((double)whole * (1 - share) / 1000));
}

static void tell_counted(const struct launch *launch) {
    struct counted counted = {-1, -1, -1, -1};
    char line[128];
    for (size_t i = 0; i < launch->spec.count[RECORD_GROUP]; i++) {
        const char *path = launch->spec.groups[i].path;
        take(&counted.user, read_counter(path, "cpu.stat", "user_usec"));
        take(&counted.system, read_counter(path, "cpu.stat", "system_usec"));
        take_times(&counted, path);
        take(&counted.memory, read_counter(path, "memory.peak", NULL));
        take(&counted.memory, read_counter(path, "memory.memsw.max_usage_in_bytes", NULL)); /* with swap, where that counts */
        take(&counted.memory, read_counter(path, "memory.max_usage_in_bytes", NULL));
        take(&counted.processes, read_counter(path, "pids.peak", NULL));
    }
    if (counted.processes > 0 && has_namespaces(launch)) counted.processes--; /* init is among them */
    snprintf(line, sizeof line, "counted %lld %lld %lld %lld\n", counted.user, counted.system, counted.memory, counted.processes);
    status_line(line);
}

/* ORDER: when all processes are gone, and before the groups are. */
void groups_tell(const struct launch *launch) {
    bool is_out_of_memory = false, is_refused = false;
    for (size_t i = 0; i < launch->spec.count[RECORD_GROUP]; i++) {
        const char *path = launch->spec.groups[i].path;
        is_out_of_memory |= read_counter(path, "memory.oom_control", "oom_kill") > 0; /* version 1 */
        is_out_of_memory |= read_counter(path, "memory.events", "oom_kill") > 0;
        is_refused |= read_counter(path, "pids.events", "max") > 0;
    }
    if (launch->tells_usage) tell_counted(launch);
    if (is_out_of_memory) status_line("limit memory\n");
    if (is_refused) status_line("limit processes\n");
}

/* Returns when they are gone. */
void groups_remove(struct launch *launch) {
    char byte = 0;
    if (launch->remover_fd <= 0) return;
    close(launch->remover_fd);
    while (read(launch->removed_fd, &byte, 1) < 0 && errno == EINTR) continue;
    close(launch->removed_fd);
    if (launch->remover) while (waitpid(launch->remover, NULL, 0) < 0 && errno == EINTR) continue;
}
