# SPDX-License-Identifier: Apache-2.0
"""How long commands may take by the limits that stand in them."""

import pytest

from ci_doctor.lint.pipelines.inner_times import duration, inner_times, minutes


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("timeout 900 make", [900]),
        ("timeout -k 10 --signal=INT 1.5h make", [5400]),
        ("echo timeout 900 reached", []),
        ("./wait --timeout 900 x", []),
        ("timeout $LIMIT make", []),
        ("for i in 1 2 3; do timeout 60 make && break; done", [180, 60]),
        ("for try in {1..4}\ndo\n  timeout 1m make\n  sleep 30\ndone", [360, 60]),
        ("for attempt in $(seq 5); do timeout 60 a; done", [300, 60]),
        ("for attempt in `seq 2 5`; do timeout 60 a; done", [240, 60]),
        ("for ((i=0; i<=2; i++)); do timeout 60 a && break; done", [180, 60]),
        ("n=1\nwhile [ $n -le 3 ]; do timeout 60 a && exit 0; n=$((n+1)); done", [180, 60]),
        ('until [[ "${tries}" -ge 3 ]]; do timeout 60 a && break; done', [180, 60]),
        ("for i in 1 2 3; do timeout 60 make $i; done", [60]),
        ("for f in *.py; do timeout 60 make && break; done", [60]),
        (
            "for i in 1 2; do\n if x; then for j in a; do b; done; fi\n timeout 9 c && break\ndone",
            [18, 9],
        ),
        ("pytest --reruns 2 --timeout=600 tests", [1800]),
        ("pytest --timeout=600 tests", []),
    ],
)
def test_the_worst_case_of_a_script(script: str, expected: list[float]) -> None:
    assert [each.seconds for each in inner_times(script)] == expected


def test_a_long_script_of_open_loops_is_read() -> None:
    assert inner_times(2000 * "for i in 1 2; do timeout 9 x && break\n" + "done\n") is not None


def test_minutes_are_whole_where_they_are() -> None:
    assert (minutes(1800), minutes(90)) == ("30 min", "1.5 min")


def test_a_duration_that_is_none_is_unknown() -> None:
    assert (duration("25m"), duration("soon")) == (1500, None)
