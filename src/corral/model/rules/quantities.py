"""Sizes, shares and durations as people write them: `512m`, `1GiB`, `50%`, `1.5`, `2m30s`."""

from __future__ import annotations

_SIZE_UNITS = {
    "": 1,
    "b": 1,
    "k": 1024,
    "kb": 1000,
    "kib": 1024,
    "m": 1024**2,
    "mb": 1000**2,
    "mib": 1024**2,
    "g": 1024**3,
    "gb": 1000**3,
    "gib": 1024**3,
    "t": 1024**4,
    "tb": 1000**4,
    "tib": 1024**4,
}
_MOST_NUMBER = 2.0**63
_MOST_BYTES = 2**63 - 1
#: No byte of any unit is told apart by more.
_MOST_DECIMALS = 20
_MOST_COUNT = 2**31 - 1
_MOST_SECONDS = 10 * 365 * 86_400
_TIME_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def parse_size(text: str) -> int:
    """`100MB` -> 100_000_000. Raises ValueError with a sentence."""
    number, unit = _split(text.strip())
    _to_float(number, text)
    factor = _SIZE_UNITS.get(unit.lower())
    if factor is None:
        raise ValueError(f"{unit!r} is not a unit of size; use k, m, g, t, KB, MiB and the like")
    whole, _, fraction = number.replace("_", "").partition(".")
    fraction = fraction[:_MOST_DECIMALS]
    size: int = (
        int(whole.lstrip("0") + fraction or "0") * factor // 10 ** len(fraction)
    )  # a float would round it
    if not 1 <= size <= _MOST_BYTES:
        raise ValueError("a size must be between one byte and 8 EiB")
    return size


def parse_share(text: str) -> float:
    """`50%` -> 0.5 and `1.5` -> 1.5 processors. Raises ValueError with a sentence."""
    stripped = text.strip()
    percent = stripped.endswith("%")
    number, unit = _split(stripped.removesuffix("%"))
    if unit:
        raise ValueError(f"{unit!r} is not part of a share; write 50% or 0.5")
    share = _to_float(number, text) / (100 if percent else 1)
    if not 0.001 <= share <= 100_000:
        raise ValueError("a share must be between 0.1% and 100000 processors")
    return share


def parse_duration(text: str) -> float:
    """`2m30s` -> 150.0; a bare number counts seconds. Raises ValueError with a sentence."""
    rest, total = text.strip().lower(), 0.0
    if not rest:
        raise ValueError("a duration is missing")
    while rest:
        digits, unit = _split(rest, stop_at_digit=True)
        number = _to_float(digits, rest)
        if unit == "" and rest == text.strip().lower():
            unit = "s"
            rest = ""
        elif unit not in _TIME_UNITS:
            raise ValueError(f"{unit!r} is not a unit of time; use ms, s, m, h or d")
        else:
            rest = rest[rest.index(unit) + len(unit) :]
        total += number * _TIME_UNITS[unit]
    if not 0.001 <= total <= _MOST_SECONDS:
        raise ValueError("a duration must be between a millisecond and ten years")
    return total


def parse_count(text: str) -> int:
    """A whole number above zero. Raises ValueError with a sentence."""
    count = parse_natural(text.strip(), _MOST_COUNT)
    if not count:
        raise ValueError(f"{text[:40]!r} is not a whole number above zero and below {_MOST_COUNT + 1}")
    return count


def parse_natural(digits: str, most: int) -> int:
    """A whole number in ASCII digits, or 0 if it is none, or more than the most; of any length."""
    if not (digits.isascii() and digits.isdigit()):
        return 0
    significant = digits.lstrip("0")
    return int(significant) if 0 < len(significant) <= len(str(most)) and int(significant) <= most else 0


def format_size(size: int, *, rounded: bool = False) -> str:
    """100_000_000 -> `100MB`; exact, with the largest unit that loses nothing.

    `rounded`, for people to read at a glance: 143_000_000 -> `136.4 MiB`.
    """
    if rounded:
        return _round_size(size)
    for unit in ("TiB", "GiB", "MiB", "KiB", "TB", "GB", "MB", "KB"):
        factor = _SIZE_UNITS[unit.lower()]
        if size % factor == 0 and size >= factor:
            return f"{size // factor}{unit}"
    return f"{size}B"


def _round_size(size: int) -> str:
    if size < 1024:
        return f"{size} B"
    value, units = size / 1024, ["TiB", "GiB", "MiB", "KiB"]
    while round(value, 1) >= 1024 and len(units) > 1:
        value /= 1024
        units.pop()
    return f"{value:.1f} {units[-1]}"


def format_duration(seconds: float) -> str:
    """150.0 -> `2m30s`; to the millisecond."""
    whole, milliseconds = divmod(round(seconds * 1000), 1000)
    parts = []
    for unit, length in (("h", 3600), ("m", 60), ("s", 1)):
        count, whole = divmod(whole, length)
        if count:
            parts.append(f"{count}{unit}")
    if milliseconds:
        parts.append(f"{milliseconds}ms")
    return "".join(parts) or "0s"


def format_share(share: float) -> str:
    """0.5 -> `50%`; to the hundredth of a percent."""
    return f"{share * 100:.2f}".rstrip("0").rstrip(".") + "%"


def _split(text: str, *, stop_at_digit: bool = False) -> tuple[str, str]:
    digits = 0
    while digits < len(text) and (text[digits] in "0123456789." or text[digits] == "_"):
        digits += 1
    unit = text[digits:].strip()
    if stop_at_digit:
        for at, character in enumerate(unit):
            if not character.isalpha():
                unit = unit[:at]
                break
    return text[:digits], unit


def _to_float(number: str, text: str) -> float:
    try:
        value = float(number)
    except ValueError:
        wanted = "must be positive" if text.startswith("-") else "must begin with a number"
        raise ValueError(f"{wanted}: {text[:40]!r}") from None
    if value > _MOST_NUMBER:
        raise ValueError(f"{text[:40]!r} is too large a number")
    return value
