"""Feature: one guarantee that a policy can require, a backend can enforce and a test can prove."""

from __future__ import annotations

from enum import StrEnum


class Feature(StrEnum):
    """Each member is a promise about the whole process tree of one run."""

    FS_READ = "fs.read"
    FS_WRITE = "fs.write"
    FS_METADATA = "fs.metadata"
    FS_DENY = "fs.deny"
    FS_PROTECT = "fs.protect"
    FS_PRIVATE = "fs.private"
    FS_TRIAL = "fs.trial"
    NET_NONE = "net.none"
    NET_PORTS = "net.ports"
    NET_DOMAINS = "net.domains"
    NET_EXCEPT = "net.except"
    PROC_HIDDEN = "proc.hidden"
    PROC_SHIELDED = "proc.shielded"
    PROC_CONTAINED = "proc.contained"
    PROC_SINGLE = "proc.single"
    PROC_IDENTITY = "proc.identity"
    IPC_PRIVATE = "ipc.private"
    PRIVILEGES = "privileges"
    SYSCALLS = "syscalls"
    ENVIRONMENT = "environment"
    DESCRIPTORS = "descriptors"
    TERMINAL = "terminal"
    LIMIT_WALL = "limit.wall"
    LIMIT_OUTPUT = "limit.output"
    LIMIT_MEMORY = "limit.memory"
    LIMIT_CPU = "limit.cpu"
    LIMIT_CPU_TIME = "limit.cpu-time"
    LIMIT_PIDS = "limit.pids"
    LIMIT_FILE_SIZE = "limit.file-size"
    LIMIT_OPEN_FILES = "limit.open-files"
    LIMIT_DISK = "limit.disk"
    LIMIT_DISK_FILES = "limit.disk-files"
    LIMIT_TRAFFIC = "limit.traffic"
    LIMIT_TRAFFIC_RATE = "limit.traffic-rate"


#: What each feature promises, in the words that `corral explain` and the documents print.
PROMISES: dict[Feature, str] = {
    Feature.FS_READ: "nothing outside the granted paths can be read or listed",
    Feature.FS_WRITE: "nothing outside the writable paths can be created, changed or removed",
    Feature.FS_METADATA: "modes, owners, times and attributes outside the writable paths cannot be changed",
    Feature.FS_DENY: "denied or read-only paths inside a wider grant stay denied or read-only",
    Feature.FS_PROTECT: "files that the host runs later (hooks, start files) are neither changed nor planted",
    Feature.FS_PRIVATE: "temporary files and the home directory belong to the run and are removed with it",
    Feature.FS_TRIAL: "what a command writes in a trial's workspace stays in a separate layer",
    Feature.NET_NONE: "no packet and no socket reaches beyond the sandbox",
    Feature.NET_PORTS: "connections leave only to the permitted ports of public addresses",
    Feature.NET_DOMAINS: "connections leave only to the permitted names",
    Feature.NET_EXCEPT: "the whole network is open except for some names, or up to a traffic limit",
    Feature.PROC_HIDDEN: "the host's processes cannot be seen",
    Feature.PROC_SHIELDED: "the host's processes can be neither signalled nor traced",
    Feature.PROC_CONTAINED: "nothing that the command started outlives the run",
    Feature.PROC_SINGLE: "the command starts no further process",
    Feature.PROC_IDENTITY: "a command of root's has no user id and no group id of the host's",
    Feature.IPC_PRIVATE: "shared memory, queues and abstract sockets of the host are out of reach",
    Feature.PRIVILEGES: "no capability, no set-user-id program and no namespace gives new rights",
    Feature.SYSCALLS: "the system-call filter is installed",
    Feature.ENVIRONMENT: "only the permitted environment variables are passed on",
    Feature.DESCRIPTORS: "no open file but stdin, stdout and stderr is passed on",
    Feature.TERMINAL: "nothing can be typed into the caller's terminal",
    Feature.LIMIT_WALL: "the run ends when it times out",
    Feature.LIMIT_OUTPUT: "the run ends when it hits the output limit",
    Feature.LIMIT_MEMORY: "all processes together stay within their memory",
    Feature.LIMIT_CPU: "all processes together stay within their share of the processors",
    Feature.LIMIT_CPU_TIME: "all processes together stay within their processor time",
    Feature.LIMIT_PIDS: "all processes together stay within their number",
    Feature.LIMIT_FILE_SIZE: "no file grows beyond its limit",
    Feature.LIMIT_OPEN_FILES: "no process opens more files than permitted",
    Feature.LIMIT_DISK: "the private areas together stay within their size",
    Feature.LIMIT_DISK_FILES: "the private areas together stay within their number of files",
    Feature.LIMIT_TRAFFIC: "all connections together carry no more bytes than permitted",
    Feature.LIMIT_TRAFFIC_RATE: "all connections together carry no more bytes per second than permitted",
}

#: Enforced by the runner itself, whatever the backend is.
RUNNER_FEATURES: frozenset[Feature] = frozenset(
    {Feature.LIMIT_WALL, Feature.LIMIT_OUTPUT, Feature.ENVIRONMENT}
)
#: The mechanism that is named for these.
RUNNER_MECHANISM = "corral's own runner"
