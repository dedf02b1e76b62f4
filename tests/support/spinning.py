"""A script that keeps the processors busy, and says which share of one it had."""

from __future__ import annotations

SHARE = "cpu:limit:10%"
#: What a tree with that share never has, and what one without any has even when the machine is busy.
MOST_SHARE, PLENTY_SHARE = 0.2, 0.3

#: So many processes for a second and a half; what they had of it, together.
SPIN = """
import os, sys, time
began = time.monotonic()
for _ in range(int(sys.argv[1])):
    if os.fork() == 0:
        while time.monotonic() - began < 1.5: pass
        os._exit(0)
for _ in range(int(sys.argv[1])): os.wait()
spent = os.times()
print((spent.children_user + spent.children_system) / (time.monotonic() - began))
"""
