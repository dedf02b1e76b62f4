/* Listings in the state directory, beside the plan of the request that they are for: what one look has found, for the next. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "listings.h"

/* Of the sources of these rules: other rules would have judged otherwise. */
static const char RULES[40] = "corral listings " CORRAL_RULES;
/* What is not written is listed once more, which takes no longer than to write it. */
enum { FEW = 64, MOST_BYTES = 64 * 1024 * 1024 };

struct header {
    char rules[sizeof RULES];
    uint32_t count, names_size;
};

static bool is_whole(const struct listing *listing, const uint8_t *names, uint32_t size) {
    if (listing->names_at > size || listing->names_size > size - listing->names_at || listing->kind >= KINDS) return false;
    return !listing->names_size || !names[listing->names_at + listing->names_size - 1];
}

static void fill(struct listings *listings, const uint8_t *bytes, size_t size) {
    struct header header;
    if (size < sizeof header) return;
    memcpy(&header, bytes, sizeof header);
    size_t known_size = (size_t)header.count * sizeof(struct listing);
    if (memcmp(header.rules, RULES, sizeof RULES) != 0 || size != sizeof header + known_size + header.names_size) return;
    const uint8_t *names = bytes + sizeof header + known_size;
    for (uint32_t i = 0; i < header.count; i++) {
        struct listing listing;
        memcpy(&listing, bytes + sizeof header + i * sizeof listing, sizeof listing);
        if (is_whole(&listing, names, header.names_size)) listings_restore(listings, &listing);
    }
    bytes_add(&listings->names, names, header.names_size);
}

void listings_load(struct listings *listings, int directory, const char *name) {
    struct stat status;
    int fd = openat(directory, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0) return;
    bool is_ours = fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && status.st_uid == geteuid() && status.st_nlink == 1 &&
                   !(status.st_mode & (S_IWGRP | S_IWOTH)) && status.st_size <= MOST_BYTES;
    uint8_t *bytes = is_ours ? malloc((size_t)status.st_size + 1) : NULL;
    if (bytes && read(fd, bytes, (size_t)status.st_size) == status.st_size) fill(listings, bytes, (size_t)status.st_size);
    free(bytes);
    close(fd);
}

static void add_used(const struct listings *listings, struct bytes *known, struct bytes *names) {
    for (uint32_t i = 0; i < listings->count; i++) {
        struct listing listing = listings->known[i];
        if (!listings->is_used[i]) continue;
        listing.names_at = (uint32_t)names->size;
        if (listing.names_size) bytes_add(names, listings->names.at + listings->known[i].names_at, listing.names_size);
        bytes_add(known, &listing, sizeof listing);
    }
}

void listings_save(const struct listings *listings, int directory, const char *name) {
    struct bytes known = {0}, names = {0};
    char temporary[NAME_MAX + 1];
    if (listings->fresh < FEW || snprintf(temporary, sizeof temporary, "%s.%d", name, (int)getpid()) >= (int)sizeof temporary) return;
    add_used(listings, &known, &names);
    struct header header = {.count = (uint32_t)(known.size / sizeof(struct listing)), .names_size = (uint32_t)names.size};
    memcpy(header.rules, RULES, sizeof RULES);
    int fd = known.bad || names.bad ? -1 : openat(directory, temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd >= 0) {
        bool is_written = write(fd, &header, sizeof header) == (ssize_t)sizeof header &&
                          write(fd, known.at, known.size) == (ssize_t)known.size &&
                          write(fd, names.at, names.size) == (ssize_t)names.size;
        if (!is_written || renameat(directory, temporary, directory, name) < 0) unlinkat(directory, temporary, 0);
        close(fd);
    }
    free(known.at);
    free(names.at);
}
