# SPDX-License-Identifier: Apache-2.0
"""Files that one start wrote and another reads, with real processes that read them."""

import asyncio
import ctypes
import hashlib
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from ci_doctor.correctness import shared_places
from ci_doctor.correctness.experiment import StartWave
from ci_doctor.correctness.shared_places import SharedPlaces, SharedWatch, now_ns
from ci_doctor.model.facts.correctness import SharedUse
from ci_doctor.services.spec import ServiceSpec

_SET_CHILD_SUBREAPER = 36  # linux/prctl.h
OWN = "ci-doctor-tmp.start.of-this-test"


def places(tmp_path: Path, *allowed: str) -> SharedPlaces:
    (tmp_path / "reports").mkdir(exist_ok=True)
    spec = ServiceSpec(command=f"serve --cache {tmp_path}/kept")
    home = {"HOME": str(tmp_path / "home")}
    return SharedPlaces(home, [spec], tmp_path, tmp_path / "reports", allowed)


def test_files_of_other_programs_are_not_named_as_the_start_s(tmp_path: Path) -> None:
    shared = places(tmp_path)
    (tmp_path / "kept").mkdir()
    below = f"{tmp_path}/kept/below"
    held = "/tmp/named/held"
    others = ["/tmp/pip-unpack-1/x", "/dev/shm/y"]
    assert shared.own([below, held, *others], ["/tmp/named"]) == (below, held)


def test_our_own_output_is_no_file_that_the_arms_share(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with capfd.disabled(), (tmp_path / "out.txt").open("w") as file:
        kept = os.dup(1)
        os.dup2(file.fileno(), 1)
        try:
            shared = places(tmp_path)
            since = now_ns()
            os.write(1, b"progress")
        finally:
            os.dup2(kept, 1)
            os.close(kept)
    assert file.name not in shared.note_written("A", "A1", since)


def written(tmp_path: Path, name: str, shared: SharedPlaces) -> bool:
    """Whether the file `name`, written now, counts as one of A1's."""
    since = now_ns()
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("an answer")
    return str(path) in shared.note_written("A", "A1", since)


@pytest.mark.parametrize(
    ("name", "counts"),
    [
        ("kept", True),
        ("home/.cache/answers/a.json", True),
        ("home/.cache/huggingface/answers.json", True),
        ("home/.cache/huggingface/hub/models--m/blobs/0", False),
        ("home/.cache/uv/x", False),
        ("model.safetensors", False),
        ("reports/samples.jsonl", False),
        ("allowed/x", False),
    ],
)
def test_what_a_start_computed_counts_and_what_it_downloaded_does_not(
    tmp_path: Path, name: str, counts: bool
) -> None:
    shared = places(tmp_path, f"{tmp_path}/allowed/*")
    assert written(tmp_path, name, shared) is counts
    assert (str(tmp_path / name) in shared.written_by_others("B")) is counts
    assert str(tmp_path / name) not in shared.written_by_others("A")


ANSWER = b"an answer"
SHA256 = hashlib.sha256(ANSWER).hexdigest()
BLOB = hashlib.sha1(b"blob 9\0" + ANSWER, usedforsecurity=False).hexdigest()


@pytest.mark.parametrize(
    ("name", "content", "counts"),
    [
        ("home/.cache/huggingface/hub/answers/0", ANSWER, True),
        (f"home/.cache/huggingface/hub/answers/{'0' * 64}", ANSWER, True),
        ("home/.cache/uv/x", ANSWER, True),
        ("home/.cache/llama.cpp/m.gguf", ANSWER, False),
        (f"home/.cache/huggingface/hub/models--m/blobs/{SHA256}", ANSWER, False),
        (f"home/.cache/huggingface/hub/models--m/blobs/{BLOB}", ANSWER, False),
        ("home/.cache/huggingface/hub/models--m/refs/main", b"0f" * 20, False),
        (f"home/.cache/torch/hub/checkpoints/net-{SHA256[:8]}.pth", ANSWER, False),
    ],
)
def test_what_lands_among_the_downloads_while_a_server_answers_counts_unless_it_is_named_by_its_content(
    tmp_path: Path, name: str, content: bytes, counts: bool
) -> None:
    shared = places(tmp_path)
    begun = now_ns()
    path = tmp_path / name
    path.parent.mkdir(parents=True)
    path.write_bytes(content)

    assert str(path) not in shared.note_written("A", "A1", begun), "it gave no answer"
    assert (str(path) in shared.note_written("A", "A1", begun, begun)) is counts


@pytest.fixture(autouse=True)
def _no_subreaper() -> None:
    """Another test may have made us one: then the orphans of these tests would be our children."""
    assert ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 0, 0, 0, 0) == 0


@pytest.fixture(autouse=True)
def _small_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without its /tmp and /var/tmp: what others keep there would be looked at, too."""
    everywhere = shared_places._common_places
    monkeypatch.setattr(shared_places, "_common_places", lambda environ: everywhere(environ)[2:])


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder at which no other test's experiment looks: it would hold leases on files of ours."""
    place = Path("/run")
    if not os.access(place, os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir=place, prefix="ci-doctor-test.") as name:
        yield Path(name)


@pytest.fixture
def answers(folder: Path) -> Path:
    """A file that A1 has written."""
    path = folder / "answers"
    path.write_text("an answer")
    return path


@asynccontextmanager
async def _watching(*paths: Path) -> AsyncIterator[SharedWatch]:
    """A watch over what B1 reads of these files of A1."""
    watch = SharedWatch({"B1": OWN})
    watch.watch("B1", dict.fromkeys(map(str, paths), "A1"))
    yield watch
    await watch.settle()
    watch.give_back()


async def _watched(path: Path, *command: str, orphan: bool = False) -> dict[str, str]:
    """What the watch notes while `command` runs, which is a process of a start or an orphan."""
    gate = path.with_name("gate")
    os.mkfifo(gate)
    environment = {"PATH": os.environ["PATH"]}
    async with _watching(path) as watch:
        script = (
            f"(read _ <{gate}; exec {' '.join(command)}) >/dev/null & {'' if orphan else 'wait'}"
        )
        process = await asyncio.create_subprocess_exec("sh", "-c", script, env=environment)
        if orphan:
            # Its parent has ended: it belongs to nobody here.
            await process.wait()
        await asyncio.to_thread(gate.write_text, "go\n")
        if orphan:
            while watch._leases:  # noqa: ASYNC110 - until somebody has opened it
                await asyncio.sleep(0.001)
        else:
            await process.wait()
    return watch.read["B1"]


@pytest.mark.parametrize(
    ("command", "orphan", "reads"),
    [
        (("cat", "{}"), False, True),
        (("tail", "-c1", "{}"), False, True),
        (("sh", "-c", "'echo more >>{}'"), False, False),
        (("sh", "-c", "'echo new >{}'"), False, False),
        (("cat", "{}"), True, False),
    ],
)
def test_a_process_of_the_start_reads_and_any_other_counts_for_nothing(
    answers: Path, command: tuple[str, ...], orphan: bool, reads: bool
) -> None:
    words = [word.format(answers) for word in command]
    read = asyncio.run(_watched(answers, *words, orphan=orphan))
    assert read == ({str(answers): "A1"} if reads else {})


def test_what_others_read_at_the_same_time_is_not_the_start_s(folder: Path) -> None:
    files = [folder / f"answers-{number}" for number in range(8)]
    for path in files:
        path.write_text("an answer")

    async def watched() -> dict[str, str]:
        async with _watching(*files) as watch:
            # Orphans of a shell that has ended open all but the first. Each holds an end of a pipe.
            gate = folder / "gate"
            os.mkfifo(gate)
            opened = os.open(gate, os.O_RDWR)
            all_ended, held = os.pipe()
            orphans = [f"(read _ <{gate}; exec cat {path}) >/dev/null &" for path in files[1:]]
            shell = await asyncio.create_subprocess_exec(
                "sh", "-c", "".join(orphans), pass_fds=(held,)
            )
            os.close(held)
            await shell.wait()
            mine = f"read _ <{gate}; cat {files[0]} >/dev/null"
            own = await asyncio.create_subprocess_exec("sh", "-c", mine)
            os.write(opened, b"go\n" * len(files))
            await own.wait()
            await asyncio.to_thread(os.read, all_ended, 1)
            os.close(all_ended)
            os.close(opened)
        return watch.read["B1"]

    assert asyncio.run(watched()) == {str(files[0]): "A1"}


def test_others_that_open_a_file_are_let_go_on_once_they_are_seen_to_wait(
    answers: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Without a look at others, this test would end by its time-out.
    monkeypatch.setattr(shared_places, "_LOOKS", 10**9)
    assert asyncio.run(_watched(answers, "cat", str(answers), orphan=True)) == {}


def _where(pid: int) -> str:
    """The function of the kernel in which a process waits (proc_pid_wchan(5))."""
    return Path(f"/proc/{pid}/wchan").read_text()


def test_a_start_that_waits_for_a_file_of_another_watch_has_not_read_what_others_open(
    folder: Path,
) -> None:
    watched_here, watched_elsewhere = folder / "here", folder / "elsewhere"
    for path in (watched_here, watched_elsewhere):
        path.write_text("an answer")
    # Another ci-doctor on the machine: it holds up whoever opens its file until it has looked.
    elsewhere = (
        "import fcntl, os, signal, sys; signal.signal(signal.SIGIO, lambda *_: None);"
        "opened = os.open(sys.argv[1], os.O_RDONLY); fcntl.fcntl(opened, fcntl.F_SETLEASE, fcntl.F_WRLCK);"
        "print(flush=True); sys.stdin.readline()"
    )

    async def watched() -> dict[str, str]:
        pipe = asyncio.subprocess.PIPE
        other = await asyncio.create_subprocess_exec(
            sys.executable, "-c", elsewhere, str(watched_elsewhere), stdin=pipe, stdout=pipe
        )
        assert other.stdout
        await other.stdout.readline()
        async with _watching(watched_here) as watch:
            own = await asyncio.create_subprocess_exec(
                "cat", watched_elsewhere, stdout=asyncio.subprocess.DEVNULL
            )
            while "break_lease" not in _where(own.pid):  # noqa: ASYNC110 - no event tells
                await asyncio.sleep(0.001)
            # An orphan opens it: its shell has ended before it goes on.
            gate = folder / "gate"
            os.mkfifo(gate)
            script = f"(read _ <{gate}; exec cat {watched_here}) >/dev/null &"
            shell = await asyncio.create_subprocess_exec("sh", "-c", script)
            await shell.wait()
            await asyncio.to_thread(gate.write_text, "go\n")
            while watch._leases:  # noqa: ASYNC110 - until the orphan has opened it
                await asyncio.sleep(0.001)
            await other.communicate(b"go on\n")
            await own.wait()
        return watch.read["B1"]

    assert asyncio.run(watched()) == {}


@pytest.mark.parametrize(
    "opened", ["{0}", "./name", "../{1}/name", "/proc/self/cwd/name", "link", "folder"]
)
def test_the_file_that_a_thread_waits_for_is_known_by_whatever_name_it_opens_it(
    folder: Path, opened: str
) -> None:
    path = folder / "name"
    path.write_text("an answer")
    (folder / "link").symlink_to(path)
    name = opened.format(path, folder.name)
    program = (
        "import os, sys; folder = os.open('.', os.O_RDONLY); os.chdir('/')\n"
        "os.read(os.open('name', os.O_RDONLY, dir_fd=folder), 1)"
        if opened == "folder"
        else f"open({name!r}).read()"
    )

    async def waiting() -> list[tuple[int, int] | None]:
        watch = SharedWatch({"B1": OWN})
        watch.watch("B1", {str(path): "A1"})
        asyncio.get_running_loop().remove_signal_handler(signal.SIGIO)
        signal.signal(signal.SIGIO, lambda *_: None)
        own = await asyncio.create_subprocess_exec(sys.executable, "-c", program, cwd=folder)
        while not (threads := watch._waiting()):  # noqa: ASYNC110 - no event tells
            await asyncio.sleep(0.001)
        watch.give_back()
        assert await own.wait() == 0
        return [each.file for each in threads.values()]

    status = path.stat()
    # That name leads each process elsewhere: nothing is said.
    known = None if opened.startswith("/proc") else (status.st_dev, status.st_ino)
    assert asyncio.run(waiting()) == [known]


def test_a_start_without_files_of_others_needs_no_watch() -> None:
    async def watched() -> dict[str, str]:
        async with _watching() as watch:
            pass
        return watch.read["B1"]

    assert asyncio.run(watched()) == {}


# --- starts at once ---

MARKS = {"A1": "ci-doctor-tmp.start.of-a1", "B1": "ci-doctor-tmp.start.of-b1"}


def test_of_two_starts_at_once_the_one_that_reads_is_known(folder: Path) -> None:
    mine, held, unread = (folder / name for name in ("mine", "held", "unread"))
    for path in (mine, held, unread):
        path.write_text("an answer")

    async def watched() -> dict[str, dict[str, str]]:
        watch = SharedWatch(MARKS)
        watch.watch("A1", {str(mine): "B0"})
        watch.watch("B1", {str(mine): "A0"})
        # Below a shell of its own, and without the mark itself.
        script = f"exec 3<{held} 4>>{unread}; echo; read _; env -i cat {mine} >/dev/null"
        process = await asyncio.create_subprocess_exec(
            "sh", "-c", script, env={"TMPDIR": MARKS["B1"], "PATH": os.environ["PATH"]},
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
        )  # fmt: skip
        assert process.stdin
        assert process.stdout
        await process.stdout.readline()
        # A1 has ended: what it wrote is leased now, and some of it is open in B1 already.
        watch.watch("B1", dict.fromkeys(map(str, (held, unread)), "A1"))
        process.stdin.write(b"\n")
        await process.stdin.drain()
        process.stdin.close()
        await process.wait()
        await watch.settle()
        watch.give_back()
        return watch.read

    assert asyncio.run(watched()) == {"A1": {}, "B1": {str(mine): "A0", str(held): "A1"}}


def test_a_file_of_an_unknown_writer_is_shared_once_both_arms_have_opened_it(
    tmp_path: Path,
) -> None:
    shared = places(tmp_path)
    since = now_ns()
    (tmp_path / "kept").write_text("an answer")
    kept = str(tmp_path / "kept")
    assert kept in shared.note_launched([("A", "A1"), ("B", "B1")], since)
    assert kept not in shared.written_by_others("A") | shared.written_by_others("B")
    assert shared.watched_by("A")[kept] == shared.watched_by("B")[kept] == ""
    assert shared.reads("A", "A1", {kept: ""}) == shared.reads("A", "A2", {kept: ""}) == []
    (read,) = shared.reads("B", "B1", {kept: ""})
    assert (read.path, read.writer) == (kept, "A1")


def test_starts_of_one_arm_that_are_launched_at_once_have_written_it(tmp_path: Path) -> None:
    shared = places(tmp_path)
    since = now_ns()
    (tmp_path / "kept").write_text("an answer")
    shared.note_launched([("A", "A1"), ("A", "A2")], since)
    assert str(tmp_path / "kept") in shared.written_by_others("B")
    assert str(tmp_path / "kept") not in shared.watched_by("A")


def test_starts_at_once_send_their_requests_in_turn(tmp_path: Path) -> None:
    turns: list[str] = []

    async def one(wave: StartWave, place: int, name: str, *, dies: bool) -> None:
        try:
            if not dies:
                await wave.turn(place)
                turns.append(f"{name} begins")
                # Whoever could go on now does.
                await asyncio.sleep(0)
                turns.append(f"{name} ends")
        finally:
            wave.end(place)

    async def together(dying: set[str]) -> None:
        wave = StartWave([("B", "B1"), ("A", "A1"), ("A", "A2")], {}, None)
        wave.begin()
        await asyncio.gather(
            *(
                one(wave, place, name, dies=name in dying)
                for place, name in ((2, "A2"), (1, "A1"), (0, "B1"))
            )
        )
        wave.give_back()

    asyncio.run(together(set()))
    assert turns == [f"{name} {what}" for name in ("B1", "A1", "A2") for what in ("begins", "ends")]
    turns.clear()
    asyncio.run(together({"B1", "A2"}))
    assert turns == ["A1 begins", "A1 ends"]


# --- files that others have open ---

_LEASES = "import fcntl, sys; file = open(sys.argv[1]); fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_WRLCK)"
_HOLDS = "import sys; file = open(sys.argv[1])"
_WAITS = "; print(flush=True); sys.stdin.read()"


def _unbroken_leases(pid: int) -> int:
    lines = Path("/proc/locks").read_text().splitlines()
    return sum(f" {pid} " in each and "LEASE  ACTIVE" in each for each in lines)


async def _read_once_leased(watch: SharedWatch, path: Path) -> None:
    """The start itself reads the file."""
    while not watch._leases:  # noqa: ASYNC110 - once nobody has it open any more
        await asyncio.sleep(0.001)
    process = await asyncio.create_subprocess_exec("cat", path, stdout=subprocess.DEVNULL)
    assert await process.wait() == 0


@pytest.mark.parametrize("program", [_HOLDS, _LEASES], ids=["open", "leased"])
def test_a_file_that_another_program_has_is_watched_once_that_lets_it_go(
    answers: Path, program: str
) -> None:
    async def watched() -> SharedWatch:
        other = await asyncio.create_subprocess_exec(
            sys.executable, "-c", program + _WAITS, answers,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        assert other.stdout
        await other.stdout.readline()
        async with _watching(answers) as watch:
            assert not watch._leases
            # Another experiment keeps its lease: to open the file would have broken it.
            assert _unbroken_leases(other.pid) == (program == _LEASES)
            await other.communicate(b"")
            await _read_once_leased(watch, answers)
        return watch

    watch = asyncio.run(watched())
    assert watch.read["B1"] == {str(answers): "A1"}
    assert watch.elsewhere == {str(answers)}


def test_a_file_that_another_program_has_opened_is_watched_again(answers: Path) -> None:
    async def watched() -> SharedWatch:
        async with _watching(answers) as watch:
            assert not watch.elsewhere
            told, tell = os.pipe()
            # It reads once its parent has ended: before, it is a process of the start.
            orphan = f"exec 3<&0; (read _ <&3; exec cat {answers} >/dev/null) &"
            shell = await asyncio.create_subprocess_exec("sh", "-c", orphan, stdin=told)
            await shell.wait()
            os.write(tell, b"\n")
            while not watch.elsewhere:  # noqa: ASYNC110 - until the orphan was let go on
                await asyncio.sleep(0.001)
            os.close(told)
            os.close(tell)
            await _read_once_leased(watch, answers)
        return watch

    watch = asyncio.run(watched())
    assert watch.read["B1"] == {str(answers): "A1"}
    assert watch.elsewhere == {str(answers)}


def test_a_start_says_so_if_not_all_folders_were_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ci_doctor.correctness.shared_places._MOST_ENTRIES", 1)
    (tmp_path / "deep" / "deeper").mkdir(parents=True)
    (use, _) = uses(places(tmp_path), "A", "")
    assert use.unseen == ("only the shallow ones of more than 1 files",)


# --- memory that outlives a start ---

_SEGMENT = """
import ctypes, sys
libc = ctypes.CDLL(None)
libc.shmat.restype = ctypes.c_void_p
segment = int(sys.argv[1]) if len(sys.argv) > 1 else libc.shmget(0, 4096, 0o1600)
address = libc.shmat(segment, None, 0)
print(segment, flush=True)
sys.stdin.read()
"""
_QUEUE = """
import ctypes, sys
libc = ctypes.CDLL(None)
text = ctypes.create_string_buffer(64)
if len(sys.argv) > 1:
    assert libc.msgrcv(int(sys.argv[1]), text, 32, 0, 0) >= 0
else:
    text[0] = b"1"
    queue = libc.msgget(0, 0o1600)
    assert libc.msgsnd(queue, text, 32, 0) == 0
    print(queue, flush=True)
    sys.stdin.read()
"""


@pytest.fixture(params=[(_SEGMENT, "-m"), (_QUEUE, "-q")], ids=["segment", "queue"])
def memory(request: pytest.FixtureRequest) -> Iterator[tuple[str, list[str]]]:
    """A program that makes some memory of System V, or uses that of a number; all is removed."""
    program, kind = request.param
    made: list[str] = []
    yield program, made
    for number in made:
        subprocess.run(["ipcrm", kind, number], check=False)


def uses(shared: SharedPlaces, arm: str, program: str, *words: str) -> tuple[SharedUse, str]:
    """What a start did in which `program` ran, and what that wrote."""

    async def run() -> tuple[SharedUse, str]:
        wave = StartWave([(arm, f"{arm}1")], {f"{arm}1": OWN}, shared)
        wave.begin()
        done = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", program, *words),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
        )
        output, _ = await done.communicate()
        assert done.returncode == 0
        await wave.settle()
        use = wave.end(0)
        wave.give_back()
        return use, output.decode().strip()

    return asyncio.run(run())


def test_memory_that_one_arm_leaves_and_the_other_uses_is_shared(
    tmp_path: Path, memory: tuple[str, list[str]]
) -> None:
    program, made = memory
    shared = places(tmp_path)
    first, number = uses(shared, "A", program)
    made.append(number)
    assert any(number in each.split() for each in first.written)
    assert not uses(shared, "B", "")[0].read
    second, _ = uses(shared, "B", program, number)
    (read,) = second.read
    assert read.writer == "A1"
    assert number in read.path.split()
    allowed = places(tmp_path, "System V *")
    again, number = uses(allowed, "A", program)
    made.append(number)
    assert not [each for each in again.written if "System V" in each]


def test_memory_of_a_program_that_runs_on_is_not_the_start_s(
    tmp_path: Path, memory: tuple[str, list[str]]
) -> None:
    program, made = memory
    shared = places(tmp_path)
    shared.note_written("A", "A1", now_ns())
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout
        made.append(other.stdout.readline().strip())
        written = shared.note_written("A", "A1", now_ns())
        # Others on this machine may make some meanwhile.
        assert not [each for each in written if made[-1] in each.split()]
        assert other.stdin
        other.stdin.close()
