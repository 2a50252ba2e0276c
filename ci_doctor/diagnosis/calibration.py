# SPDX-License-Identifier: Apache-2.0
"""Reads the coefficients of the confidence, which a benchmark has fitted."""

from functools import cache
from pathlib import Path

import msgspec
from msgspec import Struct


class Calibration(Struct, frozen=True, kw_only=True):
    """The content of `calibration.json`.

    least: below this confidence nothing is called a cause. coefficients: by feature.
    """

    least: float
    coefficients: dict[str, float]


@cache
def calibration() -> Calibration:
    """The calibration that ships with ci-doctor."""
    file = Path(__file__).with_name("calibration.json")
    return msgspec.json.decode(file.read_bytes(), type=Calibration)
