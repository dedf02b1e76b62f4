/* Invocations that answer a question and launch nothing. */
#include "check.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "account.h"
#include "kernel.h"
#include "launch.h"
#include "plan.h"

#ifdef __SANITIZE_ADDRESS__
/* The launcher runs with an empty environment and the leak checker needs ptrace. */
const char *__asan_default_options(void);
const char *__asan_default_options(void) { return "detect_leaks=0"; }
#endif

static int print_landlock_abi(void) {
    int abi = k_landlock_create(NULL, 0, K_LANDLOCK_CREATE_RULESET_VERSION);
    printf("%d\n", abi < 0 ? 0 : abi);
    return 0;
}

/* The build is what a compiled plan is bound to. */
static int print_build(void) { return puts(CORRAL_BUILD) < 0; }

/* Whether commands would be run by a plan, as far as that can be told without one. */
static int check_plan(const char *path) {
    struct plan plan;
    struct problem problem;
    int err = plan_open(&plan, path, &problem);
    if (!err) err = plan_check(&plan, &problem);
    plan_free(&plan);
    return err ? account_refuse(&problem, EXIT_SETUP_FAILED) : 0;
}

static int verdict(int err, const char *why) {
    if (err == 0) printf("ok\n");
    else printf("malformed: %s\n", why ? why : strerror(-err));
    return err ? 1 : 0;
}

static int check_spec(void) {
    struct spec spec;
    const char *why = NULL;
    int err = spec_read(STDIN_FILENO, &spec, &why);
    spec_free(&spec);
    return verdict(err, why);
}

#ifdef CORRAL_FAULTS
/* Everything that is done with a plan before anything is started. What comes of it is not asked. */
static void use_plan(const struct plan *plan) {
    char *const words[] = {"true", NULL}, *const entries[] = {"PATH=/bin", "LC_ALL=C", "PWD=/", "=", "", "X=", NULL};
    struct problem problem;
    struct bytes bytes;
    struct spec spec;
    const char *why = NULL;
    (void)plan_check(plan, &problem);
    if (plan_compose(plan, words, "/", entries, &bytes) == 0) {
        (void)spec_decode(&spec, bytes.at, bytes.size, &why);
        spec_free(&spec);
    } else {
        free(bytes.at);
    }
}

/* For fuzzing: u32 length (host order) and a plan, again and again; one verdict per line. */
static int check_plans(void) {
    uint32_t size = 0;
    while (fread(&size, sizeof size, 1, stdin) == 1 && size <= 2 * PLAN_MAX_BYTES) {
        uint8_t *bytes = malloc(size ? size : 1);
        if (!bytes || (size && fread(bytes, size, 1, stdin) != 1)) return 2;
        struct plan plan;
        const char *why = NULL;
        int err = plan_decode(&plan, bytes, size, &why);
        if (!err) use_plan(&plan);
        verdict(err, why);
        plan_free(&plan);
    }
    return 0;
}

/* For fuzzing: u32 length (host order) and a spec, again and again; one verdict per line. */
static int check_specs(void) {
    uint32_t size = 0;
    while (fread(&size, sizeof size, 1, stdin) == 1 && size <= 2 * SPEC_MAX_BYTES) {
        uint8_t *bytes = malloc(size ? size : 1);
        if (!bytes || (size && fread(bytes, size, 1, stdin) != 1)) return 2;
        struct spec spec;
        const char *why = NULL;
        int err = spec_decode(&spec, bytes, size, &why);
        spec_free(&spec);
        verdict(err, why);
    }
    return 0;
}
#endif

/* For corral, which has no authority over mounts: stdin, opened anew and sent to the socket 3. */
static int reopen_stdin(void) {
    int err = reopen_and_send(STDIN_FILENO, SPEC_FD);
    if (err) fprintf(stderr, "%s\n", strerror(-err));
    return err ? EXIT_SETUP_FAILED : 0;
}

int answer(int argc, char **argv) {
    if (argc == 2 && strcmp(argv[1], "--version") == 0) return puts("corral-launch 1") < 0;
    if (argc == 2 && strcmp(argv[1], "--landlock-abi") == 0) return print_landlock_abi();
    if (argc == 2 && strcmp(argv[1], "--build") == 0) return print_build();
    if (argc == 3 && strcmp(argv[1], "--check-plan") == 0) return check_plan(argv[2]);
    if (argc == 2 && strcmp(argv[1], "--check-spec") == 0) return check_spec();
    if (argc == 2 && strcmp(argv[1], "--reopen") == 0) return reopen_stdin();
#ifdef CORRAL_FAULTS
    if (argc == 2 && strcmp(argv[1], "--check-specs") == 0) return check_specs();
    if (argc == 2 && strcmp(argv[1], "--check-plans") == 0) return check_plans();
#endif
    fprintf(stderr, "corral-launch: unknown arguments; corral starts this program, see `corral run` and `corral compile`\n");
    return EXIT_SETUP_FAILED;
}
