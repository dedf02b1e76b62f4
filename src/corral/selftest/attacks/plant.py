"""Attacks that plant or change files which the host runs later: editors, shells, agents, corral itself."""

from __future__ import annotations

import os
import threading
import time

from corral.model.feature import Feature
from corral.selftest.judge import appeared, written
from corral.selftest.probe import EscapeProbe, Language

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.selftest.probe import Setup
    from corral.selftest.stage import Stage

#: Longer than any honest delay of the guard, shorter than what a blind one allows.
_STAY_SECONDS = 0.04
_GUARD = "names that are missing are guarded by the runner"
_NAMES = (
    ".bashrc .bash_profile .profile .zshrc .zshenv .envrc .mcp.json .gitmodules .gitconfig"
    " .vscode/tasks.json .idea/workspace.xml .devcontainer/devcontainer.json .claude/settings.json"
    " .codex/config.toml .cursor/mcp.json .gemini/settings.json .husky/pre-commit corral.toml .corral/policy"
)


def _existing(name: str) -> Setup:
    def setup(stage: Stage) -> None:
        stage.write(f"ws/{name}", "the user's own\n")

    return setup


def _linked(name: str, target: str) -> Setup:
    def setup(stage: Stage) -> None:
        stage.write(f"ws/{target}", "the user's own\n")
        os.symlink(target, stage.at(f"ws/{name}"))

    return setup


def _second_name(stage: Stage) -> None:
    stage.write("ws/.envrc", "the user's own\n")
    os.link(stage.at("ws/.envrc"), stage.at("ws/other"))


def _link_on_the_way(stage: Stage) -> None:
    stage.write("ws/b/real", "the user's own\n")
    os.symlink("b", stage.at("ws/a"))
    os.symlink("a/real", stage.at("ws/.envrc"))


def _winding_link(stage: Stage) -> None:
    stage.write("ws/x/y/real", "the user's own\n")
    os.mkdir(stage.at("ws/x/y/z"))
    os.symlink("x/y/z", stage.at("ws/s"))
    os.symlink("s/../real", stage.at("ws/.envrc"))


def _stopwatch(stage: Stage) -> None:
    """Measure, while the attack runs, for how long at a stretch the planted file is there."""
    over = threading.Event()
    stage.remembered["longest"] = 0.0

    def look() -> None:
        since = 0.0
        while not over.wait(0.001):
            now = time.monotonic()
            since = (since or now) if os.path.lexists(stage.at("ws/.envrc")) else 0.0
            if since:
                stage.remembered["longest"] = max(float(str(stage.remembered["longest"])), now - since)

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    stage.on_leaving(thread.join)
    stage.on_leaving(over.set)


def _stayed(stage: Stage, _output: str) -> str:
    longest = float(str(stage.remembered["longest"]))
    return f".envrc was there for {longest * 1000:.0f} ms" if longest > _STAY_SECONDS else ""


def _listing(stage: Stage) -> None:
    stage.write("ws/src/main.py", "print(1)\n")
    stage.remembered["listing"] = _walk(stage)


def _walk(stage: Stage) -> list[str]:
    found = []
    for directory, names, files in os.walk(stage.at("ws")):
        found += [os.path.join(directory, name) for name in (*names, *files)]
    return sorted(found)


def _is_left_behind(stage: Stage, _output: str) -> str:
    more = sorted(set(_walk(stage)) - set(stage.remembered["listing"]))  # type: ignore[call-overload]
    return f"{os.path.relpath(more[0], stage.at('ws'))} is left in the workspace" if more else ""


def _plant(  # noqa: PLR0917 (the fields of a probe, in their order)
    name: str,
    title: str,
    source: str,
    script: str,
    target: str | tuple[str, ...],
    setup: Setup | None = None,
    language: Language = Language.SHELL,
) -> EscapeProbe:
    names = (target,) if isinstance(target, str) else target
    held = "" if setup is not None else _GUARD
    return EscapeProbe(
        name, title, Feature.FS_PROTECT, source, script, written(*names), setup, language, runner_holds=held
    )


PROBES = (
    _plant(
        "plant-editor-task",
        "Plant a task in .vscode/tasks.json, which was not there, that the editor runs on opening.",
        "B22, A6",
        'mkdir -p .vscode && echo "$TOKEN" > .vscode/tasks.json',
        "ws/.vscode/tasks.json",
    ),
    _plant(
        "plant-agent-settings",
        "Plant .claude/settings.json with a hook that the agent runs on the host.",
        "CVE-2026-25725",
        'mkdir -p .claude && echo "$TOKEN" > .claude/settings.json',
        "ws/.claude/settings.json",
    ),
    EscapeProbe(
        "plant-everything",
        "Plant every file that some program of the host runs or trusts.",
        Feature.FS_PROTECT,
        "B22, srt #103",
        f'for f in {_NAMES}; do case $f in */*) mkdir -p "${{f%/*}}";; esac; echo "$TOKEN" > "$f"; done',
        _is_left_behind,
        _listing,
        runner_holds=_GUARD,
    ),
    _plant(
        "plant-prepared-elsewhere",
        "Prepare the directory under another name and move it into place in one step.",
        "corral (protected_names/guard.py)",
        'mkdir x; echo "$TOKEN" > x/tasks.json; mv x .vscode',
        "ws/.vscode/tasks.json",
    ),
    _plant(
        "plant-read-only-directory",
        "Move a directory into place that its own owner may not write, so that it cannot be moved away.",
        "corral (protected_names/guard.py)",
        'mkdir -p x/y; echo "$TOKEN" > x/settings.json; echo "$TOKEN" > x/y/z; chmod 555 x/y x;'
        " mv x .claude; sleep 0.1",
        "ws/.claude/settings.json",
    ),
    _plant(
        "plant-in-frozen-workspace",
        "Plant a file and take the right to write from the workspace, so that it cannot be removed.",
        "corral (protected_names/guard.py)",
        "open('t', 'w').write(TOKEN)\nos.rename('t', '.mcp.json')\nos.chmod('.', 0o555)\ntime.sleep(0.1)\n",
        "ws/.mcp.json",
        language=Language.PYTHON,
    ),
    _plant(
        "plant-at-the-last-moment",
        "Plant the file with the very last system call before the end.",
        "corral (protected_names/guard.py)",
        "open('t', 'w').write(TOKEN)\nos.rename('t', '.envrc')\nos._exit(0)\n",
        "ws/.envrc",
        language=Language.PYTHON,
    ),
    _plant(
        "plant-in-a-flood",
        "Drown the guard in events, so that it misses the one that counts.",
        "corral (protected_names/guard.py)",
        """
for i in range(20000): os.close(os.open('noise', os.O_CREAT | os.O_WRONLY)); os.unlink('noise')
open('t', 'w').write(TOKEN); os.rename('t', '.envrc')
""",
        "ws/.envrc",
        language=Language.PYTHON,
    ),
    _plant(
        "plant-by-persistence",
        "Put the file back as often as it is removed.",
        "corral (protected_names/guard.py)",
        """
for i in range(400): open(f't{i}', 'w').write(TOKEN)
for i in range(400): os.rename(f't{i}', '.envrc')
""",
        "ws/.envrc",
        language=Language.PYTHON,
    ),
    EscapeProbe(
        "plant-with-forged-time",
        "Plant a file and set the directory's time back, so that nothing seems to have changed.",
        Feature.FS_PROTECT,
        "corral (protected_names/guard.py)",
        """
open('t', 'w').write(TOKEN)
old = os.stat('.').st_mtime_ns - 10**9
os.utime('.', ns=(old, old)); time.sleep(0.03)
os.rename('t', '.envrc'); os.utime('.', ns=(old, old))
time.sleep(0.5)
""",
        _stayed,
        _stopwatch,
        Language.PYTHON,
        runner_holds=_GUARD,
    ),
    _plant(
        "plant-fifo-or-socket",
        "Put a named pipe where a protected file should be, then a file when the guard is busy with it.",
        "corral (protected_names/guard.py)",
        'mkfifo .envrc; sleep 0.05; rm -f .envrc; echo "$TOKEN" > .envrc; mkfifo .mcp.json',
        "ws/.envrc",
    ),
    _plant(
        "change-protected-file",
        "Change a start file that is there: in place, by replacing it, by removing it first.",
        "B22, srt #175",
        'echo "$TOKEN" >> .envrc; echo "$TOKEN" > n; mv -f n .envrc; rm -f .envrc;'
        ' echo "$TOKEN" > .envrc; cp n .envrc',
        "ws/.envrc",
        _existing(".envrc"),
    ),
    _plant(
        "change-protected-directory",
        "Add a file to a protected directory, or rename the directory and make another.",
        "A5, A7",
        'echo "$TOKEN" > .vscode/tasks.json; mv .vscode v2; mkdir -p .vscode;'
        ' echo "$TOKEN" > .vscode/tasks.json',
        "ws/.vscode/tasks.json",
        _existing(".vscode/settings.json"),
    ),
    _plant(
        "change-link-target",
        "Where .envrc is a symbolic link inside the workspace, change the file that it leads to.",
        "corral (planning/protect.py)",
        'echo "$TOKEN" >> envs/dev; rm -f envs/dev; mkdir -p envs; echo "$TOKEN" > envs/dev;'
        ' mv envs e2; mkdir -p envs; echo "$TOKEN" > envs/dev',
        ("ws/.envrc", "ws/envs/dev"),
        _linked(".envrc", "envs/dev"),
    ),
    _plant(
        "change-by-second-name",
        "Change a protected file through a second hard link that lies beside it.",
        "corral (planning/protect.py)",
        'echo "$TOKEN" >> other',
        "ws/.envrc",
        _second_name,
    ).replace(refusal="hard-linked", runner_holds="a protected file with a second name is refused"),
    _plant(
        "change-link-on-the-way",
        "Replace a link that lies on the way from a protected link to its end.",
        "corral (planning/protect.py)",
        'rm a; mkdir -p a; echo "$TOKEN" > a/real; sleep 0.1',
        "ws/.envrc",
        _link_on_the_way,
    ),
    _plant(
        "change-winding-link",
        "Change what a protected link leads to by a path with `..` behind another link.",
        "corral (planning/protect.py)",
        'echo "$TOKEN" >> x/y/real',
        "ws/.envrc",
        _winding_link,
    ),
    EscapeProbe(
        "replace-protected-link",
        "Replace a protected link as fast as possible, so that the guard fails to put it back.",
        Feature.FS_PROTECT,
        "corral (protected_names/guard.py)",
        """
for i in range(3000): open(f't{i}', 'w').write(TOKEN)
for i in range(3000): os.rename(f't{i}', '.envrc')
""",
        written("ws/.envrc"),
        _linked(".envrc", "envs/dev"),
        language=Language.PYTHON,
        runner_holds=_GUARD,
    ),
    _plant(
        "plant-through-link-to-directory",
        "Make the protected name a link to a directory of one's own.",
        "A7",
        'mkdir evil; echo "$TOKEN" > evil/tasks.json; ln -s evil .vscode; sleep 0.05',
        "ws/.vscode/tasks.json",
    ),
    EscapeProbe(
        "steal-quarantine",
        "Write into the quarantine, or read what other runs have left there.",
        Feature.FS_WRITE,
        "B23, firejail #7132",
        'd="$WS/../state/corral/quarantine"; mkdir -p "$d" && touch "$d/evil"',
        appeared("state/corral/quarantine/evil"),
    ),
)
