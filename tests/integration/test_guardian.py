# SPDX-License-Identifier: Apache-2.0
import asyncio
import contextlib
import errno
import json
import os
import pty
import resource
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Iterator, Sequence
from fcntl import ioctl
from pathlib import Path
from typing import IO, Any

import psutil
import pytest

from ci_doctor.errors import InfraError
from ci_doctor.system import guardian as guardian_module
from ci_doctor.system.guardian import Guardian
from ci_doctor.system.processes import tree_stop
from ci_doctor.system.processes.process import Child
from ci_doctor.system.processes.process_table import children_of
from ci_doctor.system.processes.tree import OwnTree

pytestmark = pytest.mark.integration

PROGRAMS = Path(__file__).parents[1] / "support" / "programs"
ROOT = Path(__file__).parents[2]
LIMIT_S = 180.0  # guards against hanging only


def environment() -> dict[str, str]:
    """Ours, in which our modules are found."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}


def descriptors() -> set[int]:
    """Those that are open in this process."""
    return {int(path.name) for path in Path("/proc/self/fd").iterdir() if path.is_symlink()}


class Scene:
    """A guardian, what it starts, and a pipe that this says things on."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.guardian = Guardian.start()
        self.tree = OwnTree(self.guardian)
        self.children: list[Child] = []
        reading, self.output = os.pipe()
        self.said: IO[str] = os.fdopen(reading, "r")

    def spawn(self, *words: str, **options: Any) -> Child:
        options = {
            "environment": dict(os.environ),
            "directory": self.directory,
            "output": self.output,
            **options,
        }
        child = self.guardian.spawn(words, **options)
        self.children.append(child)
        return child

    def python(self, program: str, *arguments: str, **options: Any) -> Child:
        return self.spawn(sys.executable, "-c", program, *arguments, **options)

    def family(self, *arguments: str) -> tuple[Child, list[int]]:
        child = self.spawn(sys.executable, str(PROGRAMS / "leaves_a_family.py"), *arguments)
        return child, json.loads(self.said.readline())

    def close(self) -> None:
        self.tree.kill(5)
        self.guardian.close()
        for child in self.children:
            child.close()
        os.close(self.output)
        self.said.close()


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    before = set(psutil.Process().children(recursive=True))
    before_it = descriptors()
    scene = Scene(tmp_path)
    yield scene
    scene.close()
    assert set(psutil.Process().children(recursive=True)) <= before, "not even a zombie is left"
    assert descriptors() == before_it


@pytest.fixture
def bystander() -> Iterator[subprocess.Popen[bytes]]:
    """A process that was there before the scene."""
    with subprocess.Popen(["sleep", "1000"]) as process:
        yield process
        process.kill()


@contextlib.contextmanager
def holder(
    how: str, *command: str, stop: str = "", before: Sequence[str] = ()
) -> Iterator[subprocess.Popen[str]]:
    """A process that holds a guardian, with COMMAND below; what is left of it is killed, and its guardian waited for."""
    before_it = set(children_of(os.getpid()))
    words = [*before, sys.executable, str(PROGRAMS / "holds_a_guardian.py"), how, stop, *command]
    with subprocess.Popen(
        words,
        env=environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()
    for orphan in (
        set(children_of(os.getpid())) - before_it
    ):  # ours where a test has made us a subreaper
        os.waitpid(orphan, 0)


def lines(process: subprocess.Popen[str]) -> Iterator[Any]:
    assert process.stdout
    while line := process.stdout.readline():
        yield json.loads(line)


def pids_of(process: subprocess.Popen[str]) -> tuple[int, list[int]]:
    """The guardian's pid, and those of the family below it, which say so in any order."""
    said = lines(process)
    both = [next(said), next(said)]
    mapping = next(one for one in both if isinstance(one, dict))
    return mapping["guardian"], next(one for one in both if isinstance(one, list))


def survivors(pids: Sequence[int], limit_s: float = LIMIT_S) -> list[int]:
    """Those that have not ended within `limit_s`."""
    waiting = {}
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            waiting[os.pidfd_open(pid)] = pid
    deadline = time.monotonic() + limit_s
    left = dict(waiting)
    while left and (
        ended := select.select(list(left), [], [], max(0.0, deadline - time.monotonic()))[0]
    ):
        for descriptor in ended:
            del left[descriptor]
    for descriptor in waiting:
        os.close(descriptor)
    return list(left.values())


FAMILY = (sys.executable, str(PROGRAMS / "leaves_a_family.py"))


# --- starting ---


def test_a_child_leads_a_session_of_its_own_and_has_nothing_to_read(scene: Scene) -> None:
    scene.python("import os, sys; print(os.getsid(0) == os.getpid(), repr(sys.stdin.read()))")
    assert scene.said.readline() == "True ''\n"


def test_a_child_has_three_file_descriptors(scene: Scene) -> None:
    with (scene.directory / "open").open("w") as other:
        os.set_inheritable(other.fileno(), True)
        scene.spawn("ls", "-m", "/proc/self/fd")
        assert scene.said.readline() == "0, 1, 2, 3\n", "the last is that of ls itself"


def test_a_child_has_its_own_streams(scene: Scene) -> None:
    reading, writing = os.pipe()
    (scene.directory / "input").write_text("given")
    with (scene.directory / "input").open() as given:
        scene.spawn("sh", "-c", "cat >&2; echo out", input=given.fileno(), error=writing)
    os.close(writing)
    with os.fdopen(reading) as errors:
        assert errors.read() == "given"
    assert scene.said.readline() == "out\n"


# glibc's own (NPTL): of thread cancellation and of setuid(2) in all threads. Its posix_spawn(3), by
# which Python 3.13 starts programs, leaves them ignored, and it sets them again when it needs them.
# No program can change them by signal(2).
LIBC_SIGNALS = frozenset({32, 33})


def signals_in(line: str) -> set[int]:
    """The signals of a mask in /proc/PID/status, without those that are libc's own."""
    mask = int(line.split()[1], 16)
    return {number for number in range(1, 65) if mask >> (number - 1) & 1} - LIBC_SIGNALS


def test_a_child_hears_every_signal(scene: Scene) -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
    try:
        scene.spawn("grep", "-E", "Sig(Blk|Ign)", "/proc/self/status")
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGUSR1})
    assert [signals_in(scene.said.readline()) for _ in range(2)] == [set(), set()]


def test_a_child_stays_deaf_to_the_hangup_that_nohup_took_from_us() -> None:
    ignoring = ["sh", "-c", "trap '' HUP INT; exec \"$@\"", "sh"]
    with holder("waits", "grep", "SigIgn", "/proc/self/status", before=ignoring) as process:
        output, _ = process.communicate("\n")
    (ignored,) = [line for line in output.splitlines() if line.startswith("SigIgn")]
    assert signals_in(ignored) == {signal.SIGHUP}


def test_a_child_has_only_the_environment_that_it_is_given(scene: Scene) -> None:
    scene.spawn("/usr/bin/env", environment={"A": "1", "B\udcff": "\udcfe"})
    assert sorted(scene.said.buffer.readline() for _ in range(2)) == [b"A=1\n", b"B\xff=\xfe\n"]  # type: ignore[attr-defined]


def test_a_large_environment_arrives_whole(scene: Scene) -> None:
    environment = {f"V{number}": "x" * 100_000 for number in range(8)}
    child = scene.python(
        "import os; print(sum(len(v) for k, v in os.environ.items() if k[0] == 'V'))",
        environment=environment,
    )
    assert child.wait() == 0
    assert scene.said.readline() == "800000\n"


def test_the_path_of_the_given_environment_finds_the_command(scene: Scene) -> None:
    command = scene.directory / "only-here"
    command.write_text("#!/bin/sh\necho found\n")
    command.chmod(0o755)
    scene.spawn("only-here", environment={"PATH": f"/nonexistent:{scene.directory}"})
    assert scene.said.readline() == "found\n"


def test_a_child_runs_in_its_folder(scene: Scene) -> None:
    scene.spawn("pwd")
    assert scene.said.readline() == f"{scene.directory}\n"


def test_an_error_says_what_was_wrong(scene: Scene) -> None:
    (scene.directory / "text").write_text("no program\n")
    (scene.directory / "text").chmod(0o755)
    (scene.directory / "closed").write_text("#!/bin/sh\n")
    cases: list[tuple[list[str], dict[str, Any], int, str]] = [
        (["no-such-command"], {}, errno.ENOENT, "no-such-command"),
        (["closed"], {"environment": {"PATH": f"{scene.directory}:/bin"}}, errno.EACCES, "closed"),
        ([str(scene.directory / "text")], {}, errno.ENOEXEC, str(scene.directory / "text")),
        (
            ["true"],
            {"directory": scene.directory / "none"},
            errno.ENOENT,
            str(scene.directory / "none"),
        ),
        (["true", "x" * 200_000], {}, errno.E2BIG, "true"),
        (["true", "\0"], {}, errno.EINVAL, "true"),
        ([], {}, errno.EINVAL, ""),
    ]
    for words, options, number, about in cases:
        with pytest.raises(OSError) as caught:
            scene.spawn(*words, **options)
        assert (caught.value.errno, caught.value.filename) == (number, about)
    assert scene.spawn("true").wait() == 0


def test_no_room_for_the_pidfd_is_an_error_and_leaves_no_process(scene: Scene) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken: list[int] = []
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(descriptors()) + 8, hard))
    try:
        with contextlib.suppress(OSError):
            while True:
                taken.append(os.dup(scene.output))
        with pytest.raises(OSError, match="Too many open files"):
            scene.spawn("sleep", "1000")
    finally:
        for descriptor in taken:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert survivors([kin.pid for kin in scene.tree.living()]) == []


# --- ending ---


@pytest.mark.parametrize(
    ("program", "expected"), [("exit 7", 7), ("kill -9 $$", -9), ("exit 0", 0)]
)
def test_how_a_child_ended_is_known_and_stays_known(
    scene: Scene, program: str, expected: int
) -> None:
    child = scene.spawn("sh", "-c", program)
    assert child.wait() == expected
    child.close()
    scene.guardian.close()
    assert child.wait() == child.returncode() == expected


def test_how_a_child_ended_is_known_when_it_is_asked_late(scene: Scene) -> None:
    children = [scene.spawn("sh", "-c", f"exit {number}") for number in range(5)]
    survivors([child.pid for child in children])
    children[0].close()
    scene.guardian.close()
    assert [child.wait() for child in children] == [0, 1, 2, 3, 4]


def test_peak_memory_is_told(scene: Scene) -> None:
    child = scene.python("x = bytearray(b'x') * (80 << 20)")
    assert child.wait() == 0
    assert 80 << 20 < (child.peak_rss or 0) < 200 << 20


def test_a_child_can_be_started_and_awaited_inside_an_event_loop(scene: Scene) -> None:
    async def run() -> int | None:
        ended = asyncio.Event()
        child = scene.spawn("sh", "-c", "exit 4")
        asyncio.get_running_loop().add_reader(child.pidfd, ended.set)
        await asyncio.wait_for(ended.wait(), LIMIT_S)
        asyncio.get_running_loop().remove_reader(child.pidfd)
        return child.wait()

    assert asyncio.run(run()) == 4


def test_many_cycles_leave_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before_it = descriptors()
    before = psutil.Process().children(recursive=True)
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setattr(tempfile, "tempdir", None)
    for _ in range(20):
        guardian = Guardian.start()
        child = guardian.spawn(
            ["true"], environment={"PATH": os.defpath}, directory=tmp_path, output=2
        )
        assert child.wait() == 0
        child.close()
        guardian.close()
        guardian.close()
    assert descriptors() == before_it
    assert psutil.Process().children(recursive=True) == before
    assert tempfile.gettempdir() == str(temporary)
    assert not [*temporary.iterdir()]


# --- stopping the tree ---


@pytest.mark.parametrize("end", [[], ["--die"]], ids=["parent-alive", "parent-crashed"])
def test_killing_leaves_none_of_the_family(scene: Scene, end: list[str]) -> None:
    child, pids = scene.family(*end)
    if end:
        assert child.wait() == 3
    outcome = scene.tree.kill(5)
    assert {kin.pid for kin in outcome.killed} == set(pids[len(end) :])
    assert outcome.survivors == ()
    assert survivors(pids, 0) == []


def test_each_process_is_asked_by_the_gentlest_signal_that_it_hears(scene: Scene) -> None:
    program = (
        "import os, signal, sys\n"
        "for name in sys.argv[1].split(): signal.signal(getattr(signal, name), signal.SIG_IGN)\n"
        "def told(number, _): os.write(1, signal.Signals(number).name.encode() + b'\\n'); os._exit(0)\n"
        "for name in sys.argv[2].split(): signal.signal(getattr(signal, name), told)\n"
        "print('ready', flush=True)\n"
        "while True: signal.pause()\n"
    )
    for ignored, heard, expected in (
        ("", "SIGINT SIGTERM", ["SIGINT\n", 0]),
        ("SIGINT", "SIGTERM", ["SIGTERM\n", 0]),
        ("SIGTERM", "SIGINT", ["SIGINT\n", 0]),
    ):
        child = scene.python(program, ignored, heard)
        assert scene.said.readline() == "ready\n"
        asyncio.run(scene.tree.terminate(LIMIT_S))
        assert [scene.said.readline(), child.wait()] == expected


def test_who_ignores_both_signals_is_killed_and_its_helpers_have_a_time_of_their_own(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tree_stop, "HELPERS_S", 0.5)
    child, pids = scene.family()
    asyncio.run(scene.tree.terminate(LIMIT_S))
    assert child.wait() == -signal.SIGKILL, "nobody would ever tell it to end"
    assert survivors(pids, 0) == pids[1:]
    assert {kin.pid for kin in scene.tree.kill(5).killed} == set(pids)
    assert survivors(pids, 0) == []


def test_who_hears_the_first_signal_and_stays_gets_the_second(scene: Scene) -> None:
    child = scene.spawn(
        "sh", "-c", "trap 'echo INT' INT; echo ready; while :; do read line < /dev/zero; done"
    )
    assert scene.said.readline() == "ready\n"
    asyncio.run(scene.tree.terminate(0.9))
    assert child.wait() == -signal.SIGTERM


def test_a_stopped_process_is_woken_to_end(scene: Scene) -> None:
    child = scene.spawn("sh", "-c", "kill -STOP $$; exit 5")
    while psutil.Process(child.pid).status() != psutil.STATUS_STOPPED:
        pass
    asyncio.run(scene.tree.terminate(LIMIT_S))
    assert child.wait() == -signal.SIGINT


def test_a_bystander_and_the_guardian_are_left_alone(
    bystander: subprocess.Popen[bytes], scene: Scene
) -> None:
    child = scene.spawn("sleep", "1000")
    assert [kin.pid for kin in scene.tree.living()] == [child.pid]
    assert [kin.pid for kin in scene.tree.below(child.pid)] == [child.pid]
    scene.tree.kill(5)
    assert bystander.poll() is None
    assert scene.spawn("true").wait() == 0


def test_other_children_of_ours_are_not_reaped(scene: Scene) -> None:
    with subprocess.Popen(["sh", "-c", "exit 9"]) as other:
        assert os.waitid(os.P_PID, other.pid, os.WEXITED | os.WNOWAIT)
        assert scene.spawn("true").wait() == 0
        os.kill(scene.guardian.pid, signal.SIGKILL)
        scene.guardian.close()
    assert other.returncode == 9


# --- when one of the two is gone ---


@pytest.mark.parametrize("how", ["kill", "exits"])
@pytest.mark.parametrize("end", [[], ["--die"]], ids=["parent-alive", "parent-crashed"])
@pytest.mark.gate(2)
def test_without_ci_doctor_the_guardian_ends_the_family(how: str, end: list[str]) -> None:
    with holder("exits", *FAMILY, *end) as process:
        guardian, pids = pids_of(process)
        if how == "kill":
            process.kill()
        else:
            process.communicate("\n")
        assert survivors([*pids, guardian]) == []


def test_without_ci_doctor_the_polite_may_end_by_themselves(tmp_path: Path) -> None:
    program = "trap 'echo asked > asked; exit' TERM; echo '[]'; while :; do sleep 0.01; done"
    with holder("waits", "sh", "-c", f"cd '{tmp_path}'; {program}") as process:
        guardian, _ = pids_of(process)
        process.kill()
        assert survivors([guardian]) == []
    assert (tmp_path / "asked").read_text() == "asked\n"


def test_without_ci_doctor_the_stop_command_of_what_lives_is_run_to_its_end(tmp_path: Path) -> None:
    stop = f"trap '' INT TERM; sleep 1.5; echo done > '{tmp_path}/stopped'"
    with holder("waits", *FAMILY, stop=stop) as process:
        guardian, pids = pids_of(process)
        process.kill()
        assert survivors([*pids, guardian]) == []
    assert (tmp_path / "stopped").read_text() == "done\n"


def test_a_stop_command_without_end_is_ended() -> None:
    with holder("waits", *FAMILY, stop="trap '' INT TERM; while :; do sleep 1000; done") as process:
        guardian, pids = pids_of(process)
        process.kill()
        began = time.monotonic()
        assert survivors([*pids, guardian]) == []
        assert time.monotonic() - began > 2.5


def lose_the_guardian(scene: Scene) -> None:
    os.kill(scene.guardian.pid, signal.SIGKILL)
    assert survivors([scene.guardian.pid]) == []


def test_without_the_guardian_what_it_started_lives_and_is_ours_and_nothing_more_is_started(
    scene: Scene,
) -> None:
    child, pids = scene.family()
    lose_the_guardian(scene)
    with pytest.raises(InfraError, match="is gone"):
        scene.spawn("true")
    assert {kin.pid for kin in scene.tree.living()} == set(pids)
    os.kill(child.pid, signal.SIGKILL)
    assert child.wait() == -signal.SIGKILL
    assert child.peak_rss
    assert {kin.pid for kin in scene.tree.kill(5).killed} == set(pids[1:])


def test_the_status_of_a_child_is_kept_when_the_tree_reaps_it_for_a_guardian_that_is_gone(
    scene: Scene,
) -> None:
    child = scene.spawn("sleep", "1000")
    lose_the_guardian(scene)
    scene.tree.kill(5)
    assert child.wait() == -signal.SIGKILL


def test_a_stopped_guardian_is_ended_in_time(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guardian_module, "_ANSWER_S", 0.2)
    child = scene.spawn("sleep", "1000")
    os.kill(scene.guardian.pid, signal.SIGSTOP)
    with pytest.raises(InfraError, match="does not answer"):
        scene.spawn("true")
    assert child.returncode() is None
    os.kill(child.pid, signal.SIGKILL)
    assert child.wait() == -signal.SIGKILL


def test_how_a_child_ended_is_seen_past_a_stopped_guardian(scene: Scene) -> None:
    child = scene.spawn("sleep", "1000")
    os.kill(scene.guardian.pid, signal.SIGSTOP)
    os.kill(child.pid, signal.SIGTERM)
    assert child.wait() == -signal.SIGTERM


# --- on a terminal ---


def test_the_interrupt_key_reaches_the_foreground_and_not_the_guardian() -> None:
    ours, its = pty.openpty()
    program = "import os, signal; print('tty', os.isatty(1), os.tcgetpgrp(1) == os.getpgrp(), flush=True); signal.pause()"
    holds = str(PROGRAMS / "holds_a_guardian.py")
    words = [sys.executable, holds, "stays", "", sys.executable, "-c", program]

    def take_the_terminal() -> None:
        ioctl(its, termios.TIOCSCTTY, 0)

    with subprocess.Popen(
        words,
        stdin=its,
        stdout=its,
        stderr=its,
        start_new_session=True,
        preexec_fn=take_the_terminal,  # noqa: PLW1509 - no thread here
        env=environment(),
    ) as process:
        os.close(its)
        said = until(ours, b"tty True True", b'"child"')
        pids = json.loads(next(line for line in said.splitlines() if line.startswith(b"{")))
        assert os.getsid(pids["guardian"]) == process.pid
        os.write(ours, b"\x03")
        said = until(ours, b"ended -2")
        assert psutil.Process(pids["guardian"]).status() in {
            psutil.STATUS_SLEEPING,
            psutil.STATUS_RUNNING,
        }
        os.write(ours, b"\n")
        process.wait(LIMIT_S)
    os.close(ours)
    assert survivors([*pids.values()]) == []


def until(terminal: int, *texts: bytes) -> bytes:
    """What the terminal shows, until it has shown `texts`."""
    said = b""
    while not all(text in said for text in texts):
        assert select.select([terminal], [], [], LIMIT_S)[0], said
        said += os.read(terminal, 4096)
    while not said.endswith(b"\n"):
        said += os.read(terminal, 4096)
    return said


# --- under limits ---


@pytest.mark.skipif(os.getuid() != 0 or not shutil.which("unshare"), reason="makes a pid namespace")
@pytest.mark.parametrize("end", [[], ["--die"]], ids=["parent-alive", "parent-crashed"])
def test_where_the_first_process_reaps_nobody(end: list[str]) -> None:
    first = (
        "import os, sys\n"
        "pid = os.spawnvp(os.P_NOWAIT, sys.argv[1], sys.argv[1:])\n"
        "os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)\n"
    )
    namespace = ["unshare", "--pid", "--fork", "--mount-proc", sys.executable, "-c", first]
    program = (
        "import os, subprocess, sys, json\n"
        "from pathlib import Path\n"
        "from ci_doctor.system.guardian import Guardian\n"
        "from ci_doctor.system.processes.tree import OwnTree\n"
        "guardian = Guardian.start()\n"
        "tree = OwnTree(guardian)\n"
        "reading, writing = os.pipe()\n"
        "child = guardian.spawn(sys.argv[1:], environment=os.environ, directory=Path(), output=writing)\n"
        "pids = json.loads(os.read(reading, 1000))\n"
        "if '--die' in sys.argv: child.wait()\n"
        "print(len(tree.kill(5).killed), child.wait(), len(tree.living()))\n"
        "guardian.close()\n"
        "print([pid for pid in os.listdir('/proc') if pid.isdigit() and int(pid) not in (1, os.getpid())])\n"
    )
    done = subprocess.run(
        [*namespace, sys.executable, "-c", program, *FAMILY, *end],
        env=environment(),
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    assert done.stdout == ("4 3 0\n[]\n" if end else "5 -9 0\n[]\n")


@pytest.mark.parametrize("limit", ["ulimit -n 64", "ulimit -v 200000"])
def test_it_works_under_a_limit(limit: str) -> None:
    limiting = ["sh", "-c", f'{limit}; exec "$@"', "sh"]
    with holder("waits", *FAMILY, "--die", before=limiting) as process:
        pids_of(process)
        assert process.communicate("\n")[0] == "ended 3\n"
        assert process.returncode == 0


def test_what_is_used_up_is_said() -> None:
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(descriptors()) + 1, limit[1]))
    filling = []
    try:
        with contextlib.suppress(OSError):
            while True:
                filling.append(os.dup(0))
        with pytest.raises(
            InfraError, match="cannot start the guardian process: Too many open files"
        ) as caught:
            Guardian.start()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limit)
        for descriptor in filling:
            os.close(descriptor)
    assert "ulimit -n" in str(caught.value.hint)


def test_a_guardian_that_ends_at_once_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    before_it = descriptors()
    monkeypatch.setattr(sys, "executable", shutil.which("false"))
    with pytest.raises(InfraError, match=r"did not start \(exit code 1\)"):
        Guardian.start()
    assert descriptors() == before_it
