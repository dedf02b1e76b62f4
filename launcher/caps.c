/* caps: after it, neither this process nor anything it executes has a capability, uid 0 or not. After mounts
 * and net, the last users of one; before the command, which must not have any.
 *
 * Three locks, because uid 0 normally regains everything at execve: the bounding set is emptied, securebits
 * say that uid 0 means nothing, and no_new_privs (the phase before) forbids gaining at all. */
#include <errno.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "kernel.h"
#include "launch.h"

static const unsigned long LOCKED_SECUREBITS =
    K_SECBITS_NOROOT | K_SECBITS_NO_SETUID_FIXUP | K_SECBIT_KEEP_CAPS_LOCKED | K_SECBITS_NO_CAP_AMBIENT_RAISE;

struct cap_sets {
    struct k_cap_data word[2];
};

static int read_caps(struct cap_sets *sets) {
    struct k_cap_header header = {.version = K_CAPABILITY_VERSION_3};
    return syscall(SYS_capget, &header, sets->word) < 0 ? -errno : 0;
}

static int write_caps(const struct cap_sets *sets) {
    struct k_cap_header header = {.version = K_CAPABILITY_VERSION_3};
    return syscall(SYS_capset, &header, sets->word) < 0 ? -errno : 0;
}

static int clear_caps(void) { return write_caps(&(struct cap_sets){0}); }

int caps_keep(uint64_t wanted) {
    struct cap_sets held, kept = {0};
    int err = read_caps(&held);
    for (int i = 0; !err && i < 2; i++)
        kept.word[i].effective = kept.word[i].permitted = held.word[i].permitted & (uint32_t)(wanted >> (32 * i));
    return err ? err : write_caps(&kept);
}

/* Needs CAP_SETPCAP. Capability numbers have no gaps; the first unknown one ends the list. */
static int close_ways_back(void) {
    if (prctl(PR_SET_SECUREBITS, LOCKED_SECUREBITS) < 0) return -errno;
    for (unsigned long cap = 0; cap < 64; cap++)
        if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0) return errno == EINVAL && cap > 0 ? 0 : -errno;
    return 0;
}

/* INVARIANT: returns 0 only when the kernel itself says that nothing is left. */
static int check_none_left(void) {
    struct cap_sets left;
    int err = read_caps(&left);
    for (int i = 0; !err && i < 2; i++)
        if (left.word[i].effective | left.word[i].permitted | left.word[i].inheritable) err = -EPERM;
    return err;
}

int phase_caps(struct launch *launch) {
    struct cap_sets held;
    set_detail(launch, "read capabilities");
    int err = read_caps(&held);
    if (!err && held.word[0].effective & (1u << K_CAP_SETPCAP)) {
        set_detail(launch, "bounding set and securebits");
        err = close_ways_back();
    }
    if (err) return err;
    set_detail(launch, "clear capabilities");
    if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0) return -errno;
    if ((err = clear_caps())) return err;
    set_detail(launch, "capabilities are left");
    return check_none_left();
}
