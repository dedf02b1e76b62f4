"""Flags of the command line in the words of Python, for errors that a program gets to see.

Errors are written with flags, as most people meet them. The flags of corral's that an error may name are
here; those of other programs are left alone.
"""

from __future__ import annotations

_ENDS = "`,;.?)"


def in_python(text: str) -> str:
    """The same text, with arguments in place of flags."""
    for phrase, in_other_words in _PHRASES.items():
        text = text.replace(phrase, in_other_words)
    words, said = text.split(" "), list[str]()
    while words:
        word = words.pop(0)
        opening = word[: len(word) - len(word.lstrip("(`"))]
        flag, ending = _split(word[len(opening) :])
        if flag in _PLAIN:
            said.append(f"{opening}{_PLAIN[flag]}{ending}")
        elif flag in _VALUED and not ending and words:
            value, ending = _split(words.pop(0))
            follows = bool(words) and not ending and words[0] in _VALUED
            said.append(f"{opening}{_argument(flag, value)}{',' if follows else ending}")
        else:
            said.append(word)
    return " ".join(said)


def _split(word: str) -> tuple[str, str]:
    bare = word.rstrip(_ENDS)
    return bare, word[len(bare) :]


def _argument(flag: str, value: str) -> str:
    if flag == "--waive":
        return f"waive={value.split(',')}"
    return _VALUED[flag].format(value)


#: Flags with a value, and without.
_VALUED = {
    "--backend": "backend='{}'",
    "--waive": "",
    "--net": "'network:{}'",
    "--allow": "'network:https:{}'",
    "--publish": "'network:publish:{}'",
    "--cap": "'{}'",
    "-p": "policy='{}'",
}
_PLAIN = {"--read": "'filesystem:read:PATH'"}
_PHRASES = {
    "see `corral run --help` for examples": "write it as in 'filesystem:read:/docs' or 'time:limit:10s'",
    "after `--`, or a shell line with -c": "as a list of a program and its arguments, or a text for a shell",
    "run with --no-config to leave all configuration out": "use corral.Sandbox, which reads no configuration",
}
