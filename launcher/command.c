/* The command's process, from its birth to execve. */
#include <errno.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kernel.h"
#include "launch.h"
#include "report.h"

enum { LAST_SIGNAL = 64 };

int command_run(struct launch *launch) {
    int err = run_phases(launch, COMMAND_PHASES);
    report_failed(launch, -err); /* phase_exec returns only when it failed */
    return EXIT_SETUP_FAILED;
}

/* A key may be read by whoever inherits the session keyring. A kernel without keyrings has none to leak; EPERM
 * means that a filter around us already forbids keyctl, to the command as well. */
int leave_session_keyring(struct launch *launch) {
    set_detail(launch, "session keyring");
    int err = k_join_session_keyring();
    return err < 0 && err != -ENOSYS && err != -EPERM ? err : 0;
}

/* session: after it, the command shares no terminal, process group, keyring or device with corral. Part of the
 * namespaces phase, but in the command's own process, which alone can lead its session. */
int phase_session(struct launch *launch) {
    set_detail(launch, "setsid");
    if (setsid() < 0) return -errno;
    int err = leave_session_keyring(launch);
    if (err) return err;
    set_detail(launch, "controlling terminal");
    if (launch->spec.count[RECORD_TERMINAL] && ioctl(STDIN_FILENO, TIOCSCTTY, 0) < 0) return -errno;
    return stdio_use_own_devices(launch);
}

/* Dispositions survive execve when they are SIG_IGN (Python ignores SIGPIPE), and so does the mask. */
int signals_reset(void) {
    for (int signal = 1; signal <= LAST_SIGNAL; signal++) {
        int err = k_default_signal(signal);
        if (err && err != -EINVAL) return err; /* SIGKILL and SIGSTOP are what they are */
    }
    return 0;
}

static int unblock_signals(void) {
    sigset_t none;
    sigemptyset(&none);
    return sigprocmask(SIG_SETMASK, &none, NULL) < 0 ? -errno : 0;
}

/* A directory of the same name may be a private one: what the caller has before him is then not there. */
static bool is_here(const struct launch *launch) {
    struct stat status;
    return stat(".", &status) == 0 && (uint64_t)status.st_dev == launch->here_device &&
           (uint64_t)status.st_ino == launch->here_inode;
}

/* surroundings: the working directory, descriptors and signals the command begins with. After caps, so that a
 * directory is entered by permission and not by privilege; before landlock, which would ask for a rule to
 * enter it. Descriptors are marked rather than closed: the report pipe is needed until execve. */
int phase_surroundings(struct launch *launch) {
    set_detail(launch, "chdir %s", launch->spec.cwd);
    if (chdir(launch->spec.cwd) < 0) return -errno;
    if (launch->must_be_here && !is_here(launch)) {
        set_detail(launch, "%s is another directory inside", launch->spec.cwd);
        return -ENOENT;
    }
    set_detail(launch, "close_range");
    int err = k_close_range(STDERR_FILENO + 1, K_CLOSE_RANGE_CLOEXEC);
    if (err) return err;
    set_detail(launch, "signal dispositions");
    err = launch->has_default_signals ? 0 : signals_reset();
    return err ? err : unblock_signals();
}
