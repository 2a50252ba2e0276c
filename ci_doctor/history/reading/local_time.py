# SPDX-License-Identifier: Apache-2.0
"""Pure. How far times without an offset must be moved, because they cannot be UTC."""

from typing import Final

_QUARTER_MS: Final = 15 * 60 * 1000  # every zone is a multiple of it away from UTC
_SLACK_MS: Final = 60_000  # clocks of two machines
# UTC+14 and UTC-12 are the furthest zones (https://data.iana.org/time-zones/tz-link.html).
_MOST_EAST: Final = 14 * 4
_MOST_WEST: Final = 12 * 4


def shift_to_utc(
    run: tuple[int, int], *, began_ms: int | None, ended_ms: int | None, written_ms: int
) -> int:
    """Milliseconds to add to the times of a run, so that it is possible; 0 if it is, or if none helps.

    run: its start and its end, read as UTC. began_ms, ended_ms: of its job, None if not known.
    written_ms: when its file was last written. No run ends after its file was written or after its job,
    and none starts before its job. The smallest shift by quarters of an hour is taken.
    """
    start, end = run
    latest = (written_ms if ended_ms is None else min(written_ms, ended_ms)) + _SLACK_MS
    earliest = start if began_ms is None else began_ms - _SLACK_MS
    east = -((latest - end) // _QUARTER_MS)
    west = -((start - earliest) // _QUARTER_MS)
    if 0 < east <= _MOST_EAST:
        shift = -east * _QUARTER_MS
    elif east <= 0 and 0 < west <= _MOST_WEST:
        shift = west * _QUARTER_MS
    else:
        return 0
    is_possible = end + shift <= latest and (began_ms is None or start + shift >= earliest)
    return shift if is_possible else 0
