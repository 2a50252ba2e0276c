# SPDX-License-Identifier: Apache-2.0
from datetime import UTC, datetime

import pytest

from ci_doctor.load.retrying import wait_before_retry

NOW = datetime(2026, 1, 1, 12, 0, 0, tzinfo=UTC)


@pytest.mark.parametrize("status", [200, 400, 404, 408, 500, 502, 503, 504])
def test_what_is_no_request_to_wait_is_not_repeated(status: int) -> None:
    assert wait_before_retry(status, None, 1, NOW) is None
    if status != 503:
        assert wait_before_retry(status, "1", 1, NOW) is None


def test_waits_double_up_to_a_bound() -> None:
    waits = [wait_before_retry(429, None, tries, NOW) for tries in (1, 2, 3, 4, 5, 6, 7, 100_000)]
    assert waits == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("7", 7.0),
        (" 7 ", 7.0),
        ("0", 0.1),
        ("9" * 5000, float("inf")),
        ("Thu, 01 Jan 2026 12:00:30 GMT", 30.0),
        ("Thu, 01 Jan 2026 12:00:30 -0000", 30.0),
        ("Thu, 01 Jan 2026 11:00:00 GMT", 0.1),
        ("soon", 0.8),
        ("-5", 0.8),
        ("", 0.8),
        ("1.5", 0.8),
    ],
)
@pytest.mark.parametrize("status", [429, 503])
def test_the_time_that_the_server_names_is_honoured_where_it_can_be_read(
    status: int, header: str, seconds: float
) -> None:
    assert wait_before_retry(status, header, 4, NOW) == seconds
