# SPDX-License-Identifier: Apache-2.0
import asyncio
import os
import resource
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from ci_doctor.system.files.growing import FileWatch, GrowingFile

LIMIT_S = 180.0  # guards against hanging only


@pytest.fixture(autouse=True)
def no_descriptor_is_left() -> Iterator[None]:
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    yield
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208


class Seen:
    """Counts calls, and can wait for one more."""

    def __init__(self) -> None:
        self.changed = asyncio.Event()

    async def after(self, change: Callable[[], object]) -> None:
        self.changed.clear()
        change()
        await asyncio.wait_for(self.changed.wait(), LIMIT_S)


def watching(
    path: Path, story: Callable[[Seen, FileWatch], Awaitable[None]], *, notified: bool = True
) -> None:
    async def run() -> None:
        seen = Seen()
        watch = FileWatch(path, seen.changed.set)
        try:
            assert watch.notified is notified
            await story(seen, watch)
        finally:
            watch.close()
            watch.close()

    asyncio.run(run())


def append(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"x")


def test_a_file_is_seen_to_be_made_written_replaced_and_removed(tmp_path: Path) -> None:
    path, other = tmp_path / "log", tmp_path / "other"

    async def story(seen: Seen, _watch: FileWatch) -> None:
        await seen.after(path.touch)
        await seen.after(lambda: append(path))
        other.write_text("new")
        await seen.after(lambda: other.rename(path))
        await seen.after(lambda: append(path))
        await seen.after(path.unlink)
        await seen.after(lambda: path.write_text("again"))
        await seen.after(lambda: append(path))

    watching(path, story)


def test_a_write_by_a_descriptor_that_stays_open_is_seen(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with path.open("wb", buffering=0) as file:

        async def story(seen: Seen, _watch: FileWatch) -> None:
            for _ in range(3):
                await seen.after(lambda: file.write(b"x"))

        watching(path, story)


def test_what_happens_to_other_files_is_not_told(tmp_path: Path) -> None:
    async def story(seen: Seen, _watch: FileWatch) -> None:
        (tmp_path / "other").write_text("x")
        (tmp_path / "log2").write_text("x")
        told = Seen()
        marker = FileWatch(tmp_path / "marker", told.changed.set)
        seen.changed.clear()
        await told.after((tmp_path / "marker").touch)
        marker.close()
        await asyncio.sleep(0)  # one turn of the loop, in which ours would have been told too
        assert not seen.changed.is_set()

    watching(tmp_path / "log", story)


def test_a_folder_that_comes_later_and_goes_again_is_followed(tmp_path: Path) -> None:
    path = tmp_path / "run" / "ready"

    async def story(seen: Seen, watch: FileWatch) -> None:
        path.parent.mkdir()
        await seen.after(path.touch)
        async with asyncio.timeout(LIMIT_S):
            while not watch.notified:
                await seen.after(lambda: append(path))
        path.unlink()
        await seen.after(path.parent.rmdir)
        path.parent.mkdir()
        await seen.after(path.touch)

    watching(path, story, notified=False)


def test_without_the_kernels_help_a_timer_asks(tmp_path: Path) -> None:
    path = tmp_path / "log"

    async def run() -> None:
        seen = Seen()
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        free = os.dup(0)
        os.close(free)
        resource.setrlimit(
            resource.RLIMIT_NOFILE, (free, hard)
        )  # inotify_init1 has no descriptor to give
        try:
            watch = FileWatch(path, seen.changed.set)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        assert not watch.notified
        await seen.after(path.touch)
        async with asyncio.timeout(LIMIT_S):
            while not watch.notified:  # there is one again
                await seen.after(lambda: append(path))
        watch.close()

    asyncio.run(run())


def test_after_close_nothing_is_told(tmp_path: Path) -> None:
    async def run() -> None:
        told: list[None] = []
        watch = FileWatch(tmp_path / "log", lambda: told.append(None))
        other = Seen()
        after = FileWatch(tmp_path / "log", other.changed.set)
        watch.close()
        await other.after((tmp_path / "log").touch)
        after.close()
        assert told == []

    asyncio.run(run())


def read_all(file: GrowingFile) -> bytes:
    text = b""
    while piece := file.read(256 * 1024):
        if file.is_restarted:
            file.is_restarted = False
            text = b""
        text += piece
    return text


def test_a_file_is_read_on_and_never_again(tmp_path: Path) -> None:
    path = tmp_path / "log"
    file = GrowingFile(path)
    assert (read_all(file), file.problem) == (b"", "No such file or directory")
    path.write_bytes(b"x" * 600_000)
    assert len(read_all(file)) == 600_000
    with path.open("ab") as log:
        log.write(b"more")
    assert (read_all(file), file.problem) == (b"more", None)
    file.close()


def test_a_file_that_was_replaced_or_cut_short_is_read_from_its_beginning(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("a long first text\n")
    file = GrowingFile(path)
    first = GrowingFile(path, by_name=False)
    assert read_all(file) == read_all(first) == b"a long first text\n"
    path.write_text("cut\n")
    assert (read_all(file), read_all(first)) == (b"cut\n", b"")
    with path.open("a") as log:
        log.write("rest")
    (tmp_path / "new").write_text("new")
    (tmp_path / "new").rename(path)
    assert file.read(100) == b"rest"
    assert (read_all(file), read_all(first)) == (b"new", b"rest")
    file.close()
    first.close()


def test_what_is_no_file_holds_nothing_and_no_descriptor(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    for path, problem in ((tmp_path, "Is a directory"), (tmp_path / "pipe", "Not a regular file")):
        file = GrowingFile(path)
        assert (read_all(file), file.problem) == (b"", problem)
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208
