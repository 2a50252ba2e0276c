# SPDX-License-Identifier: Apache-2.0
"""Causes in lines as they are written: each once, and no error that was survived."""

from collections.abc import Iterator

import pytest

from ci_doctor.diagnosis.log_rule import LogRule, Role
from ci_doctor.diagnosis.new_causes import CauseWatch
from ci_doctor.diagnosis.reading.log_text import TextLine
from ci_doctor.diagnosis.rule_set import RuleSet
from ci_doctor.model.cause import FailureClass


def a_rule(id_: str, role: Role, literal: str) -> LogRule:
    return LogRule(id=id_, role=role, class_=FailureClass.DISK, literals=(literal,), regex=literal)


def a_watch() -> CauseWatch:
    rules = (
        a_rule("disk/full", Role.CAUSE, "No space left"),
        a_rule("python/exception", Role.ERROR, "ValueError"),
        a_rule("server/ended", Role.SYMPTOM, "initialization failed"),
        a_rule("quiet/ignored", Role.NOISE, "ignored"),
    )
    return CauseWatch(RuleSet(rules))


def lines(*texts: str, first: int = 1) -> tuple[TextLine, ...]:
    return tuple(_numbered(texts, first))


def _numbered(texts: tuple[str, ...], first: int) -> Iterator[TextLine]:
    for number, text in enumerate(texts, first):
        yield TextLine(number, number * 100, text.encode())


def test_a_cause_is_named_with_its_line_and_only_once() -> None:
    watch = a_watch()

    first = list(watch.take("a.log", lines("fine", "cp: No space left", "fine")))
    again = list(watch.take("b.log", lines("cp: No space left")))

    assert [(each.log, each.line, each.rule.id) for each in first] == [("a.log", 2, "disk/full")]
    assert again == []


def test_an_error_counts_if_the_end_follows() -> None:
    watch = a_watch()

    survived = list(watch.take("a.log", lines("ValueError: 1")))
    fatal = list(watch.take("a.log", lines("Engine core initialization failed", first=9)))

    assert survived == []
    assert [(each.line, each.rule.id) for each in fatal] == [(1, "python/exception")]


def test_an_error_of_another_log_does_not_end_this_one() -> None:
    watch = a_watch()

    list(watch.take("a.log", lines("ValueError: 1")))

    assert list(watch.take("b.log", lines("Engine core initialization failed"))) == []


def test_noise_is_no_cause() -> None:
    assert list(a_watch().take("a.log", lines("No space left (ignored)"))) == []


def test_an_empty_turn_names_nothing() -> None:
    assert list(a_watch().take("a.log", ())) == []


def traceback(announced: str) -> tuple[str, ...]:
    return (
        f"(EngineCore pid=7) ERROR 01-28 15:59:42 [core.py:9] {announced}",
        "(EngineCore pid=7) ERROR 01-28 15:59:42 [core.py:9] Traceback (most recent call last):",
        '(EngineCore pid=7) ERROR 01-28 15:59:42 [core.py:9]   File "/w/core.py", line 9, in run',
        "(EngineCore pid=7) ERROR 01-28 15:59:42 [core.py:9] ValueError: 40 heads for 3 GPUs",
    )


@pytest.mark.parametrize(
    "announced",
    ["EngineCore failed to start.", "EngineCore hit an exception.", "EngineCore encountered a fatal error."],
)  # fmt: skip
def test_an_exception_by_which_its_program_ends_counts_though_nothing_follows(
    announced: str,
) -> None:
    named = list(a_watch().take("a.log", lines(*traceback(announced))))

    assert [each.line for each in named] == [4]


def test_the_exception_with_which_a_log_ends_counts_once_no_more_comes() -> None:
    ended, survived = a_watch(), a_watch()
    assert list(ended.take("a.log", lines(*traceback("a request has failed")))) == []
    assert list(survived.take("a.log", lines(*traceback("x"), *["200 OK"] * 9))) == []

    assert [each.line for each in ended.rest()] == [4]
    assert list(survived.rest()) == []
