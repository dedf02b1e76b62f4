/* Invocations that answer a question and launch nothing. */
#ifndef CORRAL_CHECK_H
#define CORRAL_CHECK_H

/* --version, --build, --landlock-abi, --check-plan, --check-spec. Returns the exit code. */
int answer(int argc, char **argv);

#endif
