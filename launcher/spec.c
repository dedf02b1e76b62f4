/* Decoding the spec: header, records, and the rules that hold between records.
 *
 * TRUST: the bytes come from corral, not from the command, but a decoder that guesses is how a sandbox
 * ends up wider than its policy. Whatever is not understood to the last byte is refused here, before
 * anything has been done. */
#include "spec.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cursor.h"
#include "kernel.h"
#include "records.h"

static const uint8_t MAGIC[8] = {'C', 'O', 'R', 'R', 'A', 'L', 0, 1};

/* Calls `visit` for each record; `why` is set when the framing or a record is malformed. */
typedef const char *(*visitor)(struct spec *, uint32_t type, struct cursor payload);

static const char *each_record(struct spec *spec, struct cursor c, uint32_t records, visitor visit) {
    for (uint32_t i = 0; i < records; i++) {
        uint32_t type = cursor_u32(&c);
        uint32_t length = cursor_u32(&c);
        struct cursor payload = {.at = cursor_take(&c, length), .left = length};
        if (c.bad) return "a record ends after the spec";
        const char *why = visit(spec, type, payload);
        if (why) return why;
    }
    return c.left ? "bytes after the last record" : NULL;
}

static const char *count_record(struct spec *spec, uint32_t type, struct cursor payload) {
    (void)payload;
    if (!record_is_known(type)) return "unknown record type";
#ifndef CORRAL_FAULTS
    if (type == RECORD_FAULT) return "unknown record type";
#endif
    spec->count[type]++;
    return NULL;
}

static int allocate(struct spec *spec) {
    const size_t *count = spec->count;
    spec->cgroups = calloc(count[RECORD_CGROUP] + 1, sizeof *spec->cgroups);
    spec->settings = calloc(count[RECORD_GROUP_SETTING] + 1, sizeof *spec->settings);
    spec->mounts = calloc(count[RECORD_MOUNT] + 1, sizeof *spec->mounts);
    spec->guarded = calloc(count[RECORD_GUARDED] + 1, sizeof *spec->guarded);
    spec->searched = calloc(count[RECORD_SEARCHED] + 1, sizeof *spec->searched);
    spec->names = calloc(count[RECORD_NAME] + 1, sizeof *spec->names);
    spec->expects = calloc(count[RECORD_EXPECT] + 1, sizeof *spec->expects);
    spec->rlimits = calloc(count[RECORD_RLIMIT] + 1, sizeof *spec->rlimits);
    spec->paths = calloc(count[RECORD_LANDLOCK_PATH] + 1, sizeof *spec->paths);
    spec->ports = calloc(count[RECORD_LANDLOCK_PORT] + 1, sizeof *spec->ports);
    spec->listens = calloc(count[RECORD_LISTEN] + 1, sizeof *spec->listens);
    spec->argv = calloc(count[RECORD_ARGUMENT] + 1, sizeof *spec->argv);
    spec->envp = calloc(count[RECORD_ENVIRONMENT] + 1, sizeof *spec->envp);
    if (!spec->cgroups || !spec->mounts || !spec->rlimits || !spec->paths || !spec->ports || !spec->argv || !spec->envp ||
        !spec->expects || !spec->settings || !spec->listens || !spec->guarded || !spec->names || !spec->searched)
        return -ENOMEM;
    return 0;
}

static const char *check_counts(const struct spec *spec) {
    static const enum record_type ONCE[] = {
        RECORD_NAMESPACES, RECORD_HOSTNAME, RECORD_LOOPBACK, RECORD_LANDLOCK, RECORD_SECCOMP,
        RECORD_CWD,        RECORD_WALL,     RECORD_TERMINAL, RECORD_FAULT,    RECORD_AREAS,
        RECORD_CGROUP_KILL, RECORD_CPU_TIME, RECORD_WATCH,   RECORD_LINGER,
        RECORD_INSIDE,     RECORD_IMAGE_ENVIRONMENT, RECORD_SERVE, RECORD_KEEP,
        RECORD_GATEWAY,    RECORD_LOCK,     RECORD_GUARD,    RECORD_AWAIT,
        RECORD_IDENTITY,
    };
    for (size_t i = 0; i < sizeof ONCE / sizeof *ONCE; i++)
        if (spec->count[ONCE[i]] > 1) return "a record that may occur once occurs again";
    if (spec->count[RECORD_GROUP] > SPEC_MAX_GROUPS) return "too many groups to make";
    if (spec->count[RECORD_SERVE]) {
        bool has_command = spec->count[RECORD_CWD] || spec->count[RECORD_ARGUMENT] || spec->count[RECORD_ENVIRONMENT] ||
                           spec->count[RECORD_WALL] || spec->count[RECORD_TERMINAL] || spec->count[RECORD_KEEP] ||
                           spec->count[RECORD_AWAIT];
        return has_command ? "a command for a server" : NULL;
    }
    if (!spec->count[RECORD_CWD]) return "no working directory";
    if (!spec->count[RECORD_ARGUMENT]) return "no argument";
    return NULL;
}

/* In place a path is bound onto itself or covered, by layers or a private area as well; files are made in such areas alone. */
static const char *check_inside(const struct spec *spec) {
    if (!spec->count[RECORD_INSIDE]) return spec->count[RECORD_EXPECT] ? "expectations of a sandbox of our own" : NULL;
    if (spec->namespaces) return "namespaces inside those of somebody else";
    for (size_t i = 0; i < spec->count[RECORD_MOUNT]; i++) {
        const struct mount_record *m = &spec->mounts[i];
        bool is_self = (m->kind == MOUNT_BIND || m->kind == MOUNT_OVERLAY) && strcmp(m->source, m->target) == 0;
        bool is_area = m->kind == MOUNT_TMPFS && !(m->flags & MOUNT_READ_ONLY);
        if (!is_self && !is_area && m->kind != MOUNT_MASK && m->kind != MOUNT_FILE && m->kind != MOUNT_DEVPTS)
            return "a mount that cannot be made in place";
    }
    return NULL;
}

/* Whether a path leads to a group that is made, if it leads to one at all. */
static bool is_made(const struct spec *spec, const char *path) {
    return !path || path[0] != '%' || (size_t)(path[1] - '0') < spec->count[RECORD_GROUP];
}

static const char *check_groups(const struct spec *spec) {
    bool is_known = is_made(spec, spec->cgroup_kill.path) && is_made(spec, spec->cpu_time.path);
    for (size_t i = 0; i < spec->count[RECORD_CGROUP]; i++) is_known &= is_made(spec, spec->cgroups[i].path);
    for (size_t i = 0; i < spec->count[RECORD_GROUP_SETTING]; i++) is_known &= is_made(spec, spec->settings[i].path);
    return is_known ? NULL : "a group that is not made";
}

/* Who guards must know when everything has ended, and acts on the host. */
static const char *check_guard(const struct spec *spec) {
    const size_t *count = spec->count;
    if ((count[RECORD_GUARDED] || count[RECORD_NAME] || count[RECORD_SEARCHED]) && !count[RECORD_GUARD]) return "protected names without a guard";
    if (!count[RECORD_GUARD]) return NULL;
    if (!(spec->namespaces & K_CLONE_NEWPID) || count[RECORD_SERVE]) return "a guard without a PID namespace of one command";
    return NULL;
}

/* A record that cannot take effect without another is a mistake of the compiler, not a no-op. */
static const char *check_dependencies(const struct spec *spec) {
    const size_t *count = spec->count;
    uint32_t mount_needs = K_CLONE_NEWNS | K_CLONE_NEWUSER;
    if (count[RECORD_MOUNT] && !count[RECORD_INSIDE] && (spec->namespaces & mount_needs) != mount_needs)
        return "mounts without a mount and a user namespace";
    bool has_map = spec->id_map[0] && spec->id_map[1];
    if (count[RECORD_LOCK] && !(has_map && (count[RECORD_INSIDE] || count[RECORD_MOUNT])))
        return "a lock without mounts and id maps";
    if (count[RECORD_IDENTITY] && (!count[RECORD_LOCK] || count[RECORD_INSIDE] || count[RECORD_SERVE]))
        return "an identity without a lock of one command";
    if (count[RECORD_LOOPBACK] && !(spec->namespaces & K_CLONE_NEWNET)) return "loopback without a network namespace";
    bool has_network = count[RECORD_LOOPBACK] || count[RECORD_INSIDE] || spec->gateway_flags & GATEWAY_NOTIFY;
    if (count[RECORD_GATEWAY] && !has_network) return "a gateway without a network";
    if (count[RECORD_HOSTNAME] && !(spec->namespaces & K_CLONE_NEWUTS)) return "host name without a UTS namespace";
    if ((count[RECORD_LANDLOCK_PATH] || count[RECORD_LANDLOCK_PORT]) && !count[RECORD_LANDLOCK])
        return "Landlock rules without a ruleset";
    if (count[RECORD_LISTEN] && !count[RECORD_SECCOMP]) return "a listener of no filter";
    if (spec->gateway_flags & GATEWAY_NOTIFY && !count[RECORD_LISTEN]) return "questions that nobody hears";
    if (count[RECORD_AREAS] && !count[RECORD_MOUNT]) return "private areas without mounts";
    for (size_t i = 0; i < count[RECORD_MOUNT]; i++)
        if (spec->mounts[i].kind == MOUNT_AREA && !count[RECORD_AREAS]) return "a private area without their size";
    size_t births = 0;
    for (size_t i = 0; i < count[RECORD_CGROUP]; i++) births += spec->cgroups[i].kind == CGROUP_BIRTH;
    if (births > 1) return "a process is born in one cgroup";
    if (spec->watch.share_permille && !(spec->namespaces & K_CLONE_NEWPID)) return "a share without a PID namespace";
    return NULL;
}

int spec_decode(struct spec *spec, uint8_t *bytes, size_t size, const char **why) {
    *spec = (struct spec){.bytes = bytes};
    struct cursor c = {.at = bytes, .left = size};
    const uint8_t *magic = cursor_take(&c, sizeof MAGIC);
    uint32_t total = cursor_u32(&c);
    uint32_t records = cursor_u32(&c);
    *why = NULL;
    if (size > SPEC_MAX_BYTES) *why = "too long";
    else if (c.bad || !magic) *why = "shorter than its header";
    else if (memcmp(magic, MAGIC, sizeof MAGIC) != 0) *why = "wrong magic";
    else if (total != size) *why = "wrong length";
    else if (records > SPEC_MAX_RECORDS) *why = "too many records";
    else *why = each_record(spec, c, records, count_record);
    if (!*why) *why = check_counts(spec);
    if (*why) return -EINVAL;

    int err = allocate(spec);
    if (err) return err;
    memset(spec->count, 0, sizeof spec->count); /* record_parse counts again, as it fills the arrays */
    *why = each_record(spec, c, records, record_parse);
    if (!*why) *why = check_inside(spec);
    if (!*why) *why = check_dependencies(spec);
    if (!*why) *why = check_groups(spec);
    if (!*why) *why = check_guard(spec);
    return *why ? -EINVAL : 0;
}

/* A memfd is read from its beginning, wherever its writer left the offset; a pipe as it comes. */
static ssize_t read_at(int fd, uint8_t *buffer, size_t size, size_t offset) {
    ssize_t got = pread(fd, buffer, size, (off_t)offset);
    if (got < 0 && errno == ESPIPE) got = read(fd, buffer, size);
    return got < 0 ? -errno : got;
}

int spec_read(int fd, struct spec *spec, const char **why) {
    size_t size = 0, room = SPEC_MAX_BYTES + 1; /* one more than is allowed, so that too long is seen */
    uint8_t *bytes = malloc(room);
    *why = "cannot be read";
    *spec = (struct spec){.bytes = bytes};
    if (!bytes) return -ENOMEM;
    while (size < room) {
        ssize_t got = read_at(fd, bytes + size, room - size, size);
        if (got == -EINTR) continue;
        if (got < 0) return (int)got;
        if (got == 0) break;
        size += (size_t)got;
    }
    return spec_decode(spec, bytes, size, why);
}

void spec_free(struct spec *spec) {
    free(spec->cgroups);
    free(spec->settings);
    free(spec->mounts);
    free(spec->expects);
    free(spec->guarded);
    free(spec->names);
    free(spec->searched);
    free(spec->rlimits);
    free(spec->paths);
    free(spec->ports);
    free(spec->listens);
    free(spec->argv);
    free(spec->envp);
    free(spec->filter);
    free(spec->bytes);
    *spec = (struct spec){0};
}
