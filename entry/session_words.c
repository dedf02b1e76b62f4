/* The words of `corral session exec`, as src/corral/cli/session/options.py: parse_exec reads them. */
#include <string.h>

#include "session.h"
#include "tables.h"

static const struct exec_option *find_option(const char *flag, size_t length) {
    for (size_t i = 0; i < sizeof EXEC_OPTIONS / sizeof *EXEC_OPTIONS; i++)
        if (strlen(EXEC_OPTIONS[i].flag) == length && memcmp(EXEC_OPTIONS[i].flag, flag, length) == 0) return &EXEC_OPTIONS[i];
    return NULL;
}

/* A whole number with one unit or none, which is what people write; the rest is for Python to read, or to refuse. */
static long read_seconds(const char *text) {
    long number = 0;
    size_t digits = strspn(text, "0123456789");
    if (digits == 0 || digits > 4 || text[0] == '0') return 0;
    for (size_t i = 0; i < digits; i++) number = number * 10 + (text[i] - '0');
    if (strcmp(text + digits, "m") == 0) return number * 60;
    if (strcmp(text + digits, "h") == 0) return number * 3600;
    return strcmp(text + digits, "s") == 0 || !text[digits] ? number : 0;
}

/* A path that os.path.abspath leaves as it is. */
static bool is_absolute(const char *path) {
    if (path[0] != '/' || (path[1] && path[strlen(path) - 1] == '/')) return false;
    for (const char *at = path; (at = strchr(at, '/')); at++) {
        size_t length = strcspn(at + 1, "/");
        if ((length == 0 && at[1]) || (length && length <= 2 && memcmp(at + 1, "..", length) == 0)) return false;
    }
    return true;
}

static bool take(struct execution *e, enum exec_kind kind, const char *value) {
    switch (kind) {
    case EXEC_LINE: e->line = value; return true;
    case EXEC_STATEFUL: e->is_stateful = true; return true;
    case EXEC_CWD: e->cwd = value; return is_absolute(value);
    case EXEC_TIMEOUT: e->seconds = read_seconds(value); return e->seconds > 0;
    case EXEC_ENV:
        if (e->variable_count == (int)(sizeof e->variables / sizeof *e->variables)) return false;
        e->variables[e->variable_count++] = value;
        return true;
    case EXEC_OF_PYTHON: break;
    }
    return false;
}

bool execution_read(struct execution *e, int argc, char **argv) {
    *e = (struct execution){.argv = argv};
    if (argc < 4 || strcmp(argv[1], "session") != 0 || strcmp(argv[2], "exec") != 0) return false;
    int at = 3;
    while (at < argc && strcmp(argv[at], "--") != 0) {
        const char *flag = argv[at];
        if (flag[0] != '-') {
            if (e->name) break;
            e->name = argv[at++];
            continue;
        }
        size_t length = strncmp(flag, "--", 2) == 0 ? strcspn(flag, "=") : strlen(flag);
        const struct exec_option *option = find_option(flag, length);
        if (!option || (flag[length] && !option->takes_value)) return false;
        at++;
        const char *value = flag[length] ? flag + length + 1 : NULL;
        if (option->takes_value && !value) value = at < argc ? argv[at++] : NULL;
        if ((option->takes_value && !value) || !take(e, option->kind, value)) return false;
    }
    if (at < argc && strcmp(argv[at], "--") == 0) at++;
    if (e->line ? at < argc || is_blank(e->line) : at >= argc) return false;
    e->words = e->line ? NULL : argv + at;
    return true;
}
