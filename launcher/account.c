/* The words are those of src/corral/cli/run.py and src/corral/runtime/status.py. */
#include "account.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <limits.h>
#include <poll.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { EXIT_TIMED_OUT = 124, EXIT_FAILED = 125, EXIT_NOT_EXECUTABLE = 126, EXIT_NOT_FOUND = 127, EXIT_SIGNAL = 128 };

static const struct { const char *phase, *fix; } FIXES[] = {
    {"spec", "write the plan again with `corral compile`"},
    {"group", "run `corral doctor` to see which limits hold here, or compile a plan with fewer"},
    {"namespaces", "run `corral doctor`; user namespaces may be forbidden here"},
    {"mounts", "run `corral doctor`; if a path changed in the meantime, compile the plan again"},
    {"surroundings", "the working directory must be in the workspace or in a granted path"},
};

/* TRUST: names may hold what a terminal takes for more than text. */
static void make_printable(char *text) {
    for (unsigned char *c = (unsigned char *)text; *c; c++)
        if (*c < ' ' || *c == 0x7f) *c = '?';
}

/* One write, so that lines of others do not come in between. What cannot be said is in the exit code. */
static void say(const char *text) {
    size_t left = strlen(text);
    while (left) {
        ssize_t written = write(STDERR_FILENO, text, left);
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) return;
        text += written;
        left -= (size_t)written;
    }
}

int account_refuse(const struct problem *problem, int code) {
    char text[2048], why[sizeof problem->why], what[sizeof problem->what];
    snprintf(why, sizeof why, "%s", problem->why);
    snprintf(what, sizeof what, "%s", problem->what);
    make_printable(why);
    make_printable(what);
    snprintf(text, sizeof text, "corral: the command did not run: %s\n  because: %s\n  fix: %s\n", what, why, problem->fix);
    say(text);
    return code;
}

int account_unwritten(int error) {
    char text[512];
    snprintf(text, sizeof text, "corral: the command ran: what it printed could not be written\n  because: %s\n"
             "  fix: free some space or choose another place; the earlier output is there\n", strerror(error));
    say(text);
    return EXIT_FAILED;
}

static bool begins(const char **line, const char *word) {
    size_t length = strlen(word);
    if (strncmp(*line, word, length) != 0 || ((*line)[length] != ' ' && (*line)[length])) return false;
    *line += length + ((*line)[length] == ' ');
    return true;
}

/* "failed PHASE ERRNO DETAIL" */
static void take_failure(struct account *account, const char *rest) {
    char *end = NULL;
    size_t length = strcspn(rest, " ");
    if (account->has_failed) return;
    account->has_failed = true;
    snprintf(account->phase, sizeof account->phase, "%.*s", (int)length, rest);
    account->error = (int)strtol(rest + length, &end, 10);
    snprintf(account->detail, sizeof account->detail, "%s", *end == ' ' ? end + 1 : end);
}

int account_name_quarantine(struct spec *spec) {
    char *place = NULL;
    struct timespec now;
    if (!spec->quarantine || !*spec->quarantine) return 0;
    clock_gettime(CLOCK_REALTIME, &now);
    if (asprintf(&place, "%s/plan-%llx-%d", spec->quarantine, (unsigned long long)now.tv_sec, (int)getpid()) < 0) return -1;
    spec->quarantine = place;
    return 0;
}

static const char *fate_of(const struct account *account, const char *fate, const char *name, char text[PATH_MAX]) {
    bool is_kept = *fate >= '0' && *fate <= '9';
    if (is_kept) snprintf(text, PATH_MAX, "it was moved to %s/%s-%s", account->spec->quarantine, fate, name);
    return is_kept ? text : "it was removed";
}

/* "planted NAME FATE", "unremoved NAME": a name of the spec. */
static void tell_name(struct account *account, const char *rest, bool is_left) {
    char text[2 * PATH_MAX], fate[PATH_MAX];
    char *end = NULL;
    const struct spec *spec = account->spec;
    unsigned long number = strtoul(rest, &end, 10);
    size_t directory = 0;
    if (!spec || end == rest || number >= spec->count[RECORD_NAME]) return;
    while (number >= spec->guarded[directory].end) directory++;
    const struct name_record *name = &spec->names[number];
    if (is_left) account->is_unremoved = true;
    const char *became = is_left ? "it could not be removed: remove it by hand before anything on the host reads it"
                                 : fate_of(account, *end == ' ' ? end + 1 : end, name->name, fate);
    snprintf(text, sizeof text, "corral: fs.protect: %s/%s: %s is protected and must not be made by the command; %s",
             spec->guarded[directory].path, name->name, name->label, became);
    make_printable(text);
    say(text);
    say("\n");
}

/* "repository FATE PATH", "link FATE PATH": what git would come upon. */
static void tell_found(const struct account *account, const char *rest, const char *why) {
    char text[2 * PATH_MAX], fate[PATH_MAX], number[16];
    size_t length = strcspn(rest, " ");
    const char *path = rest + length + (rest[length] == ' ');
    const char *name = strrchr(path, '/');
    if (!account->spec) return;
    snprintf(number, sizeof number, "%.*s", (int)length, rest);
    snprintf(text, sizeof text, "corral: fs.protect: %s: %s; %s\n", path, why,
             fate_of(account, number, name ? name + 1 : path, fate));
    say(text);
}

static bool take_guarded(struct account *account, const char *line) {
    if (begins(&line, "planted")) tell_name(account, line, false);
    else if (begins(&line, "unremoved")) tell_name(account, line, true);
    else if (begins(&line, "repository")) tell_found(account, line, "a command by a compiled plan makes no repository");
    else if (begins(&line, "trap")) tell_found(account, line, "git would write through it, or wait for it");
    else if (begins(&line, "link")) tell_found(account, line, "git would follow it out of what the command may write");
    else if (begins(&line, "unsearched")) tell_found(account, line, "corral cannot tell whether a repository is there"), account->is_unremoved = true;
    else if (begins(&line, "blocked")) account->was_blocked = true;
    else if (begins(&line, "swept")) account->was_swept = true;
    else return false;
    return true;
}

/* "usage ...", "counted ...": numbers, all of them or none. */
static bool take_numbers(const char *rest, long long *numbers, size_t count) {
    for (size_t i = 0; i < count; i++) {
        char *end = NULL;
        numbers[i] = strtoll(rest, &end, 10);
        if (end == rest) return false;
        rest = end;
    }
    return true;
}

static void take_line(struct account *account, const char *line) {
    if (take_guarded(account, line)) return;
    if (begins(&line, "started")) account->has_started = true;
    else if (begins(&line, "timed-out")) account->has_timed_out = true;
    else if (begins(&line, "lost")) account->is_lost = true;
    else if (begins(&line, "full")) account->is_full = true;
    else if (begins(&line, "failed")) take_failure(account, line);
    else if (begins(&line, "signalled")) account->signal = (int)strtol(line, NULL, 10);
    else if (begins(&line, "exited")) account->has_exited = true, account->exit_code = (int)strtol(line, NULL, 10);
    else if (begins(&line, "usage")) account->has_usage = take_numbers(line, account->usage, 6);
    else if (begins(&line, "counted")) account->has_counted = take_numbers(line, account->counted, 4);
    else if (begins(&line, "limit") && !account->exceeded[0])
        snprintf(account->exceeded, sizeof account->exceeded, "%s", line);
}

void account_feed(struct account *account, const char *text, size_t size) {
    for (size_t i = 0; i < size; i++) {
        if (text[i] != '\n') {
            if (account->length < sizeof account->line - 1) account->line[account->length++] = text[i];
            continue;
        }
        account->line[account->length] = 0;
        take_line(account, account->line);
        account->length = 0;
    }
}

/* `null` for what nobody counts. */
static const char *json_count(char text[24], long long number) {
    if (number >= 0) snprintf(text, 24, "%lld", number);
    return number >= 0 ? text : "null";
}

void account_tell_usage(const struct account *account, int fd, double wall_seconds) {
    static const long long UNCOUNTED[4] = {-1, -1, -1, -1};
    const long long *counted = account->has_counted ? account->counted : UNCOUNTED, *usage = account->usage;
    char line[512], memory[24], at_once[24], processes[24];
    if (!account->has_started) return;
    /* The group's first: what is not waited for, as a tree that was killed, is in no rusage. */
    double user = (double)(counted[0] >= 0 ? counted[0] : usage[0]) / 1e6;
    double system = (double)(counted[1] >= 0 ? counted[1] : usage[1]) / 1e6;
    long long largest = account->has_usage && usage[2] ? usage[2] * 1024 : -1;
    int size = snprintf(line, sizeof line, "{\"wall_seconds\": %.3f, \"user_seconds\": %.6f, \"system_seconds\": %.6f, "
                        "\"peak_memory_bytes\": %s, \"is_whole_tree\": %s, \"peak_pids\": %s, \"processes\": %s, "
                        "\"read_bytes\": %lld, \"written_bytes\": %lld}\n", wall_seconds, user, system,
                        json_count(memory, counted[2] >= 0 ? counted[2] : largest), counted[2] >= 0 ? "true" : "false",
                        json_count(at_once, counted[3]), json_count(processes, usage[5] ? usage[5] : -1),
                        usage[3] * 512, usage[4] * 512);
    struct pollfd place = {.fd = fd, .events = POLLOUT};
    /* Nobody waits for a reader. Whatever comes of it, the command has ended as it has. */
    if (poll(&place, 1, 0) <= 0 || write(fd, line, (size_t)size) != size)
        say("corral: what the command has cost could not be written\n");
}

static int refuse_phase(const struct account *account) {
    struct problem problem;
    const char *fix = "run `corral doctor`";
    bool is_missing = account->error == ENOENT || account->error == ENOTDIR;
    if (strcmp(account->phase, "exec") == 0) {
        problem_set(&problem, "", is_missing ? "check the name; programs must be in the granted paths"
                                             : "check that it is a program and executable",
                    "%s", strerror(account->error));
        snprintf(problem.what, sizeof problem.what, "%.200s could not be started", account->detail);
        return account_refuse(&problem, is_missing ? EXIT_NOT_FOUND : EXIT_NOT_EXECUTABLE);
    }
    if (account->error == ESTALE) {
        problem_set(&problem, "the plan is out of date", "compile it again with `corral compile`", "%s", account->detail);
        return account_refuse(&problem, EXIT_FAILED);
    }
    for (size_t i = 0; i < sizeof FIXES / sizeof *FIXES; i++)
        if (strcmp(FIXES[i].phase, account->phase) == 0) fix = FIXES[i].fix;
    problem_set(&problem, "", fix, "%s: %s", account->detail, strerror(account->error));
    snprintf(problem.what, sizeof problem.what, "the sandbox could not be set up (phase %s)", account->phase);
    return account_refuse(&problem, EXIT_FAILED);
}

/* Which limit, or which wall, ended it; NULL: none. The first that holds counts, as in runtime/outcome.py. */
static const char *outcome_of(const struct account *account, bool is_over_output) {
    if (account->was_blocked || account->signal == SIGSYS) return "the sandbox ended it (blocked)";
    if (is_over_output) return "it hit the output limit (output-limit)";
    if (strcmp(account->exceeded, "memory") == 0) return "it hit the memory limit (out-of-memory)";
    if (strcmp(account->exceeded, "processes") == 0) return "it hit the process limit (pids-limit)";
    if (account->has_timed_out) return "it timed out (timed-out)";
    if (account->is_full && (!account->has_exited || account->exit_code)) return "it hit the disk limit (disk-limit)";
    return NULL;
}

int account_close(const struct account *account, bool is_over_output) {
    if (account->has_failed) return refuse_phase(account);
    if (!account->has_started && !account->has_timed_out && !account->exceeded[0] && !is_over_output) {
        struct problem problem;
        problem_set(&problem, "the launcher ended before it started the command",
                    "run `corral doctor`; reinstall corral if it finds the launcher broken",
                    "it reported nothing; it may be broken, or was killed");
        return account_refuse(&problem, EXIT_FAILED);
    }
    char text[256];
    const char *outcome = outcome_of(account, is_over_output);
    bool is_own = account->has_exited && !is_over_output && !account->has_timed_out;
    if (outcome) {
        snprintf(text, sizeof text, "corral: the command %s: %s\n", is_own ? "failed" : "was stopped", outcome);
        say(text);
    }
    if (account->is_lost) say("corral: a process of the run could not be ended\n");
    bool is_guarded = account->spec && account->spec->count[RECORD_GUARD];
    if (is_guarded && !account->was_swept) say("corral: what the command left was not checked: the launcher was killed\n");
    if (account->is_unremoved || (is_guarded && !account->was_swept)) return EXIT_FAILED;
    if (account->has_timed_out && !is_over_output && !account->exceeded[0]) return EXIT_TIMED_OUT;
    if (is_own) return account->exit_code;
    return EXIT_SIGNAL + (account->signal ? account->signal : SIGKILL);
}
