"""Mutants of single walls: what is protected, checked, scoped, limited and given up, one by one."""

from __future__ import annotations

from launches import NO_LANDLOCK
from mutant import Answer, Edit, Mutant

_C, _L, _E = "tests/conformance/test_", "tests/launcher/test_", "tests/end_to_end/test_"
_MOUNTS = "src/corral/backends/_mounts.py"
_CONFINE, _CAPS, _START, _MAIN, _LOCK, _IDENTITY = (
    f"launcher/{name}.c" for name in ("confine", "caps", "start", "main", "lock", "identity")
)
_DOORS = "src/corral/streams/doors.py"
_REPOSITORIES = "tests/unit/git_check/test_repositories.py::test_"
_FAR = "tests/unit/git_check/test_git_everywhere.py::test_"
_EVERYWHERE = "src/corral/git_check/everywhere.py"
_NOT_CHECKED = "tests/unit/git_check/test_what_was_not_checked.py::test_"
_DETOURS = "tests/unit/git_check/test_git_detours.py::test_"
_GIVEN = f"{_C}fs_protect.py::test_a_protected_file_that_the_caller_gives_stays_what_it_is"
_READ_ONLY = "k_mount_setattr(tree, 0, K_MOUNT_ATTR_RDONLY | K_MOUNT_ATTR_NODEV)"
_B = "tests/unit/backends/test_engine_launches.py"
_CLEAR = Edit(_CAPS, "    if ((err = clear_caps())) return err;\n", "")
_REQUIRED = "tests/unit/planning/test_required_by_name.py::test_"
_SCOPED = ".scoped = spec->scoped}"
_NO_CAPS = f"{_L}command.py::test_no_capability_is_left[plain-bare-root]"
_FROM_THE_ROOT = (
    Edit(
        "launcher/target.c",
        "view->place && view->place->base ? view->place->base->fd : view->new_root;",
        "view->new_root;",
    ),
    Edit(
        "launcher/target.c", "{ return view->place ? view->place->length : 0; }", "{ (void)view; return 0; }"
    ),
)


def _wall(name: str, breaks: str, edits: Edit | tuple[Edit, ...], *tests: str) -> Mutant:
    return Mutant(f"wall.{name}", breaks, edits if isinstance(edits, tuple) else (edits,), tests)


MUTANTS = (
    _wall(
        "shields",
        "fs.protect by mounts",
        (Edit(_MOUNTS, "    for shield in plan.shields:\n", "    for shield in ():\n"), NO_LANDLOCK),
        f"{_C}fs_protect.py::test_no_hook_is_planted_in_a_repository[native]",
    ),
    _wall(
        "shields-read-only",
        "fs.protect by mounts",
        (
            Edit(_MOUNTS, "    flags = MountFlag.READ_ONLY if is_read_only else", "    flags ="),
            NO_LANDLOCK,
        ),
        f"{_C}fs_protect.py::test_no_hook_is_planted_in_a_repository[native]",
    ),
    _wall(
        "pins-sealed",
        "fs.deny by mounts",
        (Edit(_MOUNTS, "        is_sealed = pin.path in sealed\n", "        is_sealed = False\n"),),
        f"{_C}fs_deny.py::test_what_is_denied_in_a_read_only_directory_does_not_open_that[native]",
    ),
    _wall(
        "pins",
        "fs.protect by mounts",
        (Edit(_MOUNTS, "    for pin in plan.pins:\n", "    for pin in ():\n"), NO_LANDLOCK),
        f"{_C}fs_protect.py::test_a_repository_cannot_be_swapped_for_another[native]",
    ),
    _wall(
        "held-beneath-covers",
        "fs.protect against a descriptor of another sandbox",
        Edit(
            _MOUNTS,
            "    if rank in {GRANTED, PRIVATE}:",
            "    if any(cover in ranks.get(path.rpartition('/')[0], ()) for cover in _COVERS):\n"
            "        return (10**6, path, 1)\n"
            "    if rank in {GRANTED, PRIVATE}:",
        ),
        f"{_C}fs_protect.py::test_a_directory_of_another_sandbox_is_no_way_around_one_that_hides_it"
        "[native-private]",
    ),
    _wall(
        "repositories-not-checked",
        "fs.protect of what waits for the host's git",
        Edit(
            "src/corral/protected_names/guard.py",
            "        wrong += self._repositories.sweep(is_at_work=is_at_work, is_over=is_over)\n",
            "",
        ),
        f"{_C}fs_protect.py::test_the_hosts_git_neither_follows_nor_runs_what_a_command_left[native]",
    ),
    _wall(
        "settings-of-made-repositories",
        "fs.protect of what waits for the host's git",
        Edit(
            "src/corral/git_formats/keys.py",
            "    return check is not None and check(entry.value)\n",
            "    return True\n",
        ),
        f"{_REPOSITORIES}a_repository_that_was_made_keeps_nothing_that_git_would_run[sub]",
    ),
    _wall(
        "made-repositories-not-looked-for",
        "fs.protect of what waits for the host's git",
        (
            Edit(
                "src/corral/git_formats/search.py",
                "            if has_git(path):\n",
                "            if False:\n",
            ),
            Edit(_EVERYWHERE, "                if has_git:\n", "                if False:\n"),
        ),
        f"{_REPOSITORIES}a_repository_that_was_made_keeps_nothing_that_git_would_run[sub]",
    ),
    _wall(
        "repositories-elsewhere-not-looked-for",
        "fs.protect of what waits for the host's git",
        Edit(_EVERYWHERE, "                if has_git:\n", "                if False:\n"),
        f"{_FAR}a_repository_that_is_made_anywhere_keeps_no_program",
    ),
    _wall(
        "what-is-moved-is-the-hosts",
        "fs.protect of what waits for the host's git",
        Edit(_EVERYWHERE, "            if latest_ns(", "            if here == path and latest_ns("),
        f"{_FAR}a_directory_that_is_moved_brings_nothing_along",
    ),
    _wall(
        "what-others-have-kept-is-believed",
        "fs.protect of what waits for the host's git",
        Edit(
            "src/corral/git_check/remembered.py",
            "if status.st_uid != os.geteuid() or status.st_size > _MOST_BYTES:",
            "if status.st_size > _MOST_BYTES:",
        ),
        f"{_FAR}only_what_corral_itself_has_kept_is_believed",
    ),
    _wall(
        "links-in-repositories",
        "fs.protect of what waits for the host's git",
        Edit(
            "src/corral/git_check/directory.py",
            "            yield not_a_file(handle, prefix + path, name)\n",
            "            yield from ()\n",
        ),
        f"{_REPOSITORIES}no_link_is_left[COMMIT_EDITMSG]",
    ),
    _wall(
        "links-in-place-of-pointers",
        "fs.protect of what waits for the host's git",
        Edit(
            "src/corral/git_check/pointers.py",
            'os.path.realpath(f"{worktree}/.git") if may_be_link else ""',
            'os.path.realpath(f"{worktree}/.git")',
        ),
        f"{_DETOURS}no_pointer_is_a_link",
    ),
    _wall(
        "links-on-the-way-of-pointers",
        "fs.protect of what waits for the host's git",
        Edit(
            "src/corral/git_check/files.py",
            "            if stat.S_ISLNK(os.fstat(here).st_mode):\n                return number, None\n",
            "",
        ),
        f"{_REPOSITORIES}what_git_would_act_on_is_not_left",
    ),
    _wall(
        "modules-behind-a-head",
        "fs.protect of what waits for the host's git",
        (
            Edit(
                "src/corral/git_check/directory.py",
                "            if is_git_directory(inner):\n                yield from self._module(",
                '            if has_entry(inner, "HEAD"):\n                yield from self._module(',
            ),
            Edit(
                "src/corral/git_check/directory.py",
                "        if is_in_modules(prefix) and is_git_directory(handle):\n",
                "        if False:\n",
            ),
        ),
        f"{_DETOURS}no_head_hides_the_git_directory_of_a_submodule",
    ),
    _wall(
        "unfinished-work",
        "fs.protect of what waits for the host's git",
        Edit("src/corral/git_formats/sequencer.py", "    return name in _CHECKS or", "    return False and"),
        f"{_REPOSITORIES}what_git_would_act_on_is_not_left",
    ),
    _wall(
        "paths-of-the-index",
        "fs.protect of what waits for the host's git",
        Edit("src/corral/git_check/directory.py", "        if unsafe:\n", "        if False:\n"),
        "tests/git/test_afterwards.py::test_no_git_command_springs_a_trap_that_a_sandboxed_command_left"
        "[files-own-2]",
    ),
    _wall(
        "git-goes-further-up",
        "fs.protect of what waits for the host's git",
        Edit(
            "src/corral/git_check/check.py",
            "            if looked.is_whole is False and looked.path in self._heads:\n",
            "            if False:\n",
        ),
        f"{_REPOSITORIES}git_is_not_led_to_a_repository_further_up",
    ),
    _wall(
        "what-is-too-large-hides-the-rest",
        "fs.protect of what waits for the host's git",
        Edit(
            "src/corral/git_check/work.py",
            "            self._spare_parts -= 1\n",
            "            raise TooMuchWork\n",
        ),
        f"{_NOT_CHECKED}also_if_it_is_more_than_can_be_taken_away",
    ),
    _wall(
        "what-was-not-checked-is-the-hosts",
        "fs.protect of what waits for the host's git",
        Edit(
            "src/corral/git_check/check.py",
            "        _finish(mark, stored, quarantine)\n",
            "        mark.remove()\n",
        ),
        f"{_NOT_CHECKED}what_a_killed_run_has_left_is_not_the_hosts_own",
    ),
    _wall(
        "other-spellings-of-names",
        "fs.protect of what waits for the host's git",
        Edit(
            "src/corral/untrusted_files/folding.py",
            "        if not any(map(self.may_be_meant, listed)):\n",
            "        if True:\n",
        ),
        f"{_DETOURS}no_other_spelling_hides_what_git_finds",
    ),
    _wall(
        "what-has-changed-is-not-looked-at",
        "fs.protect of what waits for the host's git",
        Edit(
            "src/corral/untrusted_files/unchanged.py",
            "        if not self.is_reliable:\n            return False\n        lstat",
            "        return True\n        lstat",
        ),
        f"{_REPOSITORIES}what_git_would_act_on_is_not_left",
    ),
    _wall(
        "kept-plan-believed",
        "fs.protect of what a plan of an earlier run does not know",
        Edit(
            "src/corral/planning/answer_cache.py",
            "if self._answers is None or not self._holds(host, self._answers):",
            "if self._answers is None:",
        ),
        "tests/unit/host/test_remembered_plans.py::test_a_setting_that_names_hooks_is_seen",
    ),
    _wall(
        "kept-stamps-believed",
        "fs.protect of what a plan of an earlier run does not know",
        Edit(
            "src/corral/host/remembered_plans.py",
            "return all(numbers(path) == known for path, known in stamps.items())",
            "return bool(stamps)",
        ),
        "tests/unit/host/test_remembered_stamps.py::test_any_change_of_a_path_is_seen",
    ),
    _wall(
        "refused-call-answered",
        "refusal:terminate: the process that was refused something does nothing else",
        Edit(
            "launcher/listen.c",
            "    if (error && launch->spec.listens[0].strings & LISTEN_HELD) return;",
            "    if (error && launch->spec.listens[0].strings & LISTEN_HELD && call->pid == 0) return;",
        ),
        "tests/launcher/test_listen.py::test_who_is_to_be_ended_is_not_answered[terminate-waits]",
    ),
    _wall(
        "mount-of-another-object",
        "what was planned is what is mounted",
        Edit(
            "launcher/mount_ops.c",
            "    if (found->st_dev == (dev_t)m->device && found->st_ino == (ino_t)m->inode) return 0;\n",
            "    if (found) return 0;\n",
        ),
        f"{_L}mounts.py::test_a_source_that_changed_is_refused[plain-root]",
    ),
    _wall(
        "targets-by-their-whole-path",
        "what is covered is what a bind shows, whoever exchanges names in a private area",
        _FROM_THE_ROOT,
        f"{_L}bases.py::test_a_shield_covers_what_the_bind_above_it_shows[root]",
    ),
    _wall(
        "targets-by-their-whole-path-and-not-compared",
        "what is covered is what a bind shows, whoever exchanges names in a private area",
        (
            *_FROM_THE_ROOT,
            Edit(
                "launcher/mount_ops.c",
                "{ return view->place && view->place->lies_in_bind; }",
                "{ (void)view; return false; }",
            ),
        ),
        f"{_L}bases.py::test_a_shield_covers_what_the_bind_above_it_shows[root]",
    ),
    _wall(
        "group-without-a-remover",
        "no group is left when its launcher is killed",
        Edit("launcher/group.c", "    if (!err) err = start_remover(launch);\n", ""),
        f"{_L}cgroups.py::test_a_group_is_removed_when_its_launcher_is_killed[plain-confined]",
    ),
    _wall(
        "remover-that-ends-nobody",
        "without namespaces nothing outlives a launcher that is killed, in its group",
        Edit("launcher/group.c", "            cgroup_kill_listed(path);", "           "),
        f"{_L}cgroups.py::test_a_group_is_removed_when_its_launcher_is_killed[plain-bare]",
    ),
    _wall(
        "remover-with-every-privilege",
        "whoever removes groups can do nothing else",
        Edit("launcher/group.c", " || caps_keep(1ull << K_CAP_DAC_OVERRIDE)", ""),
        f"{_L}cgroups.py::test_whoever_removes_groups_holds_nothing_of_the_callers",
    ),
    _wall(
        "remover-with-the-callers-descriptors",
        "whoever removes groups holds nothing of the caller's",
        Edit("launcher/group.c", " && k_close_range(2, 0) == 0", ""),
        f"{_L}cgroups.py::test_whoever_removes_groups_holds_nothing_of_the_callers",
    ),
    _wall(
        "group-that-is-told-nothing-of",
        "the limit that ended a command is said",
        Edit("launcher/main.c", "    if (code == 0) groups_tell(launch);\n", ""),
        f"{_L}cgroups.py::test_a_group_is_made_with_its_limit_and_removed[plain-confined]",
    ),
    _wall(
        "plan-in-another-group",
        "a compiled plan frees nobody from the limits of the caller's groups",
        Edit(
            "launcher/depend.c",
            "return fd >= 0 && got == 0 && have == strlen(known)",
            "return fd >= 0 || have == strlen(known)",
        ),
        f"{_L}plan.py::test_a_plan_is_for_the_control_groups_of_its_caller",
    ),
    _wall(
        "compiled-plan-not-compared",
        "a compiled plan is used only where planning anew would give the same one",
        Edit(
            "launcher/front.c",
            "if (!plan_check(plan, problem)) return",
            "if ((void)plan_check(plan, problem), 1) return",
        ),
        "tests/compiled/test_stale_plans.py::test_a_policy_file_that_changes[root]",
    ),
    _wall(
        "compiled-plan-not-awaited",
        "no command starts before its compiled plan was compared",
        Edit("launcher/front.c", "    launch->spec.count[RECORD_AWAIT] = 1;\n", ""),
        "tests/compiled/test_stale_plans.py::test_a_policy_file_that_changes[root]",
    ),
    _wall(
        "copy-of-what-not-everyone-may-read",
        "a copy shows no more than the file itself",
        Edit("launcher/mount_ops.c", " && (status->st_mode & 0444) == 0444", ""),
        f"{_L}mounts.py::test_anything_else_is_bound[plain-closed]",
    ),
    _wall(
        "copy-where-commands-write",
        "what is granted for reading stays as it is",
        Edit("launcher/mount_ops.c", "if (!view->is_parent_sealed) return mount_bind(view, m);", ""),
        f"{_L}mounts.py::test_anything_else_is_bound[plain-where commands write]",
    ),
    _wall(
        "copy-of-another-file",
        "what was planned is what is copied",
        Edit(
            "launcher/mount_ops.c",
            "check_planned(view, m, &status);\n    if (!err) err = is_for_everyone",
            "0;\n    if (!err) err = is_for_everyone",
        ),
        f"{_L}mounts.py::test_a_copy_is_of_what_was_planned[plain-root]",
    ),
    _wall(
        "directory-that-something-was-mounted-upon",
        "what is made lies where its path leads",
        Edit(
            "launcher/target.c",
            "if (view->parent_fd < 0 || !is_covered) return;",
            "if (*mounted || !is_covered) return;",
        ),
        f"{_L}mounts.py::test_what_is_made_after_a_mount_lies_in_it[plain-root]",
    ),
    _wall(
        "copy-in-a-private-area",
        "fs.write: what is granted for reading stays as it is in a private area",
        Edit(
            "src/corral/backends/native.py",
            "        and taken.isdisjoint(mounts.above(grant.target.path))\n",
            "",
        ),
        "tests/unit/backends/test_mount_order.py::"
        "test_what_may_be_written_or_is_named_is_not_copied[filesystem:private:/etc-BIND]",
    ),
    _wall(
        "rules-left-out-that-permit-more",
        "what is granted can be used",
        Edit(
            "src/corral/backends/_inner.py",
            '    while path != "/":\n        path = path',
            "    while path:\n        path = path",
        ),
        "tests/unit/backends/test_mount_order.py::test_rules_that_are_left_out_permit_nothing_else",
    ),
    _wall(
        "rule-about-what-an-area-leads-to",
        "what Landlock grants as a private area is one",
        Edit(_CONFINE, "m->kind == MOUNT_AREA && strcmp(", "m->kind == MOUNT_KINDS && strcmp("),
        f"{_L}bases.py::test_no_landlock_rule_about_an_area_leaves_the_areas[root]",
    ),
    _wall(
        "rule-about-another-object",
        "what was planned is what Landlock grants",
        Edit(_CONFINE, " && status.st_dev == rule->device && status.st_ino == rule->inode;", ";"),
        f"{_L}surroundings.py::test_a_landlock_rule_is_about_what_was_planned",
    ),
    _wall(
        "scope-of-signals",
        "proc.shielded by Landlock",
        Edit(
            _CONFINE,
            ".scoped = spec->scoped}",
            ".scoped = spec->scoped & ~(uint64_t)K_LANDLOCK_SCOPE_SIGNAL}",
        ),
        f"{_C}proc_shielded.py::test_a_host_process_cannot_be_killed[landlock]",
    ),
    _wall(
        "scope-of-abstract-sockets",
        "ipc.private by Landlock",
        Edit(_CONFINE, _SCOPED, ".scoped = spec->scoped & ~(uint64_t)K_LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET}"),
        f"{_C}ipc_private.py::test_an_abstract_socket_of_the_host_cannot_be_reached[native-network:full]",
    ),
    _wall(
        "ports-not-handled",
        "net.ports by Landlock",
        Edit(
            _CONFINE, ".handled_access_net = spec->handled_net", ".handled_access_net = 0 * spec->handled_net"
        ),
        f"{_L}surroundings.py::test_a_landlock_port_is_reached_and_no_other",
    ),
    _wall(
        "hard-limits",
        "limits cannot be raised again",
        Edit(_CONFINE, ".rlim_max = hard < now.rlim_max ? hard : now.rlim_max}", ".rlim_max = now.rlim_max}"),
        f"{_L}command.py::test_limits_hold_and_no_core_is_dumped[plain-bare-root]",
    ),
    _wall(
        "core-handlers",
        "no program of the host is run for a core",
        Edit(_CONFINE, "    return core_is_set ? 0 : lower_limit(RLIMIT_CORE, 1, 1);\n", "    return 0;\n"),
        f"{_L}command.py::test_no_core_handler_of_the_host_is_run[bare-root]",
    ),
    Mutant(
        "wall.capabilities-not-cleared",
        "privileges",
        (_CLEAR,),
        (_NO_CAPS,),
        Answer.REFUSED,
        "the kernel is asked whether anything is left",
    ),
    _wall(
        "capabilities-not-cleared-nor-asked-about",
        "privileges of who does not execute anything",
        (_CLEAR, Edit(_CAPS, "    return check_none_left();\n", "    return 0;\n")),
        f"{_L}surroundings.py::test_init_keeps_no_privilege[root]",
    ),
    _wall(
        "bounding-set",
        "privileges",
        Edit(_CAPS, "        err = close_ways_back();\n", "        err = 0;\n"),
        f"{_L}surroundings.py::test_init_keeps_no_privilege[root]",
    ),
    _wall(
        "init-is-dumpable",
        "nothing of init can be read",
        Edit(_LOCK, "    return prctl(PR_SET_DUMPABLE, 0) < 0 ? -errno : 0;\n", "    return 0;\n"),
        f"{_L}lifetime.py::test_init_cannot_be_killed_or_read_from_inside[plain-root]",
        f"{_L}lifetime.py::test_init_cannot_be_killed_or_read_from_inside[plain-ordinary]",
    ),
    Mutant(
        "wall.identity-of-the-user",
        "proc.identity, by the user id",
        (Edit(_IDENTITY, "setresgid(0, 0, 0) < 0 || setresuid(0, 0, 0) < 0", "setresgid(0, 0, 0) < 0"),),
        (f"{_C}proc_identity.py::test_the_hosts_kernel_knows_it_by_another_user_id[native]",),
        Answer.REFUSED,
        "who kept the host's id is another one in all that is mapped, and comes to no path",
    ),
    _wall(
        "identity-of-the-group",
        "proc.identity, by the group id",
        Edit(_IDENTITY, "setresgid(0, 0, 0) < 0 || setresuid(0, 0, 0) < 0", "setresuid(0, 0, 0) < 0"),
        f"{_C}proc_identity.py::test_it_is_in_no_group_of_the_hosts[native]",
    ),
    _wall(
        "identity-of-further-groups",
        "proc.identity, by groups that the caller is in besides",
        Edit(_IDENTITY, "    if (setgroups(0, NULL) < 0) return -errno;\n", ""),
        f"{_L}identity.py::test_ids_are_mapped_and_what_is_made_is_the_commands",
    ),
    _wall(
        "identity-without-death-signal",
        "proc.contained with ids of its own, when the supervisor is killed",
        Edit(_IDENTITY, "    return prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 ? -errno : 0;\n", "    return 0;\n"),
        f"{_L}identity.py::test_everything_ends_with_the_supervisor",
    ),
    _wall(
        "proc-stays-writable",
        "the kernel's settings, which uid 0 may write without a capability",
        Edit(_LOCK, "    return err ? err : seal_proc(launch);\n", "    (void)seal_proc;\n    return err;\n"),
        f"{_L}mounts.py::test_proc_shows_only_the_inside_and_its_settings_are_read_only[plain-root]",
    ),
    _wall(
        "doors-stay-open",
        "fs.protect of what the caller gives",
        Edit(
            _DOORS,
            "        return frozenset(filter(self._is_door, descriptors))\n",
            "        return frozenset()\n",
        ),
        f"{_GIVEN}[native-stdin]",
        f"{_GIVEN}[native-stdout]",
    ),
    _wall(
        "stdin-through-a-writable-mount",
        "fs.protect of what the caller gives",
        (
            Edit("launcher/reopen.c", _READ_ONLY, "0"),
            NO_LANDLOCK,
        ),
        f"{_GIVEN}[native-stdin]",
    ),
    _wall(
        "devices-of-the-host-as-stdio",
        "fs.metadata of what the caller gives",
        Edit("launcher/command.c", "    return stdio_use_own_devices(launch);\n", "    return 0;\n"),
        f"{_C}fs_metadata.py::test_the_null_device_that_is_stdin_keeps_its_mode[native-read]",
        "tests/compiled/test_compiled_runs.py::test_a_device_that_is_stdin_keeps_its_mode[root]",
    ),
    _wall(
        "devices-opened-anew",
        "devices that the caller gives are not written to",
        Edit("launcher/reopen.c", _READ_ONLY, "k_mount_setattr(tree, 0, K_MOUNT_ATTR_RDONLY)"),
        f"{_E}redirections.py::test_no_device_is_opened_anew",
    ),
    _wall(
        "private-areas-are-granted",
        "what a private area hides is not written to",
        Edit(_DOORS, "max((*hidden, *grants),", "max(grants,"),
        f"{_E}redirections.py::test_a_file_beneath_a_private_area_stays_as_it_is",
    ),
    _wall(
        "write-only-stdin",
        "what the caller cannot read the command cannot either",
        (
            Edit(
                "src/corral/streams/feed.py",
                "if flags & PATH_ONLY or flags & os.O_ACCMODE == os.O_WRONLY:",
                "if False:",
            ),
            Edit("launcher/reopen.c", "    if (!is_readable(fd)) return -EBADF;\n", ""),
        ),
        f"{_E}redirections.py::test_what_the_caller_cannot_read_from_the_command_cannot_either[write-only]",
    ),
    _wall(
        "directory-as-stdio-of-a-job",
        "no directory of the host leads around the mounts of a kept sandbox",
        Edit("launcher/job.c", "    if (!err) err = check_stdio(&why);\n", "    (void)check_stdio;\n"),
        "tests/sessions/test_malformed_requests.py::test_a_directory_is_no_stdio_of_a_command[open-0]",
    ),
    _wall(
        "supervisor-is-dumpable",
        "nothing of the supervisor can be read",
        Edit(_START, "    if (prctl(PR_SET_DUMPABLE, 0) < 0) return -errno;\n", ""),
        f"{_L}lifetime.py::test_the_supervisor_cannot_be_read_without_namespaces[plain-root]",
        f"{_L}lifetime.py::test_the_supervisor_cannot_be_read_without_namespaces[plain-ordinary]",
    ),
    _wall(
        "session-keyring",
        "keys of the caller",
        Edit("launcher/command.c", "    int err = k_join_session_keyring();\n", "    int err = 0;\n"),
        f"{_L}command.py::test_the_session_keyring_is_not_corrals[bare-root]",
    ),
    _wall(
        "directory-as-stdio",
        "no directory of the host leads around the mounts",
        Edit(_MAIN, "        if (fd <= STDERR_FILENO && !is_fit_stdio(fd)) return -EBADF;\n", ""),
        f"{_L}surroundings.py::test_a_directory_is_no_stdio",
    ),
    Mutant(
        "wall.programs-of-the-working-directory",
        "nothing planted is executed",
        (Edit("launcher/exec.c", "if (length == 0 || size < 0", "if (size < 0"),),
        (f"{_L}command.py::test_no_program_is_taken_from_the_working_directory",),
        Answer.SURVIVES,
        "an empty element would be the root, where nobody can plant anything",
    ),
    _wall(
        "stop-taken-for-an-end",
        "the time limit of a command that asks its supervisor to trace it",
        Edit("launcher/tree.c", "if (!WIFEXITED(status) && !WIFSIGNALED(status)) continue;", ""),
        "tests/escape/test_debugging.py::test_a_stop_is_not_taken_for_the_end_and_the_time_limit_holds"
        "[native-run-thread]",
    ),
    _wall(
        "supervisor-holds-stdio",
        "a reader sees the end",
        Edit(
            "launcher/supervise.c",
            "    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) close(fd);\n",
            "",
        ),
        f"{_L}lifetime.py::test_stdout_ends_with_the_command_not_with_the_launcher[bare-root]",
    ),
    _wall(
        "container-removed-by-name",
        "containers of others stay",
        Edit(
            "src/corral/backends/engine/lowering.py",
            'removal=(program, "rm", "--force", "--volumes"),',
            'removal=(program, "rm", "--force", "--volumes", name),',
        ),
        f"{_B}::test_a_name_that_was_asked_for_is_never_what_is_removed[docker]",
    ),
    _wall(
        "container-own-image-fetched",
        "nobody else's image is taken for corral's",
        Edit(
            "src/corral/backends/engine/messages.py", "    if is_own_image(image):\n        return None\n", ""
        ),
        f"{_B}::test_images_that_corral_builds_are_never_fetched[corral/sandbox-docker]",
    ),
    _wall(
        "container-disk-unlimited",
        "limit.disk",
        Edit("src/corral/backends/engine/container.py", "    if unheld - plan.waived:\n", "    if False:\n"),
        f"{_B}::test_a_writable_root_has_no_limit_of_disk[docker]",
    ),
    _wall(
        "container-port-closed",
        "a port that is published is open",
        Edit(
            "src/corral/runtime/launcher/outer.py", "                check_network(self._launch, pid)\n", ""
        ),
        "tests/unit/runtime/test_outer_programs.py::"
        "test_a_published_port_has_to_listen_before_the_command_runs[127.0.0.1-127.0.0.1-tcp]",
    ),
    _wall(
        "container-root-of-a-project",
        "a project's file permits nothing",
        Edit(
            "src/corral/config/narrow.py",
            '"container.root": _default_only',
            '"container.root": lambda *_: (None, True)',
        ),
        "tests/unit/config/test_container_settings.py::"
        'test_a_projects_file_narrows_the_container_and_never_widens_it[root-"writable"-"read-only"]',
    ),
    _wall(
        "required-by-name",
        "a feature that is required by name is enforced, or nothing runs",
        Edit(
            "src/corral/planning/require.py",
            "    return derived | {Feature(name) for name in policy.requires}\n",
            "    return derived\n",
        ),
        f"{_REQUIRED}a_default_that_is_required_by_name_is_no_default_any_more",
    ),
    _wall(
        "required-and-unconfined",
        "what is required by name is required of `--backend none`",
        Edit(
            "src/corral/pipeline/planner.py",
            " - RUNNER_FEATURES - self.policy.requires)",
            " - RUNNER_FEATURES)",
        ),
        f"{_REQUIRED}what_is_required_by_name_is_not_answered_by_running_unconfined[by-name]",
    ),
    _wall(
        "required-and-fallen-back",
        "what is required by name is required of a fallback",
        Edit(
            "src/corral/pipeline/planner.py",
            "        return self.falls_back and not self.policy.requires - RUNNER_FEATURES\n",
            "        return self.falls_back\n",
        ),
        f"{_REQUIRED}what_is_required_by_name_is_not_answered_by_running_unconfined[as-fallback]",
    ),
    _wall(
        "usage-of-groups",
        "what a compiled plan tells of the costs of all processes",
        Edit(
            "launcher/group.c",
            "    if (launch->tells_usage) tell_counted(launch);\n",
            "    (void)tell_counted;\n",
        ),
        "tests/compiled/test_compiling.py::test_a_plan_tells_what_a_command_has_cost[root-by-groups]",
    ),
)
