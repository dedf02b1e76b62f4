/* Copies of git configurations, as src/corral/git_check/copies.py makes them: each in a directory of its own beneath one of
 * the run's, which is locked for as long as the run lasts. What a command has changed in one is Python's to judge. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "trees.h"

enum { MOST_BYTES = 262143, NEW_FILE = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC };

static const char NAME[] = "config";

/* For one file after the other. Of what is not used nothing is touched. */
static uint8_t buffer[MOST_BYTES];

struct copy {
    uint64_t device, inode;
    const char *path, *root, *inside;
};

static bool next_copy(const struct stored *stored, struct cursor *rest, uint32_t *at, struct copy *copy) {
    struct cursor payload;
    if (!stored_next(stored, rest, at, STORED_COPY, &payload)) return false;
    copy->device = cursor_u64(&payload);
    copy->inode = cursor_u64(&payload);
    copy->path = cursor_string(&payload);
    copy->root = cursor_string(&payload);
    copy->inside = cursor_string(&payload);
    return true;
}

/* The directory of a file, name by name from the root, which no command can move. */
static int open_beneath(const char *root, const char *path) {
    char name[NAME_MAX + 1];
    size_t length = strlen(root);
    if (strncmp(path, root, length) != 0 || path[length] != '/') return -1;
    int at = open(root, DIRECTORY_FLAGS);
    for (path += length + 1; at >= 0 && strchr(path, '/'); path += strcspn(path, "/") + 1) {
        size_t size = strcspn(path, "/");
        if (size == 0 || size > NAME_MAX) return close(at), -1;
        memcpy(name, path, size);
        name[size] = 0;
        int next = openat(at, name, DIRECTORY_FLAGS);
        close(at);
        at = next;
    }
    return at;
}

static bool read_original(const struct copy *copy, uint8_t **bytes, size_t *size) {
    struct stat status;
    int directory = open_beneath(copy->root, copy->path);
    const char *name = strrchr(copy->path, '/') + 1;
    ssize_t got = directory < 0 ? -1 : read_regular(directory, name, buffer, sizeof buffer);
    *bytes = got < 0 ? NULL : malloc((size_t)got + 1);
    if (*bytes) memcpy(*bytes, buffer, (size_t)got);
    bool is_it = *bytes && fstatat(directory, name, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
                 copy->device == (uint64_t)status.st_dev && copy->inode == (uint64_t)status.st_ino;
    if (directory >= 0) close(directory);
    *size = got < 0 ? 0 : (size_t)got;
    return is_it;
}

/* ORDER: the directory above is locked until ours is: who holds that lock removes what has none. */
static int open_run(struct run *run) {
    int place = open_trusted(run->stored->copies), result = -1;
    int above = place < 0 ? -1 : openat(place, ".", DIRECTORY_FLAGS);
    if (above >= 0 && flock(above, LOCK_EX) == 0 && mkdirat(above, run->id, 0700) == 0) {
        result = openat(above, run->id, DIRECTORY_FLAGS);
        if (result >= 0 && flock(result, LOCK_EX) < 0) close(result), result = -1;
    }
    if (above >= 0) close(above);
    if (place >= 0) close(place);
    return result;
}

static bool write_copy(int run_directory, const char *number, const uint8_t *bytes, size_t size) {
    if (mkdirat(run_directory, number, 0700) < 0) return false;
    int directory = openat(run_directory, number, DIRECTORY_FLAGS);
    int fd = directory < 0 ? -1 : openat(directory, NAME, NEW_FILE, 0600);
    bool is_written = fd >= 0 && write(fd, bytes, size) == (ssize_t)size;
    if (fd >= 0) close(fd);
    if (directory >= 0) close(directory);
    return is_written;
}

bool copies_make(struct run *run) {
    struct cursor rest = run->stored->records;
    uint32_t at = 0, count = 0;
    struct copy copy;
    char number[16];
    if (!run->stored->numbers[STORED_COPY]) return true;
    if (run->stored->numbers[STORED_COPY] > MOST_COPIES || (run->copies = open_run(run)) < 0) return false;
    for (; next_copy(run->stored, &rest, &at, &copy); count++) {
        snprintf(number, sizeof number, "%u", count);
        if (!read_original(&copy, &run->originals[count], &run->original_sizes[count])) return false;
        if (!write_copy(run->copies, number, run->originals[count], run->original_sizes[count])) return false;
    }
    return true;
}

static void add_number(struct bytes *bytes, uint64_t value, int size) {
    for (int i = 0; i < size; i++) {
        uint8_t byte = (uint8_t)(value >> (8 * i));
        bytes_add(bytes, &byte, 1);
    }
}

static void change_number(struct bytes *bytes, size_t at, uint32_t value) {
    for (int i = 0; i < 4; i++) bytes->at[at + (size_t)i] = (uint8_t)(value >> (8 * i));
}

/* As src/corral/linux/encode.py: append_mounts. */
void copies_add(const struct run *run, struct bytes *spec) {
    struct cursor rest = run->stored->records;
    struct cursor header = {.at = spec->at + 12, .left = 4};
    uint32_t at = 0, number = 0, count = cursor_u32(&header);
    struct copy copy;
    for (; next_copy(run->stored, &rest, &at, &copy); number++) {
        char source[PATH_MAX], name[16];
        struct stat status;
        snprintf(name, sizeof name, "%u", number);
        int length = snprintf(source, sizeof source, "%s/%s/%u", run->stored->copies, run->id, number);
        if (length < 0 || (size_t)length >= sizeof source || fstatat(run->copies, name, &status, AT_SYMLINK_NOFOLLOW) < 0) spec->bad = true;
        if (spec->bad) return;
        add_number(spec, RECORD_MOUNT, 4);
        add_number(spec, 36 + strlen(source) + 1 + strlen(copy.inside) + 1 + 4, 4);
        add_number(spec, MOUNT_BIND, 4);
        add_number(spec, MOUNT_NO_EXEC, 4);
        add_number(spec, (uint64_t)status.st_dev, 8);
        add_number(spec, (uint64_t)status.st_ino, 8);
        add_number(spec, 0, 8 + 4); /* size and mode */
        bytes_add(spec, source, strlen(source) + 1);
        bytes_add(spec, copy.inside, strlen(copy.inside) + 1);
        add_number(spec, 0, 4); /* no content */
        if (spec->bad) return;
        change_number(spec, 8, (uint32_t)spec->size);
        change_number(spec, 12, count + number + 1);
    }
}

static bool is_unchanged(int run_directory, const char *number, const uint8_t *bytes, size_t size) {
    int entries = 0;
    int directory = openat(run_directory, number, DIRECTORY_FLAGS);
    ssize_t got = directory < 0 ? -1 : read_regular(directory, NAME, buffer, sizeof buffer);
    bool is_same = got >= 0 && (size_t)got == size && memcmp(buffer, bytes, size) == 0;
    DIR *listing = directory < 0 ? NULL : fdopendir(directory);
    while (listing && readdir(listing)) entries++;
    if (listing) closedir(listing);
    return is_same && entries == 3; /* itself, the one above, and the copy */
}

bool copies_are_unchanged(const struct run *run) {
    char number[16];
    for (uint32_t i = 0; i < run->stored->numbers[STORED_COPY]; i++) {
        snprintf(number, sizeof number, "%u", i);
        if (!is_unchanged(run->copies, number, run->originals[i], run->original_sizes[i])) return false;
    }
    return true;
}

void copies_remove(struct run *run) {
    char path[PATH_MAX];
    if (run->copies < 0) return;
    for (uint32_t i = 0; i < run->stored->numbers[STORED_COPY]; i++) {
        snprintf(path, sizeof path, "%u/%s", i, NAME);
        unlinkat(run->copies, path, 0);
        snprintf(path, sizeof path, "%u", i);
        unlinkat(run->copies, path, AT_REMOVEDIR);
    }
    if (snprintf(path, sizeof path, "%s/%s", run->stored->copies, run->id) < (int)sizeof path) rmdir(path);
    close(run->copies);
    run->copies = -1;
}
