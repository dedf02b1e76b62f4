/* Whether there is anything to tell of a run. What is told, and in which words, is Python's alone; here it is enough to
 * know that there is nothing. INVARIANT: what is not known to be silent is not. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "run.h"
#include "tables.h"

static bool begins(const char *line, size_t length, const char *word) {
    size_t size = strlen(word);
    return length >= size && memcmp(line, word, size) == 0 && (length == size || line[size] == ' ');
}

/* What every supervisor says of every run. "said" has what was printed, which is judged in the end. */
static bool is_plain(const char *line, size_t length) {
    static const char *const PLAIN[] = {"started", "exited", "usage", "swept", "areas", "gateway", "failed", "said"};
    for (size_t i = 0; i < sizeof PLAIN / sizeof *PLAIN; i++)
        if (begins(line, length, PLAIN[i])) return true;
    return false;
}

bool is_plain_so_far(struct run *run) {
    const char *at = run->said, *end = run->said + run->said_size, *line_end = NULL;
    for (; at < end && (line_end = memchr(at, '\n', (size_t)(end - at))); at = line_end + 1)
        if (!is_plain(at, (size_t)(line_end - at))) return false;
    return true;
}

static const char *find_line(const struct run *run, const char *word) {
    const char *at = run->said, *end = run->said + run->said_size, *line_end = NULL;
    for (; at < end && (line_end = memchr(at, '\n', (size_t)(end - at))); at = line_end + 1)
        if (begins(at, (size_t)(line_end - at), word)) return at + strlen(word);
    return NULL;
}

static uint8_t folded(uint8_t byte) { return byte >= 'A' && byte <= 'Z' ? (uint8_t)(byte | 0x20) : byte; }

static bool has_word(const uint8_t *text, size_t size, const char *word) {
    size_t length = strlen(word);
    for (size_t at = 0; at + length <= size; at++) {
        size_t same = 0;
        while (same < length && folded(text[at + same]) == (uint8_t)word[same]) same++;
        if (same == length) return true;
    }
    return false;
}

static bool has_any(const uint8_t *text, size_t size, const char *const *words, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (has_word(text, size, words[i])) return true;
    return false;
}

/* Of what a command prints when it is refused something: src/corral/runtime/inference.py makes guesses from it. */
static bool speaks_of_denial(const uint8_t *text, size_t size) {
    return has_any(text, size, DENIALS, sizeof DENIALS / sizeof *DENIALS);
}

static int digit_of(char c) { return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1; }

/* What the filter has heard, in lines of hexadecimal digits. */
static bool heard_denial(const struct run *run) {
    static uint8_t heard[MOST_STATUS];
    size_t size = 0;
    const char *at = run->said, *end = run->said + run->said_size, *line_end = NULL;
    for (; at < end && (line_end = memchr(at, '\n', (size_t)(end - at))); at = line_end + 1) {
        if (!begins(at, (size_t)(line_end - at), "said")) continue;
        for (const char *c = at + 5; c + 1 < line_end && size < sizeof heard; c += 2)
            heard[size++] = (uint8_t)(digit_of(c[0]) * 16 + digit_of(c[1]));
    }
    return speaks_of_denial(heard, size);
}

/* Programs that cannot work in a sandbox, of which src/corral/cli/advice.py has a sentence when they have failed. */
static bool needs_advice(const struct request *request) {
    for (char **word = request->words; word && *word; word++)
        if (has_any((const uint8_t *)*word, strlen(*word), ADVISED, sizeof ADVISED / sizeof *ADVISED)) return true;
    const char *line = request->line ? request->line : "";
    return has_any((const uint8_t *)line, strlen(line), ADVISED, sizeof ADVISED / sizeof *ADVISED);
}

static bool is_asked(const struct run *run) {
    for (int i = 0; i < run->given_count; i++) {
        struct pollfd one = {.fd = run->given[i], .events = POLLIN};
        if (poll(&one, 1, 0) != 0) return true;
    }
    return false;
}

static bool is_left_clean(struct run *run) {
    if (!run->is_looked_at) run->is_clean = areas_are_bare(run) && trees_are_clean(run, true) && copies_are_unchanged(run);
    run->is_looked_at = true;
    return run->is_clean;
}

/* ORDER: the account is said when everyone is gone and the guard has swept. */
void look_early(struct run *run) {
    if (!run->is_looked_at && !run->relays.is_used && find_line(run, "usage")) (void)is_left_clean(run);
}

bool is_quiet(struct run *run, int *exit_code) {
    const char *code = find_line(run, "exited");
    const struct relay *streams = run->relays.streams;
    if (!code || !find_line(run, "started") || !find_line(run, "usage") || !is_plain_so_far(run)) return false;
    if (run->said_size == 0 || run->said[run->said_size - 1] != '\n') return false;
    if (run->launch.spec.count[RECORD_GUARD] && !find_line(run, "swept")) return false;
    *exit_code = (int)strtol(code, NULL, 10);
    if (is_asked(run) || heard_denial(run)) return false;
    for (int i = 0; i < 2; i++)
        if (speaks_of_denial(streams[i].tail, streams[i].tail_size)) return false;
    if (*exit_code && needs_advice(run->request)) return false;
    return is_left_clean(run);
}
