/* Reports between the processes, and the lines of the status protocol. */
#include "report.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

void set_detail(struct launch *launch, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    if (vsnprintf(launch->detail, sizeof launch->detail, format, arguments) < 0) launch->detail[0] = 0;
    va_end(arguments);
}

/* One write: below PIPE_BUF it is atomic. What cannot be told cannot be helped: the reader sees the end of
 * the pipe, which is never read as success. */
static void tell(int fd, const void *bytes, size_t size) {
    while (write(fd, bytes, size) < 0 && errno == EINTR) continue;
}

/* Without a pipe the supervisor shares the memory of the command's process, until that executes. */
void report_executing(struct launch *launch) {
    launch->is_executing = true;
    if (launch->setup_fd < 0) return;
    struct report report = {.kind = REPORT_EXECUTING};
    tell(launch->setup_fd, &report, sizeof report);
}

void report_failed(const struct launch *launch, int error) {
    if (launch->setup_fd < 0) return;
    struct report report = {.kind = REPORT_FAILED, .error = error};
    snprintf(report.phase, sizeof report.phase, "%s", launch->phase);
    memcpy(report.detail, launch->detail, sizeof report.detail);
    tell(launch->setup_fd, &report, sizeof report);
}

/* The supervisor takes silence for the loss of init, so a failing send needs no other answer. */
void notice_send(const struct launch *launch, const struct notice *notice) {
    while (send(launch->channel_fd, notice, sizeof *notice, MSG_NOSIGNAL) < 0 && errno == EINTR) continue;
}

/* Every line wakes corral. Nobody waits for these two, and one of a command that lives a millisecond is too many. */
static char held[128];
static bool holds;

void status_hold(void) {
    holds = true;
    held[0] = 0;
}

static bool can_wait(const char *line) {
    return strncmp(line, "started", 7) == 0 || strncmp(line, "exited", 6) == 0 || strncmp(line, "signalled", 9) == 0;
}

void status_write(const char *line, size_t size) { tell(STATUS_FD, line, size); }

size_t hex_put(char *into, const char *bytes, size_t size) {
    *into = 0;
    for (size_t i = 0; i < size; i++) snprintf(into + 2 * i, 3, "%02x", (unsigned)(unsigned char)bytes[i]);
    return 2 * size;
}

void status_line(const char *line) {
    char all[sizeof held + DETAIL_SIZE + 64];
    if (holds && can_wait(line) && strlen(held) + strlen(line) < sizeof held) {
        strcat(held, line);
        return;
    }
    snprintf(all, sizeof all, "%s%s", held, line);
    held[0] = 0;
    tell(STATUS_FD, all, strlen(all));
}

/* TRUST: detail may hold a path that the command chose; it must not be able to add a line of its own. */
static void make_printable(char *text) {
    for (unsigned char *c = (unsigned char *)text; *c; c++)
        if (*c < ' ' || *c == 0x7f) *c = '?';
}

void status_words(char *words) {
    char line[DETAIL_SIZE + 64];
    make_printable(words);
    snprintf(line, sizeof line, "%s\n", words);
    status_line(line);
}

void status_failed(const char *phase, int error, const char *detail) {
    char text[DETAIL_SIZE], line[DETAIL_SIZE + 64];
    snprintf(text, sizeof text, "%s", detail);
    make_printable(text);
    snprintf(line, sizeof line, "failed %s %d %s\n", phase, error, text);
    status_line(line);
}

void status_usage(const struct notice *account, const struct rusage *spent) {
    struct rusage all;
    char line[160];
    if (!spent && getrusage(RUSAGE_CHILDREN, &all) < 0) return;
    const struct rusage *r = spent ? spent : &all;
    long long user = r->ru_utime.tv_sec * 1000000ll + r->ru_utime.tv_usec;
    long long system = r->ru_stime.tv_sec * 1000000ll + r->ru_stime.tv_usec;
    snprintf(line, sizeof line, "usage %lld %lld %ld %ld %ld %u\n", user, system, r->ru_maxrss, r->ru_inblock,
             r->ru_oublock, (unsigned)account->processes);
    if (account->is_full) status_line("full areas\n");
    if (account->is_layer_full) status_line("full layer\n");
    status_line(line);
}

struct notice take_account(const struct launch *launch) {
    bool is_inside = launch->spec.count[RECORD_INSIDE];
    return (struct notice){.processes = is_inside && is_first_process() ? count_processes(launch) : 0,
                           .is_full = is_inside ? expect_areas_full(launch) : areas_are_full(launch),
                           .is_layer_full = layer_is_full(launch)};
}

void status_ended(int wait_status) {
    char line[32];
    if (WIFSIGNALED(wait_status)) snprintf(line, sizeof line, "signalled %d\n", WTERMSIG(wait_status));
    else snprintf(line, sizeof line, "exited %d\n", WEXITSTATUS(wait_status));
    status_line(line);
}

/* The group may be one that is gone with its last member: corral reads its counters first. */
void supervisor_linger(const struct launch *launch) {
    char ignored;
    ssize_t got = 0;
    if (!launch->spec.count[RECORD_LINGER]) return;
    status_line("done\n");
    do got = read(LIFELINE_FD, &ignored, 1);
    while (got > 0 || (got < 0 && errno == EINTR));
}
