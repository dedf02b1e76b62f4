"""A script that keeps the processors busy, and says which share of one it had."""

from __future__ import annotations

SHARE = "cpu:limit:5%"
#: What a tree with that share never has, and what one without any has even when the machine is busy.
MOST_SHARE, PLENTY_SHARE = 0.15, 0.2

#: So many processes for a while, and what they had of it, together. Who had little tries again, since others
#: may have kept the processors busy meanwhile, and says the most he ever had.
SPIN = """
import os, sys, time
def spin(count):
    began, before = time.monotonic(), os.times()
    for _ in range(count):
        if os.fork() == 0:
            while time.monotonic() - began < 0.6: pass
            os._exit(0)
    for _ in range(count): os.wait()
    spent = os.times().children_user + os.times().children_system
    return (spent - before.children_user - before.children_system) / (time.monotonic() - began)
most = 0.0
for _ in range(3):
    if most < 0.2: most = max(most, spin(int(sys.argv[1])))
print(most)
"""
