/* corral: whether this is something that needs no Python. */
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "run.h"
#include "session.h"

enum { EXIT_USAGE = 2 };

/* Python ends in words of its own before it has read a line of ours. */
static void refuse_directory(void) {
    struct stat status;
    if (fstat(STDIN_FILENO, &status) < 0 || !S_ISDIR(status.st_mode)) return;
    dprintf(STDERR_FILENO, "corral: the command did not run: stdin is a directory\n  because: nothing can be read from it\n"
            "  fix: redirect it from a file, or from /dev/null\n");
    _exit(EXIT_USAGE);
}

int main(int argc, char **argv) {
    struct request request;
    struct stored stored;
    struct execution execution;
    uint8_t key[KEY_SIZE];
    if (request_read(&request, argc, argv) && key_compute(&request, key) && stored_open(&stored, key)) {
        int code = run_stored(&request, &stored);
        if (code >= 0) return code;
    }
    if (execution_read(&execution, argc, argv)) {
        int code = session_exec(&execution);
        if (code >= 0) return code;
    }
    refuse_directory();
    hand_to_python(argv);
}
