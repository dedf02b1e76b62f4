/* `corral session exec` without Python: a session that runs is asked for a command, and what it answers is the exit
 * status. Everything that is to be told is Python's, which takes our place with the answer still unread. */
#ifndef CORRAL_SESSION_H
#define CORRAL_SESSION_H

#include "entry.h"

enum { MOST_NAME = 64, MOST_TOKEN = 64, MOST_PACKET = 32768 };

/* What was typed, as far as it can be taken for a plain `corral session exec`. */
struct execution {
    char **argv;        /* all of it, for Python */
    const char *name;   /* NULL: the session of the workspace */
    char **words;       /* the command; NULL: there is a line */
    const char *line;   /* of -c */
    const char *cwd;    /* which was named */
    const char *variables[64];
    int variable_count;
    long seconds;       /* 0: no --timeout */
    bool is_stateful;
};

/* A session that says that it runs, by its record. */
struct named_session {
    char name[MOST_NAME + 1], token[MOST_TOKEN + 1];
    long pid;
    int place; /* its directory */
};

/* session_words.c: false: it is for Python to understand. */
bool execution_read(struct execution *execution, int argc, char **argv);

/* session_place.c: false: there is none, or none that Python has nothing to say about. */
bool session_find(struct named_session *session, const char *name, const char *here);

/* session_request.c: the packet. False: it is too long, or has bytes of which Python makes something of its own. */
bool execution_encode(const struct execution *execution, const struct named_session *session, const char *here,
                      struct bytes *packet);

/* session.c: the exit code; -1: nothing has begun, and Python does it. */
int session_exec(const struct execution *execution);

#endif
