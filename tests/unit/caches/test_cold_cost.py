"""How long compiling took."""

import pytest

from ci_doctor.caches.effect import cost_of, span_s

SECOND = 1_000_000_000


def test_the_time_between_files_counts_without_pauses() -> None:
    times = [second * SECOND for second in (100, 103, 101, 500, 504)]

    assert span_s(times) == pytest.approx(7.0)


def test_what_a_log_says_counts_before_the_times_of_files() -> None:
    cost = cost_of([SECOND, 3 * SECOND], [12.5, 4.0], gpus=2)

    assert cost is not None
    assert (cost.seconds, cost.compiled, cost.gpus, cost.source) == (16.5, 2, 2, "log")


def test_nothing_compiled_has_no_cost() -> None:
    assert cost_of([], [], gpus=0) is None
