/* What the command gets as its own: the caller's descriptors, but for what is read, counted, or not to be written, on its way. */
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "control.h"
#include "run.h"

/* Standard error is read on its way, unless the filter hears it; and so is what goes to a file that commands may not
 * write. As streams/streams.py has it. A file of that kind as standard input is Python's. */
bool streams_prepare(struct run *run, int given[5]) {
    const struct plan *plan = &run->stored->plan;
    bool reads_errors = !run->request->hears, is_one = false, is_wanted[STREAMS];
    struct stat one, other;
    for (int fd = 0; fd <= STDERR_FILENO; fd++)
        if (fstat(fd, &other) < 0 || !is_fit_stdio(fd)) return false;
    if (is_door(&run->launch.spec, STDIN_FILENO)) return false;
    if (fstat(STDOUT_FILENO, &one) == 0) is_one = relay_is_same_file(STDOUT_FILENO, STDERR_FILENO);
    for (int i = 0; i < STREAMS; i++) {
        bool is_error = i == 1 || is_one;
        is_wanted[i] = plan->has_output_limit || is_door(&run->launch.spec, STDOUT_FILENO + i) || (reads_errors && is_error);
        if (plan->has_output_limit && !reads_errors) run->relays.streams[i].tail = NULL;
    }
    if (plan->has_output_limit) given[0] = open_for_reading_only(STDIN_FILENO);
    if (!is_wanted[0] && !is_wanted[1]) return true;
    return relays_open(&run->relays, plan->has_output_limit ? plan->output_limit : UINT64_MAX, is_wanted, &given[1]) == 0;
}

/* INVARIANT: nothing is ever cut off here: that is told by Python. */
bool streams_have_room(const struct run *run) {
    uint64_t most = 0;
    for (int i = 0; run->relays.is_used && i < STREAMS; i++) {
        int source = run->relays.streams[i].source, held = source < 0 ? 0 : fcntl(source, F_GETPIPE_SZ);
        most += held < 0 ? UINT32_MAX : (uint64_t)held;
    }
    return most + RELAY_CHUNK <= run->relays.room || !run->relays.is_used;
}
