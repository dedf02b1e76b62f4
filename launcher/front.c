/* The front: `corral-launch --plan FILE -- COMMAND`. It does for a compiled plan what corral's runner does for a run:
 * it checks, starts the supervisor of an ordinary launch in a process of its own, carries output, passes signals on, and
 * says what happened. The supervisor knows nothing of it: it has its status pipe and its lifeline as always.
 *
 * Whoever started us may die. A death signal would be sent when the *thread* dies that started us, which in many
 * programs is no reason to end anything. So the front looks at the caller's process, and cuts the lifeline. If the
 * front itself is killed, the kernel cuts it. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "account.h"
#include "clock.h"
#include "kernel.h"
#include "launch.h"
#include "plan.h"
#include "relay.h"

enum { FIRST_FREE = 10, MOST_SIGNALS = 65, GRACE_MS = 2000, EXIT_USAGE = 2 };

static const char UNNAMED[] = "there is no place for what a command must not leave";
static const char NO_STREAMS[] = "the command's input and output could not be set up";

struct front {
    pid_t supervisor;
    int signals, status, lifeline, caller; /* lifeline: -1 when it was cut */
    bool was_ignored[MOST_SIGNALS], is_asked_to_end, is_ended;
    int stdin_anew; /* the caller's input, where the command has it opened anew; else -1 */
    off_t begun_at; /* where the caller stood in it */
    int usage; /* where to say what it has cost; -1: nowhere */
    struct relays relays;
    struct account account;
    struct launch launch;
};

static int refuse(struct problem *problem, const char *what, const char *fix, int err) {
    return problem_set(problem, what, fix, "%s", strerror(-err));
}

/* INVARIANT: first of all. A directory that landed on a free descriptor 0 would be the command's stdin. */
static int prepare_stdio(struct front *front, struct problem *problem) {
    struct stat status;
    for (int fd = 0; fd <= STDERR_FILENO; fd++) {
        if (fstat(fd, &status) < 0 && open("/dev/null", O_RDWR) != fd)
            return refuse(problem, "the command has no stdin, stdout or stderr", "start it with these open", -errno);
        if (!is_fit_stdio(fd))
            return problem_set(problem, NO_STREAMS, "redirect it elsewhere",
                               "descriptor %d is a directory or a mere path, which would lead around every mount", fd);
    }
    int kept = front->usage > STDERR_FILENO ? dup2(front->usage, STDERR_FILENO + 1) : STDERR_FILENO;
    int err = kept < 0 ? -errno : k_close_range((unsigned)kept + 1, 0);
    if (!err && kept > STDERR_FILENO) {
        front->usage = fcntl(kept, F_DUPFD_CLOEXEC, FIRST_FREE);
        err = front->usage < 0 ? -errno : close(kept);
    }
    return err ? refuse(problem, "inherited files could not be closed", "run `corral doctor`", err) : 0;
}

/* Whoever was told to ignore a signal, such as by nohup, does not get to pass it on either. */
static int take_signals(struct front *front) {
    for (int number = 1; number < MOST_SIGNALS; number++) {
        struct sigaction action;
        front->was_ignored[number] = sigaction(number, NULL, &action) == 0 && action.sa_handler == SIG_IGN;
    }
    int err = signals_block_all();
    front->signals = err ? err : signals_open(false);
    return front->signals < 0 ? front->signals : 0;
}

/* A caller outside of our PID namespace cannot be seen, and not be waited for. */
static int watch_caller(struct front *front) {
    pid_t caller = getppid();
    front->caller = -1;
    if (caller == 0) return 0;
    front->caller = k_result(syscall(NR_PIDFD_OPEN, caller, 0));
    if (front->caller < 0 && front->caller != -ESRCH) return front->caller;
    return getppid() == caller && front->caller >= 0 ? 0 : -ESRCH; /* it died meanwhile */
}

/* What a process inside can come to see of this one, it must not hold: the caller's variables, and where plans are. */
static void wipe(char **texts) {
    for (; *texts; texts++) memset(*texts, 0, strlen(*texts));
}

/* The supervisor's process: from here on it is a launch like any other. */
static int supervise(struct launch *launch, const int given[5], char **argv) {
    static const int PLACES[5] = {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO, STATUS_FD, LIFELINE_FD};
    setsid();
    for (int i = 0; i < 5; i++)
        if (given[i] != PLACES[i] && dup2(given[i], PLACES[i]) < 0) return EXIT_SETUP_FAILED;
    close(SPEC_FD);
    if (k_close_range(FIRST_FOREIGN_FD, 0)) return EXIT_SETUP_FAILED;
    wipe(argv + 1);
    return launch_run(launch);
}

/* A door: the file is opened anew, and the command does not run where that cannot be done. */
static int prepare_input(struct front *front, int *given, struct problem *problem) {
    if (!is_readable(STDIN_FILENO))
        return problem_set(problem, NO_STREAMS, "give it a file that is open for reading, or </dev/null",
                           "stdin is open for writing alone, to a file that the policy does not let the command write");
    front->begun_at = lseek(STDIN_FILENO, 0, SEEK_CUR);
    *given = reopen_in_child(STDIN_FILENO);
    int anew = *given < 0 ? *given : k_result(fcntl(*given, F_DUPFD_CLOEXEC, FIRST_FREE));
    if (anew < 0)
        return problem_set(problem, NO_STREAMS, "pass its content on by a pipe, as in `cat FILE | COMMAND`",
                           "stdin is a file that the policy does not let the command write, and it could not be opened "
                           "for reading alone: %s", strerror(-anew));
    front->stdin_anew = anew;
    return 0;
}

/* What the command gets as its own: the caller's descriptors, but for what must be counted, and for doors. */
static int prepare_streams(struct front *front, const struct launch *launch, const struct plan *plan, int given[3],
                           struct problem *problem) {
    bool has_limit = plan->has_output_limit, is_relayed[2];
    for (int i = 0; i < 2; i++) is_relayed[i] = has_limit || is_door(&launch->spec, STDOUT_FILENO + i);
    int err = 0;
    if (is_relayed[0] || is_relayed[1])
        err = relays_open(&front->relays, has_limit ? plan->output_limit : UINT64_MAX, is_relayed, &given[1]);
    if (err) return refuse(problem, NO_STREAMS, "close files, or raise the limit on open files", err);
    if (is_door(&launch->spec, STDIN_FILENO)) return prepare_input(front, &given[0], problem);
    if (has_limit) given[0] = open_for_reading_only(STDIN_FILENO);
    return 0;
}

/* The caller reads on where the command stopped, as if both had used one descriptor; but not if somebody else has moved it
 * meanwhile, such as output that goes to the same open file. ORDER: when all output is written. */
static void set_back(const struct front *front) {
    off_t stopped_at = front->stdin_anew < 0 ? front->begun_at : lseek(front->stdin_anew, 0, SEEK_CUR);
    if (stopped_at < 0 || stopped_at == front->begun_at) return;
    if (lseek(STDIN_FILENO, 0, SEEK_CUR) == front->begun_at) (void)lseek(STDIN_FILENO, stopped_at, SEEK_SET);
}

static int start(struct front *front, struct launch *launch, int given[5], char **argv) {
    int status[2], lifeline[2];
    int err = pipe_above(FIRST_FREE, status);
    if (!err) err = pipe_above(FIRST_FREE, lifeline);
    if (err) return err;
    given[3] = status[1];
    given[4] = lifeline[0];
    front->supervisor = k_clone(SIGCHLD);
    if (front->supervisor < 0) return front->supervisor;
    if (front->supervisor == 0) _exit(supervise(launch, given, argv));
    for (int i = 0; i < 5; i++)
        if (given[i] > STDERR_FILENO) close(given[i]);
    front->status = status[0];
    front->lifeline = lifeline[1];
    return fcntl(front->status, F_SETFL, O_NONBLOCK) < 0 ? -errno : 0;
}

static void cut_lifeline(struct front *front) {
    if (front->lifeline >= 0) close(front->lifeline);
    front->lifeline = -1;
}

/* INVARIANT: no command starts before everything was found as the plan has it. The sandbox is made meanwhile; each object
 * in it is compared once more when it is mounted. A launch that has failed by now says so itself. */
static int let_begin(struct front *front, const struct plan *plan, struct problem *problem) {
    if (!plan_check(plan, problem)) return (void)tell_to_begin(front->lifeline), 0;
    cut_lifeline(front);
    while (waitpid(front->supervisor, NULL, 0) < 0 && errno == EINTR) continue;
    return -1;
}

/* Ctrl-Z: the command stops, then we; the shell's `fg` lets both go on. The supervisor does not stop: the time does not. */
static void on_signal(struct front *front, int number) {
    if (number == SIGCHLD && front->supervisor > 0 && waitpid(front->supervisor, NULL, WNOHANG) == front->supervisor) {
        front->is_ended = true;
        front->supervisor = -1; /* the number may be somebody else's now */
    }
    if (number == SIGCHLD || front->was_ignored[number]) return;
    if (number == SIGHUP || number == SIGINT || number == SIGQUIT || number == SIGTERM) front->is_asked_to_end = true;
    if (front->supervisor > 0) kill(front->supervisor, number);
    if (number == SIGTSTP) kill(getpid(), SIGSTOP);
}

static void on_signals(struct front *front) {
    int number = 0;
    while ((number = signals_next(front->signals)) > 0) on_signal(front, number);
}

/* A few lines: they wait in the pipe until all is over, so that none of them wakes us while others have work to do. */
static void read_status(struct front *front) {
    char text[4096];
    ssize_t got = 0;
    while ((got = read(front->status, text, sizeof text)) > 0) account_feed(&front->account, text, (size_t)got);
}

/* INVARIANT: it returns when the supervisor, and so everyone inside, is gone. */
static void watch(struct front *front) {
    while (!front->is_ended) {
        const struct relay none = {.source = -1};
        struct relay *streams = front->relays.streams;
        struct pollfd fds[] = {
            {.fd = front->signals, .events = POLLIN},
            {.fd = front->lifeline >= 0 ? front->caller : -1, .events = POLLIN},
            relay_waits_for(front->relays.is_used ? &streams[0] : &none),
            relay_waits_for(front->relays.is_used ? &streams[1] : &none),
        };
        if (poll(fds, 4, -1) < 0 && errno != EINTR) cut_lifeline(front);
        if (fds[0].revents) on_signals(front);
        for (int i = 0; i < 2; i++)
            if (fds[2 + i].revents) relay_carry(&front->relays, &streams[i]);
        if (front->relays.is_over || fds[1].revents) cut_lifeline(front);
    }
    read_status(front);
    cut_lifeline(front);
    front->is_asked_to_end = false; /* that was for the command */
}

/* Whether to stop waiting for a reader who does not take the last of the output. */
static bool is_enough(void *context, int64_t idle_ms) {
    struct front *front = context;
    struct pollfd caller = {.fd = front->caller, .events = POLLIN};
    on_signals(front);
    bool was_stopped = front->relays.is_over || front->account.has_timed_out || front->account.exceeded[0];
    return front->is_asked_to_end || (was_stopped && idle_ms >= GRACE_MS) || poll(&caller, 1, 0) > 0;
}

/* Everything that the launch needs is in memory of its own afterwards; the plan and the caller's variables are not. */
static int prepare(struct launch *launch, struct plan *plan, const char *path, char **command, struct problem *problem) {
    char cwd[PATH_MAX];
    struct stat here;
    struct bytes spec = {0};
    const char *why = NULL;
    if (plan_open(plan, path, problem) || plan_check_host(plan, problem)) return -1;
    if (!getcwd(cwd, sizeof cwd) || stat(".", &here) < 0)
        return refuse(problem, "the working directory cannot be used", "change into an existing directory", -errno);
    int err = plan_compose(plan, command, cwd, environ, &spec);
    if (err) return refuse(problem, "the command is too long for any program", "pass the data on stdin or in a file", err);
    wipe(environ);
    if (spec_decode(&launch->spec, spec.at, spec.size, &why))
        return problem_set(problem, "the plan cannot be used", "write it again with `corral compile`", "%s: %s", path,
                           why ? why : "out of memory");
    if (plan_check_place(plan, &launch->spec, problem)) return -1;
    if (account_name_quarantine(&launch->spec)) return refuse(problem, UNNAMED, "run it again", -ENOMEM);
    launch->spec.count[RECORD_AWAIT] = 1;
    launch->must_be_here = true;
    launch->here_device = (uint64_t)here.st_dev;
    launch->here_inode = (uint64_t)here.st_ino;
    return 0;
}

static int run(struct front *front, const char *path, char **argv, char **command, struct problem *problem) {
    struct launch *launch = &front->launch;
    *launch = (struct launch){.child = -1, .setup_fd = -1, .channel_fd = -1, .kill_fd = -1, .cpu_fd = -1,
                              .areas_fd = -1, .layer_fd = -1, .ruleset_fd = -1, .listen_fd = -1, .listen_other_fd = -1};
    struct plan plan = {0};
    int given[5] = {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO, -1, -1};
    if (prepare(launch, &plan, path, command, problem)) return -1;
    front->account.spec = &launch->spec; /* numbers of names are told */
    front->launch.tells_usage = front->usage >= 0;
    int err = take_signals(front);
    if (!err) err = watch_caller(front);
    if (err) return refuse(problem, "the caller cannot be watched", "run `corral doctor`", err);
    if (prepare_streams(front, launch, &plan, given, problem)) return -1;
    if ((err = start(front, launch, given, argv)))
        return refuse(problem, "the launcher could not be started", "close files, or raise the limit on open files", err);
    err = let_begin(front, &plan, problem);
    plan_free(&plan);
    if (!err) watch(front);
    return err;
}

int plan_main(int argc, char **argv) {
    static struct front front; /* 128 KiB of buffers: not on the stack, and untouched where nothing is relayed */
    struct problem problem;
    bool has_usage = argc > 4 && strcmp(argv[3], "--usage") == 0;
    int command = has_usage ? 6 : 4;
    int64_t began_ms = now_ms();
    front.stdin_anew = -1;
    front.usage = has_usage ? find_writable(argv[4]) : -1;
    if (argc <= command || strcmp(argv[command - 1], "--") != 0 || (has_usage && front.usage < 0)) {
        const char *fix = has_usage ? "write `corral-launch --plan FILE --usage 3 -- COMMAND 3>FILE`" : "write `corral-launch --plan FILE -- COMMAND`";
        problem_set(&problem, "there is no command to run", fix, has_usage && front.usage < 0 ? "its descriptor is not open for writing" : "wrong usage");
        return account_refuse(&problem, EXIT_USAGE);
    }
    if (prepare_stdio(&front, &problem) || run(&front, argv[2], argv, argv + command, &problem))
        return account_refuse(&problem, EXIT_SETUP_FAILED);
    double wall_seconds = (double)(now_ms() - began_ms) / 1e3;
    /* What the command has printed comes before what we say of it. */
    relays_finish(&front.relays, is_enough, &front);
    set_back(&front);
    if (front.usage >= 0) account_tell_usage(&front.account, front.usage, wall_seconds);
    if (relays_error(&front.relays)) return account_unwritten(relays_error(&front.relays));
    return account_close(&front.account, front.relays.is_over);
}
