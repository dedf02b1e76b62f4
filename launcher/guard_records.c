/* Decoding the records of the guard over protected names. */
#include <string.h>

#include "records.h"

const char *parse_guard(struct spec *spec, struct cursor *c) {
    spec->quarantine = cursor_string(c);
    return !*spec->quarantine || is_plain_path(spec->quarantine) ? NULL : "quarantine is not a plain absolute path";
}

const char *parse_guarded(struct spec *spec, struct cursor *c) {
    struct guarded_record *guarded = &spec->guarded[spec->count[RECORD_GUARDED]];
    guarded->device = cursor_u64(c);
    guarded->inode = cursor_u64(c);
    guarded->path = cursor_string(c);
    guarded->first = guarded->end = spec->count[RECORD_NAME];
    return is_plain_path(guarded->path) ? NULL : "guarded directory is not a plain absolute path";
}

const char *parse_searched(struct spec *spec, struct cursor *c) {
    struct guarded_record *searched = &spec->searched[spec->count[RECORD_SEARCHED]];
    searched->device = cursor_u64(c);
    searched->inode = cursor_u64(c);
    searched->path = cursor_string(c);
    return is_plain_path(searched->path) ? NULL : "searched directory is not a plain absolute path";
}

/* Of the directory that came last. */
const char *parse_name(struct spec *spec, struct cursor *c) {
    struct name_record *name = &spec->names[spec->count[RECORD_NAME]];
    name->flags = cursor_u32(c);
    name->name = cursor_string(c);
    name->link = cursor_string(c);
    name->label = cursor_string(c);
    if (c->bad) return NULL; /* the caller says it */
    if (!spec->count[RECORD_GUARDED]) return "a protected name in no directory";
    if (name->flags & ~(uint32_t)NAME_FLAGS) return "unknown flag of a name";
    bool is_dots = strcmp(name->name, ".") == 0 || strcmp(name->name, "..") == 0;
    if (!*name->name || is_dots || strchr(name->name, '/')) return "a protected name is not a name";
    spec->guarded[spec->count[RECORD_GUARDED] - 1].end++;
    return NULL;
}
