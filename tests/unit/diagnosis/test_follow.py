# SPDX-License-Identifier: Apache-2.0
import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from ci_doctor.diagnosis.follow import CauseWatch, NewLines, follow, follow_logs
from ci_doctor.diagnosis.log_rules import LogRule, Role, RuleSet
from ci_doctor.diagnosis.log_text import TextLine
from ci_doctor.errors import UsageError
from ci_doctor.model.cause import FailureClass
from ci_doctor.system.processes.interruption import Interruption

LIMIT_S = 180.0  # guards against hanging only


async def texts(growth: AsyncIterator[NewLines], count: int) -> list[tuple[int, bytes]]:
    """(number, content) of the next `count` lines."""
    lines: list[tuple[int, bytes]] = []
    while len(lines) < count:
        news = await asyncio.wait_for(anext(growth), LIMIT_S)
        lines += [(line.number, line.content) for line in news.lines]
    return lines


def append(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


def run(path: Path, *steps: Callable[[], object], counts: list[int]) -> list[tuple[int, bytes]]:
    """The lines after each step, of which each makes as many as `counts` says."""

    async def story() -> list[tuple[int, bytes]]:
        lines = []
        async with contextlib.aclosing(follow([path])) as growth:
            for step, count in zip(steps, counts, strict=True):
                step()
                lines += await texts(growth, count)
        return lines

    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    lines = asyncio.run(story())
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208
    return lines


def test_what_a_log_holds_and_what_is_added_is_yielded_by_line(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("one\ntw")

    lines = run(path, lambda: None, lambda: append(path, "o\n\nfour\n"), counts=[1, 3])

    assert lines == [(1, b"one"), (2, b"two"), (3, b""), (4, b"four")]


def test_a_log_that_is_not_there_yet_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "log"

    async def story() -> list[tuple[int, bytes]]:
        async with contextlib.aclosing(follow([path])) as growth:
            waiting = asyncio.ensure_future(texts(growth, 1))
            await asyncio.sleep(0)
            path.write_text("late\n")
            return await waiting

    assert asyncio.run(story()) == [(1, b"late")]


def test_a_truncated_log_is_read_from_its_start_again(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("one\ntwo\n")

    lines = run(path, lambda: None, lambda: path.write_text("new\n"), counts=[2, 1])

    assert lines == [(1, b"one"), (2, b"two"), (1, b"new")]


def test_a_rotated_log_is_read_to_its_end_and_then_the_new_one(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("one\n")

    def rotate() -> None:
        append(path, "last\n")
        path.rename(tmp_path / "log.1")
        path.write_text("first\n")

    lines = run(path, lambda: None, rotate, counts=[1, 2])

    assert lines == [(1, b"one"), (2, b"last"), (1, b"first")]


def test_a_line_without_end_comes_in_pieces_with_one_number(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"a" * 200_000)

    lines = run(path, lambda: None, lambda: append(path, "b\nnext\n"), counts=[3, 2])

    assert {number for number, _ in lines[:4]} == {1}
    assert b"".join(content for _, content in lines[:4]) == b"a" * 200_000 + b"b"
    assert lines[4] == (2, b"next")


def test_lines_of_several_logs_say_whose_they_are(tmp_path: Path) -> None:
    paths = [tmp_path / "server.log", tmp_path / "client.log"]
    for path in paths:
        path.write_text(f"{path.stem}\n")

    async def story() -> set[tuple[int, bytes]]:
        async with contextlib.aclosing(follow(paths)) as growth:
            news = [await asyncio.wait_for(anext(growth), LIMIT_S) for _ in paths]
        return {(each.log, each.lines[0].content) for each in news}

    assert asyncio.run(story()) == {(0, b"server"), (1, b"client")}


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

    assert [(each.place.file, each.place.line, each.rule) for each in first] == [
        ("a.log", 2, "disk/full")
    ]
    assert again == []


def test_an_error_counts_if_the_end_follows() -> None:
    watch = a_watch()

    survived = list(watch.take("a.log", lines("ValueError: 1")))
    fatal = list(watch.take("a.log", lines("Engine core initialization failed", first=9)))

    assert survived == []
    assert [(each.place.line, each.rule) for each in fatal] == [(1, "python/exception")]


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

    assert [each.place.line for each in named] == [4]


def test_the_exception_with_which_a_log_ends_counts_once_no_more_comes() -> None:
    ended, survived = a_watch(), a_watch()
    assert list(ended.take("a.log", lines(*traceback("a request has failed")))) == []
    assert list(survived.take("a.log", lines(*traceback("x"), *["200 OK"] * 9))) == []

    assert [each.place.line for each in ended.rest()] == [4]
    assert list(survived.rest()) == []


def test_a_pipe_is_not_followed(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.log"
    os.mkfifo(pipe)

    with pytest.raises(UsageError, match="not a regular file"):
        follow_logs([str(pipe)], (), Interruption(), print)
