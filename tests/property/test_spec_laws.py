"""Laws of the launcher's spec: one spelling for each meaning, and two decoders of one opinion."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from corral.linux.decode import MalformedSpec, decode
from corral.linux.encode import append_groups, append_mounts, encode, encode_command, encode_resolved, join
from corral.linux.spec import HEADER, RECORD, Cgroup, CgroupKind, Spec
from support.examples import examples
from support.specs import cpu_times, has_launcher, kills, launcher_accepts, paths, specs

MINIMAL = Spec(argv=("/bin/true",), cwd="/")
needs_launcher = pytest.mark.skipif(not has_launcher(), reason="the launcher was not built")


def _records(raw: bytes) -> list[bytes]:
    """The records in no order: among different types it has no meaning."""
    found, at = [], HEADER.size
    while at < len(raw):
        _, size = RECORD.unpack_from(raw, at)
        found.append(raw[at : at + RECORD.size + size])
        at += RECORD.size + size
    return sorted(found)


def _accepts(raw: bytes) -> bool:
    try:
        decode(raw)
    except MalformedSpec:
        return False
    return True


@given(specs())
def test_what_is_encoded_is_what_is_decoded(spec) -> None:
    assert decode(encode(spec)) == spec


@given(specs())
def test_ground_and_command_together_are_the_whole(spec) -> None:
    assert join(encode_resolved(spec), encode_command(spec)) == encode(spec)


@given(specs(), st.lists(st.builds(Cgroup, st.just(CgroupKind.TASKS), paths), max_size=2), kills, cpu_times)
def test_control_groups_can_be_added_afterwards(spec, groups, kill, cpu_time) -> None:
    alone = spec.replace(cgroup_kill=None, cpu_time=None)

    added = decode(append_groups(encode(alone), tuple(groups), kill, cpu_time))

    assert added == alone.replace(cgroups=(*spec.cgroups, *groups), cgroup_kill=kill, cpu_time=cpu_time)


@given(specs())
def test_mounts_can_be_added_afterwards(spec) -> None:
    added = decode(append_mounts(encode(spec), spec.mounts))

    assert added == spec.replace(mounts=(*spec.mounts, *spec.mounts))


@examples(40)
@given(specs())
@example(MINIMAL)
def test_no_beginning_of_a_spec_is_a_spec(spec) -> None:
    raw = encode(spec)

    assert [length for length in range(len(raw)) if _accepts(raw[:length])] == []


@given(specs(), st.binary(min_size=1, max_size=9))
def test_nothing_may_follow_a_spec(spec, more) -> None:
    assert not _accepts(encode(spec) + more)


@examples(30)
@given(specs())
@example(MINIMAL)
def test_a_flipped_bit_is_refused_or_means_what_it_then_says(spec) -> None:
    """Nothing is guessed at or passed over: the value that is read spells the same records."""
    raw = encode(spec)
    for bit in range(0, len(raw) * 8, 1 if len(raw) < 100 else 7):
        flipped = bytearray(raw)
        flipped[bit // 8] ^= 1 << (bit % 8)
        try:
            read = decode(bytes(flipped))
        except MalformedSpec:
            continue
        assert _records(encode(read)) == _records(bytes(flipped))


@given(st.binary(max_size=200))
def test_no_bytes_make_the_decoder_fail_in_any_other_way(raw) -> None:
    _accepts(raw)
    _accepts(HEADER.pack(b"CORRAL\0\1", HEADER.size + len(raw), 1) + raw)


@pytest.mark.starts_sandboxes
@needs_launcher
@examples(60)
@given(specs())
@example(MINIMAL)
def test_the_launcher_accepts_what_python_encodes(spec) -> None:
    assert launcher_accepts(encode(spec))


@pytest.mark.starts_sandboxes
@needs_launcher
@examples(250)
@given(specs(), st.data())
def test_the_launcher_and_python_agree_on_damaged_specs(spec, data) -> None:
    raw = bytearray(encode(spec))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(raw) - 1))
        how = data.draw(st.sampled_from(["flip", "set", "remove", "double"]))
        if how == "flip":
            raw[at] ^= 1 << data.draw(st.integers(0, 7))
        elif how == "set":
            raw[at] = data.draw(st.sampled_from([0, 1, 0x2F, 0x2E, 0x3D, 0xFF]))
        elif how == "remove":
            del raw[at]
        else:
            raw[at:at] = raw[at : at + 8]
    if data.draw(st.booleans()) and len(raw) >= HEADER.size:
        raw[8:12] = len(raw).to_bytes(4, "little")  # so that more than the length is looked at

    assert launcher_accepts(bytes(raw)) == _accepts(bytes(raw))


@pytest.mark.starts_sandboxes
@needs_launcher
@examples(120)
@given(st.lists(st.tuples(st.integers(0, 19), st.binary(max_size=24)), max_size=5))
def test_the_launcher_and_python_agree_on_records_of_any_content(records) -> None:
    body = b"".join(RECORD.pack(kind, len(payload)) + payload for kind, payload in records)
    raw = HEADER.pack(b"CORRAL\0\1", HEADER.size + len(body), len(records)) + body

    assert launcher_accepts(raw) == _accepts(raw)
