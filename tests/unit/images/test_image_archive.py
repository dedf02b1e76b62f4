"""What is in a root file system is found, in an archive or in layers; what must not be there is refused."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path

import pytest

from corral.images.archive import (
    MANIFEST,
    RECIPE,
    Contents,
    Package,
    check_contents,
    read_archive,
    read_saved_image,
)
from corral.model.errors import SetupError

SOUND = {
    "etc/passwd": "root:*:0:0:root:/root:/bin/bash\nnobody:x:1:1::/:/bin/false\n",
    "etc/machine-id": "",
    "usr/lib/os-release": 'PRETTY_NAME="Debian 12"\n',
    MANIFEST: "bash 5.2 amd64\n",
    RECIPE: "# minimal: x\npackage bash\n",
    "usr/bin/bash": "x" * 100,
}


def _pack(files: dict[str, str], modes: dict[str, int] | None = None, **headers: dict[str, str]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, text in files.items():
            member = tarfile.TarInfo(f"./{name}")
            member.size = len(text.encode())
            member.mode = (modes or {}).get(name, 0o755)
            member.pax_headers = headers.get("pax", {}) if name.endswith("capable") else {}
            archive.addfile(member, io.BytesIO(text.encode()))
    return buffer.getvalue()


def _read(tmp_path: Path, data: bytes) -> Contents:
    path = tmp_path / "root.tar"
    path.write_bytes(data)
    return read_archive(str(path))


def _saved(*layers: bytes) -> io.BytesIO:
    """As `docker save` writes an image: layers, and a list of them."""
    buffer = io.BytesIO()
    names = [f"layer{number}/layer.tar" for number in range(len(layers))]
    members = [*zip(names, layers, strict=True)]
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, data in [*members, ("manifest.json", json.dumps([{"Layers": names}]).encode())]:
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    buffer.seek(0)
    return buffer


def test_a_sound_archive_is_described_and_accepted(tmp_path: Path) -> None:
    contents = _read(tmp_path, _pack(SOUND))

    check_contents(contents)
    assert contents.release == "Debian 12"
    assert contents.packages == (Package("bash", "5.2", "amd64"),)
    assert contents.recipe == SOUND[RECIPE]
    assert contents.files == len(SOUND)
    assert contents.size_bytes == sum(len(text) for text in SOUND.values())


@pytest.mark.parametrize(
    ("extra", "mode", "what"),
    [
        ({"usr/bin/su": "x"}, 0o4755, "/usr/bin/su"),
        ({"usr/bin/wall": "x"}, 0o2755, "/usr/bin/wall"),
        ({"etc/machine-id": "0123\n"}, 0o644, "a machine id"),
        ({"var/lib/apt/lists/x_Packages": "x"}, 0o644, "lists of packages"),
        ({"etc/shadow": "root:$6$salt$hash:1::::::\n"}, 0o640, "password or without need of one: root"),
        ({"etc/shadow": "root::1::::::\n"}, 0o640, "password or without need of one: root"),
        ({"etc/passwd": "toor::0:0::/:/bin/sh\n"}, 0o644, "password or without need of one: toor"),
    ],
)
def test_what_must_not_be_in_an_image_is_refused(
    tmp_path: Path, extra: dict[str, str], mode: int, what: str
) -> None:
    contents = _read(tmp_path, _pack({**SOUND, **extra}, dict.fromkeys(extra, mode)))

    with pytest.raises(SetupError) as caught:
        check_contents(contents)

    assert caught.value.code == "image-unsound"
    assert what in caught.value.why


def test_a_file_capability_is_refused(tmp_path: Path) -> None:
    header = {"SCHILY.xattr.security.capability": "\x01"}
    contents = _read(tmp_path, _pack({**SOUND, "usr/bin/capable": "x"}, pax=header))

    with pytest.raises(SetupError, match="not used"):
        check_contents(contents)


def test_a_hard_link_does_not_hide_a_mode(tmp_path: Path) -> None:
    path = tmp_path / "root.tar"
    path.write_bytes(_pack(SOUND))
    with tarfile.open(path, "a") as archive:
        link = tarfile.TarInfo("./usr/bin/other")
        link.type, link.linkname, link.mode = tarfile.LNKTYPE, "./usr/bin/bash", 0o4755
        archive.addfile(link)

    assert read_archive(str(path)).set_id == ("/usr/bin/other",)


def test_an_upper_layer_takes_away_what_a_lower_one_has() -> None:
    lower = _pack({**SOUND, "usr/bin/su": "x", "opt/a/b": "x", "opt/c/d": "x"}, {"usr/bin/su": 0o4755})
    upper = _pack({"usr/bin/.wh.su": "", "opt/.wh.a": "", "opt/c/.wh..wh..opq": "", "opt/c/e": "x"})

    assert read_saved_image(_saved(lower), "x").set_id == ("/usr/bin/su",)
    above = read_saved_image(_saved(lower, upper), "x")

    assert above.set_id == ()
    assert above.files == len(SOUND) + 1


def test_an_upper_layer_can_add_what_must_not_be_there() -> None:
    upper = _pack({"usr/bin/bash": "x"}, {"usr/bin/bash": 0o4755})

    assert read_saved_image(_saved(_pack(SOUND), upper), "x").set_id == ("/usr/bin/bash",)


def test_other_images_have_the_list_of_dpkg() -> None:
    status = (
        "Package: a\nStatus: install ok installed\nArchitecture: all\nVersion: 1\nDescription: x\n y: z\n\n"
        "Package: gone\nStatus: deinstall ok config-files\nArchitecture: all\nVersion: 2\n"
    )

    contents = read_saved_image(_saved(_pack({"var/lib/dpkg/status": status})), "x")

    assert contents.packages == (Package("a", "1", "all"),)


@pytest.mark.parametrize("data", [b"", b"no archive at all", _pack(SOUND)[:700]])
def test_what_cannot_be_read_is_an_error(tmp_path: Path, data: bytes) -> None:
    with pytest.raises(SetupError) as caught:
        _read(tmp_path, data)
    assert caught.value.code == "image-unreadable"

    with pytest.raises(SetupError):
        read_saved_image(io.BytesIO(data), "x")
