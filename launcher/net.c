/* What a new network and UTS namespace begin with, and how the network comes into being. */
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kernel.h"
#include "launch.h"

/* What the maker of a network tells. */
struct made {
    int namespace; /* a descriptor in the table that both share, or -errno */
    int loopback;  /* 0 or -errno */
};

/* hostname: the command does not learn the host's name. Part of namespaces, in init, who owns the new one. */
int phase_hostname(struct launch *launch) {
    const char *name = launch->spec.hostname;
    if (!name) return 0;
    set_detail(launch, "sethostname");
    return sethostname(name, strlen(name)) < 0 ? -errno : 0;
}

/* The private loopback device comes up, since test suites talk to themselves. Nothing else is reachable. */
static int raise_loopback(int fd) {
    struct ifreq request = {.ifr_name = "lo"};
    if (ioctl(fd, SIOCGIFFLAGS, &request) < 0) return -errno;
    request.ifr_flags |= IFF_UP | IFF_RUNNING;
    return ioctl(fd, SIOCSIFFLAGS, &request) < 0 ? -errno : 0;
}

static struct made make(bool with_loopback) {
    struct made made = {.namespace = k_result(syscall(SYS_unshare, K_CLONE_NEWNET))};
    if (made.namespace < 0) return made;
    int fd = made.namespace = k_result(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    if (fd < 0) return made;
    made.loopback = with_loopback ? raise_loopback(fd) : 0;
    made.namespace = k_result(ioctl(fd, K_SIOCGSKNS)); /* by a socket: /proc is being replaced meanwhile */
    close(fd);
    return made;
}

/* A new network costs as much as all mounts together. So another process makes it at the same time; it shares init's
 * table of descriptors, and is gone before init goes on to anything that could start a command. */
int phase_network_begin(struct launch *launch) {
    if (!has_own_network(launch)) return 0;
    set_detail(launch, "a process that makes the network");
    if (pipe2(launch->network_pipe, O_CLOEXEC) < 0) return -errno;
    launch->network_maker = k_clone(K_CLONE_FILES | SIGCHLD);
    if (launch->network_maker < 0) return launch->network_maker;
    if (launch->network_maker == 0) {
        const struct made made = make(launch->spec.count[RECORD_LOOPBACK] != 0);
        _exit(write(launch->network_pipe[1], &made, sizeof made) == sizeof made ? 0 : EXIT_SETUP_FAILED);
    }
    return 0;
}

/* INVARIANT: whoever comes past this is in the new network. Before caps, which takes away what setns() needs. */
int phase_network_join(struct launch *launch) {
    struct made made = {0};
    int status = 0;
    if (!has_own_network(launch)) return 0;
    set_detail(launch, "the process that makes the network");
    while (waitpid(launch->network_maker, &status, 0) < 0)
        if (errno != EINTR) return -errno;
    if (status != 0 || read(launch->network_pipe[0], &made, sizeof made) != sizeof made) return -ECHILD;
    for (int i = 0; i < 2; i++) close(launch->network_pipe[i]);
    set_detail(launch, "network namespace");
    if (made.namespace < 0) return made.namespace;
    int err = k_result(syscall(SYS_setns, made.namespace, K_CLONE_NEWNET));
    close(made.namespace);
    launch->loopback_error = made.loopback;
    return err;
}

int phase_loopback(struct launch *launch) {
    set_detail(launch, "loopback");
    return launch->loopback_error;
}
