"""Something in progress that the user never began: a rebase, a cherry-pick, a bisection, patches, a merge."""

from __future__ import annotations

from support.git_trap import DIRECTORIES, FILES, MORE, STATES, harmless, sprung

_NO_SUCH_NAME = "git refuses the name"
#: A rebase that has stopped; what it does next is a list of things to do.
_REBASE = """
def rebasing(todo, **more):
    clear('.git/rebase-merge')
    head = git('rev-parse', 'main')
    known = {'head-name': 'refs/heads/main', 'onto': head, 'orig-head': head, 'git-rebase-todo': todo,
             'done': '', 'msgnum': '0', 'end': '1', 'interactive': ''}
    for name, text in {**known, **{name.replace('_', '-'): text for name, text in more.items()}}.items():
        write(f'.git/rebase-merge/{name}', text + '\\n' if text else '')
"""
#: Git makes `git merge-NAME` of the name of a strategy, and that a path. It needs a directory `git-merge-x`.
_STRATEGY = "os.makedirs('git-merge-x', exist_ok=True); strategy = f'x/../../out/{NAME}/evil-{NAME}'\n"
#: Commits being picked. The first of the list is the one that is in progress.
_SEQUENCE = """
clear('.git/sequencer')
head, topic = git('rev-parse', 'main'), git('rev-parse', 'topic')
write('.git/sequencer/head', head + '\\n'); write('.git/sequencer/abort-safety', head + '\\n')
write('.git/sequencer/todo', f'pick {head} done\\npick {topic} topic\\n')
"""
#: Two patches: at the first, which does not apply, git stops; `am --skip` goes on to the second.
_APPLYING = """
clear('.git/rebase-apply')
one, two = git('format-patch', '-1', '--stdout', 'other'), git('format-patch', '-1', '--stdout', 'topic')
git('am', data=f'{one}\\n\\n{two}\\n'.encode(), check=False)
assert os.path.exists('.git/rebase-apply/next')
"""
_BISECTING = "git('bisect', 'start'); git('bisect', 'bad')\n"
#: A conflict whose resolution git remembers. That the directory is there is enough for it to do so.
_RESOLVED = """
os.makedirs('.git/rr-cache', exist_ok=True)
git('merge', 'other', check=False)
known = '.git/rr-cache/' + os.listdir('.git/rr-cache')[0]
write('conflict.txt', 'resolved'); git('rerere'); git('reset', '-q', '--hard')
"""
#: A merge to be concluded, whose message is anything.
_MERGING = """
write('.git/MERGE_HEAD', git('rev-parse', 'topic') + '\\n'); write('.git/MERGE_MODE', '')
"""

_REBASES = (
    sprung("rebase-exec", _REBASE + "rebasing(f'exec {EVIL}')", "stash", "rebase --continue", group=STATES),
    sprung(
        "rebase-strategy",
        _REBASE + _STRATEGY + "rebasing('pick ' + git('rev-parse', 'topic'), strategy=strategy)",
        "stash",
        "rebase --continue",
        group=FILES,
    ),
    sprung(
        "rebase-files",
        _REBASE
        + "rebasing('pick ' + git('rev-parse', 'other'))\n"
        + "for name in ('message', 'author-script', 'patch', 'stopped-sha', 'git-rebase-todo.backup'):\n"
        + "    link(f'.git/rebase-merge/{name}', f'{AIM}/new-{name}')",
        "stash",
        "rebase --continue",
        group=MORE,
    ),
    harmless(
        _NO_SUCH_NAME,
        "rebase-branch-upwards",
        _REBASE + "rebasing('noop', head_name=f'refs/../../../out/{NAME}/new')",
        "rebase --abort",
        group=STATES,
    ),
    harmless(
        _NO_SUCH_NAME,
        "rebase-label-upwards",
        _REBASE + "rebasing(f'label ../../../../out/{NAME}/new')",
        "stash",
        "rebase --continue",
        group=STATES,
    ),
    harmless(
        _NO_SUCH_NAME,
        "rebase-refs-upwards",
        _REBASE
        + "at = git('rev-parse', 'main')\n"
        + "rebasing('noop', update_refs=f'refs/../../../out/{NAME}/new\\n{\"0\" * 40}\\n{at}')",
        "stash",
        "rebase --continue",
        group=STATES,
    ),
    harmless(
        "it becomes an option of `git stash`, which has none that would help",
        "rebase-autostash",
        _REBASE + "rebasing('noop', autostash=f'--{EVIL}')",
        "stash",
        "rebase --continue",
        group=STATES,
    ),
)

_SEQUENCES = (
    sprung(
        "sequencer-strategy",
        _STRATEGY + _SEQUENCE + "write('.git/sequencer/opts', f'[options]\\n\\tstrategy = {strategy}\\n')",
        "cherry-pick --continue",
        group=STATES,
    ),
    harmless(
        "a sequence has commits alone",
        "sequencer-exec",
        _SEQUENCE + "write('.git/sequencer/todo', f'pick {head} done\\nexec {EVIL}\\n')",
        "cherry-pick --continue",
        group=STATES,
    ),
    sprung(
        "sequencer-files",
        _SEQUENCE + "link('.git/sequencer/abort-safety', VICTIM)",
        "cherry-pick --continue",
        group=MORE,
    ),
)

_PATCHES = (
    sprung(
        "am-options",
        _APPLYING + "write('.git/rebase-apply/apply-opt', f\" '--build-fake-ancestor={AIM}/new'\\n\")",
        "am --skip",
        group=STATES,
    ),
    sprung(
        "am-files",
        _APPLYING
        + "for name in ('author-script', 'final-commit', 'patch', 'info', 'abort-safety'):\n"
        + "    link(f'.git/rebase-apply/{name}', f'{AIM}/new-{name}')",
        "am --skip",
        group=DIRECTORIES,
    ),
    harmless(
        "with an index git applies nothing outside of the worktree",
        "am-directory",
        _APPLYING
        + "options = f\" '--unsafe-paths' '--directory=../out/{NAME}/dir'\\n\"\n"
        + "write('.git/rebase-apply/apply-opt', options)",
        "am --skip",
        group=STATES,
    ),
    harmless(
        "it is read as a number",
        "am-number",
        _APPLYING + "write('.git/rebase-apply/next', f'../../../out/{NAME}/new\\n')",
        "am --skip",
        group=STATES,
    ),
)

_BISECTIONS = (
    sprung("bisect-log", _BISECTING + "link('.git/BISECT_LOG', VICTIM)", "bisect good v1", group=STATES),
    sprung(
        "bisect-ancestors",
        _BISECTING + "link('.git/BISECT_ANCESTORS_OK', AIM + '/new')",
        "bisect good v1",
        group=DIRECTORIES,
    ),
    sprung(
        "bisect-terms", _BISECTING + "link('.git/BISECT_TERMS', AIM + '/new')", "bisect good v1", group=FILES
    ),
    sprung("bisect-refs", _BISECTING + "link('.git/refs/bisect', EMPTY)", "bisect good v1", group=MORE),
    harmless(
        "it becomes an option of `git checkout`, which has none that would help",
        "bisect-start",
        _BISECTING + "write('.git/BISECT_START', f'--upload-pack={EVIL}\\n')",
        "bisect reset",
        group=FILES,
    ),
)

_RESOLUTIONS = (
    sprung(
        "rerere-image", _RESOLVED + "link(f'{known}/thisimage', VICTIM)", "merge other", group=DIRECTORIES
    ),
    sprung(
        "rerere-list",
        "os.makedirs('.git/rr-cache', exist_ok=True); link('.git/MERGE_RR', AIM + '/new')",
        "merge other",
        group=DIRECTORIES,
    ),
    harmless(
        "git writes only over a file that has the very conflict",
        "rerere-path",
        _RESOLVED + "write('.git/MERGE_RR', f'{os.path.basename(known)}\\t../out/{NAME}/startup\\0')",
        "rerere",
        group=MORE,
    ),
    sprung("rerere-entry", _RESOLVED + "link(known, DIR)", "merge other", group=STATES),
)

_MERGES = (
    sprung(
        "message-for-configuration",
        _MERGING + "write('.git/MERGE_MSG', MONITOR); link('.git/COMMIT_EDITMSG', 'config')",
        "commit --no-edit",
        "status",
        group=STATES,
    ),
    sprung(
        "message-for-hook",
        _MERGING + "write('.git/MERGE_MSG', EVIL); link('.git/COMMIT_EDITMSG', 'hooks/pre-commit')",
        "commit --no-edit",
        "commit --allow-empty -m empty",
        group=MORE,
    ),
    sprung(
        "message-by-hard-link",
        _MERGING
        + "write('.git/MERGE_MSG', MONITOR); clear('.git/COMMIT_EDITMSG')\n"
        + "os.link('.git/config', '.git/COMMIT_EDITMSG')",
        "commit --no-edit",
        "status",
        group=STATES,
        held=True,
    ),
)
#: In the order in which one can be made beside the other.
TRAPS = (*_RESOLUTIONS, *_BISECTIONS, *_PATCHES, *_SEQUENCES, *_REBASES, *_MERGES)
