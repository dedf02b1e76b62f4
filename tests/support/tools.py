"""What programs of a host answer to the questions of probes, word for word as far as it matters."""

from __future__ import annotations

import json

from corral.model.probe import ToolRun

RELEASE = "6.12.1-fake"

DOCKER_INFO: dict[str, object] = {
    "MemoryLimit": True,
    "SwapLimit": True,
    "CpuCfsPeriod": True,
    "CpuCfsQuota": True,
    "PidsLimit": True,
    "CgroupDriver": "systemd",
    "CgroupVersion": "2",
    "KernelVersion": RELEASE,
    "ServerVersion": "28.2.2",
    "DefaultRuntime": "runc",
    "SecurityOptions": ["name=apparmor", "name=seccomp,profile=builtin", "name=cgroupns"],
    "ClientInfo": {"Version": "28.2.2", "Context": "default"},
}
DOCKER_VERSION: dict[str, object] = {
    "Client": {"Version": "28.2.2"},
    "Server": {
        "Version": "28.2.2",
        "Components": [{"Name": "Engine", "Version": "28.2.2"}, {"Name": "runc", "Version": "1.3.3"}],
    },
}
PODMAN_INFO: dict[str, object] = {
    "host": {
        "cgroupControllers": ["cpu", "memory", "pids"],
        "cgroupVersion": "v2",
        "kernel": RELEASE,
        "ociRuntime": {"name": "crun", "version": "crun version 1.14\ncommit: 1"},
        "security": {"rootless": True, "selinuxEnabled": False},
        "serviceIsRemote": False,
        "swapTotal": 0,
    },
    "version": {"Version": "5.2.0"},
}


#: The image of a trial is made and removed, and that of corral is there.
MAKES_IMAGES = {
    "import": ToolRun(0, f"sha256:{'5' * 64}\n"),
    "rmi": ToolRun(0, "Deleted\n"),
    "image inspect": ToolRun(0, "[{}]\n"),
}


def said(answer: dict[str, object]) -> ToolRun:
    """An answer in JSON."""
    return ToolRun(0, json.dumps(answer) + "\n")


def docker(**changed: object) -> dict[str, ToolRun]:
    """A docker that answers; some of its facts are others."""
    return {
        "context inspect": ToolRun(0, "unix:///run/docker.sock\n"),
        "info": said({**DOCKER_INFO, **changed}),
        "version": said(DOCKER_VERSION),
        **MAKES_IMAGES,
    }


def podman(**changed: object) -> dict[str, ToolRun]:
    """A podman that answers; some facts about its host are others."""
    about = {**PODMAN_INFO["host"], **changed}  # type: ignore[dict-item]
    return {"info": said({**PODMAN_INFO, "host": about}), **MAKES_IMAGES}


#: A host that has everything.
EVERY_TOOL = {
    "bwrap": {"--version": ToolRun(0, "bubblewrap 0.11.0\n")},
    "firejail": {"--version": ToolRun(0, "firejail version 0.9.72\n\nCompile time support:\n")},
    "docker": docker(),
    "podman": podman(),
}
