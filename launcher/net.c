/* What a new network and UTS namespace begin with. */
#include <errno.h>
#include <net/if.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "launch.h"

/* hostname: the command does not learn the host's name. Part of namespaces, in init, who owns the new one. */
int phase_hostname(struct launch *launch) {
    const char *name = launch->spec.hostname;
    if (!name) return 0;
    set_detail(launch, "sethostname");
    return sethostname(name, strlen(name)) < 0 ? -errno : 0;
}

/* net: the private loopback device comes up, since test suites talk to themselves. Nothing else is reachable.
 * Before caps, which takes away CAP_NET_ADMIN over the new network namespace. */
int phase_net(struct launch *launch) {
    if (!launch->spec.count[RECORD_LOOPBACK]) return 0;
    struct ifreq request = {.ifr_name = "lo"};
    set_detail(launch, "loopback");
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return -errno;
    int err = ioctl(fd, SIOCGIFFLAGS, &request) < 0 ? -errno : 0;
    request.ifr_flags |= IFF_UP | IFF_RUNNING;
    if (!err && ioctl(fd, SIOCSIFFLAGS, &request) < 0) err = -errno;
    close(fd);
    return err;
}
