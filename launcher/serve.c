/* Serve: the sandbox stands and is kept; commands are started in it as corral asks for them.
 *
 * The server is PID 1 of the sandbox where there is one, else the process that corral has started. It forks jobs, which
 * wait at the socket and take the requests; it reads none itself, unless no job could be made.
 *
 * TRUST: no command holds the socket, and none can trace, end or stop the server: it has no privileges and is not
 * dumpable, and it is PID 1 or out of reach of their Landlock domains. One that ends or stops a job has left its
 * supervision: then everything is ended. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "control.h"
#include "kernel.h"
#include "launch.h"
#include "report.h"
#include "watch.h"

enum {
    REAPED = 256,     /* in one turn */
    OWN_PROCESSES = 3, /* among those of the sandbox: the job of a command, and those that wait */
    STATUS_PLACE = 3, /* of the status pipe among the descriptors of a request */
};

struct server {
    struct launch *launch;
    int requests, signals;
    int taken[2];            /* pipe: a job says that no other waits */
    int null;
    atomic_int *idle;        /* jobs that wait for a command */
    int fork_error;          /* why none could be made */
    struct watcher watcher;
    bool has_more;           /* of the dead, perhaps */
    bool is_over, is_broken; /* corral wants no more; somebody has ended a job */
    uint32_t exceeded;       /* the notice of a limit that was found broken */
};

bool is_server(const struct launch *launch) { return launch->spec.count[RECORD_SERVE] != 0; }

/* INVARIANT: no descriptor of the server has a number that a job needs. Those that are free are filled, before
 * anything is opened. */
int server_reserve(void) {
    for (int fd = 0; fd < FIRST_FOREIGN_FD; fd++)
        if (fcntl(fd, F_GETFD) < 0 && dup2(STDOUT_FILENO, fd) < 0) return -errno;
    return 0;
}

/* The socket came as stdin. */
static int open_server(struct server *s) {
    s->requests = k_result(fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, MOST_GIVEN));
    if (s->requests < 0) return s->requests;
    if (dup2(STDOUT_FILENO, STDIN_FILENO) < 0) return -errno;
    s->null = k_result(fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, MOST_GIVEN));
    if (s->null < 0) return s->null;
    if (pipe2(s->taken, O_CLOEXEC | O_NONBLOCK) < 0) return -errno;
    s->idle = mmap(NULL, sizeof *s->idle, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (s->idle == MAP_FAILED) return -errno;
    s->launch->has_default_signals = true;
    int err = signals_reset();
    s->signals = err ? err : signals_open(false);
    return s->signals < 0 ? s->signals : 0;
}

/* Corral reaches the files of the sandbox by this: what they see is what it sees. */
static int send_root(const struct server *s) {
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(sizeof(int))];
    } ancillary = {0};
    char ready = 'r';
    struct iovec data = {.iov_base = &ready, .iov_len = 1};
    struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1, .msg_control = ancillary.room,
                             .msg_controllen = sizeof ancillary.room};
    int root = k_result(open("/", O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (root < 0) return root;
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    *header = (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof root)};
    memcpy(CMSG_DATA(header), &root, sizeof root);
    int err = sendmsg(s->requests, &message, MSG_NOSIGNAL) < 0 ? -errno : 0;
    close(root);
    return err;
}

/* Its own filter is inherited by all it starts, and costs a tenth of a millisecond where each command installs it. One
 * with a listener is the job's: so each hears of its own commands. */
static int bind_early(struct launch *launch) {
    if (!(launch->spec.serve_flags & SERVE_FILTERED) || launch->spec.count[RECORD_LISTEN]) return 0;
    launch->phase = "seccomp";
    int err = phase_seccomp(launch);
    launch->is_filtered = !err;
    return err;
}

static int prepare(struct server *s) {
    struct launch *launch = s->launch;
    launch->phase = "landlock";
    int err = landlock_prepare(launch);
    if (err) return err;
    launch->phase = "namespaces";
    if ((err = leave_session_keyring(launch))) return err; /* the filter forbids it later */
    set_detail(launch, "serve");
    err = open_server(s);
    if (!err) err = send_root(s);
    return err ? err : bind_early(launch);
}

/* A job that waits for the next request, so that nobody waits for a process to be made. It counts from now on. One that
 * has come back in the meantime does as well: whoever takes the last one away says so. */
static void fork_spare(struct server *s) {
    pid_t self = getpid();
    s->fork_error = 0;
    if (!job_may_wait(s->idle, 1)) return;
    pid_t job = k_clone(SIGCHLD);
    s->fork_error = job < 0 ? -job : 0;
    if (job < 0) atomic_fetch_sub(s->idle, 1);
    if (job != 0) return;
    close(s->signals);
    close(s->taken[0]);
    if (s->launch->channel_fd >= 0) close(s->launch->channel_fd);
    const struct post post = {.requests = s->requests, .taken = s->taken[1], .null = s->null, .idle = s->idle};
    _exit(child_obey(self) ? EXIT_SETUP_FAILED : job_main(s->launch, &post));
}

/* Whoever asks when no process can be made is told so. */
static void refuse_request(struct server *s) {
    static char words[REQUEST_BYTES];
    int given[MOST_GIVEN];
    char line[64];
    size_t size = sizeof words;
    int count = control_receive(s->requests, given, words, &size, MSG_DONTWAIT);
    if (count == 0 || count == -ECONNRESET) s->is_over = true;
    if (count <= 0) return; /* a broken one: he sees the end of his status pipe */
    int length = snprintf(line, sizeof line, "failed namespaces %d fork\n", s->fork_error);
    if (count > STATUS_PLACE && write(given[STATUS_PLACE], line, (size_t)length) < 0) s->has_more = true;
    for (int i = 0; i < count; i++) close(given[i]);
}

static void on_taken(struct server *s) {
    char byte;
    ssize_t got = read(s->taken[0], &byte, 1);
    if (got == 1) fork_spare(s);
    else if (got == 0 || (errno != EAGAIN && errno != EINTR)) s->is_broken = true;
}

/* Only jobs are children of the server, and jobs end by themselves, without an error. An orphan, or a job that a signal has
 * ended or stopped, means that something has left the supervision it was under. The server itself cannot be signalled
 * from inside. */
static void reap(struct server *s) {
    int status = 0, count = 0;
    bool stops_all = s->launch->spec.watch.share_permille != 0; /* then it is us who stops them */
    for (; count < REAPED && waitpid(-1, &status, WNOHANG | WUNTRACED) > 0; count++)
        if (WIFEXITED(status) ? WEXITSTATUS(status) != 0 : !WIFSTOPPED(status) || !stops_all) s->is_broken = true;
    s->has_more = count == REAPED;
}

static int64_t wait_for_work(struct server *s, struct pollfd *fds) {
    int64_t left = s->has_more ? 0 : watcher_wait(&s->watcher);
    const struct timespec wait = {.tv_sec = left / 1000000000, .tv_nsec = left % 1000000000};
    int ready = ppoll(fds, 4, left < 0 ? NULL : &wait, NULL);
    if (ready < 0 && errno != EINTR) s->is_broken = true;
    return ready;
}

static void turn(struct server *s) {
    struct pollfd fds[] = {
        /* What comes is for a job; the end is for everyone. */
        {.fd = s->requests, .events = s->fork_error ? POLLRDHUP | POLLIN : POLLRDHUP},
        {.fd = s->signals, .events = POLLIN},
        {.fd = has_namespaces(s->launch) ? -1 : LIFELINE_FD, .events = POLLIN},
        {.fd = s->taken[0], .events = POLLIN},
    };
    if (wait_for_work(s, fds) < 0) return;
    if (fds[1].revents || s->has_more) {
        int signal = signals_next(s->signals); /* what comes from inside, but for SIGCHLD, means nothing here */
        if (signal < 0) s->is_broken = true;
        reap(s);
    }
    if (fds[3].revents) on_taken(s);
    if (fds[2].revents || fds[0].revents & (POLLRDHUP | POLLHUP | POLLERR)) s->is_over = true;
    else if (fds[0].revents & POLLIN && s->fork_error) {
        fork_spare(s);
        if (s->fork_error) refuse_request(s);
    }
}

static void serve(struct server *s) {
    struct watch_record *limits = &s->launch->spec.watch;
    if (limits->processes) limits->processes += OWN_PROCESSES;
    watcher_start(&s->watcher, s->launch, has_namespaces(s->launch));
    fork_spare(s);
    while (!s->is_over && !s->is_broken && !s->exceeded) {
        turn(s);
        s->exceeded = watcher_act(&s->watcher);
    }
}

/* The supervisor ends everyone, and says why. */
int server_run_as_init(struct launch *launch) {
    struct server s = {.launch = launch};
    int err = prepare(&s);
    if (err) {
        report_failed(launch, -err);
        return EXIT_SETUP_FAILED;
    }
    report_executing(launch);
    if (close(launch->setup_fd) < 0) return EXIT_SETUP_FAILED;
    launch->setup_fd = -1;
    serve(&s);
    if (s.exceeded) notice_send(launch, &(struct notice){.kind = s.exceeded});
    if (s.is_over) notice_send(launch, &(struct notice){.kind = NOTICE_ENDED});
    return s.is_broken ? EXIT_SETUP_FAILED : 0;
}

int server_run_alone(struct launch *launch) {
    struct server s = {.launch = launch};
    int err = prepare(&s);
    if (err) {
        status_failed(launch->phase, -err, launch->detail);
        return EXIT_SETUP_FAILED;
    }
    status_line("started\n");
    serve(&s);
    bool is_lost = tree_end(launch) != 0 || s.is_broken;
    if (s.exceeded) status_line(s.exceeded == NOTICE_MEMORY ? "limit memory\n" : "limit processes\n");
    if (is_lost) status_line("lost\n");
    else status_ended(s.exceeded ? SIGKILL : 0);
    status_usage(&(struct notice){0}, NULL);
    supervisor_linger(launch);
    return is_lost ? EXIT_SETUP_FAILED : 0;
}
