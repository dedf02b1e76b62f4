/* Listings of directories, by device, inode and time of change. As long as these are the same, the same names are in a
 * directory, and they are of the same types; what a file says is read again each time. src/corral/untrusted_files/unchanged.py
 * has the same rules.
 *
 * TRUST: no command can set a time of change, on a file system that keeps it by itself. A time that was younger than a tick
 * when the directory was listed may stand for a second change as well; such a listing is not kept. What is kept lies
 * beside the stored plans and is believed like these. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include "kernel.h"
#include "listings.h"

enum { TICK_NS = 20000000, SECOND_NS = 1000000000, MOST_KNOWN = 1 << 18 };

size_t place_enter(struct place *place, const char *name) {
    size_t before = place->length, size = strlen(name);
    if (before + 1 + size >= sizeof place->path) return 0;
    place->path[before] = '/';
    memcpy(place->path + before + 1, name, size + 1);
    place->length = before + 1 + size;
    return before;
}

void place_leave(struct place *place, size_t before) { place->path[place->length = before] = 0; }

const char *place_relative(const struct place *place) {
    return place->length < place->skip ? "." : place->path + place->skip;
}

static uint64_t hash_of(const struct stamp *stamp, uint32_t kind) {
    uint64_t hash = (stamp->inode * KINDS + kind) * 0x9e3779b97f4a7c15u;
    return (hash ^ stamp->changed_ns ^ stamp->device) * 0xff51afd7ed558ccdu >> 20;
}

/* Where in the table it is, or would be. */
static uint32_t *find(const struct listings *listings, const struct stamp *stamp, uint32_t kind) {
    for (uint64_t at = hash_of(stamp, kind);; at++) {
        uint32_t *place = &listings->places[at & (listings->places_size - 1)];
        if (!*place) return place;
        const struct listing *known = &listings->known[*place - 1];
        if (known->kind == kind && memcmp(&known->stamp, stamp, sizeof *stamp) == 0) return place;
    }
}

/* Half of the table stays free. */
static bool make_room(struct listings *listings) {
    if (listings->count < listings->room) return true;
    uint32_t room = listings->room ? 2 * listings->room : 1024;
    struct listing *known = room > MOST_KNOWN ? NULL : realloc(listings->known, room * sizeof *known);
    if (known) listings->known = known;
    bool *is_used = known ? realloc(listings->is_used, room * sizeof *is_used) : NULL;
    if (is_used) listings->is_used = is_used;
    uint32_t *places = is_used ? calloc(2 * room, sizeof *places) : NULL;
    if (!places) return false;
    free(listings->places);
    listings->places = places;
    listings->places_size = 2 * room;
    listings->room = room;
    for (uint32_t i = 0; i < listings->count; i++) *find(listings, &known[i].stamp, known[i].kind) = i + 1;
    return true;
}

static void keep(struct listings *listings, const struct listing *listing, bool is_used) {
    if (!make_room(listings)) return;
    uint32_t *place = find(listings, &listing->stamp, listing->kind);
    if (*place) return;
    listings->known[listings->count] = *listing;
    listings->is_used[listings->count] = is_used;
    *place = ++listings->count;
}

void listings_restore(struct listings *listings, const struct listing *listing) { keep(listings, listing, false); }

void listings_begin(struct listings *listings) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME_COARSE, &now);
    listings->began_ns = (uint64_t)now.tv_sec * SECOND_NS + (uint64_t)now.tv_nsec;
    listings->fresh = 0;
    for (uint32_t i = 0; i < listings->count; i++) listings->is_used[i] = false;
}

static bool stamp_of(const struct place *place, mode_t type, struct stamp *stamp) {
    struct stat status;
    if (fstatat(place->root, place_relative(place), &status, AT_SYMLINK_NOFOLLOW) < 0 || (status.st_mode & S_IFMT) != type) return false;
    *stamp = (struct stamp){(uint64_t)status.st_dev, (uint64_t)status.st_ino,
                            (uint64_t)status.st_ctim.tv_sec * SECOND_NS + (uint64_t)status.st_ctim.tv_nsec};
    return true;
}

/* A file system that keeps whole seconds has no other times, and is not remembered. */
static bool is_settled(const struct listings *listings, const struct stamp *stamp) {
    return stamp->changed_ns % SECOND_NS && stamp->changed_ns + TICK_NS < listings->began_ns;
}

/* File systems whose times of change this kernel alone sets, also when a mapping is written. */
static bool is_local(int fd) {
    static const long TYPES[] = {0xEF53 /* ext2 to ext4 */, 0x58465342 /* xfs */, 0xF2F52010 /* f2fs */};
    struct statfs status;
    if (fstatfs(fd, &status) < 0) return false;
    for (size_t i = 0; i < sizeof TYPES / sizeof *TYPES; i++)
        if ((long)status.f_type == TYPES[i]) return true;
    return false;
}

static const struct listing *find_known(struct listings *listings, const struct stamp *stamp, enum kind kind) {
    uint32_t number = listings->places_size ? *find(listings, stamp, kind) : 0;
    if (!number) return NULL;
    listings->is_used[number - 1] = true;
    return &listings->known[number - 1];
}

static unsigned char type_of(int directory, const struct dirent *entry) {
    struct stat status;
    if (entry->d_type != DT_UNKNOWN) return entry->d_type;
    if (fstatat(directory, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) < 0) return DT_UNKNOWN;
    return S_ISDIR(status.st_mode) ? DT_DIR : S_ISREG(status.st_mode) ? DT_REG : S_ISLNK(status.st_mode) ? DT_LNK : DT_FIFO;
}

static bool list(struct bytes *names, DIR *directory, struct listing *now, judge *judge, int *left) {
    struct dirent *entry;
    while (errno = 0, (entry = readdir(directory))) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
        unsigned char type = type_of(dirfd(directory), entry);
        enum verdict verdict = type == DT_UNKNOWN || --*left < 0 ? REFUSED : judge(now->kind, entry->d_name, type, &now->marks);
        if (verdict == REFUSED) return false;
        if (verdict != KEPT) continue;
        bytes_add(names, type == DT_DIR ? "d" : "f", 1);
        bytes_add(names, entry->d_name, strlen(entry->d_name) + 1);
    }
    return errno == 0 && !names->bad && names->size <= UINT32_MAX;
}

bool listings_look(struct listings *listings, const struct place *place, enum kind kind, judge *judge, int *left, struct listing *found) {
    *found = (struct listing){.kind = kind, .names_at = (uint32_t)listings->names.size};
    if (!stamp_of(place, S_IFDIR, &found->stamp)) return false;
    const struct listing *known = find_known(listings, &found->stamp, kind);
    if (known) return *found = *known, true;
    listings->fresh++;
    /* ORDER: the time was asked for before the names are: a change in between is seen the next time. */
    int fd = k_openat2(place->root, place_relative(place), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC,
                       K_RESOLVE_NO_SYMLINKS | K_RESOLVE_BENEATH);
    DIR *directory = fd < 0 ? NULL : fdopendir(fd);
    if (!directory && fd >= 0) close(fd);
    bool is_fine = directory && list(&listings->names, directory, found, judge, left);
    found->names_size = (uint32_t)listings->names.size - found->names_at;
    if (is_fine && is_settled(listings, &found->stamp) && is_local(fd)) keep(listings, found, true);
    if (directory) closedir(directory);
    return is_fine;
}

const char *listing_next(const struct listings *listings, const struct listing *listing, uint32_t *at) {
    if (*at >= listing->names_size) return NULL;
    const char *name = (const char *)listings->names.at + listing->names_at + *at;
    *at += (uint32_t)strlen(name) + 1;
    return name;
}

bool listings_know(struct listings *listings, const struct place *place, enum kind kind, struct listing *now) {
    *now = (struct listing){.kind = kind};
    return stamp_of(place, S_IFREG, &now->stamp) && find_known(listings, &now->stamp, kind);
}

void listings_add(struct listings *listings, const struct place *place, const struct listing *now) {
    listings->fresh++;
    if (is_settled(listings, &now->stamp) && is_local(place->root)) keep(listings, now, true);
}
