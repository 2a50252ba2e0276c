# SPDX-License-Identifier: Apache-2.0
import pytest

from ci_doctor.model.quantities import parse_size


@pytest.mark.parametrize(
    ("value", "count"),
    [
        (7, 7),
        ("0", 0),
        ("64MiB", 64 << 20),
        ("1.5 GB", 1_500_000_000),
        (" 3kib ", 3072),
        ("2TiB", 2 << 40),
    ],
)
def test_a_size_in_bytes(value: str | int, count: int) -> None:
    assert parse_size(value) == count


@pytest.mark.parametrize("value", ["", "MiB", "-1", "1 XB", "1e3", "inf", -1])
def test_what_is_no_size_is_refused(value: str | int) -> None:
    with pytest.raises(ValueError, match="is no size"):
        parse_size(value)
