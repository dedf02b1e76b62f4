/* Decoding the payload of each type of record. */
#include "records.h"

#include <stdlib.h>

#include "control.h"
#include "kernel.h"
#include "launch.h"

static const uint32_t KNOWN_NAMESPACES = K_CLONE_NEWNS | K_CLONE_NEWCGROUP | K_CLONE_NEWUTS | K_CLONE_NEWIPC |
                                         K_CLONE_NEWUSER | K_CLONE_NEWPID | K_CLONE_NEWNET;

/* INVARIANT: a path that passes has one spelling: absolute, no empty, "." or ".." component. "/" passes. */
bool is_plain_path(const char *path) {
    if (path[0] != '/') return false;
    if (path[1] == 0) return true;
    for (const char *part = path; *part;) {
        part++; /* the slash */
        size_t length = strcspn(part, "/");
        if (length == 0) return false;
        if (part[0] == '.' && (length == 1 || (length == 2 && part[1] == '.'))) return false;
        part += length;
    }
    return true;
}

static const char *parse_namespaces(struct spec *spec, struct cursor *c) {
    spec->namespaces = cursor_u32(c);
    if (!spec->namespaces) return "no namespace";
    return spec->namespaces & ~KNOWN_NAMESPACES ? "unknown namespace" : NULL;
}

static const char *parse_id_map(struct spec *spec, struct cursor *c) {
    uint32_t which = cursor_u32(c);
    if (which > 1) return "unknown id map";
    if (spec->id_map[which]) return "a record that may occur once occurs again";
    spec->id_map[which] = cursor_string(c);
    return *spec->id_map[which] ? NULL : "empty id map";
}

static const char *parse_identity(struct spec *spec, struct cursor *c) {
    uint32_t first = spec->identity_first = cursor_u32(c), count = spec->identity_count = cursor_u32(c);
    return first && count && first < UINT32_MAX - count ? NULL : "an identity of no ids, or of root's";
}

/* "%N" or "%N/file": in a control group that the launcher makes. A dot alone is no file of one. */
static bool is_made_path(const char *path) {
    if (path[0] != '%' || path[1] < '0' || path[1] > '9') return false;
    return !path[2] || (path[2] == '/' && path[3] && path[3] != '.' && !strchr(path + 3, '/'));
}

/* A file of a control group: a plain path, or "@N" for a descriptor that the launcher was given. */
static bool is_group_path(const char *path) {
    if (is_made_path(path)) return true;
    if (path[0] != '@') return is_plain_path(path);
    char *end = NULL;
    long number = path[1] >= '1' && path[1] <= '9' ? strtol(path + 1, &end, 10) : 0;
    return end && !*end && number >= FIRST_FOREIGN_FD && number < MOST_GIVEN;
}

static const char *parse_cgroup(struct spec *spec, struct cursor *c) {
    struct cgroup_record *group = &spec->cgroups[spec->count[RECORD_CGROUP]];
    group->kind = cursor_u32(c);
    group->path = cursor_string(c);
    if (group->kind < CGROUP_TASKS || group->kind > CGROUP_BIRTH) return "unknown kind of cgroup";
    return is_group_path(group->path) ? NULL : "cgroup is not a plain absolute path";
}

static const char *parse_cgroup_kill(struct spec *spec, struct cursor *c) {
    struct cgroup_record *group = &spec->cgroup_kill;
    group->kind = cursor_u32(c);
    group->path = cursor_string(c);
    if (group->kind < CGROUP_KILL_FILE || group->kind > CGROUP_KILL_FREEZER) return "unknown way to end a cgroup";
    bool is_known = is_plain_path(group->path) || is_made_path(group->path);
    return is_known ? NULL : "cgroup is not a plain absolute path";
}

static const char *parse_group(struct spec *spec, struct cursor *c) {
    struct group_record *group = &spec->groups[spec->count[RECORD_GROUP]];
    group->parent = cursor_string(c);
    return is_plain_path(group->parent) ? NULL : "cgroup is not a plain absolute path";
}

static const char *parse_group_setting(struct spec *spec, struct cursor *c) {
    struct group_setting *setting = &spec->settings[spec->count[RECORD_GROUP_SETTING]];
    setting->path = cursor_string(c);
    setting->value = cursor_string(c);
    return is_made_path(setting->path) && setting->path[2] ? NULL : "a setting of no group that is made";
}

static const char *parse_cpu_time(struct spec *spec, struct cursor *c) {
    struct cpu_time_record *time = &spec->cpu_time;
    time->limit_us = cursor_u64(c);
    time->grace_ms = cursor_u64(c);
    time->divisor = cursor_u32(c);
    time->path = cursor_string(c);
    if (!time->limit_us || time->limit_us > INT64_MAX / 2 || !time->divisor) return "a processor time of nothing";
    return is_group_path(time->path) ? NULL : "processor time is not at a plain absolute path";
}

static const char *parse_watch(struct spec *spec, struct cursor *c) {
    struct watch_record *watch = &spec->watch;
    watch->memory = cursor_u64(c);
    watch->processes = cursor_u64(c);
    watch->share_permille = cursor_u32(c);
    watch->processors = cursor_u32(c);
    if (watch->share_permille > 1000 || !watch->share_permille != !watch->processors) return "a share of nothing";
    return NULL;
}

static const char *parse_areas(struct spec *spec, struct cursor *c) {
    spec->areas_size = cursor_u64(c);
    spec->areas_inodes = cursor_u64(c);
    return spec->areas_size && spec->areas_inodes ? NULL : "private areas without room";
}

/* Upper, work and further lower ones, each with its NUL; one in memory (with a size) has one directory in their place. */
static bool is_layers(const struct mount_record *m) {
    const char *path = (const char *)m->content, *end = path + m->content_size;
    size_t count = 0;
    if (!m->content_size || end[-1]) return false;
    for (; path < end; path += strlen(path) + 1, count++)
        if (!is_plain_path(path)) return false;
    return count >= (m->size ? 1 : 2);
}

static const char *parse_mount(struct spec *spec, struct cursor *c) {
    struct mount_record *m = &spec->mounts[spec->count[RECORD_MOUNT]];
    m->kind = cursor_u32(c);
    m->flags = cursor_u32(c);
    m->device = cursor_u64(c);
    m->inode = cursor_u64(c);
    m->size = cursor_u64(c);
    m->mode = cursor_u32(c);
    m->source = cursor_string(c);
    m->target = cursor_string(c);
    m->content_size = cursor_u32(c);
    m->content = cursor_take(c, m->content_size);
    if (c->bad) return NULL; /* the caller says it */
    if (m->kind == 0 || m->kind >= MOUNT_KINDS) return "unknown mount kind";
    if (m->flags & ~(uint32_t)MOUNT_FLAGS) return "unknown mount flag";
    if (!is_plain_path(m->target)) return "mount target is not a plain absolute path";
    bool has_source = m->kind == MOUNT_BIND || m->kind == MOUNT_COPY || m->kind == MOUNT_OVERLAY;
    if (has_source && !is_plain_path(m->source)) return "bind source is not a plain absolute path";
    if (m->kind == MOUNT_OVERLAY && !is_layers(m)) return "the layers of an overlay are not plain absolute paths";
    if (m->kind == MOUNT_LINK && !is_plain_path(m->source)) return "mounted link is not a plain absolute path";
    return NULL;
}

static const char *parse_expect(struct spec *spec, struct cursor *c) {
    struct expect_record *e = &spec->expects[spec->count[RECORD_EXPECT]];
    e->flags = cursor_u32(c);
    e->device = cursor_u64(c);
    e->inode = cursor_u64(c);
    e->path = cursor_string(c);
    if (e->flags & ~(uint32_t)EXPECT_FLAGS) return "unknown expectation";
    return is_plain_path(e->path) ? NULL : "expected path is not a plain absolute path";
}

static const char *parse_hostname(struct spec *spec, struct cursor *c) {
    spec->hostname = cursor_string(c);
    size_t length = strlen(spec->hostname);
    return length == 0 || length > SPEC_MAX_HOSTNAME ? "host name empty or too long" : NULL;
}

static const char *parse_empty(struct spec *spec, struct cursor *c) {
    (void)spec, (void)c;
    return NULL;
}

static const char *parse_rlimit(struct spec *spec, struct cursor *c) {
    struct rlimit_record *r = &spec->rlimits[spec->count[RECORD_RLIMIT]];
    r->resource = cursor_u32(c);
    r->soft = cursor_u64(c);
    r->hard = cursor_u64(c);
    return NULL;
}

static const char *parse_landlock(struct spec *spec, struct cursor *c) {
    spec->handled_fs = cursor_u64(c);
    spec->handled_net = cursor_u64(c);
    spec->scoped = cursor_u64(c);
    return NULL;
}

static const char *parse_landlock_path(struct spec *spec, struct cursor *c) {
    struct path_rule *rule = &spec->paths[spec->count[RECORD_LANDLOCK_PATH]];
    rule->rights = cursor_u64(c);
    rule->device = cursor_u64(c);
    rule->inode = cursor_u64(c);
    rule->path = cursor_string(c);
    return is_plain_path(rule->path) ? NULL : "Landlock path is not a plain absolute path";
}

static const char *parse_landlock_port(struct spec *spec, struct cursor *c) {
    struct port_rule *rule = &spec->ports[spec->count[RECORD_LANDLOCK_PORT]];
    rule->rights = cursor_u64(c);
    rule->port = cursor_u64(c);
    return NULL;
}

/* The program is copied because records are not aligned and struct k_sock_filter is. */
static const char *parse_seccomp(struct spec *spec, struct cursor *c) {
    size_t size = c->left;
    if (size == 0 || size % sizeof *spec->filter) return "seccomp program is not whole instructions";
    if (size / sizeof *spec->filter > SPEC_MAX_FILTER) return "seccomp program too long";
    spec->filter = malloc(size);
    if (!spec->filter) return "out of memory";
    memcpy(spec->filter, cursor_take(c, size), size);
    spec->filter_length = (uint16_t)(size / sizeof *spec->filter);
    return NULL;
}

static const char *parse_listen(struct spec *spec, struct cursor *c) {
    struct listen_record *one = &spec->listens[spec->count[RECORD_LISTEN]];
    one->number = cursor_u32(c);
    one->strings = cursor_u32(c);
    return one->strings & ~(uint32_t)LISTEN_MASK ? "a call has six arguments" : NULL;
}

static const char *parse_cwd(struct spec *spec, struct cursor *c) {
    spec->cwd = cursor_string(c);
    return is_plain_path(spec->cwd) ? NULL : "working directory is not a plain absolute path";
}

/* execve wants char ** but does not write through it. */
static const char *parse_argument(struct spec *spec, struct cursor *c) {
    spec->argv[spec->count[RECORD_ARGUMENT]] = (char *)(uintptr_t)cursor_string(c);
    return NULL;
}

static const char *parse_environment(struct spec *spec, struct cursor *c) {
    const char *entry = cursor_string(c);
    const char *equals = strchr(entry, '=');
    if (!c->bad && (!equals || equals == entry)) return "environment entry is not NAME=VALUE";
    spec->envp[spec->count[RECORD_ENVIRONMENT]] = (char *)(uintptr_t)entry;
    return NULL;
}

static const char *parse_wall(struct spec *spec, struct cursor *c) {
    spec->wall_ms = cursor_u64(c);
    spec->grace_ms = cursor_u64(c);
    return spec->wall_ms ? NULL : "a wall time of nothing";
}

static const char *parse_serve(struct spec *spec, struct cursor *c) {
    spec->serve_flags = cursor_u32(c);
    return spec->serve_flags & ~(uint32_t)SERVE_FLAGS ? "unknown serve flag" : NULL;
}

/* Flags, then ports as far as the record goes. */
static const char *parse_gateway(struct spec *spec, struct cursor *c) {
    spec->gateway_flags = cursor_u32(c);
    if (spec->gateway_flags & ~(uint32_t)GATEWAY_FLAGS) return "unknown gateway flag";
    while (c->left && !c->bad) {
        uint32_t port = cursor_u32(c);
        if (!port || port > UINT16_MAX) return "a gateway at no port";
        if (spec->gateway_ports == SPEC_MAX_PORTS) return "a gateway at too many ports";
        spec->gateway_port[spec->gateway_ports++] = (uint16_t)port;
    }
    return NULL;
}

static const char *parse_fault(struct spec *spec, struct cursor *c) {
    spec->fault = cursor_string(c);
    return NULL;
}

static const char *(*const PARSERS[RECORD_TYPES])(struct spec *, struct cursor *) = {
    [RECORD_NAMESPACES] = parse_namespaces, [RECORD_ID_MAP] = parse_id_map,
    [RECORD_CGROUP] = parse_cgroup, [RECORD_MOUNT] = parse_mount,
    [RECORD_HOSTNAME] = parse_hostname, [RECORD_LOOPBACK] = parse_empty,
    [RECORD_RLIMIT] = parse_rlimit, [RECORD_LANDLOCK] = parse_landlock,
    [RECORD_LANDLOCK_PATH] = parse_landlock_path, [RECORD_LANDLOCK_PORT] = parse_landlock_port,
    [RECORD_SECCOMP] = parse_seccomp, [RECORD_CWD] = parse_cwd,
    [RECORD_ARGUMENT] = parse_argument, [RECORD_ENVIRONMENT] = parse_environment,
    [RECORD_WALL] = parse_wall, [RECORD_TERMINAL] = parse_empty,
    [RECORD_FAULT] = parse_fault, [RECORD_AREAS] = parse_areas,
    [RECORD_CGROUP_KILL] = parse_cgroup_kill, [RECORD_CPU_TIME] = parse_cpu_time,
    [RECORD_WATCH] = parse_watch, [RECORD_LINGER] = parse_empty,
    [RECORD_INSIDE] = parse_empty, [RECORD_EXPECT] = parse_expect,
    [RECORD_IMAGE_ENVIRONMENT] = parse_empty, [RECORD_SERVE] = parse_serve,
    [RECORD_KEEP] = parse_empty, [RECORD_GATEWAY] = parse_gateway,
    [RECORD_LOCK] = parse_empty, [RECORD_GROUP] = parse_group,
    [RECORD_GROUP_SETTING] = parse_group_setting, [RECORD_LISTEN] = parse_listen,
    [RECORD_GUARD] = parse_guard, [RECORD_GUARDED] = parse_guarded,
    [RECORD_NAME] = parse_name, [RECORD_SEARCHED] = parse_searched,
    [RECORD_AWAIT] = parse_empty, [RECORD_IDENTITY] = parse_identity,
};

bool record_is_known(uint32_t type) { return type < RECORD_TYPES && PARSERS[type]; }

const char *record_parse(struct spec *spec, uint32_t type, struct cursor payload) {
    const char *why = PARSERS[type](spec, &payload);
    if (payload.bad) return "a record is shorter than its fields";
    if (why) return why;
    if (payload.left) return "a record is longer than its fields";
    spec->count[type]++;
    return NULL;
}
