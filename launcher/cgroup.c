/* cgroup: after it, everything this launch spawns is counted and bounded; a process cannot leave by itself,
 * since the mounts phase does not show it the cgroup file systems. Before the first fork, so that no process
 * of the launch ever runs outside. */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "launch.h"

static int join(const char *procs_file) {
    int fd = open(procs_file, O_WRONLY | O_CLOEXEC);
    if (fd < 0) return -errno;
    int err = write(fd, "0", 1) == 1 ? 0 : -errno;
    close(fd);
    return err;
}

int phase_cgroup(struct launch *launch) {
    for (size_t i = 0; i < launch->spec.count[RECORD_CGROUP]; i++) {
        int err = join(launch->spec.cgroups[i]);
        if (err) {
            set_detail(launch, "join %s", launch->spec.cgroups[i]);
            return err;
        }
    }
    return 0;
}
