/* A job: it waits for a command of a kept sandbox, starts it, becomes its supervisor, and reports on a status pipe of the
 * command's own. When all of the command is gone, it waits for the next one.
 *
 * INVARIANT: all that a command starts descends from its job, which is a subreaper: so one command can be ended without
 * another. Whatever is decoded, opened and counted for a command is gone before the job takes another one. */
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
#include "listen.h"
#include "report.h"

enum {
    STACK_BYTES = 65536,
    PAGE = 4096,
    MOST_IDLE = 2, /* jobs that wait: one for the next command, one that the last one gave back */
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
    launch->must_move = launch->is_job = true;
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

static int check_stdio(const char **why) {
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        if (is_fit_stdio(fd)) continue;
        *why = "a directory or a mere path as stdin, stdout or stderr";
        return -EBADF;
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
    set_detail(launch, "a way for the filter's listener");
    int err = listen_prepare(launch);
    if (err) return err;
    set_detail(launch, "fork");
    launch->child = clone(command_main, stack + sizeof stack, CLONE_VM | CLONE_VFORK | SIGCHLD, &birth);
    err = launch->child < 0 ? -errno : birth.error;
    listen_begin(launch);
    if (err) listen_finish(launch);
    if (launch->child < 0) return err;
    launch->cpu_fd = cpu_fd; /* the command's process has given up its own hold on it */
    return err;
}

static int fail(const char *phase, int err, const char *detail) {
    status_failed(phase, -err, detail);
    return EXIT_SETUP_FAILED;
}

/* A server that is gone hears nothing, and its end is the job's, a moment later. INVARIANT: that is no failure of a command
 * which runs already: whoever asked for it would be told that it did not. */
static void say_taken(const struct post *post, const char *fault) {
    int fd = post->taken;
#ifdef CORRAL_FAULTS
    if (fault && strcmp(fault, "taken") == 0) fd = -1;
#else
    (void)fault;
#endif
    while (write(fd, "t", 1) < 0 && errno == EINTR) continue;
}

/* The server forks another one only where nobody waits any more; and not before the command is on its way, so that it
 * need not share the processors with a fork. */
static int run(struct launch *launch, const struct post *post, const struct spec *command) {
    bool is_last = atomic_fetch_sub(post->idle, 1) == 1;
    int err = adopt(launch, command);
    if (!err) err = start_command(launch);
    else launch->phase = "spec";
    if (is_last) say_taken(post, command->fault);
    return err ? fail(launch->phase, err, launch->detail) : supervisor_run(launch);
}

/* Pages that were shared until now: those that will be written to are our own before anybody waits for us. */
static void touch(char *words) {
    words[0] = 0;
    for (int at = STACK_BYTES - PAGE; at >= STACK_BYTES - 4 * PAGE; at -= PAGE) stack[at] = 0;
    free(malloc(PAGE));
}

/* Where an image has variables, environment_merge() has put another list in the place of the command's. */
static void forget(const struct launch *own, struct spec *command) {
    if (own->spec.argv == command->argv) command->envp = own->spec.envp;
    spec_free(command);
    tree_spent = (struct rusage){0};
}

/* No pipe of a command is held while we wait for another one. */
static int give_back(const struct post *post) {
    for (int fd = 0; fd < FIRST_FOREIGN_FD; fd++)
        if (dup2(post->null, fd) < 0) return -errno;
    return 0;
}

/* Waits for a request that has what a command needs. Returns the number of descriptors, 0 at the end, or -errno. */
static int receive(const struct post *post, int given[MOST_GIVEN], char *words, size_t *size) {
    for (;;) {
        *size = REQUEST_BYTES;
        int count = control_receive(post->requests, given, words, size, 0);
        if (count == -ECONNRESET) return 0;
        if (count == COMMAND_FDS || count == COMMAND_FDS + 1) return count;
        if (count <= 0 && count != -EPROTO) return count;
        for (int i = 0; i < count; i++) close(given[i]); /* whoever asked sees the end of his pipes */
    }
}

enum fate { GOES_ON, IS_OVER, IS_BROKEN };

/* One command, from its request to its end. */
static enum fate take_one(const struct launch *launch, const struct post *post) {
    static char words[REQUEST_BYTES];
    int given[MOST_GIVEN];
    size_t size = 0;
    const char *why = NULL;
    struct spec command = {0};
    touch(words);
    int count = receive(post, given, words, &size);
    if (count <= 0) return count == 0 ? IS_OVER : IS_BROKEN; /* corral wants no more; the server sees it too */
    struct launch own = *launch;
    int err = decode(&command, given, count, words, size, &why);
    if (place(given)) return IS_BROKEN;
    if (!err) err = check_stdio(&why);
    status_hold();
    if (err) atomic_fetch_sub(post->idle, 1);
    if (err) (void)fail("spec", err, why ? why : "out of memory");
    else (void)run(&own, post, &command); /* what it returns has been told */
    if (tree_end(&own)) return IS_BROKEN; /* something that SIGKILL does not end */
    forget(&own, &command);
    return give_back(post) ? IS_BROKEN : GOES_ON;
}

/* INVARIANT: never more than `most` are counted, whoever else comes back or is made at the same time. */
bool job_may_wait(atomic_int *idle, int most) {
    int waiting = atomic_load(idle);
    while (waiting < most)
        if (atomic_compare_exchange_weak(idle, &waiting, waiting + 1)) return true;
    return false;
}

int job_main(struct launch *launch, const struct post *post) {
    enum fate fate = GOES_ON;
    become_job(launch);
    if (listen_install_early(launch)) return EXIT_SETUP_FAILED;
    while ((fate = take_one(launch, post)) == GOES_ON) {
        if (!job_may_wait(post->idle, MOST_IDLE)) return 0; /* enough others wait */
    }
    return fate == IS_OVER ? 0 : EXIT_SETUP_FAILED;
}
