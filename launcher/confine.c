/* The phases in which the command's process binds itself: limits, no_new_privs, landlock, seccomp. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#include "kernel.h"
#include "launch.h"
#include "listen.h"

/* A limit is an upper bound. Where the host's own is lower, that one stays: raising it would need a privilege,
 * and not raising it keeps the promise. */
static int lower_limit(unsigned resource, rlim_t soft, rlim_t hard) {
    struct rlimit now;
    if (getrlimit(resource, &now) < 0) return -errno;
    struct rlimit wanted = {.rlim_max = hard < now.rlim_max ? hard : now.rlim_max};
    wanted.rlim_cur = soft < wanted.rlim_max ? soft : wanted.rlim_max;
    return setrlimit(resource, &wanted) < 0 ? -errno : 0;
}

/* So many of the processors that the launcher itself may use; by chance which ones, so that launches that run at
 * the same time are spread. */
static int use_processors(uint32_t wanted) {
    cpu_set_t allowed, chosen;
    CPU_ZERO(&chosen);
    if (sched_getaffinity(0, sizeof allowed, &allowed) < 0) return -errno;
    int count = CPU_COUNT(&allowed);
    struct timespec now;
    if (clock_gettime(CLOCK_MONOTONIC, &now) < 0) return -errno;
    if (count <= 0 || wanted >= (uint32_t)count) return 0;
    int skip = (int)(now.tv_nsec / 1000 % count);
    for (int cpu = 0; CPU_COUNT(&chosen) < (int)wanted; cpu = (cpu + 1) % CPU_SETSIZE)
        if (CPU_ISSET(cpu, &allowed) && skip-- <= 0) CPU_SET(cpu, &chosen);
    return sched_setaffinity(0, sizeof chosen, &chosen) < 0 ? -errno : 0;
}

/* limits: after it, no process of the command gets more of a resource than was granted, nor can raise it again
 * (hard limits). In the command's process only: supervisor and init must not run out. */
int phase_limits(struct launch *launch) {
    const struct spec *spec = &launch->spec;
    bool core_is_set = false;
    set_detail(launch, "processors");
    int bound = spec->watch.processors ? use_processors(spec->watch.processors) : 0;
    if (bound) return bound;
    for (size_t i = 0; i < spec->count[RECORD_RLIMIT]; i++) {
        const struct rlimit_record *r = &spec->rlimits[i];
        set_detail(launch, "resource %u", (unsigned)r->resource);
        int err = lower_limit(r->resource, r->soft, r->hard);
        if (err) return err;
        if (r->resource == RLIMIT_CORE) core_is_set = true;
    }
    /* A core is given to the file or the program (as root, on the host) that the host's core_pattern names. One
     * byte is too little for a file and is how core(5) programs are told not to run; zero stops only files. */
    set_detail(launch, "core size");
    return core_is_set ? 0 : lower_limit(RLIMIT_CORE, 1, 1);
}

/* no_new_privs: after it, execve cannot gain a privilege from a set-user-ID bit or file capabilities. Before
 * landlock and seccomp, which an unprivileged process may only use with it. */
int phase_no_new_privs(struct launch *launch) {
    set_detail(launch, "prctl");
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ? -errno : 0;
}

static bool is_area(const struct launch *launch, const char *path) {
    for (size_t i = 0; i < launch->spec.count[RECORD_MOUNT]; i++) {
        const struct mount_record *m = &launch->spec.mounts[i];
        if (m->kind == MOUNT_AREA && strcmp(m->target, path) == 0) return true;
    }
    return false;
}

/* A private area may lie in another one, and the names there are the commands': none of them may lead a rule out. */
static bool is_in_areas(const struct launch *launch, const struct stat *found) {
    struct stat areas;
    return fstat(launch->areas_fd, &areas) == 0 && areas.st_dev == found->st_dev;
}

/* Where there are no mounts, a rule is the only wall: it must be about what was planned, and a link that somebody
 * has put there since leads elsewhere. */
static int open_planned(struct launch *launch, const struct path_rule *rule) {
    bool is_known = rule->device || rule->inode;
    if (!is_known && !is_area(launch, rule->path)) return k_result(open(rule->path, O_PATH | O_CLOEXEC));
    int fd = k_openat2(AT_FDCWD, rule->path, O_PATH | O_CLOEXEC, K_RESOLVE_NO_SYMLINKS);
    if (fd < 0 && fd != -ELOOP && fd != -ENOENT && fd != -ENOTDIR) return fd;
    struct stat status;
    bool is_there = fd >= 0 && fstat(fd, &status) == 0;
    bool is_same = is_there && is_known && status.st_dev == rule->device && status.st_ino == rule->inode;
    if (is_same || (is_there && !is_known && is_in_areas(launch, &status))) return fd;
    if (fd >= 0) close(fd);
    set_detail(launch, "rule for %s: changed since it was planned", rule->path);
    return -ESTALE;
}

static int add_path(struct launch *launch, int ruleset, const struct path_rule *rule) {
    int fd = open_planned(launch, rule);
    if (fd < 0) return fd;
    struct k_landlock_path_beneath_attr attr = {.allowed_access = rule->rights, .parent_fd = fd};
    int err = k_landlock_add(ruleset, K_LANDLOCK_RULE_PATH_BENEATH, &attr);
    close(fd);
    return err;
}

/* Scripts open /dev/stderr again although they hold it. A file or terminal that was given as stdio may be opened
 * by that name, for no more than it is open for. Failing to say so only leaves less permitted. */
static void add_stdio(int ruleset, uint64_t handled) {
    for (int fd = 0; fd <= STDERR_FILENO; fd++) {
        struct stat status;
        int flags = fcntl(fd, F_GETFL);
        if (flags < 0 || fstat(fd, &status) < 0 || !(S_ISREG(status.st_mode) || S_ISCHR(status.st_mode))) continue;
        uint64_t rights = S_ISCHR(status.st_mode) ? K_LANDLOCK_FS_IOCTL_DEV : 0;
        if ((flags & O_ACCMODE) != O_WRONLY) rights |= K_LANDLOCK_FS_READ_FILE;
        if ((flags & O_ACCMODE) != O_RDONLY) rights |= K_LANDLOCK_FS_WRITE_FILE | K_LANDLOCK_FS_TRUNCATE;
        struct k_landlock_path_beneath_attr attr = {.allowed_access = rights & handled, .parent_fd = fd};
        if (attr.allowed_access) k_landlock_add(ruleset, K_LANDLOCK_RULE_PATH_BENEATH, &attr);
    }
}

static int add_rules(struct launch *launch, int ruleset) {
    const struct spec *spec = &launch->spec;
    for (size_t i = 0; i < spec->count[RECORD_LANDLOCK_PATH]; i++) {
        set_detail(launch, "rule for %s", spec->paths[i].path);
        int err = add_path(launch, ruleset, &spec->paths[i]);
        if (err) return err;
    }
    for (size_t i = 0; i < spec->count[RECORD_LANDLOCK_PORT]; i++) {
        struct k_landlock_net_port_attr attr = {.allowed_access = spec->ports[i].rights, .port = spec->ports[i].port};
        set_detail(launch, "rule for port %llu", (unsigned long long)attr.port);
        int err = k_landlock_add(ruleset, K_LANDLOCK_RULE_NET_PORT, &attr);
        if (err) return err;
    }
    return 0;
}

static int make_ruleset(struct launch *launch) {
    const struct spec *spec = &launch->spec;
    struct k_landlock_ruleset_attr attr = {
        .handled_access_fs = spec->handled_fs, .handled_access_net = spec->handled_net, .scoped = spec->scoped};
    set_detail(launch, "create ruleset");
    int ruleset = k_landlock_create(&attr, sizeof attr, 0);
    if (ruleset < 0) return ruleset;
    int err = add_rules(launch, ruleset);
    if (!err) return ruleset;
    close(ruleset);
    return err;
}

/* Rules hold what was found when the sandbox was made, for all its commands. */
int landlock_prepare(struct launch *launch) {
    struct spec *spec = &launch->spec;
    if (!spec->count[RECORD_LANDLOCK]) return 0;
    /* Each command has a domain of its own, and a scope would keep them apart as it keeps them from the host. */
    if (spec->serve_flags & SERVE_SIGNALS) spec->scoped &= ~(uint64_t)K_LANDLOCK_SCOPE_SIGNAL;
    if (spec->serve_flags & SERVE_SOCKETS) spec->scoped &= ~(uint64_t)K_LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET;
    launch->ruleset_fd = make_ruleset(launch);
    return launch->ruleset_fd < 0 ? launch->ruleset_fd : 0;
}

/* Whether stdio asks for no rule of its own. Every policy has one for the null device. */
static bool is_plain_stdio(void) {
    for (int fd = 0; fd <= STDERR_FILENO; fd++) {
        struct stat status;
        if (fstat(fd, &status) < 0) continue;
        bool is_null = S_ISCHR(status.st_mode) && status.st_rdev == makedev(1, 3);
        if (!is_null && (S_ISREG(status.st_mode) || S_ISCHR(status.st_mode))) return false;
    }
    return true;
}

/* landlock: after it, files, ports, signals and abstract sockets are reachable only by a rule. After chdir and
 * mounts, which it would forbid; before seccomp, which forbids it. An older kernel refuses the fields it does
 * not know unless they are zero, so nothing asked for is silently left out. */
int phase_landlock(struct launch *launch) {
    if (!launch->spec.count[RECORD_LANDLOCK]) return 0;
    bool is_prepared = launch->ruleset_fd >= 0 && is_plain_stdio();
    int ruleset = is_prepared ? launch->ruleset_fd : make_ruleset(launch);
    if (ruleset < 0) return ruleset;
    if (!is_prepared) add_stdio(ruleset, launch->spec.handled_fs);
    set_detail(launch, "restrict");
    int err = k_landlock_restrict(ruleset);
    close(ruleset);
    return err;
}

/* seccomp: after it, the system calls the filter names are gone, for this process and all it starts. Last,
 * because most phases before it use calls that the filter denies. */
int phase_seccomp(struct launch *launch) {
    set_detail(launch, "install filter");
    return launch->spec.filter_length && !launch->is_filtered ? listen_install(launch) : 0;
}
