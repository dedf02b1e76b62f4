/* exec: the launcher ends and the command begins. There is nothing left to remove. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "launch.h"
#include "report.h"

static const char *search_path(char *const *envp) {
    for (; *envp; envp++)
        if (strncmp(*envp, "PATH=", 5) == 0) return *envp + 5;
    return "/usr/local/bin:/usr/bin:/bin";
}

/* TRUST: an empty element of PATH means the working directory, where the command may have put what it likes for
 * the next run to find. It is skipped. */
static int search_and_exec(const char *name, char *const *argv, char *const *envp) {
    char path[PATH_MAX];
    int err = -ENOENT;
    for (const char *at = search_path(envp); *at;) {
        size_t length = strcspn(at, ":");
        int size = snprintf(path, sizeof path, "%.*s/%s", (int)length, at, name);
        at += length;
        at += *at == ':';
        if (length == 0 || size < 0 || (size_t)size >= sizeof path) continue;
        execve(path, argv, envp);
        if (errno == EACCES) err = -EACCES; /* the reason to give, should no other directory have it */
        else if (errno != ENOENT && errno != ENOTDIR) return -errno;
    }
    return err;
}

int phase_exec(struct launch *launch) {
    const struct spec *spec = &launch->spec;
    const char *name = spec->argv[0];
    set_detail(launch, "%s", name);
    report_executing(launch);
    if (!*name) return -ENOENT;
    if (!strchr(name, '/')) return search_and_exec(name, spec->argv, spec->envp);
    execve(name, spec->argv, spec->envp);
    return -errno;
}
