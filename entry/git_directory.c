/* One git directory, whose hooks and settings the plan holds: nothing is in it but what `git init`, `git add`, `git commit`
 * and the like leave. A rebase, a submodule, a linked worktree, alternates: Python's. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "trees.h"

enum { MOST_DEPTH = 16, MOST_ENTRIES = 20000, REFERENCE_ROOM = 1024 };

struct walk {
    const struct git_directory *git;
    struct place *place;
    int left;
};

ssize_t read_regular(int directory, const char *name, uint8_t *bytes, size_t room) {
    struct stat status;
    int fd = openat(directory, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0) return -1;
    ssize_t size = -1;
    if (fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && status.st_nlink == 1 && (size_t)status.st_size <= room) {
        for (size = 0; size < status.st_size;) {
            ssize_t got = read(fd, bytes + size, (size_t)(status.st_size - size));
            if (got <= 0) break;
            size += got;
        }
        if (size != status.st_size) size = -1;
    }
    close(fd);
    return size;
}

/* The name of an object, or of another reference, as git writes them. */
bool is_plain_reference(const uint8_t *text, size_t size) {
    if (size < 2 || text[size - 1] != '\n') return false;
    size--;
    if (size > 10 && size < 256 && memcmp(text, "ref: refs/", 10) == 0) {
        for (size_t i = 5; i < size; i++)
            if (text[i] <= ' ' || text[i] >= 0x7f || (text[i] == '.' && text[i - 1] == '.')) return false;
        return true;
    }
    for (size_t i = 0; i < size; i++)
        if (!memchr("0123456789abcdef", text[i], 16)) return false;
    return size == 40;
}

static bool is_reference(const struct place *place) {
    uint8_t text[REFERENCE_ROOM];
    ssize_t size = read_regular(place->root, place_relative(place), text, sizeof text);
    return size > 0 && is_plain_reference(text, (size_t)size);
}

static bool is_odd(const char *name) {
    for (const char *c = name; *c; c++)
        if ((unsigned char)*c & 0x80) return true;
    return strcasecmp(name, ".git") == 0;
}

static bool is_one_of(const char *name, const char *const *names, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (strcmp(name, names[i]) == 0) return true;
    return false;
}

/* By name, at the top; `config`, `hooks` and the like are held by mounts and by the guard. HEAD and objects are looked at for
 * themselves. */
static enum verdict judge_top(const char *name, unsigned char type) {
    static const char *const HELD[] = {"config", "config.worktree", "commondir", "hooks"};
    static const char *const INNER[] = {"refs", "logs", "info", "branches"};
    static const char *const FREE[] = {"HEAD", "COMMIT_EDITMSG", "FETCH_HEAD", "description", "packed-refs"};
    static const char *const READ[] = {"ORIG_HEAD", "index"};
    if (is_one_of(name, HELD, 4)) return PASSED;
    if (type == DT_DIR) return strcmp(name, "objects") == 0 ? PASSED : is_one_of(name, INNER, 4) ? KEPT : REFUSED;
    if (type != DT_REG) return REFUSED;
    return is_one_of(name, FREE, 5) ? PASSED : is_one_of(name, READ, 2) ? KEPT : REFUSED;
}

static bool is_hex(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); }

static bool is_of_objects(const char *name) {
    if (strcmp(name, "info") == 0 || strcmp(name, "pack") == 0) return true;
    return strlen(name) == 2 && is_hex(name[0]) && is_hex(name[1]);
}

static enum verdict judge_name(enum kind kind, const char *name, unsigned char type, uint32_t *marks) {
    (void)marks;
    if (kind == GIT_DIRECTORY) return judge_top(name, type);
    if (kind == OBJECTS) return type == DT_DIR && is_of_objects(name) ? KEPT : REFUSED;
    if (is_odd(name)) return REFUSED;
    if (type == DT_DIR) return kind == ANY_FILES || kind == REFERENCES ? KEPT : REFUSED;
    if (type != DT_REG || kind == NOTHING) return REFUSED;
    if (kind == REFERENCES) return KEPT;
    if (kind == PACKS) return strncmp(name, "pack-", 5) == 0 ? PASSED : REFUSED;
    if (kind == OBJECTS_INFO && (strcasecmp(name, "alternates") == 0 || strcasecmp(name, "http-alternates") == 0)) return REFUSED;
    return PASSED;
}

static bool look(struct walk *walk, enum kind kind, struct listing *found) {
    return listings_look(walk->git->listings, walk->place, kind, judge_name, &walk->left, found);
}

static bool is_inner_clean(struct walk *walk, enum kind kind, int depth) {
    struct listing found;
    uint32_t at = 0;
    bool is_clean = depth < MOST_DEPTH && look(walk, kind, &found);
    for (const char *name = NULL; is_clean && (name = listing_next(walk->git->listings, &found, &at));) {
        bool is_directory = name[0] == 'd';
        size_t before = place_enter(walk->place, name + 1);
        is_clean = before && (is_directory ? is_inner_clean(walk, kind, depth + 1) : is_reference(walk->place));
        if (before) place_leave(walk->place, before);
    }
    return is_clean;
}

/* Only those directories in which something is new are listed: git touches what it finds there. */
static bool are_loose_clean(struct walk *walk) {
    struct stat status;
    if (fstatat(walk->place->root, place_relative(walk->place), &status, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISDIR(status.st_mode)) return false;
    uint64_t changed = (uint64_t)status.st_ctim.tv_sec * 1000000000u + (uint64_t)status.st_ctim.tv_nsec;
    /* A file system that keeps whole seconds says less than it should: what may be later is. */
    return (changed % 1000000000u && changed < walk->git->since_ns) || is_inner_clean(walk, LOOSE_OBJECTS, 1);
}

/* They themselves are the ones that were there before, or new as a whole. */
static bool are_objects_clean(struct walk *walk) {
    const struct git_directory *git = walk->git;
    struct listing found;
    uint32_t at = 0;
    if (!look(walk, OBJECTS, &found)) return false;
    if (git->since_ns == UINT64_MAX) git->objects[0] = found.stamp.device, git->objects[1] = found.stamp.inode;
    bool is_clean = git->objects[0] == found.stamp.device && git->objects[1] == found.stamp.inode;
    for (const char *name = NULL; is_clean && (name = listing_next(git->listings, &found, &at));) {
        enum kind kind = strcmp(name + 1, "info") == 0 ? OBJECTS_INFO : strcmp(name + 1, "pack") == 0 ? PACKS : LOOSE_OBJECTS;
        size_t before = place_enter(walk->place, name + 1);
        is_clean = before && (kind == LOOSE_OBJECTS ? are_loose_clean(walk) : is_inner_clean(walk, kind, 1));
        if (before) place_leave(walk->place, before);
    }
    return is_clean;
}

/* Git believes it; so it is judged with the directories that it names, none of which may have become a link. */
static bool is_index_clean(struct walk *walk) {
    struct listing now;
    struct place *place = walk->place;
    char worktree[PATH_MAX];
    if (listings_know(walk->git->listings, place, INDEX, &now) && walk->git->is_worktree_known) return true;
    size_t length = place->length - strlen("/.git/index");
    memcpy(worktree, place->path, length);
    worktree[length] = 0;
    int fd = openat(place->root, length < place->skip ? "." : worktree + place->skip, DIRECTORY_FLAGS);
    bool is_clean = fd >= 0 && git_index_is_clean(fd);
    if (fd >= 0) close(fd);
    if (is_clean) listings_add(walk->git->listings, place, &now);
    return is_clean;
}

static bool is_entry_clean(struct walk *walk, const char *name) {
    if (strcmp(name, "refs") == 0) return is_inner_clean(walk, REFERENCES, 0);
    if (strcmp(name, "logs") == 0 || strcmp(name, "info") == 0) return is_inner_clean(walk, ANY_FILES, 0);
    if (strcmp(name, "branches") == 0) return is_inner_clean(walk, NOTHING, 0);
    return strcmp(name, "index") == 0 ? is_index_clean(walk) : is_reference(walk->place);
}

/* A name in the git directory, looked at by one of these. */
static bool is_part_clean(struct walk *walk, const char *name, bool (*is_clean)(struct walk *)) {
    size_t before = place_enter(walk->place, name);
    if (!before) return false;
    bool result = is_clean ? is_clean(walk) : is_entry_clean(walk, name);
    place_leave(walk->place, before);
    return result;
}

static bool is_head_same(struct walk *walk) {
    uint8_t head[REFERENCE_ROOM];
    const struct git_directory *git = walk->git;
    ssize_t size = read_regular(walk->place->root, place_relative(walk->place), head, sizeof head);
    if (size < 0 || (size_t)size != git->head_size || memcmp(head, git->head, git->head_size) != 0) return false;
    return is_plain_reference(head, (size_t)size);
}

static bool is_open_directory(struct walk *walk) {
    struct stat status;
    return fstatat(walk->place->root, place_relative(walk->place), &status, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(status.st_mode) &&
           (status.st_mode & 0700) == 0700;
}

static bool is_top_clean(struct walk *walk) {
    struct listing found;
    uint32_t at = 0;
    /* What makes it a git directory for git as well, which would go up and work in another one otherwise. */
    bool is_clean = is_part_clean(walk, "HEAD", is_head_same) && is_part_clean(walk, "objects", is_open_directory) &&
                    is_part_clean(walk, "refs", is_open_directory) && is_part_clean(walk, "objects", are_objects_clean);
    is_clean = is_clean && look(walk, GIT_DIRECTORY, &found);
    for (const char *name = NULL; is_clean && (name = listing_next(walk->git->listings, &found, &at));)
        is_clean = is_part_clean(walk, name + 1, NULL);
    return is_clean;
}

bool git_directory_is_clean(const struct git_directory *git) {
    struct walk walk = {.git = git, .place = git->place, .left = MOST_ENTRIES};
    return is_part_clean(&walk, ".git", is_top_clean);
}
