/* corral: whether this is something that needs no Python. */
#include "run.h"

int main(int argc, char **argv) {
    struct request request;
    struct stored stored;
    uint8_t key[KEY_SIZE];
    if (request_read(&request, argc, argv) && key_compute(&request, key) && stored_open(&stored, key)) {
        int code = run_stored(&request, &stored);
        if (code >= 0) return code;
    }
    hand_to_python(argv);
}
