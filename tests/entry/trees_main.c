/* What the entry program makes of a workspace, argv[1], whose HEAD the plan has as argv[2]. Each line of stdin asks once: `before`,
 * or the nanosecond at which a command began. The answer is 1 where nothing is there for Python to look at. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trees.h"

static uint8_t records[2][8192];
static size_t sizes[2];

/* In place of a stored plan: one root, and its worktree. */
bool stored_next(const struct stored *stored, struct cursor *rest, uint32_t *at, uint32_t wanted, struct cursor *payload) {
    (void)stored, (void)rest;
    if ((*at)++) return false;
    *payload = (struct cursor){.at = records[wanted == STORED_WORKTREE], .left = sizes[wanted == STORED_WORKTREE]};
    return true;
}

/* Nothing is remembered from one process to the next. */
int stored_directory(void) { return -1; }
void write_hex(const uint8_t key[KEY_SIZE], char name[2 * KEY_SIZE + 1]) { (void)key, (void)strcpy(name, "one"); }

int main(int argc, char **argv) {
    static struct run run;
    static struct stored stored;
    char line[64];
    if (argc != 3) return 2;
    size_t path = strlen(argv[1]) + 1, head = strlen(argv[2]);
    memcpy(records[0], argv[1], sizes[0] = path);
    for (int i = 0; i < 4; i++) records[1][i] = (uint8_t)(head >> (8 * i));
    memcpy(records[1] + 4, argv[2], head);
    memcpy(records[1] + 4 + head, argv[1], path);
    sizes[1] = 4 + head + path;
    run.stored = &stored;
    stored.numbers[STORED_ROOT] = stored.numbers[STORED_WORKTREE] = 1;
    while (fgets(line, sizeof line, stdin)) {
        bool is_afterwards = strcmp(line, "before\n") != 0;
        run.since_ns = strtoull(line, NULL, 10);
        printf("%d\n", trees_are_clean(&run, is_afterwards));
        fflush(stdout);
    }
    return 0;
}
