/* Made by entry/tables.py from the Python part: do not change it by hand. */
#ifndef CORRAL_TABLES_H
#define CORRAL_TABLES_H

#include <stdbool.h>

/* src/corral/cli/options.py */
struct option_entry {
    const char *flag;
    bool takes_value, is_line;
};

/* src/corral/cli/session/options.py */
enum exec_kind { EXEC_OF_PYTHON, EXEC_LINE, EXEC_STATEFUL, EXEC_ENV, EXEC_CWD, EXEC_TIMEOUT };

struct exec_option {
    const char *flag;
    bool takes_value;
    enum exec_kind kind;
};

static const struct option_entry OPTIONS[] __attribute__((unused)) = {
    {"-p", true, false},
    {"--profile", true, false},
    {"--sandbox-profile", true, false},
    {"--agent", true, false},
    {"--sandbox", false, false},
    {"--no-sandbox", false, false},
    {"--backend", true, false},
    {"--image", true, false},
    {"--read", true, false},
    {"--write", true, false},
    {"--deny", true, false},
    {"--deny-from", true, false},
    {"--net", true, false},
    {"--allow", true, false},
    {"--publish", true, false},
    {"--cap", true, false},
    {"--env", true, false},
    {"--memory", true, false},
    {"--cpus", true, false},
    {"--pids", true, false},
    {"--timeout", true, false},
    {"--output-limit", true, false},
    {"--require", true, false},
    {"--waive", true, false},
    {"--cwd", true, false},
    {"--config", true, false},
    {"--no-config", false, false},
    {"--try", false, false},
    {"--trial-size", true, false},
    {"--trial-files", true, false},
    {"-c", true, true},
    {"-t", false, false},
    {"--tty", false, false},
    {"--stats", false, false},
    {"--trace", false, false},
    {"--debug", false, false},
    {"--on-refusal", true, false},
    {"--json", false, false},
    {"-v", false, false},
    {"--verbose", false, false},
};

static const struct exec_option EXEC_OPTIONS[] __attribute__((unused)) = {
    {"-c", true, EXEC_LINE},
    {"-t", false, EXEC_OF_PYTHON},
    {"--tty", false, EXEC_OF_PYTHON},
    {"-d", false, EXEC_OF_PYTHON},
    {"--detach", false, EXEC_OF_PYTHON},
    {"--stateful", false, EXEC_STATEFUL},
    {"--env", true, EXEC_ENV},
    {"--cwd", true, EXEC_CWD},
    {"--timeout", true, EXEC_TIMEOUT},
    {"--json", false, EXEC_OF_PYTHON},
    {"-v", false, EXEC_OF_PYTHON},
    {"--verbose", false, EXEC_OF_PYTHON},
};

/* src/corral/cli/stored.py */
static const char *const LEFT_OUT[] __attribute__((unused)) = {
    "COLUMNS",
    "LINES",
    "OLDPWD",
    "SHLVL",
    "_",
};

/* src/corral/runtime/inference.py */
static const char *const DENIALS[] __attribute__((unused)) = {
    "read-only file system",
    "device or resource busy",
    "permission denied",
    "operation not permitted",
    "\042no new privileges\042 flag is set",
    "sudo: effective uid is not 0",
    "cannot fork",
    "can't fork",
    "fork: operation not permitted",
    "vfork: operation not permitted",
    "ptrace: operation not permitted",
    "ptrace(ptrace_traceme, ...): operation not permitted",
    "cannot connect to the docker daemon",
    "failed to connect to the docker api",
    "no usable sandbox!",
    "running as root without --no-sandbox is not supported",
    "network is unreachable",
    "could not resolve host",
    "temporary failure in name resolution",
    "name or service not known",
    "getaddrinfo eai_again",
    "\342\204\252",
};

/* src/corral/cli/advice.py */
static const char *const ADVISED[] __attribute__((unused)) = {
    "chrome",
    "chromium",
    "chromium-browser",
    "docker",
    "docker-compose",
    "gdb",
    "google-chrome",
    "google-chrome-stable",
    "lldb",
    "ltrace",
    "nerdctl",
    "podman",
    "strace",
    "submodule",
    "worktree",
};

/* src/corral/runtime/discarded.py */
static const char *const CACHES[] __attribute__((unused)) = {
    ".bundle",
    ".cache",
    ".cargo",
    ".config",
    ".dbus",
    ".dotnet",
    ".gem",
    ".gnupg",
    ".gradle",
    ".ivy2",
    ".java",
    ".lesshst",
    ".local",
    ".m2",
    ".node-gyp",
    ".npm",
    ".nuget",
    ".nv",
    ".pki",
    ".pnpm-store",
    ".pyenv",
    ".rnd",
    ".rustup",
    ".viminfo",
    ".wget-hsts",
    ".yarn",
    "go",
};

#endif
