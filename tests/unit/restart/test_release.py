# SPDX-License-Identifier: Apache-2.0
import mmap
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ci_doctor.restart.release import (
    Footprint,
    footprint,
    left_behind,
    named_memory,
    of_unknown_owner,
)
from ci_doctor.system.processes.process_table import Kin, look_up

SIZE = 2 << 20


@pytest.fixture
def shared(tmp_path: Path) -> Iterator[Path]:
    path = Path("/dev/shm") / f"ci-doctor-footprint-{os.getpid()}-{tmp_path.name}"
    path.write_bytes(b"x" * SIZE)
    yield path
    path.unlink(missing_ok=True)


def mapped(path: Path) -> mmap.mmap:
    with path.open("r+b") as file:
        return mmap.mmap(file.fileno(), 0)


def sentences(*arguments: Any) -> tuple[str, ...]:
    return tuple(each.sentence for each in left_behind(*arguments))


def ourselves() -> Kin:
    kin = look_up(os.getpid())
    assert kin is not None
    return kin


def test_what_a_process_maps_is_its_footprint_while_it_does(shared: Path) -> None:
    with mapped(shared):
        held = footprint([ourselves()])
    assert held.shared[str(shared)] == shared.stat().st_ino
    assert held.rss > SIZE
    assert str(shared) not in footprint([ourselves()]).shared


def test_shared_memory_that_nobody_uses_any_more_is_sentences(shared: Path) -> None:
    with mapped(shared):
        held = footprint([ourselves()])
        assert sentences(held, [ourselves()]) == ()
    (told,) = sentences(held, [ourselves()])
    assert str(shared) in told
    assert "2.1 MB" in told


def test_what_is_open_and_not_mapped_is_a_footprint_too(shared: Path) -> None:
    with shared.open("rb"):
        held = footprint([ourselves()])
    assert held.shared[str(shared)] == shared.stat().st_ino


def test_a_pid_that_another_process_has_by_now_holds_nothing() -> None:
    own = ourselves()
    earlier = Kin(pid=own.pid, parent=own.parent, started=1, state="S", threads=1, name=own.name)
    assert footprint([earlier]) == Footprint()


def test_a_new_file_that_nobody_has_open_is_left_behind_if_it_names_a_process(
    shared: Path,
) -> None:
    before = named_memory()
    closed = shared.with_name(f"{shared.name}-closed")
    own = Footprint(pids=frozenset({os.getpid()}))
    other = Footprint(pids=frozenset({2**22 + 1}))
    try:
        closed.write_bytes(b"x" * SIZE)
        with closed.open("rb"):
            assert sentences(own, [], before) == ()
            assert str(closed) not in str(of_unknown_owner(other, before))
        (told,) = sentences(own, [], before)
        assert str(closed) in told
        assert "no process has it open" in told
        # Another job may have made it.
        assert sentences(other, [], before) == ()
        assert f"{closed} (2.1 MB)" in of_unknown_owner(other, before)
    finally:
        closed.unlink(missing_ok=True)


def test_a_segment_that_nobody_is_attached_to_is_sentences() -> None:
    program = (
        "import ctypes\n"
        "libc = ctypes.CDLL(None)\n"
        "libc.shmat.restype = ctypes.c_void_p\n"
        f"number = libc.shmget(0, {SIZE}, 0o1600)\n"
        f"ctypes.memset(libc.shmat(number, None, 0), 1, {SIZE})\n"
        "print(number)\n"
    )
    before = named_memory()
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as maker:
        assert maker.stdout is not None
        number = int(maker.stdout.read())
    try:
        own = Footprint(pids=frozenset({maker.pid}))
        (told,) = sentences(own, [], before)
        assert f"System V segment {number} takes 2.1 MB" in told
        assert sentences(Footprint(), [], before) == ()
    finally:
        subprocess.run(["ipcrm", "-m", str(number)], check=True)
    assert sentences(own, [], before) == ()


def test_what_was_unlinked_or_made_anew_is_not_sentences(shared: Path) -> None:
    held = Footprint(shared={str(shared): shared.stat().st_ino + 1})
    assert sentences(held, []) == ()
    held = Footprint(shared={str(shared): shared.stat().st_ino})
    shared.unlink()
    assert sentences(held, []) == ()


def test_what_is_tiny_is_no_memory_to_speak_of(shared: Path) -> None:
    shared.write_bytes(b"x")
    assert sentences(Footprint(shared={str(shared): shared.stat().st_ino}), []) == ()


def test_a_process_that_is_gone_holds_nothing() -> None:
    gone = Kin(pid=2**22 + 1, parent=1, started=0, state="S", threads=1, name="gone")
    assert footprint([gone]) == Footprint()
