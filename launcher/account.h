/* What became of a run, for a person and for a shell: the status lines of the supervisor, put into words. */
#ifndef CORRAL_ACCOUNT_H
#define CORRAL_ACCOUNT_H

#include <stdbool.h>
#include <stddef.h>

#include "plan.h"

struct account {
    const struct spec *spec; /* whose names are told by number */
    bool was_blocked, was_swept, is_unremoved;
    char line[1024]; /* as much of it as was read */
    size_t length;
    bool has_started, has_timed_out, is_lost, is_full, has_failed;
    int exit_code, signal; /* exit_code -1, signal 0: not said */
    bool has_exited;
    char exceeded[16]; /* the limit that the launcher found broken */
    char phase[16], detail[640];
    int error;
    long long usage[6], counted[4]; /* as in the lines of these names; -1: not said */
    bool has_usage, has_counted;
};

/* Each run has a quarantine of its own, beside those of others. Returns 0 or -1. */
int account_name_quarantine(struct spec *spec);

void account_feed(struct account *account, const char *text, size_t size);

/* Says what there is to say, and returns the exit code: the command's own, 124, 125, 126, 127, or 128 and a signal. */
int account_close(const struct account *account, bool is_over_output);

/* Writes what it has cost as one line of JSON, with the names of `corral run --json`, if it ran. */
void account_tell_usage(const struct account *account, int fd, double wall_seconds);

/* Says that the command ran and that not all it printed is where it was to go; `error` is an errno. Returns the code. */
int account_unwritten(int error);

/* Says that the command did not run, in three lines; returns the code. */
int account_refuse(const struct problem *problem, int code);

#endif
