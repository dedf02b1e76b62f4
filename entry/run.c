/* Start a command as the stored plan says, and wait. What happens meanwhile is Python's: at the first word that not every
 * run says, at the first packet where no network is, Python takes our place, with the same process number, the same
 * descriptors and the supervisor as its child. Until then, and in most runs for ever, there is nothing to do. */
#include "run.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "control.h"
#include "kernel.h"

enum { FIRST_FREE = 10, MOST_SIGNALS = 65 };

static void choose_id(char id[RUN_ID_SIZE + 1]) {
    uint8_t raw[RUN_ID_SIZE / 2];
    if (getrandom(raw, sizeof raw, 0) != (ssize_t)sizeof raw) _exit(EXIT_SETUP_FAILED);
    for (size_t i = 0; i < sizeof raw; i++) snprintf(id + 2 * i, 3, "%02x", raw[i]);
}

/* The caller's, and what Python would have set in its own environment. */
static char **entries_of(const struct stored *stored) {
    size_t count = 0;
    uint32_t at = 0;
    struct cursor rest = stored->records, payload;
    while (environ[count]) count++;
    char **entries = malloc((count + stored->numbers[STORED_VARIABLE] + 1) * sizeof *entries);
    if (!entries) return NULL;
    memcpy(entries, environ, count * sizeof *entries);
    while (stored_next(stored, &rest, &at, STORED_VARIABLE, &payload))
        entries[count++] = (char *)(uintptr_t)cursor_string(&payload);
    entries[count] = NULL;
    return entries;
}

/* Everything that the launch needs, in memory of its own. */
static bool compose(struct run *run) {
    static char shell[] = "/bin/sh", option[] = "-c";
    char *lined[] = {shell, option, run->request->line ? run->request->argv[run->request->line_at] : NULL, NULL};
    char *place = NULL, **entries = entries_of(run->stored);
    struct problem ignored;
    struct bytes spec = {0};
    struct stat here;
    const char *why = NULL;
    struct launch *launch = &run->launch;
    char **words = run->request->words ? run->request->words : lined;
    bool is_composed = entries && plan_compose(&run->stored->plan, words, run->stored->cwd, entries, &spec) == 0;
    free(entries);
    if (is_composed) copies_add(run, &spec);
    if (!is_composed || spec.bad || spec_decode(&launch->spec, spec.at, spec.size, &why)) return false;
    if (plan_check_place(&run->stored->plan, &launch->spec, &ignored)) return false;
    if (stat(run->stored->cwd, &here) < 0) return false;
    launch->spec.count[RECORD_AWAIT] = 1; /* the sandbox is made while we look whether it is the right one */
    launch->must_be_here = true;
    launch->here_device = (uint64_t)here.st_dev;
    launch->here_inode = (uint64_t)here.st_ino;
    if (!launch->spec.quarantine || !*launch->spec.quarantine) return true;
    if (asprintf(&place, "%s/%s", launch->spec.quarantine, run->id) < 0) return false;
    launch->spec.quarantine = place;
    return true;
}

static int out_of_the_way(int fd) {
    int higher = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, FIRST_FREE);
    if (fd >= 0) close(fd);
    return higher;
}

/* The supervisor's process: from here on it is a launch like any other. It holds nothing of ours. */
static int supervise(struct run *run, const int given[5]) {
    static const int PLACES[5] = {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO, STATUS_FD, LIFELINE_FD};
    setsid();
    for (int i = 0; i < 5; i++)
        if (given[i] != PLACES[i] && dup2(given[i], PLACES[i]) < 0) return EXIT_SETUP_FAILED;
    close(SPEC_FD);
    if (k_close_range(FIRST_FOREIGN_FD, 0)) return EXIT_SETUP_FAILED;
    /* PID 1 inside is a descendant: what it must not know of the caller is wiped from this copy of our memory. */
    for (char **entry = environ; *entry; entry++) memset(*entry, 0, strlen(*entry));
    for (char **word = run->request->argv + 1; *word; word++) memset(*word, 0, strlen(*word));
    return launch_run(&run->launch);
}

static bool start(struct run *run, int given[5]) {
    int status[2], lifeline[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, status) < 0) return false;
    for (int i = 0; i < 2; i++) status[i] = out_of_the_way(status[i]);
    if (pipe2(lifeline, O_CLOEXEC) < 0) return false;
    for (int i = 0; i < 2; i++) lifeline[i] = out_of_the_way(lifeline[i]);
    if (status[0] < 0 || status[1] < 0 || lifeline[0] < 0 || lifeline[1] < 0) return false;
    given[3] = status[1];
    given[4] = lifeline[0];
    clock_gettime(CLOCK_REALTIME, &run->began);
    run->supervisor = k_clone(SIGCHLD);
    if (run->supervisor == 0) _exit(supervise(run, given));
    for (int i = 0; i < 5; i++)
        if (given[i] > STDERR_FILENO) close(given[i]);
    run->status = status[0];
    run->lifeline = lifeline[1];
    return run->supervisor > 0 && fcntl(run->status, F_SETFL, O_NONBLOCK) == 0;
}

/* A message, with the descriptors that came along. False: there is none now, or there will be none. */
static bool receive(struct run *run) {
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(sizeof(int) * MOST_SOCKETS_GIVEN)];
    } ancillary;
    struct iovec data = {.iov_base = run->said + run->said_size, .iov_len = MOST_STATUS - run->said_size};
    struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1, .msg_control = ancillary.room,
                             .msg_controllen = sizeof ancillary.room};
    ssize_t got = data.iov_len ? recvmsg(run->status, &message, MSG_CMSG_CLOEXEC) : 0;
    if (got < 0 && errno == EINTR) return true;
    if (got <= 0) run->is_at_end |= got == 0 || errno != EAGAIN;
    if (got <= 0) return false;
    run->said_size += (size_t)got;
    for (struct cmsghdr *h = CMSG_FIRSTHDR(&message); h; h = CMSG_NXTHDR(&message, h)) {
        if (h->cmsg_level != SOL_SOCKET || h->cmsg_type != SCM_RIGHTS) continue;
        int count = (int)((h->cmsg_len - CMSG_LEN(0)) / sizeof(int)), found[MOST_SOCKETS_GIVEN];
        memcpy(found, CMSG_DATA(h), (size_t)count * sizeof(int));
        /* What comes with descriptors is the last of a piece, as src/corral/runtime/status.py takes it. */
        bool is_areas = got >= 6 && memcmp(run->said + run->said_size - 6, "areas\n", 6) == 0;
        for (int i = 0; i < count; i++) {
            int fd = out_of_the_way(found[i]);
            if (is_areas && run->areas < 0) run->areas = fd;
            else if (run->given_count < MOST_SOCKETS_GIVEN) run->given[run->given_count++] = fd;
        }
    }
    return true;
}

/* Those that are passed on wait to be read; others do to us what they do to any program. */
static bool take_signals(struct run *run) {
    struct sigaction standard = {.sa_handler = SIG_DFL};
    sigprocmask(SIG_SETMASK, NULL, &run->mask);
    sigset_t held = run->mask;
    for (int number = 1; number < MOST_SIGNALS; number++)
        if (number == SIGCHLD || signals_may_pass(number)) sigaddset(&held, number);
    if (sigaction(SIGCHLD, &standard, &run->of_children) < 0 || sigprocmask(SIG_SETMASK, &held, NULL) < 0) return false;
    run->signals = out_of_the_way(signals_open(false));
    return run->signals >= 0;
}

void give_signals_back(struct run *run) {
    sigaction(SIGCHLD, &run->of_children, NULL);
    sigprocmask(SIG_SETMASK, &run->mask, NULL);
}

static bool has_started(const struct run *run) { return memmem(run->said, run->said_size, "started\n", 8) != NULL; }

static void pass_on(struct run *run, int number) {
    kill(run->supervisor, number);
    if (number == SIGTSTP) kill(getpid(), SIGSTOP); /* Ctrl-Z: the command stops, then we; `fg` lets both go on */
}

/* What came while the sandbox was made: to the command, as soon as that is there. */
static void pass_early(struct run *run) {
    for (int number = 1; has_started(run) && number < MOST_SIGNALS; number++)
        if (sigismember(&run->early, number) == 1 && sigdelset(&run->early, number) == 0) pass_on(run, number);
}

/* Whoever does the run instead of us gets them, as if they came now. */
void send_early_again(const struct run *run) {
    for (int number = 1; number < MOST_SIGNALS; number++)
        if (sigismember(&run->early, number) == 1) kill(getpid(), number);
}

static void on_signals(struct run *run) {
    int number = 0;
    while ((number = signals_next(run->signals)) > 0) {
        if (number == SIGCHLD) {
            siginfo_t info = {0};
            /* It is left to be waited for: by Python, perhaps. */
            if (waitid(P_PID, (id_t)run->supervisor, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid) run->is_ended = true;
            continue;
        }
        struct sigaction action;
        if (sigaction(number, NULL, &action) == 0 && action.sa_handler == SIG_IGN) continue; /* as under nohup */
        /* It would end a sandbox that is half made, as if that were broken. The second time it may. */
        if (has_started(run) || sigismember(&run->early, number) == 1) pass_on(run, number);
        else sigaddset(&run->early, number);
    }
}

/* INVARIANT: it returns when the supervisor, and so everyone inside, is gone, and nothing was out of the ordinary. */
static void watch(struct run *run) {
    const struct relay none = {.source = -1};
    struct relay *streams = run->relays.streams;
    bool is_used = run->relays.is_used;
    while (!run->is_ended || !run->is_at_end) {
        struct pollfd fds[4 + MOST_SOCKETS_GIVEN] = {
            {.fd = run->signals, .events = POLLIN},
            {.fd = run->is_at_end ? -1 : run->status, .events = POLLIN},
            relay_waits_for(is_used ? &streams[0] : &none),
            relay_waits_for(is_used ? &streams[1] : &none),
        };
        for (int i = 0; i < run->given_count; i++) fds[4 + i] = (struct pollfd){.fd = run->given[i], .events = POLLIN};
        if (poll(fds, 4 + (nfds_t)run->given_count, -1) < 0 && errno != EINTR) continue_in_python(run);
        if (fds[0].revents) on_signals(run);
        int asked = run->given_count;
        bool is_asked = false;
        if (fds[1].revents) while (receive(run)) continue;
        pass_early(run);
        for (int i = 0; i < asked; i++) is_asked |= fds[4 + i].revents != 0;
        /* ORDER: before what is printed is carried on: what corral says of a refusal comes before the command's own words. */
        if (is_asked || run->said_size == MOST_STATUS || !is_plain_so_far(run)) continue_in_python(run);
        if ((fds[2].revents || fds[3].revents) && !streams_have_room(run)) continue_in_python(run);
        look_early(run);
        for (int i = 0; i < STREAMS; i++)
            if (fds[2 + i].revents) relay_carry(&run->relays, &streams[i]);
    }
}

/* Whether to stop waiting for a reader who does not take the last of the output: somebody wants us to end. */
static bool is_enough(void *context, int64_t idle_ms) {
    struct run *run = context;
    (void)idle_ms;
    for (int number = 0; (number = signals_next(run->signals)) > 0;)
        if (number == SIGHUP || number == SIGINT || number == SIGQUIT || number == SIGTERM) return true;
    return false;
}

/* Nothing ran: Python does it from the beginning, and says what is wrong, if anything is. */
static bool has_failed(const struct run *run) {
    return memmem(run->said, run->said_size, "failed ", 7) && !has_started(run);
}

/* What the run needs is made. */
static bool prepare(struct run *run, int given[5]) {
    struct stat workspace;
    const struct stored *stored = run->stored;
    for (int i = 0; i < STREAMS; i++)
        run->relays.streams[i].tail = run->tails[i], run->relays.streams[i].tail_room = sizeof run->tails[i];
    /* Whose workspace is somebody else's, is told so by Python. */
    if (stat(stored->workspace, &workspace) < 0 || (workspace.st_uid != 0 && workspace.st_uid != geteuid())) return false;
    choose_id(run->id);
    return copies_make(run) && compose(run) && streams_prepare(run, given) && take_signals(run);
}

/* INVARIANT: no command starts before this has found everything as the plan has it, and has said so on the lifeline. */
static bool let_begin(struct run *run) {
    struct problem ignored;
    const struct stored *stored = run->stored;
    bool is_wanted = !plan_check(&stored->plan, &ignored) && trees_are_clean(run, false) && mark_set(run);
    if (is_wanted && tell_to_begin(run->lifeline)) return true;
    close(run->lifeline); /* nothing has run, and nothing will */
    run->lifeline = -1;
    return false;
}

static void clean_up(struct run *run) {
    copies_remove(run);
    mark_remove(run);
}

int run_stored(const struct request *request, struct stored *stored) {
    static struct run run; /* large: not on the stack, and most of it untouched */
    int given[5] = {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO, -1, -1}, exit_code = 0;
    run.request = request;
    run.stored = stored;
    run.areas = run.copies = run.mark = run.lifeline = run.status = run.signals = run.live = run.live_place = -1;
    run.launch = (struct launch){.child = -1, .setup_fd = -1, .channel_fd = -1, .kill_fd = -1, .cpu_fd = -1,
                                 .areas_fd = -1, .ruleset_fd = -1, .listen_fd = -1, .listen_other_fd = -1};
    bool is_started = prepare(&run, given) && start(&run, given) && let_begin(&run);
    if (is_started) live_begin(&run);
    if (is_started) watch(&run);
    if (!is_started || has_failed(&run)) {
        if (run.supervisor > 0) waitpid(run.supervisor, NULL, 0);
        live_leave(&run);
        clean_up(&run); /* ORDER: a signal that waits may end us */
        send_early_again(&run);
        if (run.signals >= 0) give_signals_back(&run);
        return -1;
    }
    if (!streams_have_room(&run)) continue_in_python(&run);
    relays_finish(&run.relays, is_enough, &run);
    if (relays_error(&run.relays) || !is_quiet(&run, &exit_code)) continue_in_python(&run);
    waitpid(run.supervisor, NULL, 0);
    live_end(&run, exit_code);
    clean_up(&run);
    return exit_code;
}
