# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest

from ci_doctor.correctness.asking import Metrics, counter_reading, logged, not_risen
from ci_doctor.correctness.settings import Proof
from ci_doctor.load.sending import parse_samples

Page = str | None


def page(text: Page) -> Metrics:
    return None if text is None else tuple(parse_samples(text))


def problem(proof: Proof, before: Page, after: Page, idle: float = 0.0) -> str | None:
    reading = counter_reading(proof, "vllm", page(before), page(after), idle)
    return not_risen(proof, reading, page(after))


@pytest.mark.parametrize(
    ("before", "after", "met"),
    [
        ("hits 1", "hits 2", True),
        ("", "hits 1", True),
        ("", "hits_total 1", True),
        ("hits 2", "hits 2", False),
        ("hits 2", "hits 1", False),
        ("", "hits NaN", False),
        ("", "", False),
        (None, "hits 9", False),
        ("", None, False),
        ('hits{engine="0"} 1', 'hits{engine="0"} 2', True),
        ("", 'hits{kind="miss"} 9', False),
        ('hits{hit="true"} 1\nhits{hit="false"} 1', 'hits{hit="true"} 1\nhits{hit="false"} 9', False),
        ('hits{hit="true"} 1\nhits{hit="false"} 1', 'hits{hit="true"} 2\nhits{hit="false"} 1', True),
    ],
)  # fmt: skip
def test_proof_is_a_counter_that_rises_and_not_where_it_counts_misses(
    before: Page, after: Page, met: bool
) -> None:
    assert (problem(Proof(metric="hits"), before, after) is None) is met


@pytest.mark.parametrize(("kind", "met"), [("hit", False), ("miss", True), ("other", False)])
def test_labels_choose_what_counts(kind: str, met: bool) -> None:
    before = 'hits{kind="hit",engine="0"} 1\nhits{kind="miss",engine="0"} 1'
    after = 'hits{kind="hit",engine="0"} 1\nhits{kind="miss",engine="0"} 2'
    proof = Proof(metric="hits", labels={"kind": kind})
    assert (problem(proof, before, after) is None) is met


def test_a_counter_that_rises_without_a_request_proves_nothing() -> None:
    assert "without a request" in (problem(Proof(metric="hits"), "hits 1", "hits 9", 1) or "")


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ("hits 3", "hits 131", "3 -> 131, rose by 128 (> 10); not met"),
        ("", "hits_total 64", "absent -> 64, rose by 64 (> 10); not met"),
        ("hits 3", "", "absent; not met"),
        ("hits 1e9", "hits 1234567890", "1000000000 -> 1234567890, rose by 234567890 (> 10); not met"),
    ],
)  # fmt: skip
def test_a_reading_tells_both_values_and_what_is_required(
    before: Page, after: Page, words: str
) -> None:
    reading = counter_reading(Proof(metric="hits", above=10), "vllm", page(before), page(after))
    assert reading.in_words() == words
    assert reading.service == "vllm"


@pytest.mark.parametrize(
    ("before", "during", "line", "met"),
    [
        ("", "hit r0\n", 1, True),
        ("hit\n", "hit r0\n", 2, True),
        ("hit\n", "", 1, False),
        ("\u00e9 hit\r\nhit\n", "miss r0\n", 1, False),
        ("started\n", "miss r0\n", None, False),
        # A line that was begun before the first request ends with it.
        ("cache: ", "hit r0\n", 1, True),
    ],
)
def test_a_line_from_before_the_first_request_proves_nothing(
    tmp_path: Path, before: str, during: str, line: int | None, met: bool
) -> None:
    log = tmp_path / "log"
    log.write_bytes((before + during).encode())
    reason, reading = logged(Proof(log="hit"), "vllm", log, len(before.encode()))
    assert (reading.line, reading.met, reason is None) == (line, met, met)
    assert ("at_start" in (reason or "")) is (line is not None and not met)
