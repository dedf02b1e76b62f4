"""A container engine that only pretends: its images are a JSON file, and a test says there what fails.

    python scripted_engine.py STATE NAME ARGUMENTS...

In STATE: `images` (identity -> names, labels), `down` (why it does not answer), `fail` (a command that fails
after it has done its work), `wait` (a FIFO that `import` tells when it has done its work, and then goes on).
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import sys


def main(path: str, name: str, *arguments: str) -> int:
    with open(path) as file:
        state = json.load(file)
    if state.get("down"):
        sys.stderr.write(f"{state['down']}\n")
        return 1
    command = " ".join(arguments[:2]) if arguments[0] == "image" else arguments[0]
    status = globals()[f"do_{command.replace(' ', '_')}"](state, name, arguments)
    with open(path, "w") as file:
        json.dump(state, file)
    if command == "import" and state.get("wait"):
        with open(state["wait"], "w") as fifo:
            fifo.write("begun\n")
            fifo.flush()
            signal.pause()
    if command == state.get("fail"):
        sys.stderr.write(f"{name}: no space left on device\n")
        return 1
    return status


def do_version(state, name, arguments) -> int:
    print(json.dumps({"Client": {"Version": "1.2.3"}}))
    return 0


def do_images(state, name, arguments) -> int:
    condition = arguments[arguments.index("--filter") + 1]
    kind, _, wanted = condition.partition("=")
    for identity, image in state["images"].items():
        labels = image["labels"]
        by_label = wanted in labels or wanted in {f"{key}={value}" for key, value in labels.items()}
        by_name = any(tag.startswith(f"{wanted}:") for tag in image["names"])
        if by_label if kind == "label" else by_name:
            print(identity)
    return 0


def do_import(state, name, arguments) -> int:
    changes = [arguments[index + 1] for index, word in enumerate(arguments) if word == "--change"]
    labels = dict(change.removeprefix("LABEL ").split("=", 1) for change in changes if "LABEL" in change)
    assert os.path.getsize(arguments[-1])
    identity = f"sha256:{hashlib.sha256(json.dumps(labels).encode()).hexdigest()}"
    state["images"][identity] = {"names": [], "labels": labels}
    print(identity)
    return 0


def do_tag(state, name, arguments) -> int:
    for image in state["images"].values():
        image["names"] = [known for known in image["names"] if known != arguments[2]]
    state["images"][arguments[1]]["names"].append(arguments[2])
    return 0


def do_image_inspect(state, name, arguments) -> int:
    found = []
    for wanted in arguments[2:]:
        matching = [
            {
                "Id": identity,
                "RepoTags": [f"localhost/{tag}" if name == "podman" else tag for tag in image["names"]],
                "Created": "2026-01-02T03:04:05Z",
                "Size": 1000000,
                "Config": {"Labels": image["labels"], "Env": ["LANG=C.UTF-8"], "Cmd": ["/bin/bash"]},
            }
            for identity, image in state["images"].items()
            if wanted == identity or wanted in image["names"]
        ]
        if not matching:
            sys.stderr.write(f"Error: no such image: {wanted}\n")
            return 1
        found += matching
    print(json.dumps(found))
    return 0


def do_image_rm(state, name, arguments) -> int:
    state["images"].pop(arguments[-1])
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
