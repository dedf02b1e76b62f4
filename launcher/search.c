/* Git runs what repositories say, wherever it comes upon one. Corral checks them after a command; a compiled plan has nobody
 * who could. So its git directories are read-only as a whole, and no other may be there: before the command that is seen
 * to, and afterwards whatever is new goes to quarantine. Then every one that git finds is the host's own, unchanged.
 *
 * A link is as good where git does not look at the way to a file (`git rm`, `git mv`): one that a command has made or moved must
 * not lead to a directory that the command itself could not write. And none may stand where git writes a file of its own.
 *
 * TRUST: no link is followed in the search, and everything is done by descriptor. */
#include "search.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "guard.h"
#include "kernel.h"
#include "report.h"

/* Deeper than anybody works. What is made deeper is removed unseen. */
enum { MOST_DEPTH = 200, HAS_HEAD = 1, HAS_OBJECTS = 2, HAS_REFS = 4, HAS_COMMON = 8, IS_BARE = 7, IS_LINKED = 9 };

struct search {
    struct launch *launch;
    bool is_after;
    int err;
    char path[PATH_MAX]; /* of the directory that is being looked at */
};

static bool is_beneath(const char *path, const char *root) {
    size_t length = strlen(root);
    return length == 1 || (strncmp(path, root, length) == 0 && (path[length] == '/' || !path[length]));
}

/* Whether a mount of ours holds a path read-only. */
static bool is_held(const struct spec *spec, const char *path) {
    for (size_t i = 0; i < spec->count[RECORD_MOUNT]; i++) {
        const struct mount_record *m = &spec->mounts[i];
        bool is_closed = m->kind == MOUNT_MASK || (m->kind == MOUNT_BIND && m->flags & MOUNT_READ_ONLY);
        if (is_closed && strcmp(m->target, path) == 0) return true;
    }
    return false;
}

/* Whether a command could have written there. */
static bool is_open_to_it(const struct spec *spec, const char *path) {
    bool is_inside = false;
    for (size_t i = 0; i < spec->count[RECORD_SEARCHED]; i++) is_inside |= is_beneath(path, spec->searched[i].path);
    for (size_t i = 0; is_inside && i < spec->count[RECORD_MOUNT]; i++) {
        const struct mount_record *m = &spec->mounts[i];
        if (m->kind != MOUNT_BIND && m->kind != MOUNT_MASK) continue;
        bool is_closed = m->kind == MOUNT_MASK || m->flags & MOUNT_READ_ONLY;
        for (size_t j = 0; is_closed && j < spec->count[RECORD_SEARCHED]; j++)
            if (is_beneath(m->target, spec->searched[j].path) && is_beneath(path, m->target)) return false;
    }
    return is_inside;
}

static void fail(struct search *s, int err, const char *name) {
    if (s->err) return;
    s->err = err;
    set_detail(s->launch, "%s%s%s", s->path, *name ? "/" : "", name);
}

static bool make_directory_writable(int fd) {
    struct stat status;
    return fstat(fd, &status) == 0 && (status.st_mode & 0300) != 0300 && fchmod(fd, (status.st_mode & 07777) | 0300) == 0;
}

static void take(struct search *s, int directory, const char *name, const char *what) {
    char line[DETAIL_SIZE];
    int fate = quarantine_take(s->launch->spec.quarantine, directory, name);
    if (fate < FATE_REMOVED && make_directory_writable(directory))
        fate = quarantine_take(s->launch->spec.quarantine, directory, name);
    if (fate < FATE_REMOVED) return fail(s, -EACCES, name);
    snprintf(line, sizeof line, "%s %d %.300s/%.60s", what, fate, s->path, name);
    status_words(line);
}

/* A git directory that is not held, or something that nobody can look into: not to be there before, and not to stay. */
static void refuse(struct search *s, int directory, const char *name, int err) {
    if (s->is_after) take(s, directory, name, "repository");
    else fail(s, err, name);
}

/* Where a link leads, as it says itself and as it is; empty if there is nothing. */
struct way {
    char text[PATH_MAX], real[PATH_MAX];
    bool is_directory;
};

static bool read_way(int directory, const char *name, struct way *way) {
    char link[40];
    struct stat status;
    ssize_t length = readlinkat(directory, name, way->text, sizeof way->text - 1);
    if (length < 0) return false;
    way->text[length] = way->real[0] = 0;
    int fd = openat(directory, name, O_PATH | O_CLOEXEC);
    if (fd < 0) return true;
    way->is_directory = fstat(fd, &status) == 0 && S_ISDIR(status.st_mode);
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    length = readlink(link, way->real, sizeof way->real - 1);
    way->real[length < 0 ? 0 : length] = 0;
    close(fd);
    return true;
}

/* TRUST: /proc/self and the like lead each process elsewhere, so both what a link says and where it leads must be inside.
 * Where nothing is today, there may be a directory tomorrow. */
static bool leads_away(const struct spec *spec, const struct way *way) {
    bool is_odd = way->text[0] == '/' && !is_open_to_it(spec, way->text);
    if (!way->real[0]) return is_odd || strstr(way->text, "..");
    return way->is_directory && (is_odd || !is_open_to_it(spec, way->real));
}

/* Links of the host's own that lead away, and traps: known by their place, their text and their end, since what is moved keeps its
 * time of change when only a directory above it is renamed. */
static struct known {
    struct known *next;
    char *key;
} *known_links;

static bool is_known(const char *key) {
    for (const struct known *known = known_links; known; known = known->next)
        if (strcmp(known->key, key) == 0) return true;
    return false;
}

static int learn(const char *key) {
    struct known *known = malloc(sizeof *known);
    if (!known || !(known->key = strdup(key))) return -ENOMEM;
    known->next = known_links;
    known_links = known;
    return 0;
}

static bool is_read_by_git(const char *name) {
    static const char *const NAMES[] = {".gitignore", ".gitattributes", ".gitmodules", ".mailmap"};
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++)
        if (strcasecmp(name, NAMES[i]) == 0) return true;
    return false;
}

/* By its beginning, as `git format-patch` and `git diagnose` name their files. */
static bool is_written_by_git(const char *name) {
    if (strncasecmp(name, "git-diagnostics-", 16) == 0) return true;
    const char *number = (name[0] == 'v' || name[0] == 'V') && strchr(name, '-') ? strchr(name, '-') + 1 : name;
    size_t digits = strspn(number, "0123456789");
    return (number[digits] == '-' && digits >= 4) || (name[0] && name[strspn(name, "0123456789")] == 0);
}

bool is_trap_for_git(const char *name, unsigned char type) {
    if (type == DT_DIR || type == DT_REG) return false;
    if (type == DT_LNK) return strcasecmp(name, ".gitmodules") == 0 || is_written_by_git(name);
    return is_read_by_git(name);
}

/* A link or a trap: one of the host's own stays, known from before the command. */
static void look_at_lure(struct search *s, int directory, const char *name, unsigned char kind) {
    static struct way way;
    static char key[4 * PATH_MAX];
    bool is_trap = is_trap_for_git(name, kind);
    way.text[0] = way.real[0] = 0;
    if (kind == DT_LNK && !read_way(directory, name, &way)) return;
    if (!is_trap && !leads_away(&s->launch->spec, &way)) return;
    snprintf(key, sizeof key, "%s/%s\n%s\n%s", s->path, name, way.text, way.real);
    if (!s->is_after) {
        if (learn(key)) fail(s, -ENOMEM, name);
    } else if (!is_known(key)) {
        take(s, directory, name, is_trap ? "trap" : "link");
    }
}

static int kind_of(int directory, const struct dirent *entry) {
    struct stat status;
    if (entry->d_type != DT_UNKNOWN) return entry->d_type;
    if (fstatat(directory, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) < 0) return DT_UNKNOWN;
    return S_ISDIR(status.st_mode) ? DT_DIR : S_ISLNK(status.st_mode) ? DT_LNK : S_ISREG(status.st_mode) ? DT_REG : DT_FIFO;
}

/* Names of git's are told apart by no case: a file system may not. */
static unsigned part_of(const char *name) {
    if (strcasecmp(name, "HEAD") == 0) return HAS_HEAD;
    if (strcasecmp(name, "objects") == 0) return HAS_OBJECTS;
    if (strcasecmp(name, "commondir") == 0) return HAS_COMMON;
    return strcasecmp(name, "refs") == 0 ? HAS_REFS : 0;
}

/* `commondir` says where the rest of it is: settings, hooks and objects may lie anywhere. */
static bool is_git_directory(unsigned parts) {
    return (parts & IS_BARE) == IS_BARE || (parts & IS_LINKED) == IS_LINKED;
}

/* A directory that its owner has closed is opened afterwards, and before that counts as one that nobody knows; one of
 * somebody else's no command can open either. */
static int open_inside(struct search *s, int directory, const char *name) {
    struct stat status;
    int fd = k_result(openat(directory, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (fd != -EACCES || fstatat(directory, name, &status, AT_SYMLINK_NOFOLLOW) < 0) return fd;
    if (status.st_uid != geteuid()) return -ENOENT;
    return s->is_after ? open_up(directory, name) : fd;
}

static bool walk(struct search *s, int directory, int depth); /* whether it is a git directory by itself */

static void enter(struct search *s, int directory, const char *name, int depth) {
    size_t length = strlen(s->path), more = strlen(name);
    bool is_deep = depth >= MOST_DEPTH || length + more + 2 > sizeof s->path;
    if (is_deep) return refuse(s, directory, name, -E2BIG);
    snprintf(s->path + length, sizeof s->path - length, "/%s", name);
    int fd = is_held(&s->launch->spec, s->path) ? -ENOENT : open_inside(s, directory, name);
    bool is_bare = fd >= 0 && walk(s, fd, depth + 1);
    s->path[length] = 0;
    if (is_bare) refuse(s, directory, name, -ESTALE);
    else if (fd < 0 && fd != -ENOENT && fd != -ENOTDIR && fd != -ELOOP) refuse(s, directory, name, fd);
}

static void look_at(struct search *s, int directory, const struct dirent *entry, int depth) {
    char path[PATH_MAX];
    int kind = kind_of(directory, entry);
    if (strcasecmp(entry->d_name, ".git") == 0) {
        int length = snprintf(path, sizeof path, "%s/%s", s->path, entry->d_name);
        bool is_ours = length > 0 && (size_t)length < sizeof path && is_held(&s->launch->spec, path);
        if (!is_ours) refuse(s, directory, entry->d_name, -ESTALE);
    } else if (kind == DT_DIR) {
        enter(s, directory, entry->d_name, depth);
    } else if (kind == DT_LNK || is_trap_for_git(entry->d_name, (unsigned char)kind)) {
        look_at_lure(s, directory, entry->d_name, (unsigned char)kind);
    }
}

/* `directory` is closed. */
static bool walk(struct search *s, int directory, int depth) {
    unsigned parts = 0;
    DIR *listing = fdopendir(directory);
    if (!listing) {
        close(directory);
        fail(s, -ENOMEM, "");
        return false;
    }
    for (struct dirent *entry; (s->is_after || !s->err) && (entry = readdir(listing));) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
        parts |= part_of(entry->d_name);
        look_at(s, directory, entry, depth);
    }
    closedir(listing);
    return is_git_directory(parts) && !is_held(&s->launch->spec, s->path);
}

static int search_all(struct launch *launch, bool is_after) {
    struct search s = {.launch = launch, .is_after = is_after};
    for (size_t i = 0; i < launch->spec.count[RECORD_SEARCHED]; i++) {
        const struct guarded_record *searched = &launch->spec.searched[i];
        set_detail(launch, "%s", searched->path);
        int fd = guarded_open(searched);
        if (fd < 0) return fd;
        snprintf(s.path, sizeof s.path, "%s", searched->path);
        if (walk(&s, fd, 0)) fail(&s, -ESTALE, "");
    }
    return s.err;
}

int search_before(struct launch *launch) { return search_all(launch, false); }

void search_afterwards(struct launch *launch) {
    char line[DETAIL_SIZE + 16];
    if (!launch->spec.count[RECORD_SEARCHED] || !search_all(launch, true)) return;
    snprintf(line, sizeof line, "unsearched %.400s", launch->detail);
    status_words(line);
}
