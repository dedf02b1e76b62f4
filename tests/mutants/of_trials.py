"""Mutants of trials: layers in memory and on disk, merges, applying and undoing."""

from __future__ import annotations

from mutant import Answer, Edit, Mutant

_MEMORY, _MERGE, _UNDO = (f"src/corral/trials/{name}.py" for name in ("memory", "merge", "undo"))
_OVERLAY = "launcher/overlay.c"
_T = "tests/trials/test_"
_BYTES = f"{_T}memory.py::test_a_trial_holds_so_many_bytes_and_no_more[native]"
_KINDS = f"{_T}memory.py::test_what_is_kept_is_what_a_layer_on_disk_would_have"
_REFUSED = f"{_T}merge.py::test_what_cannot_be_merged_is_listed_and_nothing_is_written"
_TOGETHER = f"{_T}merge.py::test_both_changes_come_together_and_can_be_undone"
_SIZE, _WHOLE = (
    "a trial in memory holds what it may and no more",
    "what was written on trial is kept as it was",
)
_MERGED = "a merge loses nothing of either side"
_CARRY, _RECOVERY, _APPLY, _JOURNAL = (
    f"src/corral/trials/{name}.py" for name in ("carry_out", "recovery", "apply", "journal")
)
_FIRST = f"{_T}host_was_there_first.py::test_what_"
_WRITTEN = f"{_FIRST}the_host_writes_into_what_was_just_applied_stays"
_STAYS = "what the host puts at a path at the last moment stays"
_BACK = "undo puts back what was there, and nothing that somebody has changed since"


def _one(name: str, breaks: str, edit: Edit, *tests: str, why: str = "") -> Mutant:
    """`why`: what is taken away is missed by corral itself."""
    return Mutant(f"trial.{name}", breaks, (edit,), tests, Answer.REFUSED if why else Answer.CAUGHT, why)


MUTANTS = (
    _one(
        "memory-without-size",
        _SIZE,
        Edit(_OVERLAY, '{"size", size}, {"nr_inodes", inodes}', '{"nr_inodes", inodes}'),
        _BYTES,
        why="no more is copied than the layer may hold",
    ),
    _one(
        "memory-with-twice-the-files",
        _SIZE,
        Edit(_OVERLAY, "m->mode + OWN_FILES);", "m->mode + 2 * OWN_FILES);"),
        f"{_T}memory.py::test_a_trial_holds_so_many_files_and_no_more",
    ),
    _one(
        "memory-forgets-what-is-used",
        _SIZE,
        Edit(_MEMORY, "used_bytes=record.used_bytes + (used", "used_bytes=(used"),
        f"{_T}memory.py::test_commands_of_one_trial_share_its_size",
    ),
    _one(
        "memory-grows-meanwhile",
        _SIZE,
        Edit(
            _MEMORY, "                if self._left < 0:\n", "                if self._left < -(1 << 40):\n"
        ),
        f"{_T}memory.py::test_no_more_is_copied_than_the_layer_may_hold",
    ),
    _one(
        "memory-kept-in-part",
        _WHOLE,
        Edit(
            _MEMORY, "            remove_tree(directory, _PART)\n            raise\n", "            raise\n"
        ),
        f"{_T}memory.py::test_a_layer_is_kept_whole_or_not_at_all",
    ),
    _one(
        "memory-without-marks",
        _WHOLE,
        Edit(_MEMORY, "                    copy_marks(below.handles[0], inner)\n", ""),
        _KINDS,
    ),
    _one(
        "memory-without-whiteouts",
        _WHOLE,
        Edit(
            _MEMORY,
            "            os.mknod(entry.name, stat.S_IFCHR, 0, dir_fd=target)\n",
            "            return\n",
        ),
        _BYTES,
    ),
    _one(
        "memory-without-second-names",
        _SIZE,
        Edit(_MEMORY, "        if status.st_nlink > 1:\n", "        if status.st_nlink > 9:\n"),
        f"{_T}memory.py::test_no_more_is_copied_than_the_layer_may_hold",
    ),
    _one(
        "memory-not-handed-out",
        _WHOLE,
        Edit(
            _OVERLAY,
            "    if (!err) err = memory_hand_out(view, directory, memory);\n",
            "    (void)memory_hand_out;\n",
        ),
        _KINDS,
    ),
    _one(
        "merge-of-some",
        "a merge is of all that is asked for, or of nothing",
        Edit(_MERGE, "        if not problems:\n", "        if True:\n"),
        _REFUSED,
    ),
    _one(
        "merge-of-bytes",
        _MERGED,
        Edit(_MERGE, 'if any(b"\\0" in content for content in versions):', "if False:"),
        _REFUSED,
    ),
    _one(
        "merge-without-mode",
        _MERGED,
        Edit(_MERGE, "theirs.mode if is_mode_theirs else ours.mode & 0o777", "ours.mode & 0o777"),
        _TOGETHER,
    ),
    _one(
        "merge-of-the-same-lines",
        _MERGED,
        Edit(_MERGE, '("merge-file", "-p", "-q", *paths)', '("merge-file", "-p", "-q", "--ours", *paths)'),
        f"{_T}merge.py::test_the_same_lines_are_a_conflict",
    ),
    _one(
        "merge-while-it-changes",
        _MERGED,
        Edit(
            _MERGE,
            "            if stamp_of(os.fstat(handle)) != stamp_of(status):\n",
            "            if False:\n",
        ),
        f"{_T}merge.py::test_what_changes_meanwhile_is_not_merged",
    ),
    _one(
        "merge-noted-first",
        "a merge that was stopped is made again",
        Edit(
            _MERGE,
            "                merger.put(path, version)\n                bases.note([(path, stamp)])",
            "                bases.note([(path, stamp)])\n                merger.put(path, version)",
        ),
        f"{_T}merge.py::test_a_merge_that_was_stopped_is_made_again",
    ),
    _one(
        "merge-without-copies",
        "what git does not track is merged by the copy of it",
        Edit(
            _MERGE,
            "        except FileNotFoundError:\n            return self._base_in_git(path)\n",
            "        except FileNotFoundError:\n            return self._base_in_git(path)\n"
            "        os.close(handle)\n        return self._base_in_git(path)\n",
        ),
        f"{_T}merge.py::test_a_copy_that_shares_its_blocks_is_a_base_as_well",
    ),
    _one(
        "undo-without-mode",
        _BACK,
        Edit(_UNDO, "                os.fchmod(target, step.before.mode)\n", ""),
        f"{_T}exchange.py::test_what_was_kept_as_a_copy_comes_back_with_its_mode",
    ),
    _one(
        "undo-of-what-has-changed",
        _BACK,
        Edit(
            _UNDO,
            "    return after.is_same(now) or (journal.is_undoing and now is None)\n",
            "    return True\n",
        ),
        f"{_T}conflicts.py",
    ),
    _one(
        "undo-of-what-is-left",
        _BACK,
        Edit(
            _UNDO,
            "if number in journal.undone or _is_left(step.path, leave):",
            "if number in journal.undone:",
        ),
        f"{_T}git.py",
        f"{_T}links_for_git.py",
        f"{_T}conflicts.py",
    ),
    _one(
        "undo-completes-a-repository",
        "undo leaves nothing for the host's git",
        Edit(
            _UNDO,
            "is_link and links.are_tracked_with(path, indexes)) or _completes_repository(tree, back, path):",
            "is_link and links.are_tracked_with(path, indexes)):",
        ),
        f"{_T}links_for_git.py",
        f"{_T}git.py",
        f"{_T}hostile_layers.py",
    ),
    _one(
        "undo-restores-links",
        "undo leaves nothing for the host's git",
        Edit(_UNDO, "(is_link and links.are_tracked_with(path, indexes)) or _completes", "_completes"),
        f"{_T}links_for_git.py",
        f"{_T}git.py",
    ),
    _one(
        "exchange-without-a-look",
        _STAYS,
        Edit(
            _CARRY,
            "            if (old.st_dev, old.st_ino) != (step.before.device, step.before.inode):\n",
            "            if False:\n",
        ),
        f"{_T}exchange.py::test_what_the_host_puts_there_at_the_last_moment_stays",
    ),
    _one(
        "exchange-where-something-is-passed-on",
        "a file gets what its directory passes on",
        Edit(_CARRY, "        return not self._passing_on[1]\n", "        return True\n"),
        f"{_T}exchange.py",
    ),
    _one(
        "exchange-of-what-is-nowhere",
        "a file that was replaced is not empty after a power failure",
        Edit(_CARRY, "backup, directory, name, target)", "backup, directory, name, -1)"),
        f"{_T}exchange.py::test_what_replaces_a_file_begins_to_go_to_the_disk_first",
    ),
    _one(
        "exchange-not-noted",
        "an apply that was killed goes on",
        Edit(_CARRY, "            self._journal.note_staged(number, made, by_exchange=True)\n", ""),
        f"{_T}apply_faults.py::test_stopped_while_files_change_places_it_goes_on",
    ),
    _one(
        "exchange-not-put-back",
        _STAYS,
        Edit(
            _RECOVERY,
            "    if staged.by_exchange and not _is_kept(journal, number, itself=True):\n",
            "    if False:\n",
        ),
        f"{_FIRST}an_exchange_brought_out_by_chance_is_put_back",
    ),
    _one(
        "recovery-whoever-wrote",
        _BACK,
        Edit(_RECOVERY, "    if status.st_mtime_ns != staged.written_ns:\n", "    if False:\n"),
        _WRITTEN,
    ),
    _one(
        "recovery-after-the-look",
        _BACK,
        Edit(_APPLY, '                _recover(last, tree, "undo")', "                pass"),
        _WRITTEN,
    ),
    _one(
        "recovery-of-what-was-not-kept",
        _BACK,
        Edit(_RECOVERY, "        if _is_kept(journal, number):", "        if True:"),
        f"{_FIRST}the_host_removes_before_it_is_kept_stops_no_undo",
        why="there is nothing to put back, and undo stops",
    ),
    _one(
        "journal-with-a-line-cut-off",
        "an apply that was stopped goes on",
        Edit(
            _JOURNAL,
            "            os.ftruncate(self._progress, os.fstat(self._progress).st_size - written)\n",
            "",
        ),
        f"{_T}host_was_there_first.py::test_a_note_that_was_cut_off_is_not_written_upon",
    ),
    _one(
        "copied-while-it-changes",
        "what is written while it is copied is not applied",
        Edit(
            _CARRY,
            "(after.st_ctime_ns, after.st_size) != (status.st_ctime_ns, status.st_size)",
            "(after.st_mtime_ns, after.st_size) != (status.st_mtime_ns, status.st_size)",
        ),
        f"{_FIRST}is_written_while_it_is_copied_is_seen_whatever_time_it_claims",
    ),
    _one(
        "volatile-not-forgotten",
        "a trial takes another command",
        Edit(
            _OVERLAY,
            "int err = forget_volatile(view, layers->fds[1]);",
            "(void)forget_volatile;\n    int err = 0;",
        ),
        f"{_T}forks.py::test_a_layer_that_waits_for_no_disk_is_taken_again",
        why="the kernel does not take the layer again",
    ),
    _one(
        "volatile-by-a-link",
        "the launcher follows no link in a layer",
        Edit(_OVERLAY, "how = K_RESOLVE_BENEATH | K_RESOLVE_NO_SYMLINKS;", "how = 0;"),
        "tests/launcher/test_overlays.py::test_the_kernels_note_of_a_layer_is_removed_and_nothing_else",
    ),
)
