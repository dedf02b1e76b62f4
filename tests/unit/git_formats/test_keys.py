"""What runs a program or leads git elsewhere is never taken for a harmless setting."""

from __future__ import annotations

import pytest

from corral.git_formats.config import ConfigEntry, read_config
from corral.git_formats.keys import harmless_remotes, is_harmless, is_network_url, names_program_or_path


def setting(name: str, value: str | None) -> ConfigEntry:
    return ConfigEntry(name, value, value, 1, 0, 0)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("user.name", "Ada Lövelace <x>"),
        ("user.email", "ada@example.org"),
        ("core.repositoryformatversion", "0"),
        ("core.filemode", None),
        ("core.bare", "false"),
        ("core.logallrefupdates", "true"),
        ("core.logallrefupdates", "always"),
        ("core.ignorecase", "TRUE"),
        ("core.autocrlf", "input"),
        ("core.abbrev", "12"),
        ("core.fsmonitor", "false"),
        ("core.commentchar", ";"),
        ("core.compression", "-1"),
        ("core.bigfilethreshold", "512m"),
        ("init.defaultbranch", "main"),
        ("pull.rebase", "merges"),
        ("pull.ff", "only"),
        ("push.default", "simple"),
        ("push.autosetupremote", "true"),
        ("branch.feature/x.y.remote", "origin"),
        ("branch.main.remote", "."),
        ("branch.main.pushremote", "origin"),
        ("branch.main.merge", "refs/heads/main"),
        ("branch.main.rebase", "true"),
        ("branch.main.description", "two\n\tlines"),
        ("remote.origin.url", "https://github.com/a/b.git"),
        ("remote.origin.pushurl", "git@github.com:a/b.git"),
        ("remote.origin.fetch", "+refs/heads/*:refs/remotes/origin/*"),
        ("remote.origin.push", "HEAD:refs/for/main"),
        ("remote.origin.tagopt", "--no-tags"),
        ("remote.origin.prune", "true"),
        ("remote.pushdefault", "origin"),
        ("color.ui", "auto"),
        ("color.diff.meta", "yellow bold"),
        ("advice.detachedhead", "false"),
        ("pager.log", "false"),
        ("merge.conflictstyle", "zdiff3"),
        ("rebase.autostash", "true"),
        ("log.date", "iso"),
        ("diff.algorithm", "histogram"),
        ("commit.gpgsign", "false"),
        ("tag.sort", "-version:refname"),
        ("submodule.lib/x.url", "https://example.org/x"),
        ("submodule.lib/x.active", "true"),
        ("submodule.lib/x.update", "rebase"),
        ("lfs.repositoryformatversion", "0"),
        ("lfs.https://example.org/x.git/info/lfs.access", "basic"),
        ("lfs.url", "https://example.org/x.git/info/lfs"),
        ("gc.auto", "0"),
        ("index.version", "4"),
        ("extensions.objectformat", "sha256"),
    ],
)
def test_a_plain_setting_is_harmless(name: str, value: str | None) -> None:
    assert is_harmless(setting(name, value), {"origin"})
    assert names_program_or_path(setting(name, value), {"origin"}) == ""


#: Every documented setting (git 2.39 to 2.55, git-lfs) that names a program, a path, or more configuration.
DANGEROUS = """
alias.st alias.st.command blame.ignorerevsfile branch.main.mergeoptions browser.x.cmd browser.x.path
bundle.x.uri commit.template completion.commands core.alternaterefscommand core.alternaterefsprefixes
core.askpass core.attributesfile core.editor core.excludesfile core.fsmonitor core.gitproxy core.hookspath
core.notesref core.pager core.sshcommand core.virtualfilesystem core.worktree
credential.helper credential.https://x.helper credential.username
diff.external diff.guitool diff.orderfile diff.tool diff.x.command diff.x.textconv
difftool.x.cmd difftool.x.path extensions.partialclone extensions.refstorage extensions.submodulepathconfig
extensions.worktreeconfig fetch.bundleuri fetch.fsck.skiplist filter.lfs.clean filter.lfs.process
filter.lfs.smudge format.headers format.outputdirectory format.pretty format.signaturefile fsck.skiplist
fsmonitor.socketdir gc.recentobjectshook gc.repackfilterto gitcvs.logfile gpg.format gpg.program
gpg.ssh.allowedsignersfile gpg.ssh.defaultkeycommand gpg.ssh.program gpg.ssh.revocationfile gpg.x509.program
guitool.x.cmd gui.spellingdictionary help.autocorrect help.browser help.format help.htmlpath hook.x.command
hook.x.event http.cookiefile http.curloptresolve http.extraheader http.https://x.proxy http.proxy
http.proxysslcert http.savecookies http.sslbackend http.sslcainfo http.sslcapath http.sslcert http.sslkey
imap.tunnel include.path includeif.gitdir:x.path init.templatedir instaweb.browser instaweb.httpd
instaweb.modulepath interactive.difffilter lfs.customtransfer.x.path lfs.extension.x.clean
lfs.standalonetransferagent lfs.storage log.date mailmap.blob mailmap.file maintenance.repo man.viewer
man.x.cmd man.x.path merge.default merge.guitool merge.tool merge.x.driver mergetool.vimdiff.layout
mergetool.x.cmd mergetool.x.path pager.log pretty.x promisor.acceptfromserver protocol.allow
protocol.ext.allow pull.octopus pull.twohead push.pushoption rebase.instructionformat
receive.certnonceseed receive.fsck.skiplist receive.procreceiverefs remote.origin.mirror
remote.origin.partialclonefilter remote.origin.promisor remote.origin.proxy remote.origin.receivepack
remote.origin.serveroption remote.origin.uploadpack remote.origin.vcs remotes.default safe.directory
sendemail.aliasesfile sendemail.cccmd sendemail.headercmd sendemail.sendmailcmd sendemail.smtpserver
sendemail.smtpsslcertpath sendemail.tocmd sequence.editor ssh.variant submodule.active
submodule.alternatelocation submodule.x.gitdir submodule.x.update svn-remote.x.url tar.x.command
trace2.eventtarget trailer.x.cmd trailer.x.command uploadpack.packobjectshook url.ext::sh.insteadof
url.x.pushinsteadof user.signingkey web.browser core.unknown unknown.key unknown.x.key
"""


@pytest.mark.parametrize("name", DANGEROUS.split())
def test_no_setting_that_names_a_program_or_a_path_is_harmless(name: str) -> None:
    for value in ("/tmp/evil", "!evil", "evil", "~ada/evil", "ext::sh -c evil", "../evil"):
        assert not is_harmless(setting(name, value), {"origin"}), value
        assert names_program_or_path(setting(name, value)) in {"hooks", "include", "program"}, value


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("core.fsmonitor", "true"),
        ("core.fsmonitor", None),
        ("core.bare", "true"),
        ("core.protectntfs", "false"),
        ("core.sharedrepository", "0666"),
        ("core.commentchar", "x"),
        ("http.sslverify", "false"),
        ("transfer.fsckobjects", "false"),
        ("commit.gpgsign", "true"),
        ("log.showsignature", "true"),
        ("log.date", "format:\x1b]0;x"),
        ("log.date", "format:%s"),
        ("format.pretty", "%G?"),
        ("tag.sort", "signature"),
        ("extensions.worktreeconfig", "true"),
        ("extensions.refstorage", "files:///tmp/evil"),
        ("submodule.recurse", "true"),
        ("submodule.x.update", "!evil"),
        ("push.recursesubmodules", "on-demand"),
        ("diff.submodule", "diff"),
        ("diff.submodule", "log"),
        ("push.recursesubmodules", "check"),
        ("log.diffmerges", "remerge"),
        ("pager.log", "evil"),
        ("pager.log", "./evil"),
        ("remote.origin.push", "+refs/heads/*:refs/heads/*"),
        ("remote.origin.push", ":refs/heads/main"),
        ("remote.origin.push", "refs/*:refs/*"),
        ("remote.origin.fetch", "--upload-pack=evil"),
        ("remote.origin.url", ""),
        ("remote.origin.url", None),
        ("remote.--upload-pack=evil.url", "https://example.org/x"),
        ("remote./tmp/evil.url", "https://example.org/x"),
        ("remote.a\x1b.url", "https://example.org/x"),
        ("branch..remote", "origin"),
        ("user.name", "Ada\x1b[2J"),
        ("user.name", None),
        ("i18n.commitencoding", "../evil"),
        ("core.hooksPath", "false"),
        ("name", "Ada"),
    ],
)
def test_a_value_that_does_more_is_not_harmless(name: str, value: str | None) -> None:
    assert not is_harmless(setting(name, value), {"origin"})


@pytest.mark.parametrize("key", ["branch.main.remote", "branch.main.pushremote", "remote.pushdefault"])
@pytest.mark.parametrize(
    "value", ["evil", "./evil", "/tmp/evil", "..", "", "ext::sh -c evil", "https://example.org/x", None]
)
def test_a_remote_that_is_none_is_not_harmless(key: str, value: str | None) -> None:
    """Git takes it for a directory, and a push runs the hooks in there."""
    assert not is_harmless(setting(key, value), {"origin"})
    assert not is_harmless(setting(key, "origin"))


def test_the_remotes_of_a_file_are_those_with_a_harmless_url() -> None:
    entries = read_config(
        b"""[remote "origin"] url = https://example.org/x
        [remote "local"] url = /tmp/evil
        [remote "pushed"] pushurl = https://example.org/x
        [remote "-x"] url = https://example.org/x
        [branch "main"] remote = origin"""
    )

    assert harmless_remotes(entries) == {"origin"}


@pytest.mark.parametrize(
    "url",
    [
        "https://github.com/a/b.git",
        "https://user:secret%40@example.org:8443/a%20b",
        "http://127.0.0.1:3000/x/",
        "https://[::1]:443/x",
        "ssh://git@example.org/~ada/x.git",
        "ssh://git@[fe80::1]:22/x",
        "git://example.org/x",
        "git@github.com:a/b.git",
        "example.org:x",
        "host:/srv/x.git",
        "host:~ada/x",
    ],
)
def test_an_address_of_a_server_is_one(url: str) -> None:
    assert is_network_url(url)


LOCAL = (
    "",
    ".",
    "..",
    "x",
    "/tmp/x",
    "./x",
    "../x",
    "~/x",
    "~ada/x",
    "./a:b",
    "a/b:c",
    "\\\\host\\x",
    "C:/x",
)
HELPERS = ("ext::sh -c evil", "fd::3", "x::y", "ext::https://a/b", "git@host::x", "host::x")
SCHEMES = ("file:///tmp/x", "ftp://a/b", "rsync://a/b", "HTTPS://a/b", "git+ssh://a/b", "x://a/b", "://a/b")
OPTIONS = (
    *("ssh://-oProxyCommand=evil/x", "ssh://-x@host/x", "-x@host:y", "-oProxyCommand=evil:x", "host:-x"),
    *("ssh://host:-x/y", "ssh://%2doProxyCommand=evil/x"),
)
ENCODED = (
    *("ssh://host%2f/x", "ssh://a%0ab@host/x", "https://a%0a@host/x", "https://a/b%0ac", "https://a/b%00"),
    *("https://a/b%1b", "https://a/b%7f", "https://a/b%", "https://a/%zz"),
)
BROKEN = (
    *("https://", "https://a", "https:///x", "host:", "https://a@b@host/x", "https://@host/x"),
    *(
        "https://host:/x",
        "https://ho st/x",
        "https://a/b c",
        "https://a/b\n",
        "https://a/b\t",
        "https://[::1/x",
    ),
    *("https://[::1]x/y", "https://a/b'c", "https://a\\@b/c", "https://a/b;c", "https://a/$(x)"),
    *("https://ä/b", "https://a/ä", "https://a:٣/b", "host:a b"),
)


@pytest.mark.parametrize("url", [*LOCAL, *HELPERS, *SCHEMES, *OPTIONS, *ENCODED, *BROKEN])
def test_nothing_else_is_an_address_of_a_server(url: str) -> None:
    assert not is_network_url(url)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (b"[core] hooksPath = my\\\nhooks", "hooks"),
        (b"[core] hooksPath = ~ada/hooks", "hooks"),
        (b'[core "hooksPath\0"] x = hooks', "hooks"),
        (b"\xef\xbb\xbf[Include]\npath = x", "include"),
        (b'[includeIf "gitdir:~/x/"] path = y', "include"),
        (b'[include "x"] path = y', "program"),
        (b'[remote "origin"] uploadpack = ./evil', "program"),
        (b'[core "fsmonitor\0"] x = ./evil', "program"),
        (b"[core] bare = false", ""),
    ],
)
def test_what_a_setting_leads_to_has_a_kind(text: bytes, kind: str) -> None:
    (entry,) = read_config(text)

    assert names_program_or_path(entry) == kind


def test_a_fresh_clone_has_harmless_settings_only() -> None:
    entries = read_config(
        b"""[core]
\trepositoryformatversion = 0
\tfilemode = true
\tbare = false
\tlogallrefupdates = true
[remote "origin"]
\turl = git@github.com:a/b.git
\tfetch = +refs/heads/*:refs/remotes/origin/*
[branch "main"]
\tremote = origin
\tmerge = refs/heads/main
"""
    )

    assert all(is_harmless(entry, harmless_remotes(entries)) for entry in entries)
