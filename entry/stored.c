/* Where stored plans are, and what is believed of them.
 *
 * TRUST: a stored plan decides what is enforced. The home directory comes from the password database, no variable has a
 * say; no component of the way is a link, or can be changed by anybody but root and the caller; and what the plan says
 * about its own place is not asked. Commands have the caller's user id, but no policy grants the state directory. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "entry.h"

static const char MAGIC[8] = {'C', 'O', 'R', 'E', 'N', 'T', 'R', 1};
enum { HEADER_SIZE = 20 + KEY_SIZE, MOST_BYTES = 16 * 1024 * 1024 };

/* By hand, since a static program cannot ask name services. A user who is only known to those has no stored plans. */
bool find_home(uid_t uid, char *home, size_t size) {
    FILE *file = fopen("/etc/passwd", "re");
    char *line = NULL;
    size_t room = 0;
    bool is_found = false;
    while (file && !is_found && getline(&line, &room, file) > 0) {
        char *field = line, *end = NULL;
        for (int i = 0; i < 2 && field; i++) field = strchr(field, ':') ? strchr(field, ':') + 1 : NULL;
        if (!field || *field < '0' || *field > '9' || strtoul(field, &end, 10) != uid || *end != ':') continue;
        for (int i = 0; i < 3 && field; i++) field = strchr(field, ':') ? strchr(field, ':') + 1 : NULL;
        if (!field) continue;
        size_t length = strcspn(field, ":\n");
        is_found = field[0] == '/' && length > 1 && length < size;
        if (is_found) memcpy(home, field, length), home[length] = 0;
        break; /* the first entry of a user counts, as it does for getpwuid(3) */
    }
    free(line);
    if (file) fclose(file);
    return is_found;
}

static bool is_trusted(int fd, bool is_directory) {
    struct stat status;
    if (fstat(fd, &status) < 0 || (status.st_uid != geteuid() && status.st_uid != 0)) return false;
    if (is_directory ? !S_ISDIR(status.st_mode) : !S_ISREG(status.st_mode)) return false;
    /* In a directory of root's with a sticky bit nobody replaces what is the caller's, such as /tmp. */
    bool is_sticky = is_directory && status.st_uid == 0 && status.st_mode & S_ISVTX;
    return is_sticky || !(status.st_mode & (S_IWGRP | S_IWOTH));
}

int open_trusted(const char *path) {
    char name[NAME_MAX + 1];
    int at = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    while (at >= 0 && *path) {
        size_t slashes = strspn(path, "/"), length = strcspn(path + slashes, "/");
        path += slashes;
        if (!length) break;
        if (!is_trusted(at, true) || length > NAME_MAX || (length <= 2 && memcmp(path, "..", length) == 0)) return close(at), -1;
        memcpy(name, path, length);
        name[length] = 0;
        path += length;
        int next = openat(at, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        close(at);
        at = next;
    }
    if (at >= 0 && !is_trusted(at, true)) return close(at), -1;
    return at;
}

int stored_directory(void) {
    char path[PATH_MAX];
    if (!find_home(geteuid(), path, sizeof path - sizeof "/.local/state/corral/stored")) return -1;
    strcat(path, "/.local/state/corral/stored");
    return open_trusted(path);
}

void write_hex(const uint8_t key[KEY_SIZE], char name[2 * KEY_SIZE + 1]) {
    for (int i = 0; i < KEY_SIZE; i++) snprintf(name + 2 * i, 3, "%02x", key[i]);
}

static int open_file(const uint8_t key[KEY_SIZE]) {
    char name[2 * KEY_SIZE + 1];
    struct stat status;
    int directory = stored_directory();
    if (directory < 0) return -1;
    write_hex(key, name);
    int fd = openat(directory, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    close(directory);
    if (fd < 0) return -1;
    bool is_fine = is_trusted(fd, false) && fstat(fd, &status) == 0 && status.st_nlink == 1 && status.st_uid == geteuid();
    return is_fine ? fd : (close(fd), -1);
}

static bool read_exactly(int fd, uint8_t *bytes, size_t size, off_t at) {
    for (size_t got = 0; got < size;) {
        ssize_t more = pread(fd, bytes + got, size - got, at + (off_t)got);
        if (more < 0 && errno == EINTR) continue;
        if (more <= 0) return false;
        got += (size_t)more;
    }
    return true;
}

/* Each field is there, and nothing behind the last: nobody has to ask later. */
static bool check_record(struct stored *stored, uint32_t type, struct cursor c) {
    static const struct { uint8_t u32, u64, bytes, strings; } SHAPES[STORED_TYPES] = {
        [STORED_CWD] = {0, 0, 0, 1},      [STORED_WORKSPACE] = {0, 0, 0, 1}, [STORED_HOME] = {0, 0, 0, 1},
        [STORED_VARIABLE] = {0, 0, 0, 1}, [STORED_AREA] = {1, 0, 0, 1},      [STORED_OWN] = {0, 0, 1, 1},
        [STORED_ROOT] = {0, 0, 0, 1},     [STORED_WORKTREE] = {0, 0, 1, 1}, 
        [STORED_COPY] = {0, 2, 0, 3},     [STORED_COPIES] = {0, 0, 0, 1},    [STORED_MARK] = {0, 0, 1, 1},
        [STORED_LIVE] = {0, 0, 0, 1},     [STORED_FACT] = {0, 0, 0, 2},
    };
    if (type == 0 || type >= STORED_TYPES) return false;
    struct cursor whole = c;
    const char *text = "";
    for (int i = 0; i < SHAPES[type].u32; i++) (void)cursor_u32(&c);
    for (int i = 0; i < SHAPES[type].u64; i++) (void)cursor_u64(&c);
    for (int i = 0; i < SHAPES[type].bytes; i++) (void)cursor_take(&c, cursor_u32(&c));
    for (int i = 0; i < SHAPES[type].strings; i++) text = cursor_string(&c);
    if (type == STORED_CWD) stored->cwd = text;
    if (type == STORED_WORKSPACE) stored->workspace = text;
    if (type == STORED_HOME) stored->home = text;
    if (type == STORED_COPIES) stored->copies = text;
    if (type == STORED_MARK) stored->mark = whole, stored->marks = text;
    stored->numbers[type]++;
    return !c.bad && c.left == 0;
}

static bool next_record(struct cursor *rest, uint32_t *type, struct cursor *payload) {
    *type = cursor_u32(rest);
    uint32_t size = cursor_u32(rest);
    const uint8_t *at = cursor_take(rest, size);
    *payload = (struct cursor){.at = at, .left = at ? size : 0, .bad = !at};
    return !rest->bad;
}

bool stored_next(const struct stored *stored, struct cursor *rest, uint32_t *at, uint32_t wanted, struct cursor *payload) {
    uint32_t type = 0;
    for (; *at < stored->count; ) {
        ++*at;
        if (next_record(rest, &type, payload) && type == wanted) return true;
    }
    return false;
}

static bool read_records(struct stored *stored) {
    struct cursor rest = stored->records, payload;
    uint32_t type = 0;
    for (uint32_t i = 0; i < stored->count; i++)
        if (!next_record(&rest, &type, &payload) || !check_record(stored, type, payload)) return false;
    return rest.left == 0 && stored->cwd && stored->workspace && stored->home &&
           (!stored->numbers[STORED_COPY] || stored->copies) && (!stored->numbers[STORED_ROOT] || stored->marks);
}

bool stored_open(struct stored *stored, const uint8_t key[KEY_SIZE]) {
    uint8_t header[HEADER_SIZE];
    const char *why = NULL;
    *stored = (struct stored){.fd = open_file(key)};
    if (stored->fd < 0 || !read_exactly(stored->fd, header, sizeof header, 0)) return false;
    struct cursor c = {.at = header + sizeof MAGIC, .left = sizeof header - sizeof MAGIC};
    uint32_t size = cursor_u32(&c), plan_size = cursor_u32(&c);
    stored->count = cursor_u32(&c);
    /* A file that was copied to another name is for another request. */
    if (memcmp(header + HEADER_SIZE - KEY_SIZE, key, KEY_SIZE) != 0) return false;
    if (memcmp(header, MAGIC, sizeof MAGIC) != 0 || size > MOST_BYTES || plan_size > MOST_BYTES) return false;
    stored->bytes = malloc(size ? size : 1);
    uint8_t *plan = malloc(plan_size ? plan_size : 1); /* which the plan owns from now on */
    if (!stored->bytes || !plan || !read_exactly(stored->fd, stored->bytes, size, HEADER_SIZE)) return false;
    if (!read_exactly(stored->fd, plan, plan_size, HEADER_SIZE + (off_t)size)) return false;
    stored->records = (struct cursor){.at = stored->bytes, .left = size};
    if (!read_records(stored) || plan_decode(&stored->plan, plan, plan_size, &why)) return false;
    char link[32];
    snprintf(link, sizeof link, "/proc/self/fd/%d", stored->fd);
    ssize_t length = readlink(link, stored->plan.place, sizeof stored->plan.place - 1);
    stored->plan.place[length < 0 ? 0 : length] = 0;
    return true;
}
