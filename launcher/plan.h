/* A compiled plan: a policy that was brought into the launcher's own form ahead of time, with everything that it
 * depends on. Python's twin is src/corral/linux/compiled.py. */
#ifndef CORRAL_PLAN_H
#define CORRAL_PLAN_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cursor.h"
#include "spec.h"

/* What this launcher was built from: a plan is for the launcher that it was compiled for. */
#ifndef CORRAL_BUILD
#define CORRAL_BUILD "development"
#endif

enum { PLAN_MAX_BYTES = 8 * 1024 * 1024 };

enum plan_record {
    PLAN_HOST = 1, /* u32 uid, u32 gid, string build, string boot id, string kernel release; once */
    PLAN_OBJECT,   /* u32 kind, u32 traits, u32 names, u64 device, u64 inode, string path: found by lstat() */
    PLAN_FAILS,    /* u32 follows, u32 errno, string path: not found, or not to be seen */
    PLAN_LINK,     /* string text, string path */
    PLAN_STAMP,    /* u64 device, inode, size, mtime ns, ctime ns, string path: found by stat() */
    PLAN_SILENT,   /* string path: a file that is not there, or does not speak of corral */
    PLAN_PASS,     /* string name: a variable to pass on; a trailing * stands for any ending */
    PLAN_DEFAULT,  /* string NAME=VALUE: where the caller has none */
    PLAN_SET,      /* string NAME=VALUE: whatever the caller has */
    PLAN_OUTPUT,   /* u64: bytes that stdout and stderr may have together; at most once */
    PLAN_SPEC,     /* u32 number of records, records: a spec without command, directory and environment; once */
    PLAN_NOTE,     /* string: for people */
    PLAN_TEXT,     /* string text, string path: a file of the kernel's that reads so */
    PLAN_MOUNTS,   /* string places, string lines, string path: of a table of mounts what shows a part of these places */
    PLAN_TYPES,
};

enum object_kind { OBJECT_OTHER, OBJECT_DIRECTORY, OBJECT_LINK, OBJECT_SOCKET, OBJECT_KINDS };

struct plan {
    uint8_t *bytes;
    struct cursor records;
    uint32_t count;
    struct cursor host, spec; /* the payloads of these records */
    char place[PATH_MAX]; /* where it really lies */
    bool has_output_limit;
    uint64_t output_limit;
};

/* Something that went wrong before the command ran, in three lines for a person. */
struct problem {
    char what[256], why[640];
    const char *fix;
};

__attribute__((format(printf, 4, 5))) int problem_set(struct problem *problem, const char *what, const char *fix,
                                                      const char *why, ...);

/* plan.c: each returns 0, or -1 and says what the problem is. */
int plan_open(struct plan *plan, const char *path, struct problem *problem);
int plan_decode(struct plan *plan, uint8_t *bytes, size_t size, const char **why); /* owns bytes from now on */
bool plan_next(struct cursor *records, uint32_t *type, struct cursor *payload);
int plan_check_place(const struct plan *plan, const struct spec *spec, struct problem *problem);
void plan_free(struct plan *plan);

/* depend.c: whether the host, and every file that had a say, is as it was when the plan was compiled. */
int plan_check(const struct plan *plan, struct problem *problem);
int plan_check_host(const struct plan *plan, struct problem *problem); /* the first part: whether it is for this launcher */

/* compose.c: the bytes of the whole spec, for this command, in this directory, with what may be passed on of `entries`. */
struct bytes {
    uint8_t *at;
    size_t size, room;
    bool bad; /* out of memory */
};
void bytes_add(struct bytes *bytes, const void *more, size_t size);
int plan_compose(const struct plan *plan, char *const *argv, const char *cwd, char *const *entries, struct bytes *spec);

/* front.c: `corral-launch --plan FILE -- COMMAND`. Returns the exit code. */
int plan_main(int argc, char **argv);

#endif
