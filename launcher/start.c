/* namespaces: after it, what the launch spawns cannot see or signal a process of the host, and owns the
 * network, IPC objects, host name and mounts it sees. It comes before the mounts, which need it, and leaves
 * the supervisor outside, where nothing inside can reach it. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "guard.h"
#include "kernel.h"
#include "launch.h"
#include "listen.h"
#include "report.h"

static int check_namespaces(struct launch *launch) {
    const struct spec *spec = &launch->spec;
    if (has_namespaces(launch) && !(spec->namespaces & K_CLONE_NEWPID)) {
        set_detail(launch, "namespaces without a PID namespace: nothing would end the tree");
        return -EINVAL;
    }
    if ((spec->id_map[0] || spec->id_map[1]) && !(spec->namespaces & K_CLONE_NEWUSER) && !is_locked(launch)) {
        set_detail(launch, "an id map without a user namespace");
        return -EINVAL;
    }
    return 0;
}

bool is_told_to_go(const struct launch *launch) {
    char go = 0;
    return read(launch->channel_fd, &go, 1) == 1;
}

/* The child's first steps. INVARIANT: it does nothing before the supervisor, alive, says go: its ids are not
 * mapped yet. The death signal covers the time after. */
static int child_main(struct launch *launch) {
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0) return EXIT_SETUP_FAILED;
    if (close(LIFELINE_FD) < 0) return EXIT_SETUP_FAILED;
    bool is_needed = has_gateway(launch) && has_namespaces(launch); /* by phase_gateway, which gives it up */
    if (!is_needed && close(STATUS_FD) < 0) return EXIT_SETUP_FAILED;
    if (!is_told_to_go(launch)) return EXIT_SETUP_FAILED;
    /* Only now: the supervisor, an ordinary user, could not open the maps of a process that is not dumpable. Nor can
     * init and its helper reach each other then, so that with a helper it is phase_lock that says it. */
    if (!has_helper(launch) && prctl(PR_SET_DUMPABLE, 0) < 0) return EXIT_SETUP_FAILED;
    int err = run_phases(launch, CHILD_PHASES);
    if (err) {
        report_failed(launch, -err);
        return EXIT_SETUP_FAILED;
    }
    return has_namespaces(launch) ? init_run(launch) : command_run(launch);
}

/* A cgroup namespace begins at the group its maker is in: not before that is the one of this launch. */
int phase_own_cgroup(struct launch *launch) {
    set_detail(launch, "cgroup namespace");
    if (!(launch->spec.namespaces & K_CLONE_NEWCGROUP)) return 0;
    return k_result(syscall(SYS_unshare, K_CLONE_NEWCGROUP));
}

/* Namespaces that init makes for itself, or has made: see phase_own_cgroup, phase_helper. */
#define LATER (K_CLONE_NEWCGROUP | K_CLONE_NEWNET)

static int spawn(struct launch *launch) {
    int setup[2], channel[2];
    if (pipe2(setup, O_CLOEXEC) < 0) return -errno;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, channel) < 0) return -errno;
    int err = listen_prepare(launch);
    if (err) return err;
    launch->child = cgroup_clone(launch, (launch->spec.namespaces & ~LATER) | SIGCHLD);
    if (launch->child < 0) return launch->child;
    bool is_child = launch->child == 0;
    if (!is_child) listen_begin(launch);
    launch->setup_fd = setup[is_child ? 1 : 0];
    launch->channel_fd = channel[is_child ? 1 : 0];
    close(setup[is_child ? 0 : 1]);
    close(channel[is_child ? 0 : 1]);
    if (is_child) _exit(child_main(launch));
    identity_forget(launch);
    return 0;
}

/* TRUST: from here on the supervisor can only signal and reap. Its capabilities were needed for the maps. */
static int shed_privileges(struct launch *launch) {
#ifdef CORRAL_FAULTS
    if (is_fault(launch, "shed") || is_slow(launch, "shed")) nanosleep(&(struct timespec){.tv_nsec = 500000000}, NULL);
    if (is_fault(launch, "shed")) {
        set_detail(launch, "injected fault");
        return -EIO;
    }
#endif
    set_detail(launch, "the supervisor's privileges");
    if (prctl(PR_SET_DUMPABLE, 0) < 0) return -errno;
    int err = phase_no_new_privs(launch);
    return err ? err : phase_caps(launch);
}

static int tell_to_go(struct launch *launch) {
    set_detail(launch, "release the child");
    return send(launch->channel_fd, "g", 1, MSG_NOSIGNAL) == 1 ? 0 : -errno;
}

/* Corral looks at the workspace while the sandbox is made, and says when it has seen enough. It may say something else,
 * or be gone: then no command is wanted. A word that comes later is the supervisor's to read. */
static bool is_awaited(const struct launch *launch) {
    char word = 0;
    ssize_t got = 0;
    if (!launch->spec.count[RECORD_AWAIT]) return true;
    do got = read(LIFELINE_FD, &word, 1);
    while (got < 0 && errno == EINTR);
    return got == 1 && word == 'g';
}

/* The other end of that. What a launch that has failed says is heard elsewhere: it reads none of our words. */
bool tell_to_begin(int lifeline) {
    struct sigaction nobody = {.sa_handler = SIG_IGN}, before;
    sigaction(SIGPIPE, &nobody, &before);
    bool is_told = write(lifeline, "g", 1) == 1;
    sigaction(SIGPIPE, &before, NULL);
    return is_told;
}

/* Init may prepare the namespaces while the supervisor sheds its privileges. INVARIANT: they are gone before a command
 * is there: init asks a second time before it starts one. */
static int release(struct launch *launch) {
    int err = launch->spec.namespaces & K_CLONE_NEWUSER ? id_maps_write(launch, launch->child, false) : 0;
    if (!err && has_namespaces(launch)) err = tell_to_go(launch);
    if (!err) err = guard_open(launch); /* while init works, and with the rights that the caller has */
    if (err) return err;
    launch->phase = "namespaces";
    err = shed_privileges(launch);
    if (err) return err;
    if (!is_awaited(launch)) return kill(launch->child, SIGKILL) < 0 ? -errno : 0; /* supervisor_run waits for it */
    err = tell_to_go(launch);
    /* An init that has gone meanwhile has said why: what it said counts, and is read by supervisor_run(). */
    bool is_gone = err == -EPIPE || err == -ECONNRESET;
    return is_gone && has_namespaces(launch) ? 0 : err;
}

int start_alone(struct launch *launch) {
    set_detail(launch, "subreaper");
    return prctl(PR_SET_CHILD_SUBREAPER, 1) < 0 ? -errno : shed_privileges(launch);
}

int child_obey(pid_t parent) {
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0) return -errno;
    return getppid() == parent ? 0 : -ESRCH; /* it went before we asked to be told */
}

int phase_start(struct launch *launch) {
    int err = check_namespaces(launch);
    if (err) return err;
    if (is_server(launch) && !has_namespaces(launch)) return start_alone(launch);
    /* Without PID 1 the supervisor is who orphans go to, so that none is lost from sight. */
    if (!has_namespaces(launch) && prctl(PR_SET_CHILD_SUBREAPER, 1) < 0) return -errno;
    set_detail(launch, has_namespaces(launch) ? "clone" : "fork");
    if ((err = spawn(launch))) return err;
    if ((err = release(launch))) {
        kill(launch->child, SIGKILL);
        while (waitpid(launch->child, NULL, 0) < 0 && errno == EINTR) continue;
    }
    return err;
}
