/* Reading untrusted bytes from left to right, never past the end. */
#ifndef CORRAL_CURSOR_H
#define CORRAL_CURSOR_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* INVARIANT: `at .. at + left` stays inside the buffer the cursor was made for. A read that does not fit
 * sets `bad`, consumes everything and yields zeros, so callers may read on and test `bad` once. */
struct cursor {
    const uint8_t *at;
    size_t left;
    bool bad;
};

static inline const uint8_t *cursor_take(struct cursor *c, size_t size) {
    if (size > c->left) {
        c->bad = true;
        c->left = 0;
        return NULL;
    }
    const uint8_t *taken = c->at;
    c->at += size;
    c->left -= size;
    return taken;
}

static inline uint32_t cursor_u32(struct cursor *c) {
    const uint8_t *b = cursor_take(c, 4);
    if (!b) return 0;
    return (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

static inline uint64_t cursor_u64(struct cursor *c) {
    uint64_t low = cursor_u32(c);
    return low | (uint64_t)cursor_u32(c) << 32;
}

/* The bytes up to the next NUL, which must be inside and is consumed too. */
static inline const char *cursor_string(struct cursor *c) {
    const uint8_t *start = c->at;
    const uint8_t *end = c->left ? memchr(start, 0, c->left) : NULL;
    if (!end) {
        c->bad = true;
        c->left = 0;
        return "";
    }
    c->left -= (size_t)(end - start) + 1;
    c->at = end + 1;
    return (const char *)start;
}

#endif
