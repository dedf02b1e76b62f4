/* A job: one command of a kept sandbox. It is a process that the server has forked, becomes the command's supervisor,
 * and reports on a status pipe of the command's own.
 *
 * INVARIANT: whatever is decoded, opened and counted for one command lives in its job, and is gone with it. And all
 * that a command starts descends from its job, which is a subreaper: so one command can be ended without another. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "control.h"
#include "kernel.h"
#include "launch.h"
#include "report.h"

/* What belongs to the command comes from its own spec; the rest is the sandbox's. */
static int adopt(struct launch *launch, const struct spec *command) {
    static const enum record_type OWN[] = {RECORD_CWD, RECORD_ARGUMENT, RECORD_ENVIRONMENT, RECORD_WALL,
                                           RECORD_TERMINAL, RECORD_KEEP, RECORD_FAULT};
    struct spec *spec = &launch->spec;
    for (size_t i = 0; i < sizeof OWN / sizeof *OWN; i++) spec->count[OWN[i]] = command->count[OWN[i]];
    spec->cwd = command->cwd;
    spec->argv = command->argv;
    spec->envp = command->envp;
    spec->wall_ms = command->wall_ms;
    spec->grace_ms = command->grace_ms;
    spec->fault = command->fault;
    return spec->count[RECORD_IMAGE_ENVIRONMENT] ? environment_merge(spec) : 0;
}

/* The sandbox stands: there is nothing to make, nothing to watch that the server does not, and nobody to end but
 * the descendants of this process. */
static void become_job(struct launch *launch) {
    struct spec *spec = &launch->spec;
    if (has_namespaces(launch)) spec->count[RECORD_CGROUP] = 0; /* the server is in it, and so are we */
    spec->namespaces = 0;
    spec->count[RECORD_SERVE] = spec->count[RECORD_LINGER] = 0;
    spec->watch.memory = spec->watch.processes = 0;
    spec->watch.share_permille = 0;
    launch->kill_fd = launch->setup_fd = launch->channel_fd = launch->child = -1;
    if (launch->cpu_fd >= 0) launch->cpu_before_us = cgroup_cpu_us(launch);
}

static int read_command(struct launch *launch, const char **why) {
    struct spec command;
    int err = spec_read(SPEC_FD, &command, why);
    if (!err && close(SPEC_FD) < 0) err = -errno;
    return err ? err : adopt(launch, &command);
}

static int command_main(struct launch *launch, pid_t job) {
    if (close(STATUS_FD) < 0 || close(LIFELINE_FD) < 0 || child_obey(job)) return EXIT_SETUP_FAILED;
    int err = run_phases(launch, CHILD_PHASES);
    if (!err) return command_run(launch);
    report_failed(launch, -err);
    return EXIT_SETUP_FAILED;
}

static int start_command(struct launch *launch) {
    int setup[2];
    pid_t self = getpid();
    launch->phase = "namespaces";
    set_detail(launch, "subreaper");
    if (prctl(PR_SET_CHILD_SUBREAPER, 1) < 0) return -errno;
    set_detail(launch, "fork");
    if (pipe2(setup, O_CLOEXEC) < 0) return -errno;
    launch->child = cgroup_clone(launch, SIGCHLD);
    if (launch->child < 0) return launch->child;
    bool is_child = launch->child == 0;
    launch->setup_fd = setup[is_child ? 1 : 0];
    close(setup[is_child ? 0 : 1]);
    if (is_child) _exit(command_main(launch, self));
    return 0;
}

static int fail(const char *phase, int err, const char *detail) {
    status_failed(phase, -err, detail);
    return EXIT_SETUP_FAILED;
}

int job_run(struct launch *launch, int *given, int count) {
    const char *why = NULL;
    if (control_arrange(given, count)) return EXIT_SETUP_FAILED;
    become_job(launch);
    int err = read_command(launch, &why);
    if (err) return fail("spec", err, why ? why : "out of memory");
    if ((err = start_command(launch))) return fail(launch->phase, err, launch->detail);
    return supervisor_run(launch);
}
