"""Which tests notice that a record of the spec is not heard, a mount not made, a namespace missing."""

from __future__ import annotations

from launches import NO_LANDLOCK, NO_LISTENER, NO_TREE, Entry, refused

_C, _L = "tests/conformance/test_", "tests/launcher/test_"
_S = "tests/sessions/test_"
_READ = f"{_C}fs_read.py::test_a_file_outside_cannot_be_read[native]"
_READ_LANDLOCK = f"{_C}fs_read.py::test_a_file_outside_cannot_be_read[landlock]"
_MEMORY = f"{_C}limit_memory.py::test_a_process_does_not_get_more_memory_than_permitted[native]"
_PERMITTED = "tests/network/test_tools_allowlist.py::test_what_is_allowed_works[native-curl]"
_NO_TCP = f"{_C}net_none.py::test_no_tcp_connection_reaches_the_host[native]"
_MADE_UP = f"{_L}mounts.py::test_files_links_and_directories_are_made_up[plain-root]"

_TAKEN = f"{_L}guard.py::test_what_is_planted_is_taken_away_while_the_command_runs[plain-root-a file]"

RECORDS = {
    "NAMESPACES": refused("every namespace", "a mount without a mount namespace is refused", _READ),
    "ID_MAP": Entry("who the command is", f"{_L}command.py::test_every_user_may_be_mapped_by_root[plain]"),
    "CGROUP": Entry(
        "limits by control groups",
        f"{_L}cgroups.py::test_the_command_lives_in_a_group_of_version_1[plain-confined]",
        _MEMORY,
    ),
    "MOUNT": refused("fs.read", "private areas without mounts are refused", _READ, edits=(NO_LANDLOCK,)),
    "HOSTNAME": Entry(
        "the host's name is not told", f"{_L}surroundings.py::test_the_host_has_another_name_inside"
    ),
    "LOOPBACK": Entry("a network of its own that works", f"{_L}surroundings.py::test_loopback_is_up"),
    "RLIMIT": Entry(
        "limit.open-files", f"{_C}limit_open_files.py::test_a_child_gets_no_more_files_than_permitted[native]"
    ),
    "LANDLOCK": refused("fs.read by Landlock", "rules without a ruleset are refused", _READ_LANDLOCK),
    "LANDLOCK_PATH": refused(
        "what is granted by Landlock", "nothing can be executed without a rule", _READ_LANDLOCK
    ),
    "LANDLOCK_PORT": Entry(
        "a granted port", f"{_L}surroundings.py::test_a_landlock_port_is_reached_and_no_other"
    ),
    "SECCOMP": Entry(
        "syscalls",
        f"{_C}syscalls.py::test_the_keyrings_of_the_host_are_out_of_reach[native]",
        edits=(NO_LISTENER,),
    ),
    "CWD": refused("the working directory", "there is none to enter", _READ),
    "ARGUMENT": refused("the command", "there is none to execute", _READ),
    "ENVIRONMENT": Entry(
        "environment", f"{_L}command.py::test_arguments_and_environment_arrive_as_they_are[plain-bare-root]"
    ),
    "WALL": Entry(
        "limit.wall", f"{_L}command.py::test_the_wall_limit_ends_the_command[plain-namespaces-root]"
    ),
    "TERMINAL": Entry(
        "terminal", f"{_L}command.py::test_the_command_has_its_own_session_and_terminal[namespaces-root]"
    ),
    "FAULT": Entry("faults of test builds", f"{_L}faults.py::test_a_fault_without_namespaces[root-limits]"),
    "AREAS": refused(
        "limit.disk",
        "private areas without their size are refused",
        f"{_C}limit_disk.py::test_private_areas_hold_no_more_than_permitted[native]",
    ),
    "CGROUP_KILL": Entry(
        "proc.contained by control groups",
        f"{_L}cgroups.py::test_the_freezer_ends_everyone[plain]",
        edits=(NO_TREE,),
    ),
    "GROUP": refused(
        "limits of compiled plans",
        "settings of a group that is not made are refused",
        f"{_L}cgroups.py::test_a_group_is_made_with_its_limit_and_removed[plain-confined]",
    ),
    "GROUP_SETTING": Entry(
        "limits of compiled plans",
        f"{_L}cgroups.py::test_a_group_is_made_with_its_limit_and_removed[plain-confined]",
    ),
    "CPU_TIME": Entry(
        "limit.cpu-time", f"{_L}cgroups.py::test_processor_time_is_held_by_version_1[plain-confined]"
    ),
    "WATCH": Entry(
        "limit.pids by looking", f"{_L}watch.py::test_too_many_processes_end_the_tree[plain-confined]"
    ),
    "LINGER": Entry(
        "the account of a container",
        f"{_L}surroundings.py::test_who_lingers_waits_for_the_end_of_the_lifeline",
    ),
    "AWAIT": refused(
        "what is there before a command is looked at before it starts",
        "corral's word ends a launcher that does not wait for it",
        f"{_L}surroundings.py::test_a_command_starts_not_before_corral_says_so[confined]",
    ),
    "INSIDE": refused(
        "sandboxes inside others",
        "expectations of an own sandbox are refused",
        f"{_L}inside.py::test_paths_are_bound_and_covered_in_place",
    ),
    "EXPECT": Entry(
        "what another program was told is looked at",
        f"{_L}inside.py::test_another_object_than_the_planned_one_is_noticed[plain]",
    ),
    "IMAGE_ENVIRONMENT": Entry(
        "variables of images",
        f"{_L}inside.py::test_variables_of_an_image_are_kept_but_not_those_of_its_engine[plain]",
    ),
    "SERVE": refused(
        "kept sandboxes",
        "a spec without a command is refused",
        f"{_C}fs_read.py::test_a_file_outside_cannot_be_read[native-session]",
    ),
    "KEEP": Entry(
        "what is left running goes on",
        f"{_S}protected_in_sessions.py::test_what_is_left_running_cannot_plant_between_commands",
    ),
    "GATEWAY": Entry("net.domains", _PERMITTED),
    "LISTEN": Entry(
        "refused calls are told",
        f"{_L}listen.py::test_a_refused_call_is_told_with_what_it_claims[plain-root]",
    ),
    "LOCK": Entry(
        "fs.protect when the sandbox has ended",
        "tests/conformance/test_fs_protect.py::"
        "test_a_directory_that_outlives_the_sandbox_is_protected_still[native-config]",
    ),
    "IDENTITY": Entry(
        "proc.identity", f"{_C}proc_identity.py::test_the_hosts_kernel_knows_it_by_another_user_id[native]"
    ),
    "GUARD": refused("fs.protect of names", "names without a guard are refused", _TAKEN),
    "GUARDED": refused("fs.protect of names", "a name in no directory is refused", _TAKEN),
    "NAME": Entry("fs.protect of names", _TAKEN),
    "SEARCHED": Entry(
        "fs.protect of compiled plans",
        "tests/compiled/test_compiled_guard.py"
        "::test_a_repository_that_a_command_makes_does_not_stay[root-at once]",
    ),
}

MOUNTS = {
    "BIND": refused("fs.read: what is granted", "there is no program to execute", _READ),
    "TMPFS": Entry("private file systems", f"{_L}mounts.py::test_a_tmpfs_has_its_size_and_mode[plain-root]"),
    "PROC": Entry(
        "proc.hidden",
        f"{_L}mounts.py::test_proc_shows_only_the_inside_and_its_settings_are_read_only[plain-root]",
    ),
    "DEVPTS": Entry(
        "terminals of its own", f"{_L}mounts.py::test_a_private_terminal_can_be_opened[plain-root]"
    ),
    "SYMLINK": Entry("links that are made up", _MADE_UP),
    "FILE": Entry("files that are made up", _MADE_UP),
    "DIRECTORY": Entry("directories that are made up", _MADE_UP),
    "MASK": Entry(
        "fs.deny by mounts",
        f"{_C}fs_deny.py::test_a_denied_file_inside_the_workspace_cannot_be_read[native]",
        edits=(NO_LANDLOCK,),
    ),
    "AREA": Entry(
        "fs.private",
        f"{_C}fs_private.py::test_what_is_left_in_the_home_vanishes_with_the_run[native]",
        f"{_L}areas.py::test_they_are_empty_writable_and_apart[plain-root]",
    ),
    "COPY": Entry("files of /etc", f"{_L}mounts.py::test_a_copy_is_of_what_was_planned[plain-root]"),
    "OVERLAY": refused(
        "fs.trial",
        "the workspace is missing, and nothing starts in it",
        f"{_C}fs_trial.py::test_what_a_command_writes_stays_out_of_the_workspace[native]",
    ),
    "LINK": Entry(
        "fs.protect: settings are changed in a copy",
        f"{_L}mounts.py::test_a_link_covers_a_file_and_leads_elsewhere[plain-root]",
        "tests/conformance/test_fs_protect.py::test_settings_of_git_are_changed_in_a_copy[native]",
    ),
}

FLAGS = {
    "READ_ONLY": Entry(
        "fs.write by mounts",
        f"{_C}fs_write.py::test_a_readable_file_cannot_be_changed[native]",
        edits=(NO_LANDLOCK,),
    ),
    "NO_EXEC": Entry("what is mounted without execution", f"{_L}mounts.py::test_flags[plain]"),
    "DEVICES": Entry(
        "devices that are granted",
        f"{_L}mounts.py::test_devices_work_where_they_are_granted_and_nowhere_else[plain-root]",
    ),
    "UNVERIFIED": refused("devices of /dev", "what nobody has looked at counts as changed", _READ),
}

NAMESPACES = {
    "NEWNS": refused("mounts of its own", "a mount without a mount namespace is refused", _READ),
    "NEWCGROUP": Entry(
        "the groups of the host are not seen", f"{_L}cgroups.py::test_inside_its_group_is_the_root[plain]"
    ),
    "NEWUTS": refused("the host's name is not told", "a name without a namespace for it is refused", _READ),
    "NEWIPC": Entry(
        "ipc.private", f"{_C}ipc_private.py::test_shared_memory_of_the_host_cannot_be_changed[native]"
    ),
    "NEWUSER": refused("privileges", "a mount without a user namespace is refused", _READ),
    "NEWPID": refused("proc.contained", "nothing would end the tree", _READ),
    "NEWNET": refused("net.none", "loopback without a network namespace is refused", _NO_TCP),
}
