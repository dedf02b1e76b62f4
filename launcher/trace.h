/* Tracing: which calls on files fail, told as they do. The supervisor is the tracer. */
#ifndef CORRAL_TRACE_H
#define CORRAL_TRACE_H

#include "launch.h"

bool is_traced(const struct launch *launch);

/* In the command's process, before its filter: asks the supervisor to be traced, and waits until it is. */
int trace_ask(struct launch *launch);

/* In the supervisor: before there is a child; and when it asks. True if that was it. */
int trace_prepare(struct launch *launch);
bool trace_begin(struct launch *launch);

/* In the supervisor, when a child has something to say: lets those go on that were stopped. True if there may be more. */
bool trace_act(const struct launch *launch);

#endif
