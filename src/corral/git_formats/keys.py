"""Which settings of a git configuration are harmless: a list of what is, because nobody knows the rest.

A setting is harmless if, whatever git is asked to do, it runs no program, leads git to no file and to nothing
but a server, makes git write nowhere else, and takes no protection away. A key that is not in the tables is
refused, and so is a value that its table does not expect: many keys are dangerous with some values only
(`core.fsmonitor`, `branch.NAME.remote`, `pager.CMD`).

Refused, though they look harmless:
  core.bare=true                   git stays in the current directory, and looks there for a relative
                                   core.hooksPath of the user
  merge.tool, diff.tool            a name with `../` in it is a shell script that git reads
  branch.NAME.mergeOptions         options of `git merge`: `-s X` runs git-merge-X, `-F` reads any file
  pull.twohead, pull.octopus       the same strategies, the same programs
  remotes.GROUP                    its words may be directories
  remote.NAME.promisor, extensions.partialClone, fetch.bundleURI   `git log` talks to a server
  remote.NAME.mirror, push.pushOption, `+` in remote.NAME.push     a push does more than its user meant
  submodule.recurse, diff.submodule=log, push.recurseSubmodules=check   git works in the submodules, also of
                                   old commits, with their own configuration and hooks
  log.diffMerges=remerge           git merges while it shows something
  extensions.worktreeConfig        git reads one more file
  format.pretty, log.date          free forms put control characters on a terminal, or start gpg (`%G?`)
  help.autoCorrect                 runs what was not typed
  commit.template, blame.ignoreRevsFile, fsck.skipList, mailmap.file   read any file, and some show it
  core.sharedRepository            opens the repository to other users
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from corral.git_formats.config import ConfigEntry

_FALSE = frozenset({"false", "no", "off", "0", ""})
_TRUE = frozenset({"true", "yes", "on", "1"})
_ALPHANUMERIC = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789")
_HEX = frozenset("0123456789abcdefABCDEF")
_SORTS = "refname version:refname v:refname creatordate committerdate authordate taggerdate upstream head"

# In all tables `*` stands for a subsection.

_SWITCHES = """
add.ignoreerrors add.ignore-errors am.keepcr am.threeway am.messageid
blame.blankboundary blame.showemail blame.showroot blame.markunblamablelines blame.markignoredlines
checkout.guess commit.status
commitgraph.changedpaths commitgraph.readchangedpaths
core.commitgraph core.filemode core.fsyncobjectfiles core.ignorecase core.multipackindex
core.precomposeunicode core.preloadindex core.quotepath
core.splitindex core.symlinks core.trustctime core.usereplacerefs core.warnambiguousrefs
diff.autorefreshindex diff.indentheuristic diff.mnemonicprefix diff.noprefix diff.relative
diff.suppressblankempty
extensions.noop extensions.noop-v1 extensions.preciousobjects extensions.relativeworktrees
feature.experimental feature.manyfiles
fetch.all fetch.prune fetch.prunetags fetch.showforcedupdates fetch.writecommitgraph
gc.autodetach gc.cruftpacks gc.writecommitgraph
grep.column grep.extendedregexp grep.fullname grep.linenumber
index.recordendofindexentries index.recordoffsettable index.skiphash interactive.singlekey
lfs.allowincompletepush lfs.*.locksverify lfs.locksverify lfs.skipdownloaderrors
log.abbrevcommit log.follow log.mailmap log.showroot
maintenance.auto maintenance.autodetach
merge.autostash merge.branchdesc merge.defaulttoupstream merge.stat
pack.usebitmapboundarytraversal pack.usebitmaps pack.usesparse pack.writebitmaphashcache
pack.writebitmaplookuptable pack.readreverseindex pack.writereverseindex
pull.autostash push.autosetupremote push.followtags push.negotiate push.usebitmaps push.useforceifincludes
rebase.abbreviatecommands rebase.autosquash rebase.autostash rebase.forkpoint rebase.reschedulefailedexec
rebase.stat rebase.updaterefs
remote.*.prune remote.*.prunetags remote.*.skipdefaultupdate remote.*.skipfetchall
repack.usedeltabaseoffset repack.packkeptobjects repack.writebitmaps
rerere.autoupdate rerere.enabled revert.reference sparse.expectfilesoutsideofpatterns
stash.index stash.showincludeuntracked stash.showpatch stash.showstat
status.aheadbehind status.branch status.displaycommentprefix status.relativepaths status.short
status.showstash submodule.*.active submodule.propagatebranches
user.useconfigonly worktree.guessremote worktree.userelativepaths
"""

#: `true` would start a daemon, gpg or git in another repository, or open something; `false` is the default.
_ONLY_FALSE = """
commit.gpgsign core.bare core.fsmonitor core.sharedrepository extensions.worktreeconfig log.showsignature
push.gpgsign status.submodulesummary submodule.recurse tag.forcesignannotated tag.gpgsign
"""

#: `false` would take a protection away that the user may have asked for.
_ONLY_TRUE = """
core.protecthfs core.protectntfs fetch.fsckobjects http.sslverify transfer.fsckobjects
"""

_NUMBERS = """
checkout.thresholdforparallelism checkout.workers commitgraph.generationversion commitgraph.maxnewfilters
core.bigfilethreshold core.configlocktimeout core.deltabasecachelimit
core.filesreflocktimeout core.maxtreedepth core.packedgitlimit
core.packedgitwindowsize core.packedrefstimeout
diff.context diff.interhunkcontext diff.renamelimit diff.statgraphwidth diff.statnamewidth
fetch.parallel fetch.unpacklimit
gc.aggressivedepth gc.aggressivewindow gc.auto gc.autopacklimit gc.bigpackthreshold gc.maxcruftsize
gc.rerereresolved gc.rerereunresolved grep.threads
http.lowspeedlimit http.lowspeedtime http.maxrequests http.minsessions http.postbuffer
lfs.activitytimeout lfs.concurrenttransfers lfs.dialtimeout lfs.fetchrecentcommitsdays
lfs.fetchrecentrefsdays lfs.repositoryformatversion lfs.tlstimeout
merge.renamelimit merge.verbosity
pack.compression pack.deltacachelimit pack.deltacachesize pack.depth pack.indexversion pack.packsizelimit
pack.threads pack.window pack.windowmemory
rebase.maxlabellength reftable.blocksize reftable.geometricfactor reftable.locktimeout
reftable.restartinterval splitindex.maxpercentchange status.renamelimit submodule.fetchjobs
transfer.unpacklimit
"""

#: The words that each may be.
_WORDS = {
    "apply.ignorewhitespace": "no none never false change",
    "apply.whitespace": "nowarn warn fix error error-all strip",
    "blame.coloring": "repeatedlines highlightrecent none",
    # Not any field: `signature` starts gpg.
    "branch.sort": f"{_SORTS} -{_SORTS.replace(' ', ' -')}",
    "branch.autosetuprebase": "never local remote always",
    "commit.cleanup": "strip whitespace verbatim scissors default",
    "commitgraph.changedpathsversion": "-1 0 1 2",
    "core.abbrev": "auto no 7 8 9 10 11 12 16 20 40",  # too short a one, and git stops
    "core.compression": "-1 0 1 2 3 4 5 6 7 8 9",
    "core.loosecompression": "-1 0 1 2 3 4 5 6 7 8 9",
    "core.checkstat": "default minimal",
    # No letter: a comment in a list of things to do must never be a command of it.
    "core.commentchar": "auto # ; @ ! $ % ^ & | :",
    "core.createobject": "link rename",
    "core.eol": "lf crlf native",
    "core.fsyncmethod": "fsync batch writeout-only",
    "core.repositoryformatversion": "0 1",
    "diff.algorithm": "default myers minimal patience histogram",
    "diff.ignoresubmodules": "none untracked dirty all",
    "diff.submodule": "short",
    "extensions.compatobjectformat": "sha1 sha256",
    "extensions.objectformat": "sha1 sha256",
    # Later versions take a URI here, which leads anywhere.
    "extensions.refstorage": "files reftable",
    "fetch.negotiationalgorithm": "default consecutive skipping noop",
    "fetch.output": "full compact",
    "fetch.recursesubmodules": "on-demand false no",
    "format.pretty": "oneline short medium full fuller reference email raw",
    "grep.patterntype": "default basic extended fixed perl",
    "http.version": "HTTP/1.1 HTTP/2",
    "index.version": "2 3 4",
    "init.defaultobjectformat": "sha1 sha256",
    "init.defaultrefformat": "files reftable",
    "lfs.*.access": "none basic negotiate ntlm",
    "log.date": "default relative local iso iso8601 iso-strict rfc rfc2822 short raw human unix",
    "log.diffmerges": "off none on m first-parent 1 separate combined c dense-combined cc",
    "log.initialdecorationset": "all",
    "merge.conflictstyle": "merge diff3 zdiff3",
    "protocol.version": "0 1 2",
    "push.default": "nothing current upstream tracking simple matching",
    "push.recursesubmodules": "no false",
    "rebase.backend": "merge apply",
    "rebase.missingcommitscheck": "ignore warn error",
    "remote.*.followremotehead": "create always warn never",
    "remote.*.tagopt": "--tags --no-tags",
    "submodule.*.fetchrecursesubmodules": "on-demand false no",
    "submodule.*.ignore": "none untracked dirty all",
    "submodule.*.update": "checkout rebase merge none",
    "tag.sort": f"{_SORTS} -{_SORTS.replace(' ', ' -')}",
}

#: The words that each may be, if it is not a number and neither true nor false.
_SWITCHES_OR_WORDS = {
    "branch.*.rebase": "merges m interactive i preserve p",
    "branch.autosetupmerge": "always inherit simple",
    "core.autocrlf": "input",
    "core.logallrefupdates": "always",
    "core.safecrlf": "warn",
    "core.untrackedcache": "keep",
    "commit.verbose": "",
    "diff.colormoved": "default plain blocks zebra dimmed-zebra dimmed_zebra",
    "diff.renames": "copies copy",
    "index.threads": "",
    "log.decorate": "short full auto",
    "merge.directoryrenames": "conflict",
    "merge.ff": "only",
    "merge.log": "",
    "merge.renames": "copies copy",
    "pack.allowpackreuse": "single multi",
    "gc.packrefs": "notbare",
    "pull.ff": "only",
    "pull.rebase": "merges m interactive i preserve p",
    "rebase.rebasemerges": "rebase-cousins no-rebase-cousins",
    "status.renames": "copies copy",
    "status.showuntrackedfiles": "normal all",
}

#: Text that is shown or stored, and leads nowhere.
_TEXTS = """
author.email author.name committer.email committer.name user.email user.name
core.fsync core.whitespace diff.colormovedws diff.dirstat diff.wserrorhighlight
gc.logexpiry gc.pruneexpire gc.reflogexpire gc.*.reflogexpire gc.reflogexpireunreachable
gc.*.reflogexpireunreachable gc.worktreepruneexpire lfs.fetchexclude lfs.fetchinclude
log.excludedecoration log.graphcolors splitindex.sharedindexexpire
"""

#: Names of branches, patterns of refs.
_REFS = """
branch.*.merge init.defaultbranch submodule.*.branch
"""

_URLS = """
lfs.pushurl lfs.url remote.*.lfspushurl remote.*.lfsurl remote.*.pushurl remote.*.url submodule.*.url
"""

_ADDRESSES = frozenset(_URLS.split())
_PROTECTING = frozenset((*_ONLY_FALSE.split(), *_ONLY_TRUE.split(), "core.repositoryformatversion"))

#: A remote. Git takes a word that is none for a URL or a directory, and runs the hooks it finds there.
_REMOTES = frozenset({"branch.*.remote", "branch.*.pushremote", "remote.pushdefault"})


def is_harmless(entry: ConfigEntry, remotes: Collection[str] = ()) -> bool:
    """Whether git can do nothing new because of a setting. `remotes` are those of the same repository.

    TRUST: ask about every setting of a file that there is now, with `harmless_remotes` of that file, not
    about what was added: a `branch.NAME.remote` that was fine is a directory when its remote is gone.
    """
    subsection = entry.subsection
    if not entry.name.isprintable() or subsection == "":
        return False
    if subsection is not None and subsection.startswith(("-", "/")):
        return False  # `git fetch --all` puts the names of remotes on a command line, as they are
    if entry.section == "remote" and subsection is not None and is_path(subsection):
        return False
    pattern = _pattern(entry)
    if pattern in _REMOTES:
        return entry.value == "." or entry.value in remotes
    if pattern == "remote.*.fetch":
        return _is_fetched_apart(entry.value or "", f"refs/remotes/{subsection}/")
    check = _CHECKS.get(pattern) or _SECTIONS.get(entry.section)
    return check is not None and check(entry.value)


def is_path(remote: str) -> bool:
    """Whether the name of a remote is also a path: who types that path, or follows `.`, gets the remote."""
    return remote in {".", ".."} or "/" in remote


def _is_fetched_apart(refspec: str, own: str) -> bool:
    """Whether a fetch changes only what is known of this remote: elsewhere it could delete branches."""
    source, _, target = refspec.removeprefix("+").partition(":")
    is_own = target.startswith(own) or (target == source and source.startswith("refs/tags/"))
    return _is_ref(refspec) and source.startswith("refs/") and is_own and ".." not in target


def harmless_remotes(entries: Iterable[ConfigEntry]) -> frozenset[str]:
    """The remotes with a harmless URL: git then looks for no directory and no file of that name."""
    return frozenset(
        entry.subsection
        for entry in entries
        if entry.subsection is not None and _pattern(entry) == "remote.*.url" and is_harmless(entry)
    )


OBJECT_FORMAT = "extensions.objectformat"


def has_extensions(entries: Iterable[ConfigEntry]) -> bool:
    """Whether git heeds `extensions`: a repository of the first version has none."""
    versions = [entry.value for entry in entries if entry.name == "core.repositoryformatversion"]
    return bool(versions) and versions[-1] == "1"


def hash_length(entries: Collection[ConfigEntry]) -> int:
    """How many bytes the names of objects have in a repository with these settings."""
    formats = [entry.value for entry in entries if entry.name == OBJECT_FORMAT]
    is_long = has_extensions(entries) and bool(formats) and (formats[-1] or "").lower() == "sha256"
    return 32 if is_long else 20


def names_program_or_path(entry: ConfigEntry, remotes: Collection[str] = ()) -> str:
    """What the value may lead to: "hooks", "include", "program" (or any other path); "" if to nothing."""
    pattern = _pattern(entry).lower()
    if pattern == "core.hookspath":
        return "hooks"
    if pattern in {"include.path", "includeif.*.path"}:
        return "include"
    return "" if is_harmless(entry, remotes) else "program"


def is_address(entry: ConfigEntry) -> bool:
    """Whether the value is where something is fetched from or pushed to."""
    return _pattern(entry) in _ADDRESSES


def chooses_where_to_push(entry: ConfigEntry) -> bool:
    """Whether the value is the remote that pushes go to, beside the one that a branch follows."""
    return _pattern(entry) in {"branch.*.pushremote", "remote.pushdefault"}


def protects(entry: ConfigEntry) -> bool:
    """Whether git may do more when a harmless setting is gone: the user's own may say otherwise."""
    return _pattern(entry) in _PROTECTING or entry.section == "extensions"


def is_network_url(url: str) -> bool:
    """Whether git takes a text for the address of a server and for nothing else.

    No helper (`ext::`), no directory of this machine, nothing that ssh could take for an option, nothing
    that a decoded character makes another address of.
    """
    if "://" in url:
        scheme, _, rest = url.partition("://")
        authority, slash, path = rest.partition("/")
        if scheme not in {"https", "http", "ssh", "git"} or not slash:
            return False
    else:  # host:path
        scheme = "ssh"
        authority, _, path = url.partition(":")
        if not path or path.startswith(("-", ":")) or len(authority) < 2:  # one letter is a drive of Windows
            return False
    is_web = scheme.startswith("http")
    return (
        _is_authority(authority, "-._~+=:%" if is_web else "-._~+=")
        and _is_made_of(f"/{path}", "-._~/@:+=,%")
        and all(_is_visible(escaped[:2]) for escaped in url.split("%")[1:])
    )


def _is_authority(text: str, of_users: str) -> bool:
    user, at, place = text.rpartition("@")
    if at and (user.startswith("-") or not _is_made_of(user, of_users)):
        return False
    if place.startswith("["):
        host, bracket, rest = place[1:].partition("]")
        has_end = bool(bracket) and (not rest or (rest[0] == ":" and _is_digits(rest[1:])))
        return has_end and _is_made_of(host, ":.")
    host, colon, port = place.partition(":")
    return _is_made_of(host, "-._") and not host.startswith("-") and (not colon or _is_digits(port))


def _is_visible(digits: str) -> bool:
    """Two digits for a character that is no control character."""
    return len(digits) == 2 and _HEX.issuperset(digits) and 0x20 <= int(digits, 16) != 0x7F


def _is_digits(text: str) -> bool:
    return text.isascii() and text.isdigit()


def _is_made_of(text: str, others: str) -> bool:
    return bool(text) and (_ALPHANUMERIC | frozenset(others)).issuperset(text)


def _pattern(entry: ConfigEntry) -> str:
    return f"{entry.section}.{entry.key}" if entry.subsection is None else f"{entry.section}.*.{entry.key}"


def _is_switch(value: str | None) -> bool:
    return value is None or value.lower() in _TRUE | _FALSE


def _is_false(value: str | None) -> bool:
    return value is not None and value.lower() in _FALSE


def _is_true(value: str | None) -> bool:
    return value is None or value.lower() in _TRUE


def _is_number(value: str | None) -> bool:
    return value is not None and _is_digits(value.removeprefix("-").rstrip("kKmMgG"))


def _is_text(value: str | None) -> bool:
    """Escape sequences would reach a terminal. And what older versions read is then the same."""
    return value is not None and value.isprintable()


def _is_paragraph(value: str | None) -> bool:
    return value is not None and value.replace("\n", "").replace("\t", "").isprintable()


def _is_charset(value: str | None) -> bool:
    return value is not None and _is_made_of(value, "-._")


def _is_ref(value: str | None) -> bool:
    return value is not None and value.isprintable() and " " not in value and not value.startswith("-")


def _is_pushed_ref(value: str | None) -> bool:
    """No `+`, which overwrites; no empty source, which deletes; no stash and no note is published."""
    return _is_ref(value) and value is not None and value.startswith(("HEAD", "refs/heads/", "refs/tags/"))


def _is_url(value: str | None) -> bool:
    return value is not None and is_network_url(value)


def _one_of(words: str) -> Callable[[str | None], bool]:
    allowed = frozenset(words.lower().split())
    return lambda value: value is not None and value.lower() in allowed


def _switch_or(words: str) -> Callable[[str | None], bool]:
    is_word = _one_of(words)
    return lambda value: _is_switch(value) or _is_number(value) or is_word(value)


#: Sections in which every key is of one kind, with or without a subsection.
_SECTIONS = {"advice": _is_switch, "color": _is_text, "column": _is_text, "pager": _is_switch}

_CHECKS: dict[str, Callable[[str | None], bool]] = {
    **{
        name: check
        for names, check in (
            (_SWITCHES, _is_switch),
            (_ONLY_FALSE, _is_false),
            (_ONLY_TRUE, _is_true),
            (_NUMBERS, _is_number),
            (_TEXTS, _is_text),
            (_REFS, _is_ref),
            (_URLS, _is_url),
        )
        for name in names.split()
    },
    **{name: _one_of(words) for name, words in _WORDS.items()},
    **{name: _switch_or(words) for name, words in _SWITCHES_OR_WORDS.items()},
    "branch.*.description": _is_paragraph,
    "i18n.commitencoding": _is_charset,
    "i18n.logoutputencoding": _is_charset,
    "remote.*.push": _is_pushed_ref,
}
