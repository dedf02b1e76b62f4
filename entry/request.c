/* The words of `corral run`, as src/corral/cli/options.py: parse_quickly reads them, and the name of their plan. */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

#include "entry.h"
#include "spec.h"
#include "tables.h"

static const struct option_entry *find_option(const char *flag, size_t length) {
    for (size_t i = 0; i < sizeof OPTIONS / sizeof *OPTIONS; i++)
        if (strlen(OPTIONS[i].flag) == length && memcmp(OPTIONS[i].flag, flag, length) == 0) return &OPTIONS[i];
    return NULL;
}

bool is_blank(const char *text) {
    for (; *text; text++)
        if (!strchr(" \t\n\r\v\f\x1c\x1d\x1e\x1f", *text) && !((unsigned char)*text & 0x80)) return false;
    return true;
}

/* As streams/callers_outputs.py: errors_pass_by, for a command that has the caller's own descriptors. */
static bool errors_pass_by(void) {
    struct stat one, other;
    if (isatty(STDERR_FILENO)) return true;
    if (fstat(STDERR_FILENO, &other) < 0 || !S_ISREG(other.st_mode) || fstat(STDOUT_FILENO, &one) < 0) return false;
    bool is_open_alike = fcntl(STDOUT_FILENO, F_GETFL) == fcntl(STDERR_FILENO, F_GETFL);
    return is_open_alike && one.st_dev == other.st_dev && one.st_ino == other.st_ino;
}

bool request_read(struct request *request, int argc, char **argv) {
    *request = (struct request){.argc = argc, .argv = argv};
    if (argc < 3 || strcmp(argv[1], "run") != 0) return false;
    int at = 2;
    while (at < argc && argv[at][0] == '-' && argv[at][1]) {
        const char *flag = argv[at++];
        if (strcmp(flag, "--") == 0) break;
        size_t length = strncmp(flag, "--", 2) == 0 ? strcspn(flag, "=") : strlen(flag);
        const struct option_entry *option = find_option(flag, length);
        if (!option || (flag[length] && !option->takes_value)) return false;
        if (!option->takes_value || flag[length]) continue;
        if (at >= argc) return false;
        if (option->is_line) {
            if (request->line_at) return false; /* twice: plain enough for Python alone */
            request->line_at = at;
            request->line = argv[at];
        }
        at++;
    }
    request->options_end = at;
    request->words = argv + at;
    bool has_words = at < argc;
    if (request->line ? has_words || is_blank(request->line) : !has_words) return false;
    if (request->line) request->words = NULL;
    request->hears = errors_pass_by();
    return true;
}

static void add_word(struct bytes *bytes, char kind, const char *word) {
    bytes_add(bytes, &kind, 1);
    bytes_add(bytes, word, strlen(word) + 1);
}

static int compare(const void *one, const void *other) { return strcmp(*(char *const *)one, *(char *const *)other); }

static bool is_left_out(const char *entry) {
    size_t length = strcspn(entry, "=");
    for (size_t i = 0; i < sizeof LEFT_OUT / sizeof *LEFT_OUT; i++)
        if (strlen(LEFT_OUT[i]) == length && memcmp(LEFT_OUT[i], entry, length) == 0) return true;
    return false;
}

/* Every variable, but for a few that no planning reads: so nobody has to know which it does. In order, since a shell may
 * pass the same ones on in another. */
static bool add_environment(struct bytes *bytes) {
    size_t count = 0;
    while (environ[count]) count++;
    char **sorted = malloc((count + 1) * sizeof *sorted);
    if (!sorted) return false;
    memcpy(sorted, environ, count * sizeof *sorted);
    qsort(sorted, count, sizeof *sorted, compare);
    for (size_t i = 0; i < count; i++)
        if (!is_left_out(sorted[i])) add_word(bytes, 'e', sorted[i]);
    free(sorted);
    return true;
}

static bool add_groups(struct bytes *bytes) {
    gid_t groups[1024];
    int count = getgroups(1024, groups);
    if (count < 0) return false;
    for (int i = 0; i < count; i++) {
        uint8_t raw[4] = {(uint8_t)groups[i], (uint8_t)(groups[i] >> 8), (uint8_t)(groups[i] >> 16), (uint8_t)(groups[i] >> 24)};
        bytes_add(bytes, raw, sizeof raw);
    }
    return true;
}

/* Room for all of it at once: a buffer that grows would leave copies behind. */
static struct bytes make_room(const struct request *request) {
    size_t room = PATH_MAX + 1024 * sizeof(gid_t) + 256;
    for (char **entry = environ; *entry; entry++) room += strlen(*entry) + 2;
    for (char **word = request->argv; *word; word++) room += strlen(*word) + 2;
    struct bytes bytes = {.at = malloc(room)};
    bytes.room = bytes.at ? room : 0;
    return bytes;
}

bool key_compute(const struct request *request, uint8_t key[KEY_SIZE]) {
    char cwd[PATH_MAX];
    if (getuid() != geteuid() || getgid() != getegid() || getauxval(AT_SECURE) || !getcwd(cwd, sizeof cwd)) return false;
    if (cwd[0] != '/') return false; /* out of reach */
    struct bytes bytes = make_room(request);
    add_word(&bytes, 'b', CORRAL_BUILD);
    add_word(&bytes, 'd', cwd);
    add_word(&bytes, 'h', request->hears ? "1" : "0");
    /* What is run, and where the options end, is no matter of the plan. */
    for (int i = 2; i < request->options_end; i++)
        if (i != request->line_at && i + 1 != request->line_at && (i + 1 != request->options_end || strcmp(request->argv[i], "--") != 0))
            add_word(&bytes, 'o', request->argv[i]);
    bool is_whole = add_environment(&bytes) && add_groups(&bytes) && !bytes.bad;
    if (is_whole) sha256(bytes.at, bytes.size, key);
    /* TRUST: every variable is in it, and PID 1 of the sandbox will be a fork of this process. */
    if (bytes.at) explicit_bzero(bytes.at, bytes.room);
    free(bytes.at);
    return is_whole;
}
