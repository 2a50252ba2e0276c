# SPDX-License-Identifier: Apache-2.0
"""Pure. Chooses what looks for many literals at once in a block of bytes."""

from collections.abc import Callable, Sequence

from ci_doctor.diagnosis.scanning.literal_engine import Engine

# A fast engine takes long to make: from about this size of a log on it is worth it.
_LARGE_BYTES = 24 * 1024 * 1024


def engine_for_size(size: int) -> Callable[[Sequence[bytes]], Engine]:
    """What makes the engine with the shortest time in all for a log of `size` bytes."""
    if size < _LARGE_BYTES:
        return quick_engine
    return fastest_engine


def quick_engine(literals: Sequence[bytes]) -> Engine:
    """The engine for `literals` that is ready first; otherwise as `fastest_engine`."""
    if not literals:
        return _nothing
    try:
        from ci_doctor.diagnosis.scanning.aho_corasick_engine import quick_aho_corasick_engine
    except ImportError:
        return fastest_engine(literals)
    return quick_aho_corasick_engine(literals)


def fastest_engine(literals: Sequence[bytes]) -> Engine:
    """The fastest engine for `literals` that is installed and that this processor can run.

    The literals are distinct and not empty. They hold no NUL, and a newline only at the end
    (`check_rules` refuses others).
    All engines give the same places.
    """
    if not literals:
        return _nothing
    return _by_hyperscan(literals) or _by_aho_corasick(literals) or _by_substrings(literals)


def _by_hyperscan(literals: Sequence[bytes]) -> Engine | None:
    """None without the extra `fast-logs`, or on a processor without SSSE3."""
    try:
        from ci_doctor.diagnosis.scanning.hyperscan_engine import hyperscan_engine
    except ImportError:
        return None
    return hyperscan_engine(literals)


def _by_aho_corasick(literals: Sequence[bytes]) -> Engine | None:
    """None where there is no wheel of ahocorasick-rs for the platform."""
    try:
        from ci_doctor.diagnosis.scanning.aho_corasick_engine import aho_corasick_engine
    except ImportError:
        return None
    return aho_corasick_engine(literals)


def _by_substrings(literals: Sequence[bytes]) -> Engine:
    from ci_doctor.diagnosis.scanning.substring_engine import substring_engine

    return substring_engine(literals)


def _nothing(_block: bytes) -> list[tuple[int, int]]:
    return []
