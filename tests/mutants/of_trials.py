"""Mutants of trials: layers in memory, merges, and undoing."""

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
)
