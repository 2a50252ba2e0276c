# SPDX-License-Identifier: Apache-2.0
"""Reads what `preload status` calls heavy, and says from what cost on a file is worth a warning."""

from typing import Final

from ci_doctor.preload.start_files import HEAVY_US

# Microseconds. The finder of an editable package takes 5 to 10 ms, twice in a virtual environment,
# and is what its owner wants. From here on a start takes several times as long as without the file.
HEAVY_PATH_FILE_US: Final = 50_000


def is_heavy(cost_us: int, *, is_customize: bool) -> bool:
    """Whether a file that costs so many microseconds is worth a warning."""
    limit_us = HEAVY_US if is_customize else HEAVY_PATH_FILE_US
    return cost_us > limit_us
