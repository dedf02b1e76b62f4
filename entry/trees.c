/* Every directory of what commands may write: no repository is there but those that the plan holds, and nothing that git
 * would follow, or wait for, by a name that it reads or writes. src/corral/untrusted_files/unchanged.py has the names. */
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

#include "trees.h"

enum { MOST_DIRECTORIES = 4096, MOST_DEPTH = 100 };

struct look {
    struct run *run;
    bool is_afterwards;
    int left; /* directories */
};

/* A name that some file system may take for one of git's own, though it is spelled otherwise. */
static bool is_odd(const char *name) {
    static const char *const NAMES[] = {".git", "HEAD", "objects", "refs", "commondir",
                                        ".gitignore", ".gitattributes", ".gitmodules", ".mailmap"};
    for (const char *c = name; *c; c++)
        if ((unsigned char)*c & 0x80) return true;
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++)
        if (strcasecmp(name, NAMES[i]) == 0 && strcmp(name, NAMES[i]) != 0) return true;
    return false;
}

static bool is_read_by_git(const char *name) {
    static const char *const NAMES[] = {".gitignore", ".gitattributes", ".gitmodules", ".mailmap"};
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++)
        if (strcmp(name, NAMES[i]) == 0) return true;
    return false;
}

/* By its beginning, as `git format-patch` and `git diagnose` name their files. */
static bool is_written_by_git(const char *name) {
    if (strncasecmp(name, "git-diagnostics-", 16) == 0) return true;
    const char *number = (name[0] == 'v' || name[0] == 'V') && strchr(name, '-') ? strchr(name, '-') + 1 : name;
    size_t digits = strspn(number, "0123456789");
    return (number[digits] == '-' && digits >= 4) || (name[0] && name[strspn(name, "0123456789")] == 0);
}

static bool is_trap(const char *name, unsigned char type) {
    if (type == DT_DIR || type == DT_REG) return false;
    if (type == DT_LNK) return strcmp(name, ".gitmodules") == 0 || is_written_by_git(name);
    return is_read_by_git(name);
}

/* `git push origin`, where no remote has that name, takes it for a path. */
static bool is_name_of_remote(const char *name) {
    return strncmp(name, "origin", 6) == 0 ? !name[6] || strcmp(name + 6, ".git") == 0
                                           : strncmp(name, "upstream", 8) == 0 && (!name[8] || strcmp(name + 8, ".git") == 0);
}

/* Which of the plan's worktrees this is; -1: none. `head` is what its HEAD said. */
static int find_worktree(const struct stored *stored, const char *path, struct cursor *head) {
    struct cursor rest = stored->records, payload;
    uint32_t at = 0;
    for (int number = 0; stored_next(stored, &rest, &at, STORED_WORKTREE, &payload); number++) {
        uint32_t size = cursor_u32(&payload);
        *head = (struct cursor){.at = cursor_take(&payload, size), .left = size};
        if (strcmp(cursor_string(&payload), path) == 0) return number;
    }
    return -1;
}

/* A worktree whose `.git` the plan holds, if it has one. */
static bool is_repository_clean(struct look *look, int fd, const char *path) {
    struct cursor head;
    int number = find_worktree(look->run->stored, path, &head);
    if (number < 0 || number >= MOST_WORKTREES || !head.left) return false;
    struct git_directory git = {.worktree = fd, .fd = openat(fd, ".git", DIRECTORY_FLAGS), .head = (const char *)head.at,
                                .head_size = head.left, .objects = look->run->objects[number], .since_ns = UINT64_MAX};
    if (look->is_afterwards) git.since_ns = look->run->since_ns;
    bool is_clean = git.fd >= 0 && git_directory_is_clean(&git);
    if (git.fd >= 0) close(git.fd);
    return is_clean;
}

static bool is_tree_clean(struct look *look, int fd, const char *path, int depth);

static unsigned char type_of(int directory, const struct dirent *entry) {
    struct stat status;
    if (entry->d_type != DT_UNKNOWN) return entry->d_type;
    if (fstatat(directory, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) < 0) return DT_UNKNOWN;
    return S_ISDIR(status.st_mode) ? DT_DIR : S_ISREG(status.st_mode) ? DT_REG : S_ISLNK(status.st_mode) ? DT_LNK : DT_FIFO;
}

struct marks {
    bool has_git, has_head, has_objects, has_refs, has_commondir, has_remote;
};

static bool is_entry_clean(struct look *look, int fd, const struct dirent *entry, const char *path, struct marks *marks, int depth) {
    const char *name = entry->d_name;
    unsigned char type = type_of(fd, entry);
    if (type == DT_UNKNOWN || is_odd(name) || is_trap(name, type)) return false;
    marks->has_head |= strcmp(name, "HEAD") == 0;
    marks->has_objects |= strcmp(name, "objects") == 0;
    marks->has_refs |= strcmp(name, "refs") == 0;
    marks->has_commondir |= strcmp(name, "commondir") == 0;
    marks->has_remote |= is_name_of_remote(name);
    if (strcmp(name, ".git") == 0) return marks->has_git = type == DT_DIR;
    if (type != DT_DIR) return true;
    char place[PATH_MAX];
    int length = snprintf(place, sizeof place, "%s/%s", path, name);
    int inner = length > 0 && (size_t)length < sizeof place ? openat(fd, name, DIRECTORY_FLAGS) : -1;
    return inner >= 0 && is_tree_clean(look, inner, place, depth + 1);
}

/* Closes the descriptor. */
static bool is_tree_clean(struct look *look, int fd, const char *path, int depth) {
    struct marks marks = {0};
    bool is_clean = --look->left >= 0 && depth < MOST_DEPTH;
    DIR *listing = fdopendir(fd);
    if (!listing) return close(fd), false;
    errno = 0;
    for (struct dirent *entry = NULL; is_clean && (entry = readdir(listing)); errno = 0)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            is_clean = is_entry_clean(look, fd, entry, path, &marks, depth);
    is_clean &= errno == 0 && !(marks.has_head && (marks.has_commondir || (marks.has_objects && marks.has_refs)));
    struct cursor head;
    int worktree = is_clean ? find_worktree(look->run->stored, path, &head) : -1;
    if (worktree >= 0 && marks.has_remote) is_clean = false;
    if (worktree >= 0 && head.left && !marks.has_git) is_clean = false; /* it had one */
    if (is_clean && marks.has_git) is_clean = is_repository_clean(look, fd, path);
    closedir(listing);
    return is_clean;
}

/* The index of a repository around a root has directories in there as well: that is Python's. */
static bool is_alone(const char *root) {
    char path[PATH_MAX];
    struct stat status;
    for (size_t length = strlen(root); length > 1;) {
        while (length > 1 && root[length - 1] != '/') length--;
        int size = snprintf(path, sizeof path, "%.*s.git", (int)length, root);
        if (size < 0 || (size_t)size >= sizeof path || lstat(path, &status) == 0 || errno != ENOENT) return false;
        length--;
    }
    return true;
}

bool trees_are_clean(struct run *run, bool is_afterwards) {
    struct look look = {.run = run, .is_afterwards = is_afterwards, .left = MOST_DIRECTORIES};
    struct cursor rest = run->stored->records, payload;
    uint32_t at = 0;
    while (stored_next(run->stored, &rest, &at, STORED_ROOT, &payload)) {
        const char *root = cursor_string(&payload);
        int fd = is_alone(root) ? open(root, DIRECTORY_FLAGS) : -1;
        if (fd < 0 || !is_tree_clean(&look, fd, root, 0)) return false;
    }
    return true;
}
