/* The entry program: `corral`, for whoever has a C compiler. It runs `corral run` by itself where Python has left a stored
 * plan for exactly this request and everything that the plan was made from is as it was. Everything else it hands to
 * Python: before a command is started by executing it with the same words, and later by letting it continue the run.
 *
 * INVARIANT: in doubt, Python. Nothing here says a word to the user, but where Python cannot start. */
#ifndef CORRAL_ENTRY_H
#define CORRAL_ENTRY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "plan.h"

enum { KEY_SIZE = 32, RUN_ID_SIZE = 16, TAIL_SIZE = 16384 };

/* What was typed, as far as it can be taken for a plain `corral run`. */
struct request {
    int argc;
    char **argv;       /* all of it, for Python */
    char **words;      /* the command; NULL: there is a line */
    const char *line;  /* of -c */
    int line_at;       /* which word of argv that is; 0: none */
    int options_end;   /* the first word of argv that is no option */
    bool hears;        /* standard error goes past corral: the filter listens to it */
};

/* False: it is for Python to understand. */
bool request_read(struct request *request, int argc, char **argv);

/* Whether a shell line is known to have no text; it may be so also where it has only text that is not ASCII. */
bool is_blank(const char *line);

/* The name of the plan of a request: a digest of all that planning may depend on besides files. False: there is none. */
bool key_compute(const struct request *request, uint8_t key[KEY_SIZE]);

void sha256(const uint8_t *bytes, size_t size, uint8_t digest[KEY_SIZE]);

enum stored_record {
    STORED_CWD = 1,   /* string: where the command begins */
    STORED_WORKSPACE, /* string */
    STORED_HOME,      /* string */
    STORED_VARIABLE,  /* string NAME=VALUE: which Python has set in its own environment, for all its children */
    STORED_AREA,      /* u32 is told about, string path: the private areas, in the launcher's order */
    STORED_OWN,       /* u32 size, bytes, string path: what corral itself puts into them */
    STORED_ROOT,      /* string: a directory beneath which commands write, of a plan that looks at repositories */
    STORED_WORKTREE,  /* u32 size, bytes, string: the top of a repository that the plan holds, and its HEAD; empty: none yet */
    STORED_COPY,      /* u64 device, inode, string path, root, inside: a git configuration of which commands get a copy */
    STORED_COPIES,    /* string: the directory in which copies are made */
    STORED_MARK,      /* u32 size, bytes, string directory: what is written down while a command runs */
    STORED_LIVE,      /* string: the directory in which the user's other processes see runs */
    STORED_FACT,      /* string name, string value: what they are told of this one */
    STORED_TYPES,
};

/* A stored plan, open: the plan itself as `corral compile` writes it, and what the entry program has to know. */
struct stored {
    int fd; /* for Python, which finds the rest of it there */
    uint8_t *bytes;
    struct cursor records;
    uint32_t count;
    struct plan plan;
    const char *cwd, *workspace, *home, *copies, *marks;
    struct cursor mark;
    uint32_t numbers[STORED_TYPES];
};

/* Finds it in the user's state directory. False: there is none that can be believed. */
bool stored_open(struct stored *stored, const uint8_t key[KEY_SIZE]);

/* Where stored plans are, as a descriptor; -1: nowhere that can be believed. And the name of one. */
int stored_directory(void);
void write_hex(const uint8_t key[KEY_SIZE], char name[2 * KEY_SIZE + 1]);

/* The next record of a type after `rest`, which begins as stored->records. */
bool stored_next(const struct stored *stored, struct cursor *rest, uint32_t *at, uint32_t wanted, struct cursor *payload);

/* A user's home directory by the password database. False: it names none. */
bool find_home(uid_t uid, char *home, size_t size);

/* Opens a directory by its components, none of which is a link, or may be changed by anybody but root and the caller. */
int open_trusted(const char *path);

/* Runs Python in our place, with the words that we were given. */
_Noreturn void hand_to_python(char **argv);

#endif
