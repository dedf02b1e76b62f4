/* Reading a compiled plan.
 *
 * TRUST: a plan says what a command may do, so whoever can write one can have a command run without any sandbox. The
 * file must be the caller's own or root's, nobody else may write to it, and it is opened without following a link. A
 * command inside a sandbox has the caller's user id as well: that is why `corral compile` writes no plan to where a
 * command may write. The sum in the header finds accidents, not forgery. */
#include "plan.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const uint8_t MAGIC[8] = {'C', 'O', 'R', 'P', 'L', 'A', 'N', 1};
static const char UNUSABLE[] = "the plan cannot be used";
static const char COMPILE[] = "write it again with `corral compile`";

int problem_set(struct problem *problem, const char *what, const char *fix, const char *why, ...) {
    va_list arguments;
    snprintf(problem->what, sizeof problem->what, "%s", what);
    va_start(arguments, why);
    if (vsnprintf(problem->why, sizeof problem->why, why, arguments) < 0) problem->why[0] = 0;
    va_end(arguments);
    problem->fix = fix;
    return -1;
}

/* FNV-1a with 64 bits: every step is a bijection, so a change of one byte is always seen. */
static uint64_t sum_of(const uint8_t *bytes, size_t size) {
    uint64_t sum = 0xcbf29ce484222325u;
    for (size_t i = 0; i < size; i++) sum = (sum ^ bytes[i]) * 0x100000001b3u;
    return sum;
}

bool plan_next(struct cursor *records, uint32_t *type, struct cursor *payload) {
    *type = cursor_u32(records);
    uint32_t length = cursor_u32(records);
    *payload = (struct cursor){.at = cursor_take(records, length), .left = length};
    return !records->bad;
}

static bool is_assignment(const char *text) { return text[0] && text[0] != '=' && strchr(text, '='); }

/* Reads a payload to its last byte, so that nobody after this has to ask whether a field was there. */
static const char *check_record(uint32_t type, struct cursor c) {
    static const struct { uint8_t u32, u64, strings; } SHAPES[PLAN_TYPES] = {
        [PLAN_HOST] = {2, 0, 3},  [PLAN_OBJECT] = {3, 2, 1}, [PLAN_FAILS] = {2, 0, 1},   [PLAN_LINK] = {0, 0, 2},
        [PLAN_STAMP] = {0, 5, 1}, [PLAN_SILENT] = {0, 0, 1}, [PLAN_PASS] = {0, 0, 1},    [PLAN_DEFAULT] = {0, 0, 1},
        [PLAN_SET] = {0, 0, 1},   [PLAN_OUTPUT] = {0, 1, 0}, [PLAN_NOTE] = {0, 0, 1},
        [PLAN_TEXT] = {0, 0, 2},  [PLAN_MOUNTS] = {0, 0, 3},
    };
    if (type == 0 || type >= PLAN_TYPES) return "a record of an unknown type";
    if (type == PLAN_SPEC) return c.left < 4 ? "a record is shorter than its fields" : NULL;
    const char *last = "";
    struct cursor first = c;
    if (type == PLAN_OBJECT && cursor_u32(&first) >= OBJECT_KINDS) return "an object of an unknown kind";
    for (int i = 0; i < SHAPES[type].u32; i++) (void)cursor_u32(&c);
    for (int i = 0; i < SHAPES[type].u64; i++) (void)cursor_u64(&c);
    for (int i = 0; i < SHAPES[type].strings; i++) last = cursor_string(&c);
    if (c.bad) return "a record is shorter than its fields";
    if (c.left) return "a record is longer than its fields";
    if ((type == PLAN_DEFAULT || type == PLAN_SET) && !is_assignment(last)) return "a variable is not NAME=VALUE";
    return NULL;
}

static const char *keep(struct plan *plan, uint32_t type, struct cursor payload) {
    struct cursor *once = type == PLAN_HOST ? &plan->host : type == PLAN_SPEC ? &plan->spec : NULL;
    if ((once && once->at) || (type == PLAN_OUTPUT && plan->has_output_limit)) return "a record occurs again";
    if (once) *once = payload;
    if (type != PLAN_OUTPUT) return NULL;
    plan->has_output_limit = true;
    plan->output_limit = cursor_u64(&payload);
    return NULL;
}

static const char *read_records(struct plan *plan) {
    struct cursor rest = plan->records;
    for (uint32_t i = 0; i < plan->count; i++) {
        uint32_t type = 0;
        struct cursor payload;
        if (!plan_next(&rest, &type, &payload)) return "a record ends after the plan";
        const char *why = check_record(type, payload);
        if (!why) why = keep(plan, type, payload);
        if (why) return why;
    }
    if (rest.left) return "bytes after the last record";
    return plan->host.at && plan->spec.at ? NULL : "it is not whole";
}

int plan_decode(struct plan *plan, uint8_t *bytes, size_t size, const char **why) {
    struct cursor c = {.at = bytes, .left = size};
    const uint8_t *magic = cursor_take(&c, sizeof MAGIC);
    uint32_t total = cursor_u32(&c), count = cursor_u32(&c);
    uint64_t sum = cursor_u64(&c);
    *plan = (struct plan){.bytes = bytes, .records = c, .count = count};
    *why = NULL;
    if (c.bad || !magic) *why = "it is shorter than its header";
    else if (memcmp(magic, MAGIC, sizeof MAGIC - 1) != 0) *why = "it is not a plan";
    else if (magic[7] != MAGIC[7]) *why = "another version of corral has written it";
    else if (total != size) *why = "it is not whole";
    else if (sum != (sum_of(c.at, c.left) ^ count)) *why = "it is damaged";
    else *why = read_records(plan);
    return *why ? -1 : 0;
}

void plan_free(struct plan *plan) {
    free(plan->bytes);
    *plan = (struct plan){0};
}

static int check_file(int fd, const char *path, size_t *size, struct problem *problem) {
    struct stat status;
    const char *again = "put it where only you can write, and compile it there";
    if (fstat(fd, &status) < 0) return problem_set(problem, UNUSABLE, COMPILE, "%s: %s", path, strerror(errno));
    if (!S_ISREG(status.st_mode)) return problem_set(problem, UNUSABLE, COMPILE, "%s is not a file", path);
    if (status.st_uid != geteuid() && status.st_uid != 0)
        return problem_set(problem, UNUSABLE, again, "%s belongs to user %u", path, (unsigned)status.st_uid);
    if (status.st_mode & (S_IWGRP | S_IWOTH))
        return problem_set(problem, UNUSABLE, "chmod go-w it, if nobody else has written to it; otherwise compile it again",
                           "others may write to %s", path);
    if (status.st_size > PLAN_MAX_BYTES) return problem_set(problem, UNUSABLE, COMPILE, "%s is too long", path);
    *size = (size_t)status.st_size;
    return 0;
}

/* One more byte than it should have is asked for, so that a file that grows meanwhile is seen. */
static int read_whole(int fd, uint8_t *bytes, size_t room, size_t *got) {
    for (*got = 0; *got < room;) {
        ssize_t more = read(fd, bytes + *got, room - *got);
        if (more < 0 && errno == EINTR) continue;
        if (more < 0) return -errno;
        if (more == 0) break;
        *got += (size_t)more;
    }
    return 0;
}

/* Where the descriptor leads to, by no link; empty if the kernel does not tell. */
static void find_place(int fd, char place[PATH_MAX]) {
    char link[32];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, place, PATH_MAX - 1);
    place[length < 0 ? 0 : length] = 0;
}

static bool is_beneath(const char *path, const char *root) {
    size_t length = strlen(root);
    if (length == 1) return true;
    return strncmp(path, root, length) == 0 && (path[length] == '/' || path[length] == 0);
}

/* A plan that was carried to where its own commands may write must not be used once: the next time it may be another. */
int plan_check_place(const struct plan *plan, const struct spec *spec, struct problem *problem) {
    const char *root = plan->place[0] ? NULL : "an unknown place";
    for (size_t i = 0; i < spec->count[RECORD_MOUNT]; i++) {
        const struct mount_record *m = &spec->mounts[i];
        bool is_open = m->kind == MOUNT_BIND && !(m->flags & (MOUNT_READ_ONLY | MOUNT_DEVICES));
        if (is_open && is_beneath(plan->place, m->source)) root = m->source;
    }
    for (size_t i = 0; !spec->namespaces && i < spec->count[RECORD_LANDLOCK_PATH]; i++) {
        const struct path_rule *rule = &spec->paths[i];
        if (rule->rights & K_LANDLOCK_FS_WRITE_FILE && is_beneath(plan->place, rule->path)) root = rule->path;
    }
    if (!root) return 0;
    return problem_set(problem, UNUSABLE, "keep it in a directory that no command gets", "it is in %s, where a command "
                       "may write", root);
}

int plan_open(struct plan *plan, const char *path, struct problem *problem) {
    size_t size = 0, got = 0;
    const char *why = NULL;
    *plan = (struct plan){0};
    int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0)
        return problem_set(problem, UNUSABLE, "name a file that `corral compile` has written", "%s: %s", path,
                           errno == ELOOP ? "it is a symbolic link" : strerror(errno));
    int err = check_file(fd, path, &size, problem);
    char place[PATH_MAX];
    uint8_t *bytes = err ? NULL : malloc(size + 1);
    find_place(fd, place);
    if (!err && (!bytes || read_whole(fd, bytes, size + 1, &got)))
        err = problem_set(problem, UNUSABLE, COMPILE, "%s cannot be read", path);
    close(fd);
    if (err) {
        free(bytes);
        return err;
    }
    if (plan_decode(plan, bytes, got, &why)) return problem_set(problem, UNUSABLE, COMPILE, "%s: %s", path, why);
    memcpy(plan->place, place, sizeof place);
    return 0;
}
