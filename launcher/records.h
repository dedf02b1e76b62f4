/* One record's payload. */
#ifndef CORRAL_RECORDS_H
#define CORRAL_RECORDS_H

#include "cursor.h"
#include "spec.h"

bool record_is_known(uint32_t type);

/* Stores the record and counts it in spec->count. NULL, or what is malformed. The arrays must have room. */
const char *record_parse(struct spec *spec, uint32_t type, struct cursor payload);

/* For parsers in other files: each takes its fields, and says what is wrong with them. */
bool is_plain_path(const char *path);
const char *parse_guard(struct spec *spec, struct cursor *c);   /* guard_records.c */
const char *parse_guarded(struct spec *spec, struct cursor *c); /* guard_records.c */
const char *parse_searched(struct spec *spec, struct cursor *c); /* guard_records.c */
const char *parse_name(struct spec *spec, struct cursor *c);    /* guard_records.c */

#endif
