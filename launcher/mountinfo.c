/* Whether anything is mounted that nobody has planned: an engine adds what its own configuration or an image says. */
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
        bool is_open = e->path[1] && (e->flags & EXPECT_ANY || !(e->flags & (EXPECT_READ_ONLY | EXPECT_TMPFS)));
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

static bool is_asked(const struct spec *spec) {
    for (size_t i = 0; i < spec->count[RECORD_EXPECT]; i++)
        if (spec->expects[i].flags & EXPECT_ANY) return true;
    return false;
}

int expect_no_other_mount(struct launch *launch) {
    char *line = NULL;
    size_t room = 0;
    int err = 0;
    if (!is_asked(&launch->spec)) return 0;
    FILE *list = fopen("/proc/self/mountinfo", "re");
    if (!list) return -errno;
    while (!err && getline(&line, &room, list) >= 0) {
        char *rest = NULL, *path = strtok_r(line, " ", &rest);
        for (int field = 1; path && field < 5; field++) path = strtok_r(NULL, " ", &rest);
        if (!path) {
            err = -EPROTO;
            break;
        }
        unescape(path);
        if (is_planned(&launch->spec, path)) continue;
        set_detail(launch, "%s is mounted, and nobody has asked for it", path);
        err = -EPERM;
    }
    if (!err && ferror(list)) err = -EIO;
    free(line);
    fclose(list);
    return err;
}
