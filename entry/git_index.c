/* The index of a git directory. src/corral/git_formats/index.py reads every kind; this knows the plain one alone: version 2,
 * files and links, no stages, no extension but that of trees. Git believes what the file says, so every name in it has to
 * be one that leads nowhere on any file system, and no directory of the worktree that it names may be a link. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "trees.h"

enum { MOST_BYTES = 8 * 1024 * 1024, HASH = 20, HEADER = 12, STAT = 40, MODE_AT = 24, MOST_PATH = 4095, END_SIZE = 12 + HASH };

static uint32_t big(const uint8_t *at) {
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static bool is_name_clean(const char *name, size_t length) {
    if (length == 0 || (length == 1 && name[0] == '.') || (length == 2 && memcmp(name, "..", 2) == 0)) return false;
    /* Short names of DOS, separators of Windows, and the first bytes of what HFS+ does not see. */
    for (size_t i = 0; i < length; i++)
        if (name[i] == '~' || name[i] == '\\' || name[i] == ':' || (uint8_t)name[i] == 0xe2 || (uint8_t)name[i] == 0xef) return false;
    if (length < 4 || strncasecmp(name, ".git", 4) != 0) return true;
    char next = length > 4 ? name[4] : 0;
    return (next >= 'a' && next <= 'z') || (next >= 'A' && next <= 'Z') || next == '-' || next == '_';
}

/* Its parts, and that none above the last is a link; those it shares with the name before it were seen to. */
static bool is_path_clean(int worktree, const char *path, const char *before) {
    char above[MOST_PATH + 1];
    struct stat status;
    size_t same = 0;
    while (path[same] && path[same] == before[same]) same++;
    for (const char *name = path;;) {
        size_t length = strcspn(name, "/");
        if (!is_name_clean(name, length)) return false;
        if (!name[length]) return true;
        size_t end = (size_t)(name + length - path);
        if (end >= same) { /* the slash itself is new */
            memcpy(above, path, end);
            above[end] = 0;
            if (fstatat(worktree, above, &status, AT_SYMLINK_NOFOLLOW) < 0) {
                if (errno != ENOENT && errno != ENOTDIR) return false;
            } else if (S_ISLNK(status.st_mode)) {
                return false;
            }
        }
        name += length + 1;
    }
}

static bool are_extensions_clean(const uint8_t *bytes, size_t at, size_t end) {
    for (int number = 0; at < end; number++) {
        if (end - at < 8 || number > 0 || memcmp(bytes + at, "TREE", 4) != 0) return false;
        size_t size = big(bytes + at + 4);
        if (size > end - at - 8) return false;
        at += 8 + size;
    }
    return at == end;
}

/* Git looks for this extension from the end of the file, whatever it is a part of, and then for entries where it says. */
static bool says_where_entries_end(const uint8_t *bytes, size_t end) {
    return end >= END_SIZE && memcmp(bytes + end - END_SIZE, "EOIE", 4) == 0;
}

static bool is_clean(const uint8_t *bytes, size_t size, int worktree) {
    if (size < HEADER + HASH || memcmp(bytes, "DIRC", 4) != 0 || big(bytes + 4) != 2) return false;
    size_t at = HEADER, end = size - HASH;
    uint32_t count = big(bytes + 8);
    const char *before = "";
    for (uint32_t i = 0; i < count; i++) {
        if (end < at || end - at < STAT + HASH + 3) return false;
        uint32_t mode = big(bytes + at + MODE_AT);
        size_t flags = (size_t)bytes[at + STAT + HASH] << 8 | bytes[at + STAT + HASH + 1];
        const char *path = (const char *)bytes + at + STAT + HASH + 2;
        size_t room = end - at - STAT - HASH - 2, length = strnlen(path, room);
        /* A stage, more flags or a long name are in the upper bits. */
        if (flags != length || length == room || length >= MOST_PATH || length >= 0xfff) return false;
        if (mode != 0100644 && mode != 0100755 && mode != 0120000) return false;
        if (!is_path_clean(worktree, path, before)) return false;
        before = path;
        at += (STAT + HASH + 2 + length + 8) & ~(size_t)7;
    }
    return at <= end && are_extensions_clean(bytes, at, end) && !says_where_entries_end(bytes, end);
}

bool git_index_is_clean(int worktree) {
    uint8_t *bytes = malloc(MOST_BYTES);
    ssize_t size = bytes ? read_regular(worktree, ".git/index", bytes, MOST_BYTES) : -1;
    bool result = size > 0 && is_clean(bytes, (size_t)size, worktree);
    free(bytes);
    return result;
}
