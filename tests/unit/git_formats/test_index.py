"""git's index: what it would have the host's git do is seen here as git sees it, or it is refused."""

from __future__ import annotations

import hashlib
import os
import random
import struct
import subprocess
from functools import cache
from pathlib import Path

import pytest

from corral.git_formats import index
from corral.git_formats.index import IndexContent, MalformedIndex, is_unsafe, read_index

BLOB = "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"
FILE, LINK, GITLINK, SPARSE = 0o100644, 0o120000, 0o160000, 0o040000
IDENTITY = {f"GIT_{who}_{what}": "x" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}


class Repository:
    """A repository of the real git, which no configuration of this machine has a say in."""

    def __init__(self, path: Path, *options: str) -> None:
        self.path = path
        self.file = path / ".git/index"
        path.mkdir()
        self.git("init", "-q", *options)
        self.git("hash-object", "-w", "-t", "blob", "/dev/null")

    def git(self, *arguments: str, given: bytes = b"") -> bytes:
        env = {"PATH": os.environ["PATH"], "HOME": str(self.path), "GIT_CONFIG_NOSYSTEM": "1", **IDENTITY}
        whole = ("git", "-C", str(self.path), *arguments)
        return subprocess.run(whole, input=given, env=env, check=True, capture_output=True).stdout

    def add(self, *entries: tuple[int, str], options: tuple[str, ...] = (), blob: str = BLOB) -> None:
        lines = [f"{mode:o} {blob}\t{path}\0" for mode, path in entries]
        given = "".join(lines).encode("utf-8", "surrogateescape")
        self.git(*options, "update-index", "-z", "--index-info", given=given)

    def listed(self) -> list[tuple[int, bytes]]:
        lines = self.git("ls-files", "-s", "-z").split(b"\0")[:-1]
        return [(int(line.split(b" ", 1)[0], 8), line.split(b"\t", 1)[1]) for line in lines]


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path / "repository")


def entry(path: bytes, mode: int = FILE, flags: int = 0) -> bytes:
    fixed = struct.pack(">10I", 1, 2, 3, 4, 5, 6, mode, 8, 9, 10) + bytes.fromhex(BLOB)
    whole = fixed + struct.pack(">H", flags | min(len(path), 0xFFF)) + path
    return whole + bytes(8 - len(whole) % 8)


@cache
def compressed(path: bytes, before: bytes, mode: int = FILE) -> bytes:
    kept = next((at for at, two in enumerate(zip(path, before, strict=False)) if two[0] != two[1]), 0)
    dropped = len(before) - kept
    assert dropped < 128
    fixed = struct.pack(">10I", 1, 2, 3, 4, 5, 6, mode, 8, 9, 10) + bytes.fromhex(BLOB)
    return fixed + struct.pack(">H", min(len(path), 0xFFF)) + bytes([dropped]) + path[kept:] + b"\0"


def extension(name: bytes, content: bytes) -> bytes:
    return name + struct.pack(">I", len(content)) + content


def written(entries: list[bytes], extensions: bytes = b"", version: int = 2) -> bytes:
    data = b"DIRC" + struct.pack(">II", version, len(entries)) + b"".join(entries) + extensions
    return data + hashlib.sha1(data).digest()


def all_entries(data: bytes, hash_length: int = 20) -> list[tuple[int, bytes]]:
    file = index._IndexFile(data, hash_length)
    return [(mode, path) for path, mode, _ in file._entries()]


ODD = (
    "-x",
    ".github/a",
    "a\nb/c",
    "é/ü",
    "\udcff/\udcfe",
    "deep/" * 40 + "file",
    "x" * 250 + "/" + "y" * 200,
)


@pytest.mark.parametrize("version", [2, 3, 4])
def test_entries_are_those_that_git_lists(repository: Repository, version: int) -> None:
    repository.git("config", "index.version", str(version))
    names = [(FILE, name) for name in ODD]
    repository.add(
        *names, (LINK, "link"), (GITLINK, "lib/one"), (GITLINK, "two"), *[(FILE, f"f{n}") for n in range(99)]
    )
    if version == 3:
        (repository.path / "meant").touch()
        repository.git("add", "--intent-to-add", "meant")
    given = "".join(f"100644 {BLOB} {stage}\tunmerged\n" for stage in (1, 2, 3)).encode()
    repository.git("update-index", "--index-info", given=given)
    data = repository.file.read_bytes()

    assert data[7] == version
    assert all_entries(data) == repository.listed()
    assert read_index(data) == IndexContent(("lib/one", "two"), ())


def test_an_index_with_longer_hashes_is_read(tmp_path: Path) -> None:
    repository = Repository(tmp_path / "long", "--object-format=sha256")
    blob = repository.git("hash-object", "-t", "blob", "/dev/null").decode().strip()
    entries = [(FILE, f"d/{number}") for number in range(300)]
    repository.add(*entries, (GITLINK, "sub"), options=("-c", "index.threads=4"), blob=blob)
    data = repository.file.read_bytes()

    assert b"EOIE" in data
    assert all_entries(data, 32) == repository.listed()
    assert read_index(data, 32).gitlinks == ("sub",)
    with pytest.raises(MalformedIndex):
        read_index(data)


def test_a_sparse_index_is_read(repository: Repository) -> None:
    for name in ("in/a", "out/b", "out/c/d"):
        path = repository.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    repository.git("add", ".")
    repository.git("commit", "-qm", "x")
    repository.git("sparse-checkout", "set", "--sparse-index", "in")
    data = repository.file.read_bytes()

    assert (SPARSE, b"out/") in all_entries(data)
    assert read_index(data) == IndexContent((), (), sparse=("out/",))


class TestSplit:
    def parts(self, repository: Repository) -> tuple[bytes, bytes]:
        data = repository.file.read_bytes()
        return data, (repository.path / f".git/sharedindex.{read_index(data).shared}").read_bytes()

    def test_both_parts_count(self, repository: Repository) -> None:
        repository.add((GITLINK, "old"), *[(FILE, f"f{number}") for number in range(50)])
        repository.git("update-index", "--split-index")
        repository.git("config", "core.splitIndex", "true")
        repository.add((GITLINK, "new"))
        data, shared = self.parts(repository)

        assert read_index(data).gitlinks == ("new",)
        assert set(read_index(data, shared=shared).gitlinks) == {"new", "old"}
        with pytest.raises(MalformedIndex):
            read_index(data, shared=shared[:-1] + bytes([shared[-1] ^ 1]))

    @pytest.mark.parametrize("count", [3, 200])
    def test_a_file_that_became_a_gitlink_is_found_by_its_name(
        self, repository: Repository, count: int
    ) -> None:
        repository.add(*[(FILE, f"f{number:03}") for number in range(count)])
        repository.git("config", "splitIndex.maxPercentChange", "100")
        repository.git("update-index", "--split-index")
        repository.add((GITLINK, "f001"), (FILE, "f000"), (GITLINK, f"f{count - 1:03}"))
        data, shared = self.parts(repository)

        assert (GITLINK, b"f001") in repository.listed()
        assert read_index(data, shared=shared).gitlinks == ("f001", f"f{count - 1:03}")
        assert read_index(data).gitlinks == ()  # its name is in the other part

    def test_an_entry_without_a_name_is_refused_elsewhere(self) -> None:
        for link in (b"", extension(b"link", bytes(20))):
            with pytest.raises(MalformedIndex, match="no name"):
                read_index(written([entry(b"")], link))


class TestOffsets:
    """`IEOT` and `EOIE`: where git's threads begin to read."""

    def test_those_that_git_writes_are_accepted(self, repository: Repository) -> None:
        for version in ("2", "4"):
            repository.git("config", "index.version", version)
            names = [(FILE, f"directory{number % 9}/{number}") for number in range(1000)]
            repository.add(*names, (GITLINK, "sub"), options=("-c", "index.threads=4"))
            data = repository.file.read_bytes()

            assert b"IEOT" in data
            assert all_entries(data) == repository.listed()
            assert read_index(data).gitlinks == ("sub",)

    def hostile(self, shown: list[bytes], hidden: list[bytes]) -> bytes:
        """A reader without threads sees what is shown, git with threads what an extension hides."""
        head = b"DIRC" + struct.pack(">II", 2, len(shown)) + b"".join(shown)
        untracked = extension(b"UNTR", b"".join(hidden))
        at, offsets = len(head) + 8, struct.pack(">I", 1)
        for item in hidden:
            offsets += struct.pack(">II", at, 1)
            at += len(item)
        table = extension(b"IEOT", offsets)
        digest = hashlib.sha1(untracked[:8] + table[:8]).digest()
        return (
            head + untracked + table + extension(b"EOIE", struct.pack(">I", len(head)) + digest) + bytes(20)
        )

    def test_entries_that_only_threads_would_see_are_refused(self, repository: Repository) -> None:
        data = self.hostile([entry(b"a"), entry(b"b")], [entry(b".git/hooks/evil"), entry(b"c")])
        repository.file.write_bytes(data)

        assert repository.git("-c", "index.threads=1", "ls-files") == b"a\nb\n"
        assert repository.git("-c", "index.threads=9", "ls-files") == b".git/hooks/evil\nc\n"
        with pytest.raises(MalformedIndex, match="offsets"):
            read_index(data)

    def test_an_end_inside_of_another_extension_is_refused(self) -> None:
        inner = extension(b"EOIE", struct.pack(">I", 12) + bytes(20))
        with pytest.raises(MalformedIndex):
            read_index(written([entry(b"a")], extension(b"UNTR", inner)))

    def test_offsets_have_to_fit_the_entries(self) -> None:
        items = [entry(b"a"), entry(b"b" * 30), entry(b"c")]
        starts = [12, 12 + len(items[0]), 12 + len(items[0] + items[1])]

        def table(*blocks: tuple[int, int], end: int = starts[2] + len(items[2])) -> bytes:
            content = struct.pack(">I", 1) + b"".join(struct.pack(">II", *block) for block in blocks)
            return extension(b"IEOT", content) + extension(b"EOIE", struct.pack(">I", end) + bytes(20))

        assert read_index(written(items, table((12, 1), (starts[1], 2)))) == IndexContent((), ())
        for wrong in (
            table((12, 1), (starts[2], 2)),
            table((12, 2), (starts[2], 2)),
            table((12, 1), (starts[1], 1)),
            table((12, 1), (starts[1], 2), end=starts[2]),
            table((starts[1], 1), (12, 2)),
            table((12, 1), (starts[1], 2)) * 2,
            table((12, 1), (starts[1], 2))[: -len(extension(b"EOIE", bytes(24)))],
        ):
            with pytest.raises(MalformedIndex):
                read_index(written(items, wrong))


UNSAFE = (
    *(
        b".git/hooks/x",
        b".git",
        b"a/.git/config",
        b"sub/.git",
        b".GIT/x",
        b"a/.GiT",
        b"../x",
        b"a/../../x",
        b"/etc/x",
    ),
    *(
        b".git /x",
        b".git./x",
        b"a/.git::$INDEX_ALLOCATION/x",
        b".git\\x",
        b"git~1/x",
        b"a/GIT~1",
        b"git~1 ./x",
    ),
    *(".g\u200cit/x".encode(), "a/\u200e.git".encode(), "\ufeff.git/x".encode(), "a/.\u206a./x".encode()),
)
SAFE = (
    *(
        b".gitignore",
        b"a/.gitattributes",
        b".github/x",
        b"x.git/HEAD",
        b"a/..b/c",
        b"a/b../c",
        b"...",
        b"git/x",
    ),
    *(b"git~10/x", b"git~2", b"xgit~1", b".git-x", b"a/.gitx", b".gi/t", "é/.gé".encode(), "a/’".encode()),
)


@pytest.mark.parametrize("path", UNSAFE)
def test_a_path_into_a_git_directory_or_out_is_unsafe(path: bytes) -> None:
    before, after = b"0" * 9, b"zz/" + b"a" * 9
    plain = written([entry(before), entry(path), entry(after)])
    packed = written([compressed(before, b""), compressed(path, before), compressed(after, path)], version=4)
    for data in (plain, packed, written([entry(path, LINK)]), written([entry(path, GITLINK)])):
        assert read_index(data) == IndexContent((), (path.decode(),))


@pytest.mark.parametrize("path", SAFE)
def test_a_path_that_only_looks_alike_is_safe(path: bytes) -> None:
    for data in (written([entry(path)]), written([compressed(path, b"")], version=4)):
        assert read_index(data) == IndexContent((), ())


def test_a_name_put_together_of_two_is_unsafe() -> None:
    first, second = b".gitignore", b".git/x"
    data = written([compressed(first, b""), compressed(second, first)], version=4)

    assert b".git/x" not in data
    assert read_index(data).unsafe == (".git/x",)


def test_git_writes_such_a_path(repository: Repository) -> None:
    repository.file.write_bytes(written([entry(b".git/hooks/x"), entry(b"../outside")]))
    repository.git("restore", ".")

    assert (repository.path / ".git/hooks/x").exists()
    assert (repository.path / "../outside").exists()


LONG = [b"0" * 4000 + b"%d" % (number % 2) for number in range(1500)]


@pytest.mark.parametrize(
    "data",
    [
        written([entry(b"0/" * 2049)]),
        written([entry(b"0/" + b".g0/" * 1000) for _ in range(20)]),
        written([compressed(*names) for names in zip(LONG, [b"", *LONG], strict=False)], version=4),
    ],
    ids=["a path", "odd names", "compressed names"],
)
def test_what_would_cost_more_than_its_bytes_is_refused(data: bytes) -> None:
    with pytest.raises(MalformedIndex):
        read_index(data)


def test_no_more_offsets_than_threads_are_read() -> None:
    offsets = struct.pack(">I", 1) + struct.pack(">II", 12, 0) * 5000 + struct.pack(">II", 12, 1)
    entries = entry(b"a")
    end = extension(b"EOIE", struct.pack(">I", 12 + len(entries)) + bytes(20))

    with pytest.raises(MalformedIndex, match="threads"):
        read_index(written([entries], extension(b"IEOT", offsets) + end))


PARTS = (
    b"a",
    b".git",
    b".GIT",
    b"..",
    b".",
    b"git~1",
    b"x.git",
    b".gitignore",
    b"..a",
    b"b~1",
    b"g",
    "’".encode(),
)
ENDS = (b"", b" ", b".", b":x", b"1", "\u200d".encode())


@pytest.mark.parametrize("seed", range(30))
def test_the_quick_way_and_the_exact_one_agree(seed: int) -> None:
    chance = random.Random(seed)
    paths: list[bytes] = []
    for _ in range(chance.randrange(1, 40)):
        usual = [chance.choice(PARTS) + chance.choice(ENDS) for _ in range(chance.randrange(1, 4))]
        paths.append(b"/".join(usual) if chance.random() < 0.2 else b"dir/file%d" % chance.randrange(999))
    expected = {path.decode() for path in paths if is_unsafe(path)}
    packed = [compressed(path, before) for path, before in zip(paths, [b"", *paths], strict=False)]

    assert set(read_index(written([entry(path) for path in paths])).unsafe) == expected
    assert set(read_index(written(packed, version=4)).unsafe) == expected


def test_of_many_plain_entries_none_is_looked_at_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    names = [b"src/directory%d/.github/file%d.py" % (number % 99, number) for number in range(5000)]
    data = written([entry(b".gitignore"), *map(entry, names)])
    looked = []
    original = index._IndexFile._padded_entry
    monkeypatch.setattr(
        index._IndexFile, "_padded_entry", lambda self, at: looked.append(at) or original(self, at)
    )

    assert read_index(data) == IndexContent((), ())
    assert len(looked) == 1


class TestMalformed:
    good = written([entry(b"a"), entry(b"sub", GITLINK), entry(b"x" * 300)], extension(b"TREE", b"\0" * 9))
    packed = written([compressed(b"abc", b""), compressed(b"abd", b"abc")], version=4)

    @pytest.mark.parametrize("data", [good, packed], ids=["padded", "compressed"])
    def test_a_shorter_one_is_refused_unless_its_entries_are_whole(self, data: bytes) -> None:
        whole = list(index._IndexFile(data, 20)._entries())[-1][2] + 20
        for length in range(len(data)):
            try:
                shorter = read_index(data[:length])
            except MalformedIndex:
                continue
            assert length >= whole
            assert shorter == read_index(data)

    @pytest.mark.parametrize("data", [good, packed], ids=["padded", "compressed"])
    def test_whatever_a_byte_is_nothing_else_is_raised(self, data: bytes) -> None:
        for at in range(len(data)):
            for value in (0, 1, 0x2E, 0x40, 0x80, 0xFF):
                try:
                    read_index(data[:at] + bytes([value]) + data[at + 1 :])
                except MalformedIndex:
                    continue

    def test_the_checksum_does_not_matter_as_it_does_not_to_git(self) -> None:
        assert read_index(self.good[:-20] + bytes(20)).gitlinks == ("sub",)

    @pytest.mark.parametrize(
        "data",
        [
            written([entry(b"a")], extension(b"what", b"")),
            written([entry(b"a")], extension(b"WHAT", b"")),
            written([entry(b"a")], extension(b"TREE", b"") * 2),
            written([entry(b"a")], version=5),
            written([entry(b"a", 0o010644)]),
            written([entry(b"a", SPARSE)]),
            written([entry(b"abc").replace(b"\0\3abc", b"\0\2abc")]),
            written([entry(b".a\0c")]),
            written([entry(b"a/.git\0c")]),
            written([compressed(b"abc", b"").replace(b"\0\3", b"\0\4")], version=4),
            written([compressed(b"abc", b""), compressed(b"x", b"abcd")], version=4),
            written([entry(b"a")], extension(b"FSMN", struct.pack(">I", 2) + b'c:1"}\0' + bytes(4))),
        ],
    )
    def test_what_is_not_understood_is_refused(self, data: bytes) -> None:
        with pytest.raises(MalformedIndex):
            read_index(data)

    def test_the_usual_tokens_of_monitors_are_accepted(self) -> None:
        for token in (b"c:1600000000:12345:1:7890", b"builtin:0.77.20200101T000000.000000Z:0", b""):
            monitor = extension(b"FSMN", struct.pack(">I", 2) + token + b"\0" + bytes(4))
            assert read_index(written([entry(b"a")], monitor)) == IndexContent((), ())
