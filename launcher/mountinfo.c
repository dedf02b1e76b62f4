/* Whether anything is mounted that nobody has planned: an engine adds what its own configuration or an image says.
 * And whether all is mounted that a cover hides, where no look goes. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "launch.h"

static bool lies_in(const char *path, const char *top) {
    size_t length = strlen(top);
    return strncmp(path, top, length) == 0 && (path[length] == 0 || path[length] == '/');
}

/* Beneath what is granted for writing lies whatever the host has mounted there. */
static bool is_planned(const struct spec *spec, const char *path) {
    for (size_t i = 0; i < spec->count[RECORD_EXPECT]; i++) {
        const struct expect_record *e = &spec->expects[i];
        bool is_held = e->flags & (EXPECT_READ_ONLY | EXPECT_TMPFS | EXPECT_BENEATH);
        bool is_open = e->path[1] && (e->flags & EXPECT_ANY || !is_held);
        if (strcmp(path, e->path) == 0 || (is_open && lies_in(path, e->path))) return true;
    }
    return false;
}

/* Spaces, tabs, newlines and backslashes are written as a backslash and three octal digits: proc(5). */
static void unescape(char *text) {
    char *to = text;
    for (const char *from = text; *from; to++) {
        if (from[0] == '\\' && from[1] && from[2] && from[3]) {
            *to = (char)((from[1] - '0') * 64 + (from[2] - '0') * 8 + (from[3] - '0'));
            from += 4;
        } else {
            *to = *from++;
        }
    }
    *to = 0;
}

static bool has_flag(const struct spec *spec, unsigned flag) {
    for (size_t i = 0; i < spec->count[RECORD_EXPECT]; i++)
        if (spec->expects[i].flags & flag) return true;
    return false;
}

/* A mount that is covered is in the list all the same: nothing else tells of it. */
static void mark_found(const struct spec *spec, const char *path, bool *found) {
    for (size_t i = 0; i < spec->count[RECORD_EXPECT]; i++)
        if (spec->expects[i].flags & EXPECT_BENEATH && strcmp(path, spec->expects[i].path) == 0) found[i] = true;
}

static int check_found(struct launch *launch, const bool *found) {
    const struct spec *spec = &launch->spec;
    for (size_t i = 0; i < spec->count[RECORD_EXPECT]; i++) {
        if (!(spec->expects[i].flags & EXPECT_BENEATH) || found[i]) continue;
        set_detail(launch, "%s is not a separate mount", spec->expects[i].path);
        return -EPERM;
    }
    return 0;
}

static int read_mounts(struct launch *launch, FILE *list, bool *found) {
    const struct spec *spec = &launch->spec;
    bool is_closed = has_flag(spec, EXPECT_ANY);
    char *line = NULL;
    size_t room = 0;
    int err = 0;
    while (!err && getline(&line, &room, list) >= 0) {
        char *rest = NULL, *path = strtok_r(line, " ", &rest);
        for (int field = 1; path && field < 5; field++) path = strtok_r(NULL, " ", &rest);
        if (!path) {
            err = -EPROTO;
            break;
        }
        unescape(path);
        mark_found(spec, path, found);
        if (!is_closed || is_planned(spec, path)) continue;
        set_detail(launch, "%s is mounted, but was not requested", path);
        err = -EPERM;
    }
    free(line);
    return !err && ferror(list) ? -EIO : err;
}

int expect_mounts(struct launch *launch) {
    const struct spec *spec = &launch->spec;
    if (!has_flag(spec, EXPECT_ANY | EXPECT_BENEATH)) return 0;
    set_detail(launch, "mounts");
    bool *found = calloc(spec->count[RECORD_EXPECT], sizeof *found);
    FILE *list = found ? fopen("/proc/self/mountinfo", "re") : NULL;
    int err = list ? read_mounts(launch, list, found) : -errno;
    if (!err) err = check_found(launch, found);
    if (list) fclose(list);
    free(found);
    return err;
}
