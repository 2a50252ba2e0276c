# SPDX-License-Identifier: Apache-2.0
"""Moments that other machines and services have written."""

import pytest

from ci_doctor.model.quantities import parse_moment


@pytest.mark.parametrize(
    "text", ["1970-01-01T00:01:00Z", "1970-01-01T00:01:00.000Z", "1970-01-01T02:01:00+02:00"]
)
def test_a_moment_is_seconds_since_1970(text: str) -> None:
    assert parse_moment(text) == 60


@pytest.mark.parametrize(
    "text",
    [None, "", "soon", "1970-01-01T00:01:00", "1970-13-01T00:00:00Z"],
)
def test_what_names_no_instant_is_unknown(text: str | None) -> None:
    assert parse_moment(text) is None
