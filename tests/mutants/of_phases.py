"""Which tests notice that a phase of the launcher is left out."""

from __future__ import annotations

from launches import NO_LANDLOCK, Entry, refused, survives
from mutant import Edit

_C, _L = "tests/conformance/test_", "tests/launcher/test_"
_READ = f"{_C}fs_read.py::test_a_file_outside_cannot_be_read[native]"
_MEMORY = f"{_C}limit_memory.py::test_a_process_does_not_get_more_memory_than_permitted[native]"
_GROUP = f"{_L}cgroups.py::test_the_command_lives_in_a_group_of_version_1[plain-confined]"
_PERMITTED = "tests/network/test_tools_allowlist.py::test_what_is_allowed_works"
_NO_TCP = f"{_C}net_none.py::test_no_tcp_connection_reaches_the_host[native]"
_OUTLIVES = f"{_C}fs_protect.py::test_a_directory_that_outlives_the_sandbox_is_protected_still"
_IDENTITY = f"{_C}proc_identity.py::test_"
_CAPS = f"{_L}command.py::test_no_capability_is_left"

ENTRIES = {
    "supervisor.phase_group": refused(
        "limits of compiled plans",
        "who opens the groups finds none",
        f"{_L}cgroups.py::test_a_group_is_made_with_its_limit_and_removed[plain-confined]",
    ),
    "supervisor.phase_cgroup": refused(
        "limits by control groups", "who is to join finds no group", _GROUP, _MEMORY
    ),
    "supervisor.phase_in_place": Entry(
        "shields inside another program's sandbox",
        f"{_L}inside.py::test_paths_are_bound_and_covered_in_place",
    ),
    "supervisor.phase_expect": Entry(
        "what another program was told is looked at",
        f"{_L}inside.py::test_another_object_than_the_planned_one_is_noticed[plain]",
    ),
    "supervisor.phase_gateway_inside": Entry(
        "net.domains inside another sandbox", f"{_PERMITTED}[bubblewrap-curl]"
    ),
    "supervisor.phase_notify": Entry(
        "corral is asked about connections",
        f"{_L}notify.py::test_questions_come_with_their_listener_and_a_command_holds_neither[plain-root]",
    ),
    "supervisor.phase_lock_inside": Entry(
        "fs.protect when another program's sandbox has ended", f"{_OUTLIVES}[bubblewrap-config]"
    ),
    "supervisor.phase_identity": refused(
        "what a command with ids of its own may do in the workspace",
        "it is another's",
        f"{_IDENTITY}what_it_makes_in_the_workspace_belongs_to_root[native]",
    ),
    "supervisor.phase_start": survives(
        "there is a command at all", "not tried: without a child, the supervisor's signals are for everyone"
    ),
    "child.phase_join": Entry("limits by control groups", _GROUP, _MEMORY),
    "init.phase_own_cgroup": Entry(
        "the groups of the host are not seen", f"{_L}cgroups.py::test_inside_its_group_is_the_root[plain]"
    ),
    "init.phase_helper": refused("net.none", "the network that is to be entered is missing", _NO_TCP),
    "init.phase_hostname": Entry(
        "the host's name is not told", f"{_L}surroundings.py::test_the_host_has_another_name_inside"
    ),
    "init.phase_mounts": Entry("fs.read by mounts, without Landlock", _READ, edits=(NO_LANDLOCK,)),
    "init.phase_network_join": refused(
        "net.none", "the helper waits to be joined before it helps to lock", _NO_TCP
    ),
    "init.phase_gateway": Entry("net.domains", f"{_PERMITTED}[native-curl]"),
    "init.phase_lock": Entry("fs.protect when the sandbox has ended", f"{_OUTLIVES}[native-config]"),
    "init.phase_no_new_privs": Entry(
        "init gains no privilege", f"{_L}surroundings.py::test_init_keeps_no_privilege[root]"
    ),
    "init.phase_caps": Entry(
        "init keeps no capability", f"{_L}surroundings.py::test_init_keeps_no_privilege[root]"
    ),
    "command.phase_session": Entry(
        "terminal", f"{_L}command.py::test_the_command_has_its_own_session_and_terminal[namespaces-root]"
    ),
    "command.phase_limits": Entry(
        "limit.open-files", f"{_C}limit_open_files.py::test_a_child_gets_no_more_files_than_permitted[native]"
    ),
    "command.phase_no_new_privs": Entry("privileges", f"{_CAPS}[plain-bare-root]"),
    "command.phase_caps": Entry("privileges", f"{_CAPS}[plain-bare-root]"),
    "command.phase_surroundings": Entry(
        "the working directory, and the signals that a command begins with",
        f"{_L}command.py::test_signals_begin_unblocked_and_not_ignored[bare-root]",
    ),
    "command.phase_landlock": Entry(
        "fs.read by Landlock", f"{_C}fs_read.py::test_a_file_outside_cannot_be_read[landlock]"
    ),
    "command.phase_seccomp": Entry(
        "syscalls", f"{_C}syscalls.py::test_the_keyrings_of_the_host_are_out_of_reach[native]"
    ),
    "command.phase_exec": refused("there is a command at all", "nothing is executed", _READ),
    "init.phase_no_new_privs+command.phase_no_new_privs": Entry(
        "privileges, both times", f"{_CAPS}[plain-namespaces-root]"
    ),
    "init.phase_caps+command.phase_caps": Entry("privileges, both times", f"{_CAPS}[plain-namespaces-root]"),
}

#: The one phase that is in no table.
FDS = Entry(
    "nothing that corral has open is held by the launcher",
    f"{_L}surroundings.py::test_nobody_holds_what_the_launcher_inherited[confined]",
).mutant(
    "phase.supervisor.phase_fds",
    (
        Edit(
            "launcher/main.c",
            "    return k_close_range((unsigned)(FIRST_FOREIGN_FD + given), 0);\n",
            "    (void)given;\n    return 0;\n",
        ),
    ),
)
