"""A script that keeps the processors busy, and says which share of one it had."""

from __future__ import annotations

SHARE = "cpu:limit:5%"
#: What a tree with that share never has, and what one without any has even when the machine is busy.
MOST_SHARE, PLENTY_SHARE = 0.1, 0.15

#: So many processes for a while, and what they had of it, together. Who had little tries again, since others
#: may have kept the processors busy meanwhile, and says the most he ever had. Each is a session of its own:
#: the kernel divides the processors between sessions first.
#:
#: Who is stopped and woken by the launcher ends when he is woken. The launcher may come late to stop him, and
#: then lets him wait for longer: a share is what he had by the end of the waiting, and not somewhere before.
SPIN = f"""
import os, resource, signal, sys, time
woken = []
signal.signal(signal.SIGCONT, lambda *_: woken.append(time.monotonic()))
def spent():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
def spin(count):
    began, before = time.monotonic(), spent()
    for _ in range(count):
        if os.fork() == 0:
            os.setsid()
            while (woken[-1] if woken else time.monotonic()) - began < 0.6: pass
            os._exit(0)
    for _ in range(count): os.wait()
    return (spent() - before) / (time.monotonic() - began)
most = 0.0
for _ in range(3):
    if most < {PLENTY_SHARE}: most = max(most, spin(int(sys.argv[1])))
print(most)
"""
