/* The environment inside an image: its own variables, which the engine has given to the launcher, and those of the
 * spec, which win. Programs of the image are where its PATH says, so that one variable is the image's. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "launch.h"

static bool names(const char *entry, const char *name, size_t length) {
    return strncmp(entry, name, length) == 0 && entry[length] == '=';
}

/* TRUST: engines put the addresses of the caller's proxies, with passwords, into every container. */
static bool is_of_engine(const char *entry) {
    static const char *const OWN[] = {"HOSTNAME", "HOME", "TERM", "container", "PWD"};
    size_t length = strcspn(entry, "=");
    for (size_t i = 0; i < sizeof OWN / sizeof *OWN; i++)
        if (names(entry, OWN[i], strlen(OWN[i]))) return true;
    return length >= 6 && strncasecmp(entry + length - 6, "_proxy", 6) == 0;
}

static char **find(char **entries, const char *entry) {
    size_t length = strcspn(entry, "=");
    for (; *entries; entries++)
        if (names(*entries, entry, length)) return entries;
    return NULL;
}

int environment_merge(struct spec *spec) {
    size_t own = 0, count = spec->count[RECORD_ENVIRONMENT];
    while (environ[own]) own++;
    char **merged = calloc(count + own + 1, sizeof *merged);
    if (!merged) return -ENOMEM;
    memcpy(merged, spec->envp, count * sizeof *merged);
    for (char **entry = environ; *entry; entry++) {
        char **known = find(merged, *entry);
        if (!strchr(*entry, '=') || is_of_engine(*entry)) continue;
        if (!known) merged[count++] = *entry;
        else if (names(*entry, "PATH", 4)) *known = *entry;
    }
    free(spec->envp);
    spec->envp = merged;
    return 0;
}
