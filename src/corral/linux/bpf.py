"""Compile a system-call filter to classic BPF, and print such a program.

    prologue   another architecture (int 0x80 on x86_64) is killed
    search     the numbers 0 .. 2^32-1 are cut into ranges with one fate each; a balanced tree of
               comparisons finds the range in log2(ranges) steps
    rules      tests of arguments, for the ranges that need them

The search uses only what the kernel's own emulator of filters understands (`seccomp_is_const_allow`,
Linux 5.11), so a call that is allowed whatever its arguments costs nothing at all there.
"""

from __future__ import annotations

import struct

from corral.linux.rule import ALLOW, ENOSYS, KILL_PROCESS, WORD, Errno, Operator, Verdict, check_filter
from corral.linux.syscalls import Arch, is_known, number, numbers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from corral.linux.rule import Condition, Filter, Rule

MAX_INSTRUCTIONS = 4096  # BPF_MAXINSNS
X32_BIT = 0x4000_0000  # x86_64: such a number is of the x32 ABI, whose table is another one

# linux/bpf_common.h and linux/filter.h
_LOAD = 0x20  # BPF_LD | BPF_W | BPF_ABS: a word of struct seccomp_data
_AND = 0x54  # BPF_ALU | BPF_AND | BPF_K
_GO = 0x05  # BPF_JMP | BPF_JA
_IF_EQUAL = 0x15  # BPF_JMP | BPF_JEQ | BPF_K
_IF_AT_LEAST = 0x35  # BPF_JMP | BPF_JGE | BPF_K, unsigned
_IF_ANY_BIT = 0x45  # BPF_JMP | BPF_JSET | BPF_K
_RETURN = 0x06  # BPF_RET | BPF_K
_COMPARISONS = {_IF_EQUAL: "==", _IF_AT_LEAST: ">=", _IF_ANY_BIT: "&"}

_NUMBER, _ARCH, _ARGUMENTS = 0, 4, 16  # offsets in struct seccomp_data
_INSTRUCTION = struct.Struct("<HBBI")  # struct sock_filter

_Chain = tuple["Rule", ...]  # the rules of one call in order; after the last the call is allowed
_Fate = int | _Chain  # of a range: the code to return, or the rules to ask


def compile_filter(policy: Filter, arch: Arch) -> bytes:
    """Return the program, as an array of struct sock_filter. Raises ValueError for a void filter.

    A rule on a call that this architecture lacks has nothing to do here; its number is unknown, and
    `Filter.unknown` decides. A name that no architecture knows is an error.
    """
    check_filter(policy)
    program = _Program()
    starts, fates = _ranges(policy, arch)
    for fate in fates:
        program.decide(fate)  # beforehand: the tree stays in one piece, and its jumps short
    root = program.search(starts, fates)
    tree = program.load(_NUMBER)
    assert tree == root + 1, "the root of the search is written last, and the load continues there"
    program.jump(_IF_EQUAL, arch.audit, tree, program.give(KILL_PROCESS.code))
    program.load(_ARCH)
    return program.encode()


def _ranges(policy: Filter, arch: Arch) -> tuple[list[int], list[_Fate]]:
    """Cut the numbers into ranges: where each starts, and its fate."""
    chains = _chains(policy, arch)
    known = set(numbers(arch).values())
    allow, unknown = ALLOW.code, policy.unknown.code
    starts: list[int] = []
    fates: list[_Fate] = []

    def begin(start: int, fate: _Fate) -> None:
        if not fates or fates[-1] != fate:
            starts.append(start)
            fates.append(fate)

    for nr in range(max(known) + 2):
        chain = chains.get(nr)
        if chain is None:
            begin(nr, allow if nr in known else unknown)
        else:
            begin(nr, chain if chain[0].conditions else chain[0].action.code)
    if arch is Arch.X86_64:
        # The top bit is not for numbers either: what lies above is -1, a tracer's "skip this call".
        begin(X32_BIT, ENOSYS.code)
    return starts, fates


def _chains(policy: Filter, arch: Arch) -> dict[int, _Chain]:
    chains: dict[int, _Chain] = {}
    for rule in policy.rules:
        nr = number(arch, rule.syscall)
        if nr is not None:
            chains[nr] = (*chains.get(nr, ()), rule)
        elif not is_known(rule.syscall):
            raise ValueError(f"{rule}: no architecture has such a system call")
    return chains


class _Program:
    """Instructions, written from the last to the first, because BPF jumps only forward.

    A place is named by its distance from the end, which never changes while the program grows.
    """

    #: A conditional jump passes over at most 255; two of its own stepping stones may lie between.
    REACH = 253

    def __init__(self) -> None:
        self._backwards: list[tuple[int, int, int, int]] = []
        self._returns: dict[int, int] = {}  # return code -> the place written last
        self._blocks: dict[tuple[object, ...], int] = {}  # what chains test and do -> place

    def encode(self) -> bytes:
        if len(self._backwards) > MAX_INSTRUCTIONS:
            raise ValueError(
                f"the filter has {len(self._backwards)} instructions; {MAX_INSTRUCTIONS} are permitted"
            )
        return b"".join(_INSTRUCTION.pack(*instruction) for instruction in reversed(self._backwards))

    def load(self, offset: int) -> int:
        return self._put(_LOAD, 0, 0, offset)

    def give(self, code: int) -> int:
        """A place that returns this code, near enough to jump to."""
        place = self._returns.get(code)
        if place is None or not self._is_near(place):
            place = self._returns[code] = self._put(_RETURN, 0, 0, code)
        return place

    def jump(self, operation: int, operand: int, then: int, otherwise: int) -> int:
        """A place that compares the accumulator and goes on at one of two places."""
        then, otherwise = self._near(then), self._near(otherwise)
        here = len(self._backwards)
        return self._put(operation, here - then, here - otherwise, operand)

    def search(self, starts: Sequence[int], fates: Sequence[_Fate]) -> int:
        """A place that finds the range of the number in the accumulator."""
        if len(fates) == 1:
            return self.decide(fates[0])
        middle = len(fates) // 2
        above = self.search(starts[middle:], fates[middle:])
        below = self.search(starts[:middle], fates[:middle])
        if above == below:
            return above
        return self.jump(_IF_AT_LEAST, starts[middle], above, below)

    def decide(self, fate: _Fate) -> int:
        return self.give(fate) if isinstance(fate, int) else self.rules(fate)

    def rules(self, chain: _Chain) -> int:
        """A place that decides a call by its arguments; calls with the same rules share it."""
        meaning = tuple((rule.conditions, rule.action) for rule in chain)
        if meaning not in self._blocks:
            place = self.give(ALLOW.code)
            for rule in reversed(chain):
                place = self._rule(rule, place)
            self._blocks[meaning] = place
        return self._blocks[meaning]

    def _rule(self, rule: Rule, otherwise: int) -> int:
        place = self.give(rule.action.code)
        loaded = (None, *(_operand(condition) for condition in rule.conditions))
        for condition, already in reversed(list(zip(rule.conditions, loaded, strict=False))):
            place = self._condition(condition, place, otherwise)
            if already != _operand(condition):
                place = self._load_operand(*_operand(condition))
        return place

    def _condition(self, condition: Condition, then: int, otherwise: int) -> int:
        match condition.operator:
            case Operator.EQUAL | Operator.MASKED_EQUAL:
                return self.jump(_IF_EQUAL, condition.value, then, otherwise)
            case Operator.DIFFERENT | Operator.MASKED_DIFFERENT:
                return self.jump(_IF_EQUAL, condition.value, otherwise, then)
            case Operator.MASKED_ANY:
                return self.jump(_IF_ANY_BIT, condition.mask, then, otherwise)

    def _load_operand(self, argument: int, mask: int) -> int:
        if mask != WORD:
            self._put(_AND, 0, 0, mask)
        return self.load(_ARGUMENTS + 8 * argument)  # little-endian: the low word is the first

    def _near(self, place: int) -> int:
        """The place itself, or a stepping stone to it."""
        if self._is_near(place):
            return place
        operation, _, _, operand = self._backwards[place - 1]
        if operation == _RETURN:
            return self.give(operand)
        return self._put(_GO, 0, 0, len(self._backwards) - place)

    def _is_near(self, place: int) -> bool:
        return len(self._backwards) - place <= self.REACH

    def _put(self, operation: int, then: int, otherwise: int, operand: int) -> int:
        self._backwards.append((operation, then, otherwise, operand))
        return len(self._backwards)


def _operand(condition: Condition) -> tuple[int, int]:
    """What a condition wants in the accumulator, and leaves there: an argument and its mask."""
    masked = condition.operator in (Operator.MASKED_EQUAL, Operator.MASKED_DIFFERENT)
    return condition.argument, condition.mask if masked else WORD


def disassemble(program: bytes) -> str:
    """Print a program of this compiler, an instruction a line. Raises ValueError for anything else."""
    if len(program) % _INSTRUCTION.size:
        raise ValueError(f"{len(program)} bytes are not a whole number of instructions")
    names: dict[int, str] = {}
    lines = []
    for here, (operation, then, otherwise, operand) in enumerate(_INSTRUCTION.iter_unpack(program)):
        if operation == _IF_EQUAL and not names:
            names = _names(operand)  # the first comparison is that of the architecture
        if operation == _LOAD:
            text = f"load {_field(operand)}"
        elif operation == _AND:
            text = f"and {operand:#x}"
        elif operation == _GO:
            text = f"go {here + 1 + operand}"
        elif operation == _RETURN:
            text = f"return {_returned(operand)}"
        elif operation in _COMPARISONS:
            against = f"{operand} {names.get(operand, '')}" if operation == _IF_AT_LEAST else f"{operand:#x}"
            places = f"then {here + 1 + then} else {here + 1 + otherwise}"
            text = f"if {_COMPARISONS[operation]} {against.rstrip()} {places}"
        else:
            raise ValueError(f"instruction {here} has the unknown operation {operation:#x}")
        lines.append(f"{here:4} {text}\n")
    return "".join(lines)


def _names(audit: int) -> dict[int, str]:
    return {nr: name for arch in Arch if arch.audit == audit for name, nr in numbers(arch).items()}


def _field(offset: int) -> str:
    if offset in (_NUMBER, _ARCH):
        return "number" if offset == _NUMBER else "architecture"
    index, rest = divmod(offset - _ARGUMENTS, 8)
    if rest or not 0 <= index <= 5:
        raise ValueError(f"offset {offset} is no field that a filter may read")
    return f"argument {index}"


def _returned(code: int) -> str:
    verdict, errno = Verdict(code & 0xFFFF_0000), code & 0xFFFF
    if verdict is not Verdict.ERRNO and not errno:
        return verdict.name.lower()
    known = {member.value: member.name for member in Errno}
    told = "notify " if verdict is Verdict.NOTIFY else ""
    return f"{told}errno {known.get(errno, str(errno))}"
