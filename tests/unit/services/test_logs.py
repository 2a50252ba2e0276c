# SPDX-License-Identifier: Apache-2.0
import asyncio
import os
import resource
from collections.abc import Callable, Coroutine
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci_doctor.errors import InfraError, UsageError
from ci_doctor.services.logs import LogSearch, LogWatch, open_log
from ci_doctor.system.files.bounded_log import LogBound
from ci_doctor.system.files.growing import FileWatch


def test_each_start_has_a_log_of_its_own(tmp_path: Path) -> None:
    names = []
    for _ in range(3):
        path, descriptor = open_log(tmp_path / "logs", "vllm")
        os.close(descriptor)
        names.append(path.name)
    assert names == ["vllm-1.log", "vllm-2.log", "vllm-3.log"]


def test_a_log_directory_that_is_a_file_is_a_usage_error(tmp_path: Path) -> None:
    (tmp_path / "logs").touch()
    with pytest.raises(UsageError, match="cannot write logs"):
        open_log(tmp_path / "logs", "vllm")


def test_a_machine_without_room_for_a_log_is_no_mistake_of_the_user(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = os.dup(0)
    os.close(free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free, hard))
    try:
        with pytest.raises(InfraError, match="cannot write logs"):
            open_log(tmp_path, "vllm")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


MIB = 1024 * 1024
LIMIT_S = 180.0  # guards against hanging only


class Reader:
    """What a watch has handed out."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.characters = 0
        self.skipped = 0
        self._more = asyncio.Event()

    def take(self, lines: list[str]) -> None:
        assert lines, "never called for nothing"
        self.lines += lines
        self.characters += sum(map(len, lines))
        self._more.set()

    def skip(self, count: int) -> None:
        self.skipped += count

    async def until(self, met: Callable[[], bool]) -> None:
        async with asyncio.timeout(LIMIT_S):
            while not met():
                self._more.clear()
                await self._more.wait()

    async def until_line(self, line: str) -> None:
        await self.until(lambda: line in self.lines)


def watched(path: Path, test: Callable[[Reader, LogWatch], Coroutine[None, None, None]]) -> Reader:
    """Run `test` while `path` is watched, then close the watch."""

    async def run() -> Reader:
        reader = Reader()
        watch = LogWatch(path, reader.take, on_skipped=reader.skip)
        try:
            await test(reader, watch)
        finally:
            watch.close()
            watch.close()
        return reader

    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    reader = asyncio.run(run())
    assert len(os.listdir("/proc/self/fd")) <= before  # noqa: PTH208
    return reader


async def nothing(_: Reader, __: LogWatch) -> None:
    """Close at once."""


def append(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)


async def until_notified(path: Path, change: Callable[[], None]) -> None:
    """Make `change`; when this returns, every watch of `path` that was made before has been told of it."""
    changed = asyncio.Event()
    marker = FileWatch(path, changed.set)
    try:
        change()
        await asyncio.wait_for(changed.wait(), LIMIT_S)
    finally:
        marker.close()
    for _ in range(2):  # the turn of the loop that told us, and the one in which the others read
        await asyncio.sleep(0)


def test_lines_are_handed_out_as_they_are_written(tmp_path: Path) -> None:
    log = tmp_path / "log"
    append(log, b"before\n")

    async def test(reader: Reader, _: LogWatch) -> None:
        await reader.until_line("before")
        append(log, b"one\ntwo\nthr")
        await reader.until_line("two")
        assert reader.lines == ["before", "one", "two"]
        append(log, b"ee\r\n\nfour")
        await reader.until_line("three")

    assert watched(log, test).lines == ["before", "one", "two", "three", "", "four"]


def test_a_file_that_comes_later_is_read(tmp_path: Path) -> None:
    async def test(reader: Reader, _: LogWatch) -> None:
        append(tmp_path / "log", b"here\n")
        await reader.until_line("here")

    assert watched(tmp_path / "log", test).lines == ["here"]


@pytest.mark.timeout(60)
def test_a_fifo_that_nobody_writes_holds_nobody_up(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "log")
    assert watched(tmp_path / "log", nothing).lines == []
    assert watched(tmp_path / "never there", nothing).lines == []


def test_bytes_that_are_no_text_are_replaced(tmp_path: Path) -> None:
    append(tmp_path / "log", b"\xff\xfe a\0b\n")
    assert watched(tmp_path / "log", nothing).lines == ["\ufffd\ufffd ab"], (
        "also when it is closed before its first turn"
    )


def test_a_line_that_does_not_end_is_handed_out_in_pieces(tmp_path: Path) -> None:
    log = tmp_path / "log"

    async def test(reader: Reader, _: LogWatch) -> None:
        append(log, b"x" * MIB)
        await reader.until(lambda: len(reader.lines) >= 15)

    reader = watched(log, test)
    assert sum(map(len, reader.lines)) == MIB
    assert max(map(len, reader.lines)) == 64 * 1024


def test_one_that_is_far_behind_goes_on_at_the_end_and_says_what_it_left_out(
    tmp_path: Path,
) -> None:
    log = tmp_path / "log"
    with log.open("wb") as file:
        for number in range(300_000):
            file.write(b"%-99d\n" % number)

    async def test(reader: Reader, _: LogWatch) -> None:
        await reader.until(lambda: bool(reader.lines) and reader.lines[-1].startswith("299999"))

    reader = watched(log, test)
    assert reader.skipped == 30_000_000 - MIB
    assert sum(len(line) + 1 for line in reader.lines) == MIB


def test_no_flood_holds_up_the_loop(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with log.open("wb") as file:
        file.write(b"%-63d\n" % 0 * (15 * MIB // 64))

    async def test(reader: Reader, _: LogWatch) -> None:
        turns = 0
        while reader.characters < 63 * (15 * MIB // 64):
            await asyncio.sleep(0)
            turns += 1
        assert turns >= 60, "one bounded piece between any two turns of the loop"

    assert watched(log, test).skipped == 0


def test_the_freed_middle_of_a_log_is_no_text(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with log.open("wb") as file:
        file.write(b"%-63d\n" % 0 * (MIB // 64))
        file.write(b"the end\n")
    LogBound(log, 256 * 1024).check()

    async def test(reader: Reader, _: LogWatch) -> None:
        await reader.until_line("the end")

    reader = watched(log, test)
    assert {line.strip() for line in reader.lines} <= {"0", "", "the end"}
    assert sum(len(line) for line in reader.lines) <= log.stat().st_size


def test_a_log_that_becomes_shorter_is_read_on_from_its_new_end(tmp_path: Path) -> None:
    log = tmp_path / "log"
    append(log, b"a long first line\n")

    async def test(reader: Reader, _: LogWatch) -> None:
        await reader.until_line("a long first line")
        await until_notified(log, lambda: os.truncate(log, 0))
        append(log, b"again\n")
        await reader.until_line("again")

    watched(log, test)


def test_closing_from_within_is_fine(tmp_path: Path) -> None:
    log = tmp_path / "log"
    append(log, b"one\n" * MIB)

    async def run() -> int:
        calls = 0

        def take(lines: list[str]) -> None:
            nonlocal calls
            calls += 1
            watch.close()
            done.set()

        done = asyncio.Event()
        watch = LogWatch(log, take)
        await asyncio.wait_for(done.wait(), LIMIT_S)
        await asyncio.sleep(0)
        return calls

    assert asyncio.run(run()) >= 1


def found(pattern: str, *pieces: bytes) -> bool:
    search = LogSearch(pattern)
    for piece in pieces:
        search.feed(piece)
    return search.matched


@pytest.mark.parametrize(
    ("pattern", "pieces"),
    [
        ("running on .*:8000", [b"INFO running on http://0.0.0.0:8000"]),
        ("^ready$", [b"not ready\nready\n"]),
        ("^ready", [b"50 %\r100 %\rready"]),
        ("ready", [b"re", b"ady"]),
        ("grün", ["grün".encode()[:3], "grün".encode()[3:]]),
        ("ready \ufffd", [b"ready \xff"]),
        ("is ready", [b"\x1b[32mis \x1b[1mready\x1b[0m"]),
        ("is ready", [b"is \x1b[3", b"2mready"]),
        ("is ready", [b"is \x1b]0;title\x1b", b"\\ready"]),
        ("one\ntwo", [b"one\n", b"two"]),
    ],
)
def test_a_pattern_is_found(pattern: str, pieces: list[bytes]) -> None:
    assert found(pattern, *pieces)


@pytest.mark.parametrize(
    "pieces", [[b""], [b"not ready"], [b"x" * 20_000 + b"ready"], [b"x" * 20_000, b"ready"]]
)
def test_the_beginning_of_a_line_is_not_where_the_window_begins(pieces: list[bytes]) -> None:
    assert not found("^ready", *pieces)
    assert not found("^xxx", *([b"-" * 1000, *pieces]))


@given(st.lists(st.binary(max_size=50)), st.integers(0, 60))
def test_how_a_text_is_cut_into_pieces_does_not_matter(pieces: list[bytes], at: int) -> None:
    text = b"".join(pieces) + b"\nserver is \x1b[32mready\x1b[0m\n"
    assert found("^server is ready$", text[:at], text[at:])
