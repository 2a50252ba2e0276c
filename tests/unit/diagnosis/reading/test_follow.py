# SPDX-License-Identifier: Apache-2.0
import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path

from ci_doctor.diagnosis.reading.follow import NewLines, follow

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


def test_a_restart_is_marked(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("one\ntwo\n")

    async def story() -> list[bool]:
        async with contextlib.aclosing(follow([path])) as growth:
            first = await asyncio.wait_for(anext(growth), LIMIT_S)
            path.write_text("new\n")
            second = await asyncio.wait_for(anext(growth), LIMIT_S)
            append(path, "more\n")
            third = await asyncio.wait_for(anext(growth), LIMIT_S)
        return [first.is_restarted, second.is_restarted, third.is_restarted]

    assert asyncio.run(story()) == [False, True, False]


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
