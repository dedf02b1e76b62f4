/* One record's payload. */
#ifndef CORRAL_RECORDS_H
#define CORRAL_RECORDS_H

#include "cursor.h"
#include "spec.h"

/* Stores the record and counts it in spec->count. NULL, or what is malformed. The arrays must have room. */
const char *record_parse(struct spec *spec, uint32_t type, struct cursor payload);

#endif
