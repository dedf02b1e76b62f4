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
    int left;
};

/* What may be in a directory of a git directory. */
enum inner { ANY_FILES, REFERENCES, PACKS, OBJECTS_INFO, LOOSE_OBJECTS, NOTHING };

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

static bool is_reference(int directory, const char *name) {
    uint8_t text[REFERENCE_ROOM];
    ssize_t size = read_regular(directory, name, text, sizeof text);
    return size > 0 && is_plain_reference(text, (size_t)size);
}

static bool is_odd(const char *name) {
    for (const char *c = name; *c; c++)
        if ((unsigned char)*c & 0x80) return true;
    return strcasecmp(name, ".git") == 0;
}

static bool is_file_clean(enum inner kind, int directory, const char *name) {
    struct stat status;
    if (fstatat(directory, name, &status, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(status.st_mode)) return false;
    if (kind == REFERENCES) return is_reference(directory, name);
    if (kind == PACKS) return strncmp(name, "pack-", 5) == 0;
    if (kind == OBJECTS_INFO) return strcasecmp(name, "alternates") != 0 && strcasecmp(name, "http-alternates") != 0;
    return kind != NOTHING;
}

static bool is_inner_clean(struct walk *walk, int above, const char *name, enum inner kind, int depth) {
    struct stat status;
    int fd = openat(above, name, DIRECTORY_FLAGS);
    DIR *listing = fd < 0 ? NULL : fdopendir(fd);
    bool is_clean = listing && depth < MOST_DEPTH;
    if (!listing && fd >= 0) close(fd);
    for (struct dirent *entry = NULL; is_clean && (entry = readdir(listing));) {
        const char *inner = entry->d_name;
        if (strcmp(inner, ".") == 0 || strcmp(inner, "..") == 0) continue;
        is_clean = --walk->left >= 0 && !is_odd(inner) && fstatat(fd, inner, &status, AT_SYMLINK_NOFOLLOW) == 0;
        if (!is_clean) break;
        if (!S_ISDIR(status.st_mode)) is_clean = is_file_clean(kind, fd, inner);
        else is_clean = (kind == ANY_FILES || kind == REFERENCES) && is_inner_clean(walk, fd, inner, kind, depth + 1);
    }
    if (listing) closedir(listing);
    return is_clean;
}

static bool is_hex(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); }

/* Only those directories in which something is new are listed: git touches what it finds there. They themselves are the
 * ones that were there before, or new as a whole. */
static bool are_objects_clean(struct walk *walk) {
    const struct git_directory *git = walk->git;
    struct stat status;
    int fd = openat(git->fd, "objects", DIRECTORY_FLAGS);
    if (fd < 0 || fstat(fd, &status) < 0) return false;
    if (git->since_ns == UINT64_MAX) git->objects[0] = (uint64_t)status.st_dev, git->objects[1] = (uint64_t)status.st_ino;
    bool is_clean = git->objects[0] == (uint64_t)status.st_dev && git->objects[1] == (uint64_t)status.st_ino;
    DIR *listing = fdopendir(fd);
    for (struct dirent *entry = NULL; listing && is_clean && (entry = readdir(listing));) {
        const char *name = entry->d_name;
        if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0) continue;
        is_clean = --walk->left >= 0 && fstatat(fd, name, &status, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(status.st_mode);
        if (!is_clean) break;
        uint64_t changed = (uint64_t)status.st_ctim.tv_sec * 1000000000u + (uint64_t)status.st_ctim.tv_nsec;
        if (strcmp(name, "info") == 0) is_clean = is_inner_clean(walk, fd, name, OBJECTS_INFO, 1);
        else if (strcmp(name, "pack") == 0) is_clean = is_inner_clean(walk, fd, name, PACKS, 1);
        else if (strlen(name) != 2 || !is_hex(name[0]) || !is_hex(name[1])) is_clean = false;
        /* A file system that keeps whole seconds says less than it should: what may be later is. */
        else if (changed % 1000000000u == 0 || changed >= git->since_ns) is_clean = is_inner_clean(walk, fd, name, LOOSE_OBJECTS, 1);
    }
    if (listing) closedir(listing);
    else close(fd);
    return listing && is_clean;
}

static bool is_directory_clean(struct walk *walk, const char *name) {
    int fd = walk->git->fd;
    if (strcmp(name, "objects") == 0) return true; /* looked at for itself */
    if (strcmp(name, "refs") == 0) return is_inner_clean(walk, fd, name, REFERENCES, 0);
    if (strcmp(name, "logs") == 0 || strcmp(name, "info") == 0) return is_inner_clean(walk, fd, name, ANY_FILES, 0);
    return strcmp(name, "branches") == 0 && is_inner_clean(walk, fd, name, NOTHING, 0);
}

/* By name; `config`, `hooks` and the like are held by mounts and by the guard. */
static bool is_top_clean(struct walk *walk, const char *name) {
    static const char *const HELD[] = {"config", "config.worktree", "commondir", "hooks"};
    static const char *const FREE[] = {"COMMIT_EDITMSG", "FETCH_HEAD", "description", "packed-refs"};
    struct stat status;
    const struct git_directory *git = walk->git;
    for (size_t i = 0; i < sizeof HELD / sizeof *HELD; i++)
        if (strcmp(name, HELD[i]) == 0) return true;
    if (fstatat(git->fd, name, &status, AT_SYMLINK_NOFOLLOW) < 0) return false;
    if (S_ISDIR(status.st_mode)) return is_directory_clean(walk, name);
    if (!S_ISREG(status.st_mode)) return false;
    if (strcmp(name, "HEAD") == 0) return true; /* looked at for itself */
    if (strcmp(name, "ORIG_HEAD") == 0) return is_reference(git->fd, name);
    if (strcmp(name, "index") == 0) return git_index_is_clean(git->fd, git->worktree);
    for (size_t i = 0; i < sizeof FREE / sizeof *FREE; i++)
        if (strcmp(name, FREE[i]) == 0) return true;
    return false;
}

/* What makes it a git directory for git as well, which would go up and work in another one otherwise. */
static bool is_whole(const struct git_directory *git) {
    uint8_t head[REFERENCE_ROOM];
    struct stat status;
    ssize_t size = read_regular(git->fd, "HEAD", head, sizeof head);
    if (size < 0 || (size_t)size != git->head_size || memcmp(head, git->head, git->head_size) != 0) return false;
    if (!is_plain_reference(head, (size_t)size)) return false;
    static const char *const NEEDED[] = {"objects", "refs"};
    for (int i = 0; i < 2; i++)
        if (fstatat(git->fd, NEEDED[i], &status, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISDIR(status.st_mode) || (status.st_mode & 0700) != 0700)
            return false;
    return true;
}

bool git_directory_is_clean(const struct git_directory *git) {
    struct walk walk = {.git = git, .left = MOST_ENTRIES};
    if (!is_whole(git) || !are_objects_clean(&walk)) return false;
    int fd = openat(git->fd, ".", DIRECTORY_FLAGS);
    DIR *listing = fd < 0 ? NULL : fdopendir(fd);
    bool is_clean = listing != NULL;
    for (struct dirent *entry = NULL; is_clean && (entry = readdir(listing));)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            is_clean = --walk.left >= 0 && is_top_clean(&walk, entry->d_name);
    if (listing) closedir(listing);
    return is_clean;
}
