/* A request as src/corral/sessions/named/frames.py sends it: one packet of JSON. What would go into a file in memory, and bytes
 * that are not UTF-8, are Python's. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "session.h"

static void add(struct bytes *packet, const char *text) { bytes_add(packet, text, strlen(text)); }

/* How many bytes the character has; 0: it is none. As the standard says: no surrogates, and nothing in a longer form. */
static size_t character(const unsigned char *at) {
    if (at[0] < 0x80) return 1;
    size_t size = at[0] >= 0xf0 ? 4 : at[0] >= 0xe0 ? 3 : 2;
    uint32_t value = at[0] & (0xffu >> (size + 1));
    if (at[0] < 0xc2 || at[0] > 0xf4) return 0;
    for (size_t i = 1; i < size; i++) {
        if ((at[i] & 0xc0) != 0x80) return 0;
        value = value << 6 | (at[i] & 0x3fu);
    }
    if ((size == 3 && value < 0x800) || (size == 4 && value < 0x10000) || value > 0x10ffff) return 0;
    return value >= 0xd800 && value <= 0xdfff ? 0 : size;
}

static void add_string(struct bytes *packet, const char *text, size_t length) {
    const unsigned char *at = (const unsigned char *)text, *end = at + length;
    add(packet, "\"");
    while (at < end) {
        char escaped[8];
        size_t size = character(at);
        if (size == 0 || size > (size_t)(end - at)) packet->bad = true;
        if (packet->bad) return;
        if (*at < 0x20 || *at == '"' || *at == '\\') {
            snprintf(escaped, sizeof escaped, "\\u%04x", *at);
            add(packet, escaped);
        } else {
            bytes_add(packet, at, size);
        }
        at += size;
    }
    add(packet, "\"");
}

static void add_command(struct bytes *packet, const struct execution *e) {
    add(packet, ", \"command\": ");
    if (e->line) {
        add_string(packet, e->line, strlen(e->line));
        return;
    }
    for (char **word = e->words; *word; word++) {
        add(packet, word == e->words ? "[" : ", ");
        add_string(packet, *word, strlen(*word));
    }
    add(packet, "]");
}

/* NAME=VALUE, or NAME of a variable that there is. */
static void add_variables(struct bytes *packet, const struct execution *e) {
    const char *before = "{";
    add(packet, ", \"env\": ");
    for (int i = 0; i < e->variable_count; i++) {
        size_t length = strcspn(e->variables[i], "=");
        const char *value = e->variables[i][length] ? e->variables[i] + length + 1 : getenv(e->variables[i]);
        if (!value) continue;
        add(packet, before);
        add_string(packet, e->variables[i], length);
        add(packet, ": ");
        add_string(packet, value, strlen(value));
        before = ", ";
    }
    add(packet, *before == '{' ? "{}" : "}");
}

bool execution_encode(const struct execution *e, const struct named_session *session, const char *here, struct bytes *packet) {
    char seconds[48];
    add(packet, "j{\"v\": 1, \"op\": \"exec\", \"token\": ");
    add_string(packet, session->token, strlen(session->token));
    add_command(packet, e);
    add(packet, ", \"here\": ");
    add_string(packet, here, strlen(here));
    if (e->cwd) add(packet, ", \"cwd\": "), add_string(packet, e->cwd, strlen(e->cwd));
    snprintf(seconds, sizeof seconds, ", \"timeout\": %ld.0", e->seconds);
    if (e->seconds) add(packet, seconds);
    add_variables(packet, e);
    add(packet, e->is_stateful ? ", \"is_stateful\": true}" : "}");
    return !packet->bad && packet->size <= MOST_PACKET;
}
