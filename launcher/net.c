/* What a new network and UTS namespace begin with. */
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "kernel.h"
#include "launch.h"

/* hostname: the command does not learn the host's name. In init, who owns the new UTS namespace. */
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

/* In the helper: a new network costs as much as all mounts together. */
int network_make(struct launch *launch) {
    set_detail(launch, "network namespace");
    int err = k_result(syscall(SYS_unshare, K_CLONE_NEWNET));
    if (err || !launch->spec.count[RECORD_LOOPBACK]) return err;
    set_detail(launch, "loopback");
    int fd = k_result(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    if (fd < 0) return fd;
    err = raise_loopback(fd);
    close(fd);
    return err;
}

/* INVARIANT: after it, init is in the new network. Before lock, which gives up the rights that setns() needs. */
int phase_network_join(struct launch *launch) {
    if (!has_own_network(launch)) return 0;
    int err = helper_answer(launch);
    if (err) return err;
    set_detail(launch, "enter the network namespace");
    int helper = k_result(syscall(NR_PIDFD_OPEN, launch->helper, 0));
    if (helper < 0) return helper;
    err = k_result(syscall(SYS_setns, helper, K_CLONE_NEWNET));
    close(helper);
    return err;
}
