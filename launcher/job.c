/* A job: one command of a kept sandbox. The server has forked it beforehand. It waits for a request, starts the command,
 * becomes its supervisor, and reports on a status pipe of the command's own.
 *
 * INVARIANT: whatever is decoded, opened and counted for one command lives in its job, and is gone with it. And all
 * that a command starts descends from its job, which is a subreaper: so one command can be ended without another. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "control.h"
#include "kernel.h"
#include "launch.h"
#include "report.h"

enum {
    STACK_BYTES = 65536,
    PAGE = 4096,
    COMMAND_FDS = 5, /* stdio, status, lifeline; then the file, if there is one */
};

static char stack[STACK_BYTES] __attribute__((aligned(16))); /* of the command's process, until it executes */

struct birth {
    struct launch *launch;
    pid_t job;
    int error; /* why the command could not be executed */
};

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
    launch->must_move = true;
}

/* Each to its number; those of the server itself are elsewhere (server_reserve). */
static int place(const int *given) {
    static const int PLACES[COMMAND_FDS] = {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO, STATUS_FD, LIFELINE_FD};
    for (int i = 0; i < COMMAND_FDS; i++) {
        if (dup2(given[i], PLACES[i]) < 0) return -errno;
        close(given[i]); /* a second holder of a pipe would keep its reader waiting */
    }
    return 0;
}

static int decode(struct spec *command, const int *given, int count, const void *words, size_t size, const char **why) {
    if (count > COMMAND_FDS) {
        int err = spec_read(given[COMMAND_FDS], command, why);
        close(given[COMMAND_FDS]);
        return err;
    }
    uint8_t *bytes = malloc(size);
    if (!bytes) return -ENOMEM;
    memcpy(bytes, words, size);
    return spec_decode(command, bytes, size, why);
}

/* TRUST: until it executes, this process shares the job's memory, and the job waits for it. All signals are blocked, and
 * nothing of the command is in it yet. */
static int command_main(void *context) {
    struct birth *birth = context;
    struct launch *launch = birth->launch;
    if (close(STATUS_FD) < 0 || close(LIFELINE_FD) < 0) birth->error = -errno;
    if (!birth->error) birth->error = child_obey(birth->job);
    if (!birth->error) birth->error = run_phases(launch, CHILD_PHASES);
    if (!birth->error) birth->error = run_phases(launch, COMMAND_PHASES);
    _exit(EXIT_SETUP_FAILED);
}

/* A process of its own that borrows our memory costs a third of one that gets a copy. */
static int start_command(struct launch *launch) {
    struct birth birth = {.launch = launch, .job = getpid()};
    launch->phase = "namespaces";
    set_detail(launch, "subreaper");
    if (prctl(PR_SET_CHILD_SUBREAPER, 1) < 0) return -errno;
    if (launch->cpu_fd >= 0) launch->cpu_before_us = cgroup_cpu_us(launch);
    int cpu_fd = launch->cpu_fd;
    set_detail(launch, "fork");
    launch->child = clone(command_main, stack + sizeof stack, CLONE_VM | CLONE_VFORK | SIGCHLD, &birth);
    if (launch->child < 0) return -errno;
    launch->cpu_fd = cpu_fd; /* the command's process has given up its own hold on it */
    return birth.error;
}

static int fail(const char *phase, int err, const char *detail) {
    status_failed(phase, -err, detail);
    return EXIT_SETUP_FAILED;
}

static int run(struct launch *launch, int taken, const struct spec *command) {
    int err = adopt(launch, command);
    if (!err) err = start_command(launch);
    else launch->phase = "spec";
    /* The server forks the next one; not before, so that this command need not share the processors with it. */
    if (write(taken, "t", 1) < 0) err = err ? err : -errno;
    close(taken);
    return err ? fail(launch->phase, err, launch->detail) : supervisor_run(launch);
}

/* Pages that were shared until now: those that will be written to are our own before anybody waits for us. */
static void touch(char *words) {
    words[0] = 0;
    for (int at = STACK_BYTES - PAGE; at >= STACK_BYTES - 4 * PAGE; at -= PAGE) stack[at] = 0;
    free(malloc(PAGE));
}

int job_wait_and_run(struct launch *launch, int requests, int taken) {
    static char words[REQUEST_BYTES];
    int given[MOST_GIVEN];
    size_t size = sizeof words;
    const char *why = NULL;
    struct spec command;
    become_job(launch);
    touch(words);
    int count = control_receive(requests, given, words, &size);
    close(requests);
    if (count == 0 || count == -ECONNRESET) return 0; /* corral wants no more; the server sees it too */
    if (count != COMMAND_FDS && count != COMMAND_FDS + 1) return count < 0 ? EXIT_SETUP_FAILED : 0;
    int err = decode(&command, given, count, words, size, &why);
    if (place(given)) return EXIT_SETUP_FAILED;
    status_hold();
    if (err) {
        if (write(taken, "t", 1) < 0) return EXIT_SETUP_FAILED;
        return fail("spec", err, why ? why : "out of memory");
    }
    return run(launch, taken, &command);
}
