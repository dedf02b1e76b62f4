"""Strategies for small file systems, full of links."""

from __future__ import annotations

from hypothesis import strategies as st

from support.fake_host import FakeHost

NAMES = ("a", "b", ".git", "hooks", "config")
ROOT = "/w"

_parts = st.lists(st.sampled_from(NAMES), min_size=1, max_size=4)
_link_texts = st.one_of(
    _parts.map("/".join),
    _parts.map(lambda parts: "../" + "/".join(parts)),
    _parts.map(lambda parts: f"{ROOT}/" + "/".join(parts)),
    st.builds(lambda first, last: "/".join([*first, "..", *last]), _parts, _parts),
    st.sampled_from([".", "..", "/", ROOT, "/elsewhere"]),
)
_contents = st.one_of(st.just(None), st.just("text"), _link_texts.map(lambda text: f"-> {text}"))
_entries = st.dictionaries(_parts.map(tuple), _contents, max_size=8)


def _build(entries: dict[tuple[str, ...], str | None]) -> FakeHost:
    host = FakeHost(
        {f"{ROOT}/": "", "/elsewhere/": ""}, system=False, cwd=ROOT, home="/home", corral_files=()
    )
    for parts, content in sorted(entries.items(), key=lambda item: len(item[0])):
        ancestors = [f"{ROOT}/" + "/".join(parts[:length]) for length in range(1, len(parts))]
        kinds = [host.lstat(path) for path in ancestors]
        path = f"{ROOT}/" + "/".join(parts)
        if all(kind is None or kind.is_directory for kind in kinds) and host.lstat(path) is None:
            host.add(f"{path}/" if content is None else path, content or "")
    return host


#: Hosts with a tree below /w; directories, files, and links to and fro, some of them circular.
hosts = st.builds(_build, _entries)
#: Absolute paths that may or may not be there.
paths = _parts.map(lambda parts: f"{ROOT}/" + "/".join(parts))
