/* Monotonic milliseconds. */
#ifndef CORRAL_CLOCK_H
#define CORRAL_CLOCK_H

#include <stdint.h>
#include <time.h>

static const int64_t NEVER = INT64_MAX;

static inline int64_t now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static inline int64_t after_ms(uint64_t delay) {
    int64_t now = now_ms();
    return delay > (uint64_t)(NEVER - now) ? NEVER : now + (int64_t)delay;
}

/* The given milliseconds, or those until a moment, if that is sooner; -1: never. */
static inline int sooner(int timeout, int64_t at) {
    int64_t left = at - now_ms();
    if (left < 0) left = 0;
    return timeout < 0 || left < timeout ? (int)left : timeout;
}

#endif
