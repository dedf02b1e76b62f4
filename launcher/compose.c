/* The whole spec of one run: that of the plan, and the command, its directory and its environment of now. It is then
 * decoded like any other, so that what is wrong with it is found in the same place. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "plan.h"
#include "spec.h"

enum { FIRST_ROOM = 32768 }; /* what most need: growing takes memory anew */

void bytes_add(struct bytes *bytes, const void *more, size_t size) {
    if (!bytes->bad && size > bytes->room - bytes->size) {
        size_t room = (bytes->size + size) * 2 < FIRST_ROOM ? FIRST_ROOM : (bytes->size + size) * 2;
        uint8_t *at = room > 4 * (size_t)SPEC_MAX_BYTES ? NULL : realloc(bytes->at, room);
        bytes->bad = !at;
        if (at) bytes->at = at, bytes->room = room;
    }
    if (bytes->bad) return;
    memcpy(bytes->at + bytes->size, more, size);
    bytes->size += size;
}

static void put_u32(uint8_t *at, uint32_t value) {
    for (int i = 0; i < 4; i++) at[i] = (uint8_t)(value >> (8 * i));
}

static void add_u32(struct bytes *bytes, uint32_t value) {
    uint8_t raw[4];
    put_u32(raw, value);
    bytes_add(bytes, raw, sizeof raw);
}

/* A record of one string, in two parts; returns 1, to be counted. */
static uint32_t add_text(struct bytes *spec, uint32_t type, const char *first, const char *second) {
    size_t length = strlen(first) + strlen(second) + 1;
    add_u32(spec, type);
    add_u32(spec, length > UINT32_MAX ? UINT32_MAX : (uint32_t)length);
    bytes_add(spec, first, strlen(first));
    bytes_add(spec, second, strlen(second) + 1);
    return 1;
}

/* Of a plan the part about variables: its records lie together, and each variable of the caller's is held against them. */
static struct plan about_variables(const struct plan *plan) {
    struct plan part = {.records = plan->records};
    struct cursor rest = plan->records, payload;
    uint32_t type = 0, first = 0;
    for (uint32_t i = 0; i < plan->count; i++) {
        struct cursor here = rest;
        if (!plan_next(&rest, &type, &payload)) break;
        if (type != PLAN_PASS && type != PLAN_DEFAULT && type != PLAN_SET) continue;
        if (!part.count) part.records = here, first = i;
        part.count = i - first + 1;
    }
    return part;
}

static bool has_name(const char *entry, const char *other) {
    size_t length = strcspn(entry, "=");
    return strncmp(entry, other, length) == 0 && other[length] == '=';
}

/* Whether a record of this type has the name of an entry. */
static bool is_said(const struct plan *plan, enum plan_record wanted, const char *entry) {
    struct cursor rest = plan->records, payload;
    uint32_t type = 0;
    for (uint32_t i = 0; i < plan->count && plan_next(&rest, &type, &payload); i++)
        if (type == wanted && has_name(entry, cursor_string(&payload))) return true;
    return false;
}

static bool may_pass(const struct plan *plan, const char *entry) {
    struct cursor rest = plan->records, payload;
    size_t length = strcspn(entry, "=");
    uint32_t type = 0;
    for (uint32_t i = 0; i < plan->count && plan_next(&rest, &type, &payload); i++) {
        if (type != PLAN_PASS) continue;
        const char *name = cursor_string(&payload);
        size_t known = strlen(name);
        if (known == length && memcmp(name, entry, length) == 0) return true;
        if (known && name[known - 1] == '*' && length >= known - 1 && memcmp(name, entry, known - 1) == 0) return true;
    }
    return false;
}

static bool is_among(const char *entry, char *const *entries, char *const *end) {
    for (; *entries && entries != end; entries++)
        if (has_name(entry, *entries)) return true;
    return false;
}

/* The names are the policy's, the values the caller's. Of a name that he has twice the first counts, as everywhere. */
static uint32_t add_environment(const struct plan *plan, char *const *entries, const char *cwd, struct bytes *spec) {
    struct cursor rest = plan->records, payload;
    uint32_t type = 0, count = 0;
    for (char *const *entry = entries; *entry; entry++) {
        if (!strchr(*entry, '=') || **entry == '=' || !may_pass(plan, *entry)) continue;
        if (is_said(plan, PLAN_SET, *entry) || has_name(*entry, "PWD=") || is_among(*entry, entries, entry)) continue;
        count += add_text(spec, RECORD_ENVIRONMENT, *entry, "");
    }
    for (uint32_t i = 0; i < plan->count && plan_next(&rest, &type, &payload); i++) {
        const char *text = type == PLAN_SET || type == PLAN_DEFAULT ? cursor_string(&payload) : NULL;
        bool is_default = type == PLAN_DEFAULT;
        if (!text || (is_default && is_said(plan, PLAN_SET, text))) continue;
        if (is_default && may_pass(plan, text) && is_among(text, entries, NULL)) continue;
        count += add_text(spec, RECORD_ENVIRONMENT, text, "");
    }
    if (!is_said(plan, PLAN_SET, "PWD=")) count += add_text(spec, RECORD_ENVIRONMENT, "PWD=", cwd);
    return count;
}

int plan_compose(const struct plan *plan, char *const *argv, const char *cwd, char *const *entries, struct bytes *spec) {
    static const uint8_t MAGIC[8] = {'C', 'O', 'R', 'R', 'A', 'L', 0, 1};
    const struct plan variables = about_variables(plan);
    struct cursor ground = plan->spec;
    uint32_t count = cursor_u32(&ground);
    *spec = (struct bytes){0};
    bytes_add(spec, MAGIC, sizeof MAGIC);
    add_u32(spec, 0); /* both are known in the end */
    add_u32(spec, 0);
    bytes_add(spec, ground.at, ground.left);
    count += add_text(spec, RECORD_CWD, cwd, "");
    for (; *argv; argv++) count += add_text(spec, RECORD_ARGUMENT, *argv, "");
    count += add_environment(&variables, entries, cwd, spec);
    if (spec->bad || spec->size > SPEC_MAX_BYTES) return -E2BIG;
    put_u32(spec->at + 8, (uint32_t)spec->size);
    put_u32(spec->at + 12, count);
    return 0;
}
