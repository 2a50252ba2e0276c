# SPDX-License-Identifier: Apache-2.0
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest

from ci_doctor.system.processes.kernel_words import (
    Level,
    MemoryEvents,
    OomCause,
    Refusals,
    counted,
    mount_of,
    oom_cause,
    own_cgroup,
    task_limit,
)

EATER = Path(__file__).parents[3] / "support" / "programs" / "eats_memory.py"
GIB = 2**30

HOST = ["26 1 0:23 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate"]
HYBRID = [
    "32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu",
    "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory",
    "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw",
]
DOCKER_V1 = ["55 54 0:32 /docker/abc /sys/fs/cgroup/memory ro,nosuid - cgroup cgroup rw,memory"]


def level(kills: int = 0, hit: int = 0, limit: int | None = None) -> Level:
    return Level(kills=kills, hit=hit, limit=limit)


@pytest.mark.parametrize(
    ("before", "after", "cause"),
    [
        ([level(limit=GIB)], [level(limit=GIB)], None),
        ([level(limit=GIB)], [level(limit=GIB, hit=3)], None),
        ([level(limit=8 * GIB)], [level(1, 1, 8 * GIB)], OomCause(limit=8 * GIB)),
        ([level(), level(limit=GIB)], [level(1), level(1, 1, GIB)], OomCause(limit=GIB)),
        ([level(limit=GIB), level(limit=2 * GIB)], [level(1, 1, GIB), level(1, 1, 2 * GIB)], OomCause(limit=GIB)),
        ([level(limit=GIB)], [level(1, 0, GIB)], OomCause()),
        ([level(), level(limit=GIB)], [level(), level(1, 1, GIB)], None),
        ([level()], [level(1), level(1)], None),
        ([], [], None),
    ],
    ids=[
        "nothing happened", "only the limit was met", "own limit", "limit above", "both: the nearest", "the host's",
        "a neighbour was killed", "it has moved to another cgroup", "nothing can be seen",
    ],
)  # fmt: skip
def test_whose_memory_ran_out(
    before: list[Level], after: list[Level], cause: OomCause | None
) -> None:
    then = MemoryEvents(levels=tuple(before), host_kills=5)
    now = MemoryEvents(levels=tuple(after), host_kills=6)
    assert oom_cause(then, now) == cause


def test_without_any_cgroup_the_machine_s_own_count_speaks() -> None:
    then, now = (MemoryEvents(unlimited=True, host_kills=count) for count in (5, 6))
    assert oom_cause(then, now) == OomCause()
    assert oom_cause(then, then) is None


@pytest.mark.parametrize(
    ("before", "after", "limit"),
    [
        (((0, 24),), ((3, 24),), 24),
        (((0, None), (1, 24)), ((1, None), (1, 24)), 24),
        (((0, None), (1, 24)), ((0, None), (2, 24)), 24),
        (((5, 24), (0, 9)), ((5, 24), (0, 9)), None),
        (((0, 24),), (), None),
        (((0, None),), ((1, None),), None),
    ],
    ids=["own", "counted here, limited above", "above", "no new one", "moved", "no limit in view"],
)
def test_which_limit_of_processes_was_reached(
    before: Refusals, after: Refusals, limit: int | None
) -> None:
    assert task_limit(before, after) == limit


def test_whose_memory_it_was_is_told_in_words() -> None:
    assert OomCause(limit=8 * GIB).describe() == "its cgroup (limit 8 GiB)"
    assert not OomCause(limit=8 * GIB).host
    assert OomCause().describe() == "the host"
    assert OomCause().host


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["0::/user.slice/a"], ("/user.slice/a", 2)),
        (["4:cpu,memory:/docker/abc", "1:name=systemd:/x", "0::/y"], ("/docker/abc", 1)),
        (["4:memory:/with:colon"], ("/with:colon", 1)),
    ],
)
def test_the_cgroup_that_counts_memory_is_found(
    lines: list[str], expected: tuple[str, int]
) -> None:
    assert own_cgroup(lines) == expected


def test_a_system_without_cgroups_has_none() -> None:
    with pytest.raises(OSError, match="no cgroup"):
        own_cgroup([])


@pytest.mark.parametrize(
    ("lines", "version", "path", "expected"),
    [
        (HOST, 2, "/user.slice/a", ("/sys/fs/cgroup", "user.slice/a")),
        (HOST, 2, "/", ("/sys/fs/cgroup", ".")),
        (HYBRID, 1, "/job", ("/sys/fs/cgroup/memory", "job")),
        (DOCKER_V1, 1, "/docker/abc", ("/sys/fs/cgroup/memory", ".")),
        (DOCKER_V1, 1, "/docker/abc/sub", ("/sys/fs/cgroup/memory", "sub")),
        (DOCKER_V1, 1, "/docker/other", None),
        (DOCKER_V1, 1, "/docker/abcd", None),
        (HOST, 2, "/../../elsewhere", None),
        (HOST, 1, "/a", None),
        ([r"1 1 0:1 /a\040b /mnt/c\040d rw - cgroup2 none rw"], 2, "/a b/c", ("/mnt/c d", "c")),
    ],
)
def test_a_cgroup_is_looked_for_where_it_can_be_seen(
    lines: list[str], version: Literal[1, 2], path: str, expected: tuple[str, str] | None
) -> None:
    assert mount_of(lines, version, path) == (expected and (Path(expected[0]), expected[1]))


def test_a_process_that_is_gone_has_no_counters_of_its_own() -> None:
    child = subprocess.Popen(["true"])
    child.wait()
    assert MemoryEvents.read(child.pid).levels == ()


@pytest.fixture
def small_cgroup() -> Iterator[Path]:
    """A cgroup of 50 MB below our own, where this user may make one."""
    try:
        path, version = own_cgroup(Path("/proc/self/cgroup").read_text().splitlines())
        mount = mount_of(Path("/proc/self/mountinfo").read_text().splitlines(), version, path)
        assert mount is not None
        folder = mount[0] / mount[1] / f"ci-doctor-test-{os.getpid()}"
        folder.mkdir()
    except (OSError, AssertionError) as error:
        pytest.skip(f"no cgroup can be made here: {error}")
    try:
        for name in (
            ("memory.max", "memory.swap.max") if version == 2 else ("memory.limit_in_bytes",)
        ):
            (folder / name).write_text("0" if "swap" in name else "50000000")
        yield folder
    except OSError as error:
        pytest.skip(f"no limit can be set here: {error}")
    finally:
        with contextlib.suppress(OSError):
            folder.rmdir()


def eat(mebibytes: int, cgroup: Path) -> int:
    return subprocess.run(
        [sys.executable, str(EATER), str(mebibytes), str(cgroup)], timeout=180, check=False
    ).returncode


def test_a_kill_for_lack_of_memory_is_named_as_one(small_cgroup: Path) -> None:
    inside = subprocess.Popen(
        [sys.executable, "-c", "import sys; open(sys.argv[1], 'w').write('0'); print(flush=True); input()",
         str(small_cgroup / "cgroup.procs")], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    assert inside.stdout is not None
    inside.stdout.readline()
    before = MemoryEvents.read(inside.pid)
    assert before.levels[0].limit == 50000000 // 4096 * 4096
    assert eat(10, small_cgroup) == 0
    assert oom_cause(before, MemoryEvents.read(inside.pid)) is None
    assert eat(200, small_cgroup) == -signal.SIGKILL
    after = MemoryEvents.read(inside.pid)
    inside.communicate()
    cause = oom_cause(before, after)
    assert cause is not None
    assert (cause.host, cause.describe()) == (False, "its cgroup (limit 47 MiB)")
    assert (after.host_kills or 0) > (before.host_kills or 0)


def test_a_kill_by_somebody_is_no_lack_of_memory() -> None:
    before = MemoryEvents.read()
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    child.kill()
    child.communicate()
    assert oom_cause(before, MemoryEvents.read()) is None


QUIET = MemoryEvents(levels=(Level(kills=2, hit=2, limit=8 * GIB),))
KILLED = MemoryEvents(levels=(Level(kills=3, hit=3, limit=8 * GIB),))


def test_a_kill_that_the_kernel_counted_is_said_with_whose_memory_it_was() -> None:
    assert "killed a process here for lack of memory: that of its cgroup (limit 8 GiB)" in counted(
        QUIET, KILLED
    )


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (QUIET, QUIET),
        (KILLED, KILLED),
        (MemoryEvents(), MemoryEvents()),
        (MemoryEvents(unlimited=True, host_kills=4), MemoryEvents(unlimited=True, host_kills=4)),
        (QUIET, MemoryEvents()),
    ],
)
def test_without_a_new_kill_none_is_claimed(before: MemoryEvents, after: MemoryEvents) -> None:
    assert "killed a process" not in counted(before, after)
