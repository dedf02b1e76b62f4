/* One launch: the processes that carry it out and the phases each goes through.
 *
 *   supervisor (P0)  the process corral started. Outside of every namespace; forwards signals, keeps the
 *                    time, reports on STATUS_FD, and takes everything down when corral is gone. Where another
 *                    program made the sandbox it is the first process inside, and nobody there can reach it.
 *   init             PID 1 of the new namespaces: mounts, then reaps. Absent when there are no namespaces.
 *   command          becomes the user's command by execve.
 */
#ifndef CORRAL_LAUNCH_H
#define CORRAL_LAUNCH_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "spec.h"

enum {
    SPEC_FD = 3,
    STATUS_FD = 4,
    LIFELINE_FD = 5,
    FIRST_FOREIGN_FD = 6,
    EXIT_SETUP_FAILED = 125, /* of a setup process; the command's own codes travel on STATUS_FD */
    DETAIL_SIZE = 512,
    IDENTITY_MAP_SIZE = 32,
};

struct launch {
    struct spec spec;
    const char *phase;        /* the phase that failed */
    char detail[DETAIL_SIZE]; /* what failed in it */
    pid_t child;              /* supervisor: init, or the command when there is no init */
    int setup_fd;             /* pipe: init and command write reports, the supervisor reads; -1 when done */
    int listen_fd;            /* the listener of the filter, or the socket that it comes by; -1: none */
    int listen_other_fd;      /* the other end of that, before there is a child */
    int asks_fd;              /* the way of questions to corral, which answers them itself; 0: there are none */
    int channel_fd;           /* socket pair: supervisor tells its child to go, init tells how the command ended */
    int *group_fds;           /* one for each cgroup of the spec */
    pid_t remover;            /* who removes the groups, if it is our child */
    int remover_fd, removed_fd; /* of the process that removes the groups: its life, and its end; 0: there is none */
    int kill_fd, cpu_fd;      /* supervisor: the cgroup's file to end all by, and that with its processor time */
    pid_t helper;             /* init: the process that stays behind in the first user namespace, for a while */
    int helper_fd;            /* socket pair: init and helper */
    int *trees;               /* with an identity: what is to be bound, one for each mount of the spec; -1: not prepared */
    int areas_fd;             /* init: the file system of the private areas */
    int layer_fd;             /* init: that of a trial's layer, if it lies in memory */
    int ruleset_fd;           /* a server: Landlock's rules, made once for all its commands; -1: not made */
    int given;                /* descriptors from FIRST_FOREIGN_FD on that belong to the control groups */
    bool must_move;           /* the child was not born in its cgroup */
    bool must_be_here;        /* the working directory inside must be the one with this device and inode */
    uint64_t here_device, here_inode;
    int64_t cpu_before_us;    /* a job: processor time of the group when it began */
    bool is_job;              /* one command of a kept sandbox */
    bool is_executing;        /* a job: its command came as far as execve */
    bool is_filtered;         /* the filter is there already, for all commands to come */
    bool has_default_signals; /* the server has seen to that, once for all */
    bool tells_usage;         /* what the groups of a compiled plan have counted is told */
};

/* A phase returns 0 or -errno, and says in launch->detail which object it was about. */
struct phase {
    const char *name;
    int (*apply)(struct launch *);
};

/* main.c. Each ends with a phase without a name. */
extern const struct phase SUPERVISOR_PHASES[], CHILD_PHASES[], INIT_PHASES[], COMMAND_PHASES[];

int run_phases(struct launch *launch, const struct phase *phases);
#ifdef CORRAL_FAULTS
bool is_fault(const struct launch *launch, const char *name);
bool is_slow(const struct launch *launch, const char *name);
#endif
int launch_run(struct launch *launch); /* all of it, with the descriptors in place; the exit code of the process */
bool has_namespaces(const struct launch *launch);
bool has_own_network(const struct launch *launch);

/* Formats launch->detail. */
__attribute__((format(printf, 2, 3))) void set_detail(struct launch *launch, const char *format, ...);

int phase_group(struct launch *launch);          /* group.c */
int phase_cgroup(struct launch *launch);         /* cgroup.c */
int phase_in_place(struct launch *launch);       /* mounts.c */
int phase_expect(struct launch *launch);         /* expect.c */
int phase_join(struct launch *launch);           /* cgroup.c */
int phase_start(struct launch *launch);          /* start.c */
int phase_own_cgroup(struct launch *launch);     /* start.c */
int phase_hostname(struct launch *launch);       /* net.c */
int phase_mounts(struct launch *launch);         /* mounts.c */
int phase_helper(struct launch *launch);         /* lock.c */
int phase_network_join(struct launch *launch);   /* net.c */
int phase_gateway(struct launch *launch);        /* gateway.c */
int phase_identity(struct launch *launch);       /* identity.c */
bool has_identity(const struct launch *launch);  /* identity.c: a command of root's has ids of its own */
void identity_map(const struct spec *spec, char text[IDENTITY_MAP_SIZE]); /* identity.c: as user namespaces have it */
void identity_forget(struct launch *launch);     /* identity.c: the child has what was prepared */
int identity_assume(struct launch *launch);      /* identity.c */
int phase_gateway_inside(struct launch *launch); /* gateway.c */
int phase_notify(struct launch *launch);         /* notify.c */
int phase_lock(struct launch *launch);           /* lock.c */
int phase_lock_inside(struct launch *launch);    /* lock.c */
int phase_session(struct launch *launch);        /* command.c */
int phase_surroundings(struct launch *launch);   /* command.c */
int phase_limits(struct launch *launch);         /* confine.c */
int phase_no_new_privs(struct launch *launch);   /* confine.c */
int phase_caps(struct launch *launch);           /* caps.c */
int caps_keep(uint64_t wanted);                  /* caps.c: no others from now on, and of these what is there */
int phase_landlock(struct launch *launch);       /* confine.c */
int phase_seccomp(struct launch *launch);        /* confine.c */
int phase_exec(struct launch *launch);           /* exec.c */

/* The lives of the three processes. Each returns its exit code. */
int supervisor_run(struct launch *launch);       /* supervise.c */
int init_run(struct launch *launch);             /* init.c */
int command_run(struct launch *launch);          /* command.c */

/* Kept sandboxes. The server starts a job for each command, and a job is a supervisor without namespaces. */
bool is_server(const struct launch *launch);     /* serve.c */
int server_reserve(void);                        /* serve.c: first, in every process that serves */
int server_run_as_init(struct launch *launch);   /* serve.c */
int server_run_alone(struct launch *launch);     /* serve.c: where somebody else made the namespaces, or nobody */
/* Where jobs and their server meet. */
struct post {
    int requests;      /* the socket */
    int taken;         /* pipe: a job has taken the last one that waited off: another is needed */
    int null;          /* the null device, for the numbers that a job needs while it waits */
    atomic_int *idle;  /* shared: how many wait */
};

int job_main(struct launch *launch, const struct post *post); /* job.c: its exit code */
bool job_may_wait(atomic_int *idle, int most);    /* job.c: it counts among those that wait */
int leave_session_keyring(struct launch *launch); /* command.c */
int signals_reset(void);                         /* command.c */
void supervisor_linger(const struct launch *launch); /* report.c */
int landlock_prepare(struct launch *launch);     /* confine.c */
bool areas_are_full(const struct launch *launch); /* init.c */
bool layer_is_full(const struct launch *launch);
int start_alone(struct launch *launch);          /* start.c: no more privileges, and every orphan comes here */
bool is_told_to_go(const struct launch *launch); /* start.c: by the supervisor */
bool tell_to_begin(int lifeline);                 /* start.c: by who looks meanwhile; false: the launch has failed */
int child_obey(pid_t parent);                    /* start.c: end with the parent, be traced by nobody */

/* lock.c */
bool is_locked(const struct launch *launch);     /* the mounts, in the end */
bool has_helper(const struct launch *launch);

int id_maps_write(struct launch *launch, pid_t pid, bool is_identity);
int helper_answer(struct launch *launch);        /* to the next thing it was asked for */
int network_make(struct launch *launch);         /* net.c: what the helper does first */

int find_writable(const char *text);             /* stdio.c: a descriptor that is open for writing; -1 if it is none */
int pipe_above(int lowest, int ends[2]);         /* stdio.c: a pipe out of the way of a command's own numbers */
bool is_fit_stdio(int fd);                       /* stdio.c: neither a directory nor a mere path */
int stdio_use_own_devices(struct launch *launch); /* stdio.c: the sandbox's, in the place of the host's */

/* Files of the caller's that the command must not write. reopen.c */
bool is_door(const struct spec *spec, int fd);   /* whether a descriptor leads to one */
bool is_readable(int fd);                        /* whether it is open for reading */
int reopen_and_send(int fd, int socket);         /* for reading alone; in a process that is for nothing else */
int reopen_in_child(int fd);                     /* the new descriptor, or -errno */

/* gateway.c */
bool has_gateway(const struct launch *launch);   /* with sockets */
int gateway_send(const int *descriptors, int count); /* to corral; the status channel is a socket then */

/* Signals. signals.c */
int signals_block_all(void);
int signals_open(bool has_changes);              /* a signalfd: SIGCHLD, what is forwarded, changes of directories */
bool signals_may_pass(int signal);               /* on to the command */
int signals_next(int fd);                        /* the next signal, 0 when there is none, or -errno */
void signals_forward(const struct launch *launch, pid_t command, int signal);

/* The control groups that the launcher makes itself. group.c */
void groups_tell(const struct launch *launch);   /* which limits they met */
void groups_remove(struct launch *launch);

/* The control groups of the launch, if there are any. cgroup.c */
int cgroup_clone(struct launch *launch, unsigned long flags);
void cgroup_kill(const struct launch *launch);   /* all members at once */
void cgroup_kill_listed(const char *directory);  /* one by one: those that a group has now */
int64_t cgroup_cpu_us(const struct launch *launch);

/* Inside a sandbox that another program has made. */
int expect_check(struct launch *launch, const struct expect_record *e); /* expect.c */
int expect_mounts(struct launch *launch);                               /* mountinfo.c */
bool expect_areas_full(const struct launch *launch); /* expect.c */
int environment_merge(struct spec *spec);            /* environment.c */

/* Descendants, where no PID namespace holds them. tree.c */
int tree_signal(int signal);                     /* every one that is found; returns how many */
void tree_visit(void (*visit)(int pid, void *), void *context);
int tree_reap(pid_t awaited, int *wait_status, bool *is_found); /* some of the dead; how many, -1: no child */
int tree_end(const struct launch *launch);       /* kills and reaps all */
extern struct rusage tree_spent;                 /* by all that tree_reap() has waited for */
bool is_first_process(void);                     /* PID 1: the kernel ends all others with it */
uint32_t count_processes(const struct launch *launch); /* ever started in this PID namespace, ours left out */

#endif
