/* Where named sessions are, as src/corral/host/real.py: control_directories and src/corral/sessions/named/ have it.
 *
 * TRUST: whoever answers there gets the command, its streams and variables, and says how it ended. The home directory comes
 * from the password database; a variable may name that same place, or the runtime directory that root has made for this
 * user, and no other. No component of the way is a link, or can be changed by anybody but root and the caller. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "session.h"

enum { MOST_RECORD = 65536, MOST_PLACES = 2, MOST_DEFAULT = 48, MOST_LEVELS = 64 };

struct places {
    int fds[MOST_PLACES];
    int count;
};

static bool is_own(int fd, mode_t kind) {
    struct stat status;
    return fstat(fd, &status) == 0 && (status.st_mode & S_IFMT) == kind && status.st_uid == geteuid() && !(status.st_mode & 077);
}

/* A place that is not there is none. False: it is there, and is not as it should be. */
static bool add_place(struct places *places, const char *path) {
    struct stat status;
    if (lstat(path, &status) < 0 && errno == ENOENT) return true;
    int fd = open_trusted(path);
    if (fd < 0 || !is_own(fd, S_IFDIR)) return false;
    places->fds[places->count++] = fd;
    return true;
}

static bool open_places(struct places *places) {
    char path[PATH_MAX], own[PATH_MAX];
    struct stat status;
    const char *runtime = getenv("XDG_RUNTIME_DIR"), *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    places->count = 0;
    if (!find_home(geteuid(), own, sizeof own - sizeof "/.local/state/corral/sessions")) return false;
    if (home && home[0] == '/' && strcmp(home, own) != 0) return false;
    snprintf(path, sizeof path, "/run/user/%lu", (unsigned long)geteuid());
    if (runtime && runtime[0] == '/') {
        if (strcmp(runtime, path) != 0) return false;
        bool is_private = lstat(path, &status) == 0 && S_ISDIR(status.st_mode) && status.st_uid == geteuid() && !(status.st_mode & 077);
        strcat(path, "/corral");
        if (is_private && !add_place(places, path)) return false;
    }
    strcat(own, "/.local/state");
    if (state && state[0] == '/' && strcmp(state, own) != 0) return false;
    strcat(own, "/corral/sessions");
    return add_place(places, own);
}

/* What follows `field=`; the last of that name counts. What is written otherwise than as it stands is Python's. */
static bool read_field(const char *record, const char *field, char *value, size_t room) {
    size_t length = strlen(field);
    bool is_found = false;
    for (const char *line = record; line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
        if (strncmp(line, field, length) != 0 || line[length] != '=') continue;
        size_t size = strcspn(line + length + 1, "\n");
        if (size >= room || memchr(line + length + 1, '\\', size)) return false;
        memcpy(value, line + length + 1, size);
        value[size] = 0;
        is_found = true;
    }
    return is_found;
}

enum found { FOUND_NONE, FOUND_RUNNING, FOUND_ODD };

static enum found judge(struct named_session *session, const char *record, const char *name) {
    char value[MOST_NAME + 1], *end = NULL;
    if (!read_field(record, "name", value, sizeof value) || strcmp(value, name) != 0) return FOUND_ODD;
    if (!read_field(record, "state", value, sizeof value) || strcmp(value, "running") != 0) return FOUND_ODD;
    /* The text of commands is checked by whoever sends them: by Python. */
    if (!read_field(record, "check_mode", value, sizeof value) || strcmp(value, "off") != 0) return FOUND_ODD;
    if (!read_field(record, "pid", value, sizeof value)) return FOUND_ODD;
    session->pid = strtol(value, &end, 10);
    if (session->pid <= 0 || *end) return FOUND_ODD;
    if (!read_field(record, "token", session->token, sizeof session->token)) return FOUND_ODD;
    if (!session->token[0] || session->token[strspn(session->token, "0123456789abcdef")]) return FOUND_ODD;
    snprintf(session->name, sizeof session->name, "%s", name);
    return FOUND_RUNNING;
}

static enum found look(struct named_session *session, int place, const char *name) {
    static char record[MOST_RECORD + 1];
    char file[MOST_NAME + sizeof ".session"];
    struct stat status;
    snprintf(file, sizeof file, "%s.session", name);
    int fd = openat(place, file, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0) return errno == ENOENT ? FOUND_NONE : FOUND_ODD;
    bool is_fine = is_own(fd, S_IFREG) && fstat(fd, &status) == 0 && status.st_size <= MOST_RECORD;
    ssize_t size = is_fine ? read(fd, record, MOST_RECORD) : -1;
    close(fd);
    if (size < 0 || memchr(record, 0, (size_t)size)) return FOUND_ODD;
    record[size] = 0;
    session->place = place;
    return judge(session, record, name);
}

static bool is_letter(char letter) {
    return (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') || (letter >= '0' && letter <= '9') ||
           (letter && strchr("._-", letter));
}

static bool is_name(const char *name) {
    size_t length = strlen(name);
    if (length == 0 || length > MOST_NAME || name[0] == '.' || name[0] == '-') return false;
    for (; *name; name++)
        if (!is_letter(*name)) return false;
    return true;
}

static uint32_t crc32(const char *bytes, size_t size) {
    uint32_t sum = UINT32_MAX;
    for (size_t i = 0; i < size; i++) {
        sum ^= (uint8_t)bytes[i];
        for (int bit = 0; bit < 8; bit++) sum = sum >> 1 ^ (sum & 1 ? 0xedb88320u : 0);
    }
    return ~sum;
}

/* As default_name has it, for a path of plain letters. */
static void name_of(const char *workspace, size_t size, char name[MOST_NAME + 1]) {
    size_t begin = size, length = 0;
    while (begin > 0 && workspace[begin - 1] != '/') begin--;
    char plain[NAME_MAX + 1], *start = plain;
    for (size_t i = begin; i < size && length < NAME_MAX; i++) plain[length++] = is_letter(workspace[i]) ? workspace[i] : '-';
    plain[length] = 0;
    start += strspn(start, ".-");
    snprintf(name, MOST_NAME + 1, "%.*s-%08x", MOST_DEFAULT, *start ? start : "workspace", crc32(workspace, size));
}

static enum found look_everywhere(struct named_session *session, const struct places *places, const char *name) {
    for (int i = 0; i < places->count; i++) {
        enum found found = look(session, places->fds[i], name);
        if (found != FOUND_NONE) return found; /* if it is over, another place may have one that is not: Python knows */
    }
    return FOUND_NONE;
}

bool session_find(struct named_session *session, const char *name, const char *here) {
    struct places places;
    char own[MOST_NAME + 1];
    enum found found = FOUND_NONE;
    if (name && !is_name(name)) return false;
    if (!open_places(&places)) return false;
    if (name) return look_everywhere(session, &places, name) == FOUND_RUNNING;
    for (const char *at = here; *at; at++)
        if ((unsigned char)*at >= 0x80) return false; /* letters are counted by Python */
    size_t size = strlen(here);
    for (int i = 0; i < MOST_LEVELS && found == FOUND_NONE; i++) {
        name_of(here, size, own);
        found = look_everywhere(session, &places, own);
        if (size <= 1) break;
        while (size > 1 && here[size - 1] != '/') size--;
        if (size > 1) size--; /* `/` is the last */
    }
    return found == FOUND_RUNNING;
}
