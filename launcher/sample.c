/* Samples: what the processes of a tree have, from /proc.
 *
 * TRUST: the tree may hide. A process that is not dumpable has no smaps, but its resident set can always be seen,
 * and counts whole then. Memory that nobody maps: files in the private areas are counted by their file system;
 * memfd and System V segments cannot be made (the filter); shared mappings that were filled and released are
 * bounded by what the mappings could hold, and by how much shared memory this machine has more than before; each
 * socket of a network namespace counts with all that it may hold, but for the first few. */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "kernel.h"
#include "watch.h"

enum {
    MOST_SEGMENTS = 256,
    FILE_BYTES = 2048,        /* of the kernel's own for a file: the inode, and an entry with a long name */
    SMALL_TABLES = 256 << 10, /* not worth a closer look */
    THREAD_BYTES = 24 << 10, /* of the kernel's own: a stack, and what describes it */
    FREE_SOCKETS = 32,
    SOCKET_BYTES = 2 * 212992, /* what a program may ask for at most, doubled by the kernel */
};

struct shared_segments {
    uint64_t seen[MOST_SEGMENTS], bytes;
    size_t count;
};

static ssize_t read_text(const char *path, char *text, size_t size) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return -1;
    ssize_t got = read(fd, text, size - 1);
    close(fd);
    text[got > 0 ? got : 0] = 0;
    return got;
}

/* Threads, virtual and resident bytes. False if it is gone. The name may hold anything but ends with the last ")". */
static bool read_stat(int pid, uint64_t *threads, uint64_t *virtual, uint64_t *resident) {
    char path[64], text[1024];
    long pages = 0;
    unsigned long long bytes = 0;
    long count = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    if (read_text(path, text, sizeof text) <= 0) return false;
    const char *rest = strrchr(text, ')');
    if (!rest || sscanf(rest,
                        ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %ld %*d %*u %llu %ld",
                        &count, &bytes, &pages) != 3)
        return false;
    *threads = count > 0 ? (uint64_t)count : 1;
    *virtual = bytes;
    *resident = pages > 0 ? (uint64_t)pages * (uint64_t)sysconf(_SC_PAGESIZE) : 0;
    return true;
}

/* The share of a process in what it has resident, or -1 where that is hidden. */
static int64_t read_share(int pid) {
    char path[64], text[2048];
    snprintf(path, sizeof path, "/proc/%d/smaps_rollup", pid);
    const char *line = read_text(path, text, sizeof text) > 0 ? strstr(text, "\nPss:") : NULL;
    return line ? strtoll(line + 5, NULL, 10) * 1024 : -1;
}

/* Page tables take a 512th of what they map at the least. To read is enough to have them made, and nothing is
 * resident then but the one page of zeros. */
static uint64_t page_tables(int pid, uint64_t virtual) {
    char path[64], text[4096];
    uint64_t most = virtual / 512;
    if (most < SMALL_TABLES) return most;
    snprintf(path, sizeof path, "/proc/%d/status", pid);
    const char *line = read_text(path, text, sizeof text) > 0 ? strstr(text, "\nVmPTE:") : NULL;
    return line ? strtoull(line + 7, NULL, 10) * 1024 : most;
}

static void add_segment(struct shared_segments *segments, uint64_t inode, uint64_t size) {
    for (size_t i = 0; i < segments->count; i++)
        if (segments->seen[i] == inode) return;
    if (segments->count < MOST_SEGMENTS) segments->seen[segments->count++] = inode;
    segments->bytes += size; /* beyond MOST_SEGMENTS one may count twice: too much, never too little */
}

/* What its shared mappings without a file could hold at most. */
static void add_segments(struct shared_segments *segments, int pid, uint64_t virtual) {
    char path[64], line[512];
    snprintf(path, sizeof path, "/proc/%d/maps", pid);
    FILE *maps = fopen(path, "re");
    if (!maps) {
        segments->bytes += virtual;
        return;
    }
    while (fgets(line, sizeof line, maps)) {
        unsigned long long from = 0, to = 0, inode = 0;
        char kind = 0;
        if (sscanf(line, "%llx-%llx %*c%*c%*c%c %*s %*s %llu", &from, &to, &kind, &inode) != 4) continue;
        if (kind == 's' && strstr(line, "/dev/zero (deleted)")) add_segment(segments, inode, to - from);
    }
    fclose(maps);
}

uint64_t sample_shared(void) {
    char text[4096];
    const char *line = read_text("/proc/meminfo", text, sizeof text) > 0 ? strstr(text, "\nShmem:") : NULL;
    return line ? strtoull(line + 7, NULL, 10) * 1024 : 0;
}

/* What the private areas and a trial's layer in memory hold, and what their files take of the kernel beside that. */
static uint64_t areas_used(const struct launch *launch, uint64_t *beside) {
    const int places[] = {launch->areas_fd, launch->layer_fd};
    uint64_t used = 0;
    *beside = 0;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        struct statfs status;
        if (places[i] < 0 || fstatfs(places[i], &status) < 0) continue;
        *beside += (uint64_t)(status.f_files - status.f_ffree) * FILE_BYTES;
        used += (uint64_t)(status.f_blocks - status.f_bfree) * (uint64_t)status.f_bsize;
    }
    return used;
}

/* Nobody tells how full they are. Without a network namespace of its own, not even how many the tree has. */
static uint64_t socket_buffers(const struct launch *launch) {
    char text[256];
    if (!(launch->spec.namespaces & K_CLONE_NEWNET) || read_text("/proc/self/net/sockstat", text, sizeof text) <= 0)
        return 0;
    uint64_t count = strtoull(text + strcspn(text, "0123456789"), NULL, 10);
    return count > FREE_SOCKETS ? (count - FREE_SOCKETS) * SOCKET_BYTES : 0;
}

struct gathering {
    bool exact, wants_segments;
    struct sample *sample;
    struct shared_segments segments;
};

/* Whose share cannot be read hides it, or has ended since: then what it had is nobody's, or counts in the share of those
 * it had it in common with. */
static uint64_t exact_memory(int pid) {
    uint64_t threads = 0, virtual = 0, resident = 0;
    int64_t share = read_share(pid);
    if (share >= 0) return (uint64_t)share;
    return read_stat(pid, &threads, &virtual, &resident) ? resident : 0;
}

static void add_process(int pid, void *context) {
    struct gathering *all = context;
    uint64_t threads = 0, virtual = 0, resident = 0;
    if (!read_stat(pid, &threads, &virtual, &resident)) return;
    all->sample->processes += threads;
    all->sample->memory += threads * THREAD_BYTES;
    all->sample->memory += (all->exact ? exact_memory(pid) : resident) + page_tables(pid, virtual);
    if (all->wants_segments) add_segments(&all->segments, pid, virtual);
}

static void visit_namespace(void (*visit)(int pid, void *), void *context) {
    DIR *processes = opendir("/proc");
    if (!processes) return;
    for (struct dirent *entry; (entry = readdir(processes));) {
        int pid = atoi(entry->d_name);
        if (pid > 1) visit(pid, context);
    }
    closedir(processes);
}

/* The mapped part of a segment counts twice when segments are looked at, once here and once as resident. That
 * happens only when this machine has so much more shared memory that the tree may be hiding some. */
void sample_tree(const struct watcher *watcher, bool exact, struct sample *sample) {
    const struct launch *launch = watcher->launch;
    uint64_t beside = 0, areas = areas_used(launch, &beside), shared = launch->spec.watch.memory ? sample_shared() : 0;
    uint64_t grown = shared > watcher->shared_before + areas ? shared - watcher->shared_before - areas : 0;
    *sample = (struct sample){.memory = areas + beside + socket_buffers(launch)};
    struct gathering all = {.exact = exact, .wants_segments = grown > launch->spec.watch.memory / 8, .sample = sample};
    if (watcher->in_namespace) visit_namespace(add_process, &all);
    else tree_visit(add_process, &all);
    sample->memory += grown < all.segments.bytes ? grown : all.segments.bytes;
}
