/* Ask a named session for a command, and wait. The command is a child of the session's sandbox and has our descriptors: there
 * is nothing to do but to pass signals on. */
#include "session.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum { STDIO = 3, MOST_ANSWER = 128 };

/* As src/corral/cli/run.py: passed_on has them; Ctrl-Z is another matter. */
static const int PASSED_ON[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGWINCH, SIGCONT};

static bool has_stdio(void) {
    struct stat status;
    for (int fd = 0; fd < STDIO; fd++)
        if (fstat(fd, &status) < 0 || (fd == STDIN_FILENO && S_ISDIR(status.st_mode))) return false;
    return true;
}

/* TRUST: the kernel says whose socket it is: the process's that the record names, and the caller's own user's. */
static int connect_to(const struct named_session *session) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct ucred peer;
    socklen_t size = sizeof peer;
    int length = snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d/%s.sock", session->place, session->name);
    if (length < 0 || (size_t)length >= sizeof address.sun_path) return -1;
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (fd < 0) return -1;
    if (connect(fd, (struct sockaddr *)&address, sizeof address) == 0 && getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
        peer.uid == geteuid() && peer.pid == session->pid)
        return fd;
    close(fd);
    return -1;
}

static bool ask(int connection, const struct bytes *packet) {
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(sizeof(int) * STDIO)];
    } ancillary;
    const int streams[STDIO] = {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO};
    struct iovec data = {.iov_base = packet->at, .iov_len = packet->size};
    struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1, .msg_control = ancillary.room, .msg_controllen = sizeof ancillary.room};
    memset(&ancillary, 0, sizeof ancillary);
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof streams);
    memcpy(CMSG_DATA(header), streams, sizeof streams);
    return sendmsg(connection, &message, MSG_NOSIGNAL) == (ssize_t)packet->size;
}

/* Those that the caller has us ignore, as under nohup, or has blocked, are not passed on. */
static int hold_signals(sigset_t *before) {
    struct sigaction action;
    sigset_t held;
    sigemptyset(&held);
    sigprocmask(SIG_SETMASK, NULL, before);
    for (size_t i = 0; i < sizeof PASSED_ON / sizeof *PASSED_ON; i++)
        if (sigaction(PASSED_ON[i], NULL, &action) == 0 && action.sa_handler != SIG_IGN) sigaddset(&held, PASSED_ON[i]);
    sigaddset(&held, SIGTSTP);
    for (int number = 1; number < 65; number++)
        if (sigismember(before, number) == 1) sigdelset(&held, number);
    int fd = signalfd(-1, &held, SFD_CLOEXEC | SFD_NONBLOCK);
    if (fd >= 0) sigprocmask(SIG_BLOCK, &held, NULL);
    return fd;
}

static void tell(int connection, int number) {
    char packet[64];
    int size = snprintf(packet, sizeof packet, "j{\"op\": \"signal\", \"number\": %d}", number);
    if (send(connection, packet, (size_t)size, MSG_NOSIGNAL) < 0) return; /* its end says the rest */
}

static void pass_on(int connection, int signals) {
    struct signalfd_siginfo info;
    while (read(signals, &info, sizeof info) == (ssize_t)sizeof info) {
        tell(connection, (int)info.ssi_signo);
        if (info.ssi_signo != SIGTSTP) continue;
        kill(getpid(), SIGSTOP); /* the command stops, then we; `fg` lets both go on */
        tell(connection, SIGCONT);
    }
}

/* The one answer that leaves nothing to tell; looked at, and not taken. -1: it is another, and Python's to read. */
static int read_answer(int connection) {
    static const char BEFORE[] = "j{\"is\": \"done\", \"exit_status\": ", AFTER[] = ", \"lines\": []}";
    char answer[MOST_ANSWER + 1], *end = NULL;
    struct iovec data = {.iov_base = answer, .iov_len = MOST_ANSWER};
    struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1};
    ssize_t size = recvmsg(connection, &message, MSG_PEEK | MSG_CMSG_CLOEXEC);
    if (size <= 0 || message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) return -1;
    answer[size] = 0;
    if (strlen(answer) != (size_t)size || strncmp(answer, BEFORE, sizeof BEFORE - 1) != 0) return -1;
    char *digits = answer + sizeof BEFORE - 1;
    if (*digits < '0' || *digits > '9') return -1;
    long status = strtol(digits, &end, 10);
    return status >= 0 && status <= 255 && strcmp(end, AFTER) == 0 ? (int)status : -1;
}

static int wait_for_answer(int connection, int signals) {
    struct pollfd fds[] = {{.fd = connection, .events = POLLIN}, {.fd = signals, .events = POLLIN}};
    while (poll(fds, 2, -1) < 0 || !fds[0].revents)
        if (fds[1].revents) pass_on(connection, signals);
    return read_answer(connection);
}

/* Python takes our place. Signals stay blocked: the command is over, and nobody is there to be given one. */
static _Noreturn void hand_answer(const struct execution *e, struct named_session *session, int connection) {
    char number[16], *argv[] = {e->argv[0], "_answered", number, session->name, NULL};
    snprintf(number, sizeof number, "%d", connection);
    fcntl(connection, F_SETFD, 0);
    hand_to_python(argv);
}

int session_exec(const struct execution *e) {
    struct named_session session = {.place = -1};
    struct bytes packet = {0};
    sigset_t before;
    char here[PATH_MAX];
    if (getuid() != geteuid() || getgid() != getegid() || getauxval(AT_SECURE) || !has_stdio()) return -1;
    if (!getcwd(here, sizeof here) || here[0] != '/' || !session_find(&session, e->name, here)) return -1;
    if (!execution_encode(e, &session, here, &packet)) return -1;
    int connection = connect_to(&session), signals = connection < 0 ? -1 : hold_signals(&before);
    if (signals < 0 || !ask(connection, &packet)) {
        if (signals >= 0) sigprocmask(SIG_SETMASK, &before, NULL);
        return -1; /* whoever is asked no more is left in peace: the connection ends when Python takes our place */
    }
    int status = wait_for_answer(connection, signals);
    if (status < 0) hand_answer(e, &session, connection);
    return status;
}
