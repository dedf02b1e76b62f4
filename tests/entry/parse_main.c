/* What the entry program makes of words that are read from stdin, each ended by a NUL; requests end by an empty line. With an
 * argument they are those of `corral session exec`, and what a session would be asked is printed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "session.h"

static void parse_run(int count, char **words) {
    struct request request;
    bool is_mine = request_read(&request, count, words);
    printf("%d %d %d\n", is_mine, is_mine ? request.options_end - 2 : -1, is_mine ? request.line_at - 2 : -1);
}

static void parse_exec(int count, char **words) {
    struct execution execution;
    struct named_session session = {.token = "0f"};
    struct bytes packet = {0};
    bool is_mine = execution_read(&execution, count, words) && execution_encode(&execution, &session, "/here", &packet);
    if (is_mine) printf("%s\t%.*s\n", execution.name ? execution.name : "", (int)packet.size - 1, packet.at + 1);
    else printf("\n");
}

int main(int argc, char **argv) {
    char *words[256] = {argv[0], argc > 1 ? "session" : "run", "exec"}, *line = NULL;
    int first = argc > 1 ? 3 : 2, count = first;
    size_t room = 0;
    while (getdelim(&line, &room, 0, stdin) > 0) {
        if (strcmp(line, "\n") != 0) {
            words[count++] = strdup(line);
            continue;
        }
        words[count] = NULL;
        (argc > 1 ? parse_exec : parse_run)(count, words);
        count = first;
    }
    return 0;
}
