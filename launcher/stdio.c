/* Stdio: what may be descriptor 0, 1 and 2 of a command. */
#include <fcntl.h>
#include <sys/stat.h>

#include "launch.h"

/* A directory of the host would lead around every mount: openat() on it is no lookup from /. What is open for its path
 * alone is open for nothing, and could be opened through /proc for more than its giver was asked about. */
bool is_fit_stdio(int fd) {
    struct stat status;
    int flags = fcntl(fd, F_GETFL);
    return flags >= 0 && !(flags & O_PATH) && fstat(fd, &status) == 0 && !S_ISDIR(status.st_mode);
}
