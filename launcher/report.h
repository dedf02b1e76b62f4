/* What the processes of a launch tell each other, and what the supervisor tells corral. */
#ifndef CORRAL_REPORT_H
#define CORRAL_REPORT_H

#include <stdint.h>

#include "launch.h"

enum report_kind {
    REPORT_EXECUTING = 1, /* every phase passed; if the pipe closes without another word, execve succeeded */
    REPORT_FAILED,
};

/* INVARIANT: smaller than PIPE_BUF, so that one write is one report. */
struct report {
    uint32_t kind;
    int32_t error; /* errno */
    char phase[16];
    char detail[DETAIL_SIZE];
};

enum notice_kind {
    NOTICE_ENDED = 1, /* the command has; the other fields say how it was */
    NOTICE_MEMORY,    /* the tree has more memory than it may */
    NOTICE_PROCESSES, /* or more processes */
};

/* What init tells while the command runs and when it has ended, over launch->channel_fd. */
struct notice {
    uint32_t kind;
    int32_t wait_status;
    uint32_t processes; /* that were started in all, threads included; 0: not known */
    uint32_t is_full;   /* the private areas had no room left when the command ended */
    uint32_t is_layer_full; /* or a trial's layer in memory */
};

void notice_send(const struct launch *launch, const struct notice *notice);

/* To the supervisor, over launch->setup_fd. */
void report_executing(struct launch *launch);
void report_failed(const struct launch *launch, int error);

/* To corral, over STATUS_FD. That nobody listens any more is no error: the lifeline will say so too. */
void status_failed(const char *phase, int error, const char *detail);
void status_line(const char *line);
/* A longer one: at most PIPE_BUF bytes, its line feed included. */
void status_write(const char *line, size_t size);
size_t hex_put(char *into, const char *bytes, size_t size); /* and a NUL; returns how many digits */
void status_words(char *words); /* a line whose words may be a command's: it cannot add another */
void status_hold(void); /* from now on, how it began and ended is told at once, with the account */
/* What it has cost: `spent`, or else all that was ever waited for; and what init told. */
void status_usage(const struct notice *account, const struct rusage *spent);
void status_ended(int wait_status);
struct notice take_account(const struct launch *launch); /* where there is no init to give one */

#endif
