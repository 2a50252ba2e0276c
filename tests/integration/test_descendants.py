# SPDX-License-Identifier: Apache-2.0
import asyncio
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

import pytest

from ci_doctor.services import descendants
from ci_doctor.services.descendants import DescendantEnd, DescendantWatch
from ci_doctor.system.processes.process_table import children_of, look_up
from ci_doctor.system.processes.tree import become_subreaper
from tests.support.loop import in_a_loop

pytestmark = pytest.mark.integration

BREEDS = Path(__file__).parents[1] / "support" / "programs" / "breeds.py"


class Parent:
    """A process that makes others on demand; the tests' own process adopts the orphans."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(BREEDS)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.pid = self.process.pid
        self.pids: list[int] = []

    def make(self, kind: str) -> int:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{kind}\n")
        self.process.stdin.flush()
        self.pids.append(int(self.process.stdout.readline()))
        return self.pids[-1]

    def close(self) -> None:
        """Everything in its sessions, and the orphans, which are ours by now."""
        for pid in (self.pid, *filter(None, self.pids)):
            with_group = os.killpg if pid == self.pid else os.kill
            try:
                with_group(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        self.process.communicate()
        while ours := [
            pid
            for pid in children_of(os.getpid())
            if pid in self.pids or os.getsid(pid) == self.pid
        ]:
            os.waitpid(ours[0], 0)  # whose own children then become ours


class Told(list[tuple[int | None, DescendantEnd]]):
    """What a watch has told."""

    def __init__(self) -> None:
        self._more = asyncio.Event()

    def add(self, root: int | None, ended: DescendantEnd) -> None:
        self.append((root, ended))
        self._more.set()

    async def until(self, count: int) -> None:
        async with asyncio.timeout(180):
            while len(self) < count:
                self._more.clear()
                await self._more.wait()


async def found(watch: DescendantWatch, root: int | None, *pids: int) -> None:
    """Wait until the watch has found them by its own pace."""
    async with asyncio.timeout(180):
        while not set(pids) <= {kin.pid for kin in watch.below(root)}:  # noqa: ASYNC110 - its pace is what is tested
            await asyncio.sleep(0.005)


async def has_name(pid: int, name: str) -> None:
    """Wait until the process has taken the name."""
    async with asyncio.timeout(180):
        while (kin := look_up(pid)) is not None and kin.name != name:  # noqa: ASYNC110 - no event tells of it
            await asyncio.sleep(0.005)


@pytest.fixture
def parent() -> Iterator[Parent]:
    become_subreaper()
    parent = Parent()
    yield parent
    parent.close()


@pytest.fixture(autouse=True)
def _no_descriptor_is_left() -> Iterator[None]:
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    yield
    assert len(os.listdir("/proc/self/fd")) <= before  # noqa: PTH208


def ourselves() -> frozenset[int]:
    return frozenset({os.getpid()})


def watching(
    told: Callable[[int | None, DescendantEnd], None],
    *roots: int,
    adopters: Callable[[], Collection[int]] | None = None,
) -> DescendantWatch:
    """A watch over `roots` that is closed at the end of the test, however that ends."""
    return started(DescendantWatch(lambda: roots, told, orphans_below=adopters))


def started(watch: DescendantWatch) -> DescendantWatch:
    task = asyncio.current_task()
    assert task is not None
    task.add_done_callback(lambda _: watch.close())
    watch.start()
    return watch


@pytest.mark.parametrize(
    ("number", "returncode"), [(signal.SIGKILL, -9), (signal.SIGSEGV, -11), (signal.SIGUSR1, 3)]
)
@pytest.mark.parametrize("kind", ["child", "grandchild", "thread"])
@in_a_loop
async def test_the_end_of_a_process_below_is_told_with_how_it_ended(
    parent: Parent, kind: str, number: signal.Signals, returncode: int
) -> None:
    told = Told()
    watch = watching(told.add, parent.pid)
    pid = parent.make(kind)
    await found(watch, parent.pid, pid)
    os.kill(pid, number)
    await told.until(1)
    ((root, ended),) = told
    assert (root, ended.kin.pid, ended.returncode, ended.root_ended) == (
        parent.pid,
        pid,
        returncode,
        False,
    )


@in_a_loop
async def test_the_name_is_the_one_that_it_had_at_its_end(parent: Parent) -> None:
    told = Told()
    watch = watching(told.add, parent.pid)
    pid = parent.make("child")
    await found(watch, parent.pid, pid)
    os.kill(pid, signal.SIGUSR2)
    await has_name(pid, "renamed")
    os.kill(pid, signal.SIGKILL)
    await told.until(1)
    assert told[0][1].kin.name == "renamed"


def test_an_end_is_told_within_milliseconds(parent: Parent) -> None:
    async def run() -> list[float]:
        told = Told()
        watch = watching(told.add, parent.pid)
        delays = []
        for count in range(1, 11):
            pid = parent.make("child")
            await found(watch, parent.pid, pid)
            began = time.monotonic()
            os.kill(pid, signal.SIGKILL)
            await told.until(count)
            delays.append(told[-1][1].at - began)
        return delays

    # 1 ms on a quiet machine; without the notification the end would be found at the next tick.
    assert sorted(asyncio.run(run()))[5] < descendants._TICK_S / 4


@in_a_loop
async def test_the_dead_that_nobody_waits_for_are_told_once(parent: Parent) -> None:
    told = Told()
    watch = watching(told.add, parent.pid)
    pids = [parent.make("child"), parent.make("brief")]
    watch.scan_now()
    os.kill(pids[0], signal.SIGKILL)
    await told.until(2)
    for _ in range(3):
        watch.scan_now()
        await asyncio.sleep(0)
    assert sorted((ended.kin.pid, ended.returncode) for _, ended in told) == [
        (pids[0], -9),
        (pids[1], 3),
    ]
    parent.make("reap")
    watch.scan_now()


@pytest.mark.parametrize("kind", ["orphan", "session-orphan"])
@in_a_loop
async def test_an_orphan_stays_its_root_s(parent: Parent, kind: str) -> None:
    """Known before it was one, or by the session that the root leads."""

    told = Told()
    watch = watching(told.add, parent.pid, adopters=ourselves)
    pid = parent.make(kind)
    root = parent.pid if kind == "orphan" else None
    await found(watch, root, pid)
    os.kill(pid, signal.SIGKILL)
    await told.until(1)
    assert [(root, ended.kin.pid, ended.returncode) for root, ended in told] == [(root, pid, -9)]


@in_a_loop
async def test_children_that_go_with_their_root_are_no_deaths_of_their_own(parent: Parent) -> None:
    told = Told()
    watch = watching(told.add, parent.pid)
    bound = {parent.make("bound") for _ in range(5)}
    await found(watch, parent.pid, *bound)
    os.kill(parent.pid, signal.SIGKILL)
    await told.until(5)
    assert {(ended.kin.pid, ended.returncode, ended.root_ended) for _, ended in told} == {
        (pid, -9, True) for pid in bound
    }


@in_a_loop
async def test_without_file_descriptors_an_end_is_still_noticed(parent: Parent) -> None:
    told = Told()
    pids = [parent.make("child") for _ in range(20)]
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = os.dup(0)
    os.close(free)
    watch = DescendantWatch(lambda: [parent.pid], told.add)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free + 6, limits[1]))
    try:
        watch.start()
        await found(watch, parent.pid, *pids)
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        await told.until(20)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        watch.close()
    assert {ended.kin.pid for _, ended in told} == set(pids)


@in_a_loop
async def test_nothing_is_told_after_closing_even_from_within(parent: Parent) -> None:
    told = Told()

    def once(root: int | None, ended: DescendantEnd) -> None:
        told.add(root, ended)
        watch.close()

    watch = watching(once, parent.pid)
    pids = [parent.make("child") for _ in range(3)]
    await found(watch, parent.pid, *pids)
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    await told.until(1)
    await asyncio.sleep(0.3)  # more than a tick: what must not happen has had its chance
    assert len(told) == 1
    assert watch.below(parent.pid) == ()


@in_a_loop
async def test_the_services_themselves_and_their_neighbours_are_not_descendants(
    parent: Parent,
) -> None:
    other = Parent()
    told = Told()
    watch = watching(told.add, parent.pid, other.pid, adopters=ourselves)
    child = parent.make("child")
    await found(watch, parent.pid, child)
    assert [kin.pid for kin in watch.below(parent.pid)] == [child]
    assert parent.pid not in {kin.pid for kin in watch.below(None)}
    assert watch.below(other.pid) == ()
    other.close()


@pytest.mark.parametrize("kind", ["child", "session-orphan"])
@in_a_loop
async def test_a_daemon_that_becomes_a_root_itself_is_a_descendant_no_more(
    parent: Parent, kind: str
) -> None:
    told = Told()
    roots = [parent.pid]
    watch = started(DescendantWatch(lambda: roots, told.add, orphans_below=ourselves))
    daemon, other = parent.make(kind), parent.make("child")
    await found(watch, parent.pid if kind == "child" else None, daemon)
    await found(watch, parent.pid, other)
    roots[:] = [daemon]
    watch.scan_now()
    assert daemon not in {
        kin.pid for root in (None, parent.pid, daemon) for kin in watch.below(root)
    }
    assert [kin.pid for kin in watch.below(daemon)] == ([other] if kind == "child" else [])
    os.kill(daemon, signal.SIGKILL)
    os.kill(other, signal.SIGKILL)
    await told.until(1)
    assert [(root, ended.kin.pid) for root, ended in told] == [
        (daemon if kind == "child" else parent.pid, other)
    ]
