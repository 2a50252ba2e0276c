# SPDX-License-Identifier: Apache-2.0
import mmap
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from ci_doctor.restart.footprint import Footprint, footprint, left_behind
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


def test_shared_memory_that_nobody_uses_any_more_is_left_behind(shared: Path) -> None:
    with mapped(shared):
        held = footprint([ourselves()])
        assert left_behind(held, [ourselves()]) == ()
    (told,) = left_behind(held, [ourselves()])
    assert str(shared) in told
    assert "2.1 MB" in told


def test_what_was_unlinked_or_made_anew_is_not_left_behind(shared: Path) -> None:
    held = Footprint(shared={str(shared): shared.stat().st_ino + 1})
    assert left_behind(held, []) == ()
    held = Footprint(shared={str(shared): shared.stat().st_ino})
    shared.unlink()
    assert left_behind(held, []) == ()


def test_what_is_tiny_is_no_memory_to_speak_of(shared: Path) -> None:
    shared.write_bytes(b"x")
    assert left_behind(Footprint(shared={str(shared): shared.stat().st_ino}), []) == ()


def test_a_process_that_is_gone_holds_nothing() -> None:
    gone = Kin(pid=2**22 + 1, parent=1, started=0, state="S", threads=1, name="gone")
    assert footprint([gone]) == Footprint()
