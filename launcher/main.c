/* corral-launch: the last program before the user's command. It decides nothing; it does what the spec on
 * descriptor 3 says, in the order below, or reports which phase failed and runs nothing. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"
#include "control.h"
#include "kernel.h"
#include "launch.h"
#include "plan.h"
#include "report.h"

/* ORDER: each phase removes something the next must not need.
 *   fds           first: nothing inherited may leak past this point
 *   group         made before anything is spawned, where a plan has nobody else to make them
 *   cgroup        opened before anything is spawned, entered first of all by what is, so that everything is counted
 *   identity      before namespaces, in which nobody has authority over the host's file systems
 *   namespaces    before the mounts, which only a private mount namespace may change
 *   expect        inside the sandbox of another program: what it was told to do is there, or nothing runs
 *   mounts        before lock, which gives up the authority over them
 *   net           before lock, for the same reason; loopback comes up, and the sockets of the gateway are made
 *   lock          the last that needs authority in the first user namespace: the mounts stay together from now on
 *   limits        before seccomp, which forbids raising them again
 *   no_new_privs  required by landlock and seccomp when unprivileged
 *   caps          after everything that needed one
 *   surroundings  the working directory is entered by permission, and before landlock asks for a rule to do so
 *   landlock      before seccomp, whose filter may forbid the landlock system calls
 *   seccomp       last: after it we execve, or write one report and exit
 * Init gives up its own privileges before it forks the command, which starts with none and checks so again. */
const struct phase SUPERVISOR_PHASES[] = {
    {"group", phase_group},
    {"cgroup", phase_cgroup},
    {"mounts", phase_in_place},
    {"expect", phase_expect},
    {"net", phase_gateway_inside},
    {"net", phase_notify},
    {"lock", phase_lock_inside},
    {"identity", phase_identity},
    {"namespaces", phase_start},
    {NULL, NULL},
};

const struct phase CHILD_PHASES[] = {
    {"cgroup", phase_join},
    {NULL, NULL},
};

const struct phase INIT_PHASES[] = {
    {"cgroup", phase_own_cgroup},
    {"helper", phase_helper},
    {"hostname", phase_hostname},
    {"mounts", phase_mounts},
    {"net", phase_network_join},
    {"net", phase_gateway},
    {"lock", phase_lock},
    {"no_new_privs", phase_no_new_privs},
    {"caps", phase_caps},
    {NULL, NULL},
};

const struct phase COMMAND_PHASES[] = {
    {"session", phase_session},
    {"limits", phase_limits},
    {"no_new_privs", phase_no_new_privs},
    {"caps", phase_caps},
    {"surroundings", phase_surroundings},
    {"landlock", phase_landlock},
    {"seccomp", phase_seccomp},
    {"exec", phase_exec},
    {NULL, NULL},
};

#ifdef CORRAL_FAULTS
/* Whether to fail here. After an "@" is what is done slowly meanwhile. */
bool is_fault(const struct launch *launch, const char *name) {
    const char *fault = launch->spec.fault;
    size_t length = fault ? strcspn(fault, "@") : 0;
    return fault && strlen(name) == length && memcmp(fault, name, length) == 0;
}

bool is_slow(const struct launch *launch, const char *name) {
    const char *slow = launch->spec.fault ? strchr(launch->spec.fault, '@') : NULL;
    return slow && strcmp(slow + 1, name) == 0;
}
#endif

int run_phases(struct launch *launch, const struct phase *phases) {
    for (; phases->name; phases++) {
        int err = 0;
        launch->phase = phases->name;
        launch->detail[0] = 0;
#ifdef CORRAL_FAULTS
        if (is_fault(launch, phases->name)) {
            set_detail(launch, "injected fault");
            return -EIO;
        }
#endif
        if ((err = phases->apply(launch))) return err;
    }
    return 0;
}

bool has_namespaces(const struct launch *launch) { return launch->spec.namespaces != 0; }

bool has_own_network(const struct launch *launch) { return (launch->spec.namespaces & K_CLONE_NEWNET) != 0; }

#ifndef CORRAL_ENTRY /* the entry program has descriptors and a main of its own */
/* fds: after this nothing is open but the command's stdio, the spec, the status pipe and the lifeline. It is
 * first because every later phase may open descriptors of its own. */
static int phase_fds(int given) {
    for (int fd = 0; fd < FIRST_FOREIGN_FD; fd++) {
        struct stat status;
        if (fstat(fd, &status) < 0) return -EBADF;
        if (fd <= STDERR_FILENO && !is_fit_stdio(fd)) return -EBADF;
    }
    return k_close_range((unsigned)(FIRST_FOREIGN_FD + given), 0);
}
#endif

static int fail(const char *phase, int err, const char *detail) {
    status_failed(phase, -err, detail);
    return EXIT_SETUP_FAILED;
}

#ifndef CORRAL_ENTRY
/* What it was given beyond the descriptors of every launch, or -errno. */
static int take_control(int argc, char **argv) {
    if (argc == 1) return 0;
    int count = control_take(argv[2]);
    if (count < 0) fprintf(stderr, "corral-launch: no word from corral at %s: %s\n", argv[2], strerror(-count));
    return count < 0 ? count : count - FIRST_FOREIGN_FD;
}
#endif

int launch_run(struct launch *launch) {
    int err = signals_block_all();
    if (err) return fail("spec", err, "block signals");
    int code = 0;
    if ((err = run_phases(launch, SUPERVISOR_PHASES))) code = fail(launch->phase, err, launch->detail);
    else code = is_server(launch) && !has_namespaces(launch) ? server_run_alone(launch) : supervisor_run(launch);
    if (code == 0) groups_tell(launch);
    groups_remove(launch);
    return code;
}

#ifndef CORRAL_ENTRY
int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "--plan") == 0) return plan_main(argc, argv);
    if (argc > 1 && !(argc == 3 && strcmp(argv[1], "--control") == 0)) return answer(argc, argv);
    int given = take_control(argc, argv);
    if (given < 0) return EXIT_SETUP_FAILED;
    int err = phase_fds(given);
    if (err) {
        fprintf(stderr, "corral-launch: descriptors 0 to 5 must be open, and stdio no directory and no mere path\n");
        return EXIT_SETUP_FAILED;
    }
    struct launch launch = {.child = -1, .setup_fd = -1, .channel_fd = -1, .kill_fd = -1, .cpu_fd = -1,
                            .areas_fd = -1, .layer_fd = -1, .ruleset_fd = -1, .listen_fd = -1, .listen_other_fd = -1};
    launch.given = given;
    const char *why = NULL;
    if ((err = spec_read(SPEC_FD, &launch.spec, &why))) return fail("spec", err, why ? why : "out of memory");
    if (close(SPEC_FD) < 0) return fail("spec", -errno, "close");
    if (launch.spec.count[RECORD_IMAGE_ENVIRONMENT] && (err = environment_merge(&launch.spec)))
        return fail("spec", err, "environment");
    if (is_server(&launch) && (err = server_reserve())) return fail("spec", err, "descriptors");
    return launch_run(&launch);
}
#endif
