/* What the entry program makes of words that are read from stdin, each ended by a NUL; requests end by an empty line. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "entry.h"

int main(void) {
    char *words[256] = {"corral", "run"}, *line = NULL;
    size_t room = 0;
    int count = 2;
    while (getdelim(&line, &room, 0, stdin) > 0) {
        if (strcmp(line, "\n") != 0) {
            words[count++] = strdup(line);
            continue;
        }
        struct request request;
        words[count] = NULL;
        bool is_mine = request_read(&request, count, words);
        printf("%d %d %d\n", is_mine, is_mine ? request.options_end - 2 : -1, is_mine ? request.line_at - 2 : -1);
        count = 2;
    }
    return 0;
}
