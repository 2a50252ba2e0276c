# SPDX-License-Identifier: Apache-2.0
import pytest

from ci_doctor.diagnosis.lines.ci_stamps import without_stamps


@pytest.mark.parametrize(
    ("line", "words", "time"),
    [
        ("2026-01-02T03:04:05.1234567Z error: x", "error: x", "2026-01-02T03:04:05.1234567Z"),
        ("\ufeff2026-01-02T03:04:05.1Z a", "a", "2026-01-02T03:04:05.1Z"),
        ("build\tRun tests\t2026-01-02T03:04:05.1Z a", "a", "2026-01-02T03:04:05.1Z"),
        ("2026-01-02T03:04:05.123456Z 01E a", "a", "2026-01-02T03:04:05.123456Z"),
        ("[2026-01-02T03:04:05.123Z] a", "a", "2026-01-02T03:04:05.123Z"),
        ("[task 2026-01-02T03:04:05.1Z] 03:04:05    ERROR -  a", "a", "2026-01-02T03:04:05.1Z"),
        ("[taskcluster 2026-01-02 03:04:05.678Z] a", "a", "2026-01-02 03:04:05.678Z"),
        ("[00:01:23] a", "a", "00:01:23"),
        ("[12:30:01]W:\t [Step 1/3] a", "a", "12:30:01"),
        ("00:00:12.345 a", "a", "00:00:12.345"),
        ("#12 4.512 a", "a", None),
        ("2026-01-02T03:04:05.1Z #12 4.512 a", "a", "2026-01-02T03:04:05.1Z"),
    ],
)
def test_the_stamp_of_a_ci_system_is_removed(line: str, words: str, time: str | None) -> None:
    assert without_stamps(line) == (words, time)


@pytest.mark.parametrize("line", ["a\tb\tc", "error: 12:30:01", "#12 DONE 0.3s", "1) a"])
def test_other_words_stay(line: str) -> None:
    assert without_stamps(line) == (line, None)
