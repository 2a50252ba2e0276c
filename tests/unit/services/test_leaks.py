# SPDX-License-Identifier: Apache-2.0
import mmap
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ci_doctor.model.facts.launch import LeftKind
from ci_doctor.services.leak_ledger import HeldResources, LeakLedger, LeakPolicy
from ci_doctor.system.processes.process_table import Kin, look_up


@pytest.mark.parametrize(
    ("name", "owner"),
    [
        ("torch_4242_1", "api"),
        ("x-4242.sock", "api"),
        ("x-42424.sock", None),
        ("x-24242", None),
        ("x-42", None),
        ("plain", None),
    ],
)
def test_a_whole_pid_in_a_name_tells_whose_it_is(name: str, owner: str | None) -> None:
    seen = ledger()
    seen.belong("api", [4242, 42])
    assert next(iter(seen._makers_of(f"/tmp/4242/{name}")), None) == owner


def test_who_was_seen_with_it_counts_more_than_a_name() -> None:
    seen = ledger()
    seen.belong("api", [4242])
    seen._note("kv", "kv (pid 1)", HeldResources(uid=0, paths=frozenset({"/tmp/x-4242"})))
    assert seen._makers_of("/tmp/x-4242") == {"kv": "held by kv (pid 1)"}


SIZE = 2 << 20


@pytest.fixture
def shared(tmp_path: Path) -> Iterator[Path]:
    path = Path("/dev/shm") / f"ci-doctor-ledger-{tmp_path.name}"
    path.write_bytes(b"x" * SIZE)
    yield path
    path.unlink(missing_ok=True)


def ledger() -> LeakLedger:
    return LeakLedger({"api": LeakPolicy(), "kv": LeakPolicy(mode="off")})


def left_of(ledger: LeakLedger, service: str) -> list[str]:
    return [thing.name for thing in ledger.unused_memory(service)]


def ourselves() -> tuple[Kin, ...]:
    return tuple(filter(None, [look_up(os.getpid())]))


@pytest.mark.parametrize("service", ["api", "kv"])
@pytest.mark.parametrize("is_mapped", [True, False])
def test_memory_that_was_held_is_left_once_nobody_uses_it(
    shared: Path, service: str, is_mapped: bool
) -> None:
    shared.unlink()
    seen = ledger()
    shared.write_bytes(b"x" * SIZE)
    with shared.open("r+b") as file:
        memory = mmap.mmap(file.fileno(), 0) if is_mapped else None
        seen.witness(service, ourselves)
        assert left_of(seen, service) == []
        if memory is not None:
            memory.close()
    (left,) = seen.unused_memory(service)
    assert (left.kind, left.name, left.size) == (LeftKind.SHARED_MEMORY, str(shared), SIZE)
    assert left_of(seen, "kv" if service == "api" else "api") == []


def test_what_was_there_before_and_what_is_tiny_is_not_left(shared: Path) -> None:
    seen = ledger()
    tiny = shared.with_name(f"{shared.name}-{os.getpid()}")
    try:
        tiny.write_bytes(b"x")
        seen.belong("api", [os.getpid()])
        assert left_of(seen, "api") == []
    finally:
        tiny.unlink()


def test_a_new_file_that_nobody_has_open_is_left_if_it_names_a_process(shared: Path) -> None:
    seen = ledger()
    closed = shared.with_name(f"{shared.name}-{os.getpid()}")
    try:
        closed.write_bytes(b"x" * SIZE)
        assert left_of(seen, "api") == []
        seen.belong("api", [os.getpid()])
        assert left_of(seen, "api") == [str(closed)]
        with closed.open("rb"):
            assert left_of(seen, "api") == []
    finally:
        closed.unlink()


@pytest.mark.parametrize(
    ("held", "is_left"),
    [
        ("file", True),
        ("open(sys.argv[1], 'r+b')", False),
        ("mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)", False),
    ],
)
def test_who_is_of_no_service_and_only_reads_it_uses_nothing(
    shared: Path, held: str, is_left: bool
) -> None:
    """A watch of another run has it open: it would be held as long as that runs."""
    shared.unlink()
    seen = ledger()
    shared.write_bytes(b"x" * SIZE)
    with shared.open("rb"):
        seen.witness("api", ourselves)
    program = (
        f"import mmap, sys\nfile = open(sys.argv[1], 'rb')\nheld = {held}\n"
        "if held is not file: file.close()\nprint(flush=True)\nsys.stdin.read()"
    )
    command = [sys.executable, "-c", program, str(shared)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    ) as other:
        assert other.stdout is not None
        other.stdout.readline()
        assert left_of(seen, "api") == [str(shared)] * is_left
        other.communicate(b"")


def test_a_segment_that_nobody_is_attached_to_is_left() -> None:
    program = (
        "import ctypes\n"
        "libc = ctypes.CDLL(None)\n"
        "libc.shmat.restype = ctypes.c_void_p\n"
        f"number = libc.shmget(0, {SIZE}, 0o1600)\n"
        f"ctypes.memset(libc.shmat(number, None, 0), 1, {SIZE})\n"
        "print(number)\n"
    )
    seen = ledger()
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as maker:
        assert maker.stdout is not None
        number = int(maker.stdout.read())
    try:
        assert left_of(seen, "api") == []
        seen.belong("api", [maker.pid])
        (left,) = seen.unused_memory("api")
        assert (left.name, left.size) == (str(number), SIZE)
    finally:
        subprocess.run(["ipcrm", "-m", str(number)], check=True)
    assert left_of(seen, "api") == []
