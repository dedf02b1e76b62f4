/* cgroup: after it, everything this launch spawns is counted and bounded; a process cannot leave by itself,
 * since the mounts phase does not show it the cgroup file systems, and Landlock does not let it write there.
 *
 * The supervisor opens the groups and stays outside, so that it can end all members at once and live to tell.
 * Its child enters before it does anything else: by being born there (version 2), or by writing itself to
 * `tasks` (version 1). Both cost microseconds. A process that is moved by `cgroup.procs` waits for every
 * processor of the machine first, some ten milliseconds. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "kernel.h"
#include "launch.h"

enum { FREEZE_ROUNDS = 200 }; /* of a millisecond */

/* Inside a sandbox that somebody else has made there is no path to the groups: corral gives their files along. */
static int open_file(const char *path, int flags) {
    if (path[0] != '@') return k_result(open(path, flags | O_CLOEXEC));
    return k_result(fcntl(atoi(path + 1), F_DUPFD_CLOEXEC, FIRST_FOREIGN_FD));
}

static int open_group(const struct cgroup_record *group) {
    int flags = group->kind == CGROUP_BIRTH ? O_PATH | O_DIRECTORY : O_WRONLY;
    return open_file(group->path, flags | O_NOFOLLOW);
}

static int open_beneath(const char *directory, const char *name, int flags) {
    char path[PATH_MAX];
    int length = snprintf(path, sizeof path, "%s/%s", directory, name);
    if (length < 0 || (size_t)length >= sizeof path) return -ENAMETOOLONG;
    return k_result(open(path, flags | O_CLOEXEC | O_NOFOLLOW));
}

static int open_kill(struct launch *launch) {
    const struct cgroup_record *group = &launch->spec.cgroup_kill;
    launch->kill_fd = group->kind == CGROUP_KILL_FILE ? k_result(open(group->path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW))
                                                      : open_beneath(group->path, "freezer.state", O_RDWR);
    return launch->kill_fd < 0 ? launch->kill_fd : 0;
}

static int open_all(struct launch *launch) {
    const struct spec *spec = &launch->spec;
    size_t count = spec->count[RECORD_CGROUP];
    launch->group_fds = calloc(count + 1, sizeof *launch->group_fds);
    if (!launch->group_fds) return -ENOMEM;
    for (size_t i = 0; i < count; i++) {
        set_detail(launch, "open %s", spec->cgroups[i].path);
        launch->group_fds[i] = open_group(&spec->cgroups[i]);
        if (launch->group_fds[i] < 0) return launch->group_fds[i];
    }
    set_detail(launch, "open %s", spec->cgroup_kill.path ? spec->cgroup_kill.path : "");
    int err = spec->count[RECORD_CGROUP_KILL] ? open_kill(launch) : 0;
    if (err || !spec->count[RECORD_CPU_TIME]) return err;
    set_detail(launch, "open %s", spec->cpu_time.path);
    launch->cpu_fd = open_file(spec->cpu_time.path, O_RDONLY);
    return launch->cpu_fd < 0 ? launch->cpu_fd : 0;
}

int phase_cgroup(struct launch *launch) {
    int err = open_all(launch);
    /* Those that corral gave along have their copies now, or were not for this launch. */
    for (int fd = FIRST_FOREIGN_FD; fd < FIRST_FOREIGN_FD + launch->given; fd++) close(fd);
    launch->given = 0;
    return err;
}

static int birth_place(const struct launch *launch) {
    for (size_t i = 0; i < launch->spec.count[RECORD_CGROUP]; i++)
        if (launch->spec.cgroups[i].kind == CGROUP_BIRTH) return launch->group_fds[i];
    return -1;
}

/* A filter around us may hide clone3 (ENOSYS); then the child moves itself, which takes longer. */
int cgroup_clone(struct launch *launch, unsigned long flags) {
    int place = birth_place(launch);
    if (place < 0) return k_clone(flags);
    struct k_clone_args args = {.flags = (flags & ~0xfful) | K_CLONE_INTO_CGROUP, .exit_signal = flags & 0xff,
                                .cgroup = (uint64_t)place};
    int child = k_clone3(&args);
    if (child != -ENOSYS) return child;
    launch->must_move = true;
    return k_clone(flags);
}

static int join(const struct launch *launch, size_t i) {
    if (launch->spec.cgroups[i].kind == CGROUP_TASKS) return write(launch->group_fds[i], "0", 1) == 1 ? 0 : -errno;
    if (!launch->must_move) return 0;
    int fd = k_result(openat(launch->group_fds[i], "cgroup.procs", O_WRONLY | O_CLOEXEC));
    if (fd < 0) return fd;
    int err = write(fd, "0", 1) == 1 ? 0 : -errno;
    close(fd);
    return err;
}

/* join: the first thing that the child does. It gives up its hold on the groups with it. */
int phase_join(struct launch *launch) {
    for (size_t i = 0; i < launch->spec.count[RECORD_CGROUP]; i++) {
        set_detail(launch, "join %s", launch->spec.cgroups[i].path);
        int err = join(launch, i);
        if (err) return err;
        close(launch->group_fds[i]);
    }
    if (launch->kill_fd >= 0) close(launch->kill_fd);
    launch->kill_fd = -1;
    if (is_server(launch)) return 0; /* its jobs look at their processor time themselves */
    if (launch->cpu_fd >= 0) close(launch->cpu_fd);
    launch->cpu_fd = -1;
    return 0;
}

static bool is_frozen(int state) {
    char text[16] = "";
    ssize_t got = pread(state, text, sizeof text - 1, 0);
    return got >= 6 && strncmp(text, "FROZEN", 6) == 0;
}

void cgroup_kill_listed(const char *directory) {
    int fd = open_beneath(directory, "cgroup.procs", O_RDONLY);
    FILE *list = fd < 0 ? NULL : fdopen(fd, "re");
    int pid = 0;
    if (!list) return;
    while (fscanf(list, "%d", &pid) == 1)
        if (pid > 0) kill(pid, SIGKILL);
    fclose(list);
}

/* A frozen process forks no more, so that whoever is listed is all there is. Thawed, they meet the signal. */
static void kill_frozen(const struct launch *launch) {
    const struct timespec pause = {.tv_nsec = 1000000};
    if (pwrite(launch->kill_fd, "FROZEN", 6, 0) < 0) return;
    for (int round = 0; round < FREEZE_ROUNDS && !is_frozen(launch->kill_fd); round++) nanosleep(&pause, NULL);
    cgroup_kill_listed(launch->spec.cgroup_kill.path);
    if (pwrite(launch->kill_fd, "THAWED", 6, 0) < 0) return;
}

void cgroup_kill(const struct launch *launch) {
    if (launch->kill_fd < 0) return;
    if (launch->spec.cgroup_kill.kind == CGROUP_KILL_FREEZER) kill_frozen(launch);
    else if (write(launch->kill_fd, "1", 1) < 0) return; /* tree_end() and PID 1 are there as well */
}

/* Microseconds of processor time of the whole tree, or -1. The first number of the file is meant. */
int64_t cgroup_cpu_us(const struct launch *launch) {
    char text[64] = "";
    ssize_t got = pread(launch->cpu_fd, text, sizeof text - 1, 0);
    const char *digits = got > 0 ? text + strcspn(text, "0123456789") : "";
    char *end = NULL;
    unsigned long long value = strtoull(digits, &end, 10);
    if (end == digits || value > INT64_MAX) return -1;
    return (int64_t)(value / launch->spec.cpu_time.divisor);
}
