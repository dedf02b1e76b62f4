/* Bases: the mount that a target lies in, by the order of the records alone.
 *
 * TRUST: in private areas that a successor has taken over, whoever holds a descriptor of them may exchange names while
 * records are applied. A path that leads through an area is one tree now and another one a moment later: a shield would
 * cover something else than what its grant shows. So what lies in a mount is looked up from that mount, by descriptor.
 *
 * A bind in a bind is no base: both show the host, a target there must be the planned object, and there may be more of
 * them than descriptors. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mounts.h"

enum { LEAST_ROOM = 16 };

/* The last mount at each path: an open hash table of records, by their number and 1. */
struct index {
    const struct mount_record *mounts;
    size_t *slots, room;
};

static uint64_t hash_more(uint64_t hash, char byte) { return (hash ^ (uint8_t)byte) * 1099511628211u; } /* FNV-1a */

static size_t *find(const struct index *index, const char *path, size_t length, uint64_t hash) {
    size_t at = (hash ^ hash >> 32) & (index->room - 1);
    for (; index->slots[at]; at = (at + 1) & (index->room - 1)) {
        const char *known = index->mounts[index->slots[at] - 1].target;
        if (strncmp(known, path, length) == 0 && !known[length]) break;
    }
    return &index->slots[at];
}

static bool makes_mount(uint32_t kind) {
    return kind != MOUNT_SYMLINK && kind != MOUNT_FILE && kind != MOUNT_DIRECTORY && kind != MOUNT_COPY;
}

/* From shallow to deep: a mount that is older than one above it lies hidden beneath that. */
static size_t find_base(struct view *view, const struct index *index, const char *target, uint64_t *hash,
                        bool *is_beneath_read_only) {
    size_t newest = 0, base = 0;
    *hash = 14695981039346656037u;
    for (size_t length = 0; target[length]; *hash = hash_more(*hash, target[length++])) {
        size_t number = length && target[length] == '/' ? *find(index, target, length, *hash) : 0;
        if (number && index->mounts[number - 1].flags & MOUNT_READ_ONLY) *is_beneath_read_only = true;
        if (number <= newest) continue;
        newest = number;
        if (view->places[number - 1].is_base) base = number;
    }
    return base;
}

static void plan_one(struct view *view, const struct index *index, size_t i) {
    const struct mount_record *mounts = index->mounts;
    struct place *place = &view->places[i];
    uint32_t kind = mounts[i].kind;
    uint64_t hash = 0;
    bool is_beneath_read_only = false;
    size_t base = find_base(view, index, mounts[i].target, &hash, &is_beneath_read_only);
    place->fd = place->tree = -1;
    /* Bound onto itself in place, it would be as read-only as what is bound above it by then. */
    bool is_writable = kind == MOUNT_BIND && !(mounts[i].flags & MOUNT_READ_ONLY);
    place->lies_in_bind = base && mounts[base - 1].kind == MOUNT_BIND;
    place->lies_in_overlay = base && mounts[base - 1].kind == MOUNT_OVERLAY;
    place->is_early = (view->is_in_place || place->lies_in_overlay) && is_writable && is_beneath_read_only;
    bool shows_host = base ? place->lies_in_bind || place->lies_in_overlay : view->is_in_place;
    place->is_base = kind == MOUNT_AREA || kind == MOUNT_TMPFS || kind == MOUNT_OVERLAY || (kind == MOUNT_BIND && !shows_host);
    if (base) {
        place->base = &view->places[base - 1];
        place->base->is_needed = true;
        place->length = strlen(mounts[base - 1].target);
    }
    if (makes_mount(kind)) *find(index, mounts[i].target, strlen(mounts[i].target), hash) = i + 1;
}

int bases_plan(struct view *view) {
    const struct spec *spec = &view->launch->spec;
    size_t count = spec->count[RECORD_MOUNT];
    struct index index = {.mounts = spec->mounts, .room = LEAST_ROOM};
    while (index.room < 2 * count) index.room *= 2;
    index.slots = calloc(index.room, sizeof *index.slots);
    if (!index.slots) return -ENOMEM;
    view->places = calloc(count, sizeof *view->places);
    for (size_t i = 0; view->places && i < count; i++) plan_one(view, &index, i);
    free(index.slots);
    return view->places ? 0 : -ENOMEM;
}

/* `fd` is the mount of the record that is being applied. */
int base_hold(struct view *view, int fd) {
    if (!view->place || !view->place->is_needed) return 0;
    view->place->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    return view->place->fd < 0 ? -errno : 0;
}

void bases_close(struct view *view) {
    for (size_t i = 0; view->places && i < view->launch->spec.count[RECORD_MOUNT]; i++) {
        if (view->places[i].fd >= 0) close(view->places[i].fd);
        if (view->places[i].tree >= 0) close(view->places[i].tree);
    }
    free(view->places);
    view->places = view->place = NULL;
}
