# SPDX-License-Identifier: Apache-2.0
"""`ci-doctor run --diagnose -- CMD` stays beside CMD: all is as if CMD stood in its place."""

import hashlib
import json
import os
import random
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.test_plugin_robust import needs_mounts
from tests.support.cli import Ran, doctor, environment, words
from tests.support.controlling_terminal import CTRL_C, CTRL_Z, ControllingTerminal

pytestmark = pytest.mark.integration

COUNTS_SIGNALS = Path(__file__).parents[1] / "support" / "programs" / "counts_signals.py"
OPTIONS = ("run", "--diagnose", "--determinism", "off")
PATIENCE_S = 60.0
ROUNDS = 10
# Sent to ci-doctor alone: when it hands this one on, it has dealt with the one before, and two equal
# ones are not taken for one. Of signals that wait together the kernel starts the handler of the
# highest number first. So no number may be lower than that of the barrier.
BARRIER = signal.SIGHUP


def diagnosed(cwd: Path, *command: str, options: tuple[str, ...] = (), **env: str) -> Ran:
    return doctor(*OPTIONS, *options, "--", *command, cwd=cwd, env=env)


def python(cwd: Path, program: str, *options: str) -> Ran:
    return diagnosed(cwd, sys.executable, "-c", program, options=options)


def supervising(cwd: Path, *command: str, **options: object) -> "subprocess.Popen[bytes]":
    """ci-doctor beside `command`, its stdout in a pipe."""
    settings = {"stdin": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, **options}
    return subprocess.Popen(  # type: ignore[call-overload,no-any-return]
        words(*OPTIONS, "--", *command),
        cwd=cwd,
        env=environment(),
        stdout=subprocess.PIPE,
        **settings,
    )


@pytest.fixture
def counter(tmp_path: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """ci-doctor, in a process group of its own, beside a program that prints each signal it gets."""
    process = supervising(tmp_path, sys.executable, str(COUNTS_SIGNALS), start_new_session=True)
    with process:
        assert line(process) == "ready"
        yield process
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)


def line(process: "subprocess.Popen[bytes]") -> str:
    assert process.stdout is not None
    return process.stdout.readline().decode().strip()


def report(cwd: Path) -> dict[str, object]:
    content: dict[str, object] = json.loads((cwd / "r" / "report.json").read_text())
    return content


# --- output ---


def test_both_streams_stay_apart_and_every_byte_stays_as_it_is(tmp_path: Path) -> None:
    program = (
        "import os; os.write(1, bytes(range(256)) + b'\\r\\n\\n'); os.write(2, b'\\xff\\0no line')"
    )
    ended = subprocess.run(
        words(*OPTIONS, "--", sys.executable, "-c", program),
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        check=True,
    )

    assert ended.stdout == bytes(range(256)) + b"\r\n\n"
    assert ended.stderr.endswith(b"\xff\0no line")


@pytest.mark.nightly
def test_a_hundred_megabytes_arrive_whole_and_the_log_keeps_both_ends(tmp_path: Path) -> None:
    program = (
        "import os, random, sys; block = random.Random(1).randbytes(1 << 20); "
        "out = sys.stdout.buffer; out.write(b'first words\\n'); "
        "[out.write(block) for _ in range(100)]; out.write(b'\\nlast words')"
    )
    process = subprocess.Popen(
        words(*OPTIONS, "--report-dir", "r", "--log-limit", "1MiB", "--", sys.executable, "-c", program),
        cwd=tmp_path,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    arrived = hashlib.sha256()
    with process:
        assert process.stdout is not None
        while piece := process.stdout.read(1 << 20):
            arrived.update(piece)

    block = random.Random(1).randbytes(1 << 20)
    expected = hashlib.sha256(b"first words\n" + block * 100 + b"\nlast words")
    assert (process.wait(PATIENCE_S), arrived.hexdigest()) == (0, expected.hexdigest())
    log = (tmp_path / "r" / "command.log").read_bytes()
    assert len(log) <= (1 << 20) + 200
    assert log.startswith(b"first words\n")
    assert log.endswith(b"\nlast words")
    assert b"bytes were cut here; --log-limit is 1 MiB" in log


def test_where_both_streams_go_to_one_place_their_order_is_kept(tmp_path: Path) -> None:
    program = "import os\nfor n in range(2000): os.write(1 + n % 2, b'%d\\n' % n)"
    with (tmp_path / "out").open("wb") as out:
        subprocess.run(
            words(*OPTIONS, "--report-dir", "r", "--", sys.executable, "-c", program),
            cwd=tmp_path,
            env=environment(),
            stdout=out,
            stderr=out,
            check=True,
        )

    expected = "".join(f"{number}\n" for number in range(2000))
    assert (tmp_path / "out").read_text().endswith(expected)
    assert (tmp_path / "r" / "command.log").read_text() == expected


def test_output_comes_at_once_and_stdin_is_the_commands(tmp_path: Path) -> None:
    process = supervising(tmp_path, "cat", stdin=subprocess.PIPE)
    with process:
        assert process.stdin is not None
        for word in ("one", "two"):
            process.stdin.write(f"{word}\n".encode())
            process.stdin.flush()
            assert line(process) == word, "before more is written"
        process.stdin.close()
        assert process.wait(PATIENCE_S) == 0


def test_a_reader_that_leaves_ends_the_command_by_sigpipe_and_nobody_explains_it(
    tmp_path: Path,
) -> None:
    process = supervising(tmp_path, "yes", stderr=subprocess.PIPE)
    with process:
        assert line(process) == "y"
        assert process.stdout is not None
        process.stdout.close()
        assert process.wait(PATIENCE_S) == -signal.SIGPIPE
        assert process.stderr is not None
        assert b"yes: killed" not in process.stderr.read()


def test_a_full_disk_behind_stdout_is_named(tmp_path: Path) -> None:
    with Path("/dev/full").open("wb") as full:
        ended = subprocess.run(
            words(*OPTIONS, "--", "sh", "-c", "yes; exit 3"),
            cwd=tmp_path,
            env=environment(),
            stdout=full,
            stderr=subprocess.PIPE,
            check=False,
        )

    assert ended.returncode == 3
    assert b"stdout cannot be written: No space left on device" in ended.stderr


def test_closed_streams_are_closed_to_nobody_else(tmp_path: Path) -> None:
    command = " ".join(words(*OPTIONS, "--", "sh", "-c", "'echo lost; exit 3'"))
    ended = subprocess.run(
        ["sh", "-c", f"{command} >&- 2>&- <&-"], cwd=tmp_path, env=environment(), check=False
    )

    assert ended.returncode == 3


# --- status and signals ---


@pytest.mark.gate(1)
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV])
def test_the_signal_that_ends_the_command_ends_ci_doctor(
    tmp_path: Path, number: signal.Signals
) -> None:
    ran = diagnosed(tmp_path, "sh", "-c", f"kill -{int(number)} $$", options=("--report-dir", "r"))

    assert ran.code == -number, ran
    assert report(tmp_path)["exit_code"] == 128 + number


def test_a_command_that_does_not_exist_is_127_and_explained_by_nobody(tmp_path: Path) -> None:
    ran = diagnosed(tmp_path, "no-such-command")

    assert ran.code == 127, ran
    assert ran.err.endswith("error: no-such-command: command not found\n"), ran


def test_a_command_that_cannot_be_run_is_126(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("text\n")
    assert diagnosed(tmp_path, "./text").code == 126


def test_a_signal_to_ci_doctor_alone_is_handed_on_each_time(
    counter: "subprocess.Popen[bytes]",
) -> None:
    for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1"):
        for _ in range(2):
            os.kill(counter.pid, signal.Signals[name])
            assert line(counter) == name
    os.kill(counter.pid, signal.SIGUSR2)

    assert [line(counter), line(counter)] == ["SIGUSR2", ""], "each of them once"
    assert counter.wait(PATIENCE_S) == 7


def test_a_signal_to_the_whole_group_comes_once(counter: "subprocess.Popen[bytes]") -> None:
    # A second one is lost if the first is still under way, so once would show nothing.
    for name in ("SIGINT", "SIGTERM", "SIGUSR1") * ROUNDS:
        os.killpg(counter.pid, signal.Signals[name])
        assert line(counter) == name
        os.kill(counter.pid, BARRIER)
        assert line(counter) == BARRIER.name
    os.kill(counter.pid, signal.SIGUSR2)

    assert [line(counter), line(counter)] == ["SIGUSR2", ""]
    assert counter.wait(PATIENCE_S) == 7


def test_a_command_that_ends_at_sigterm_as_it_likes_has_its_own_status(tmp_path: Path) -> None:
    program = (
        "import signal, sys; signal.signal(signal.SIGTERM, lambda *_: sys.exit(9)); "
        "print('ready', flush=True); signal.pause()"
    )
    process = supervising(tmp_path, sys.executable, "-c", program)
    with process:
        assert line(process) == "ready"
        process.terminate()
        assert process.wait(PATIENCE_S) == 9


def test_signals_of_the_command_are_as_they_were_before(tmp_path: Path) -> None:
    def masks(status: str) -> list[str]:
        return [row for row in status.splitlines() if row.startswith(("SigIgn", "SigBlk"))]

    ours = diagnosed(tmp_path, "cat", "/proc/self/status")
    without = subprocess.run(
        ["cat", "/proc/self/status"], capture_output=True, text=True, check=True
    )

    assert masks(ours.out) == masks(without.stdout)


def test_no_file_of_ours_stays_open_in_the_command(tmp_path: Path) -> None:
    program = "import os; print(sorted(int(each) for each in os.listdir('/proc/self/fd'))[:-1])"

    assert python(tmp_path, program).out == "[0, 1, 2]\n"


def test_a_signal_that_was_ignored_before_stays_so(tmp_path: Path) -> None:
    command = " ".join(words(*OPTIONS, "--", "sh", "-c", "'kill -HUP $PPID $$; echo alive'"))
    ended = subprocess.run(
        ["sh", "-c", f"trap '' HUP; {command}"],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        check=False,
    )

    assert (ended.returncode, ended.stdout) == (0, b"alive\n")


def test_a_command_that_is_stopped_stops_ci_doctor_until_it_is_continued(tmp_path: Path) -> None:
    process = supervising(
        tmp_path, "sh", "-c", "kill -STOP $$; echo again; exit 4", start_new_session=True
    )
    with process:
        _, status = os.waitpid(process.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)
        os.kill(process.pid, signal.SIGCONT)
        assert line(process) == "again"
        assert process.wait(PATIENCE_S) == 4


def test_the_command_is_killed_if_ci_doctor_is(tmp_path: Path) -> None:
    process = supervising(tmp_path, "sh", "-c", "echo $$; exec sleep 600")
    with process:
        pidfd = os.pidfd_open(int(line(process)))
        process.kill()
        try:
            signal.pidfd_send_signal(pidfd, 0)
            assert process.stdout is not None
            assert process.stdout.read() == b"", "its end of the pipe is closed"
        finally:
            os.close(pidfd)


# --- what the command leaves behind ---


def test_a_script_that_ends_every_python_ends_not_us(tmp_path: Path) -> None:
    # A name of its own, for the machine's other processes.
    python = tmp_path / f"python-of-{os.getpid()}"
    python.symlink_to(Path(sys.executable).resolve())
    ended = subprocess.run(
        [python, "-m", "ci_doctor", *OPTIONS, "--", "sh", "-c", f"pkill -9 -f {python.name[:-1]}[{python.name[-1]}]; exit 3"],
        cwd=tmp_path,
        env=environment() | {"PYTHONPATH": os.pathsep.join(sys.path)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )  # fmt: skip

    assert ended.returncode == 3, ended.stderr


@pytest.mark.parametrize("status", [0, 3])
def test_what_runs_on_in_the_background_delays_nobody_and_is_heard_on(
    tmp_path: Path, status: int
) -> None:
    os.mkfifo(tmp_path / "go")
    program = f"(read -r _ < go; echo late; echo later) & echo first; exit {status}"
    process = supervising(tmp_path, "sh", "-c", program)
    with process:
        assert process.wait(PATIENCE_S) == status, "while the background process has our stdout"
        assert line(process) == "first"
        (tmp_path / "go").write_text("\n")
        assert [line(process), line(process), line(process)] == ["late", "later", ""]


# --- the report ---

FAILS = "import sys; print('before'); sys.stdout.flush(); raise RuntimeError('the engine is gone')"


def test_a_failure_is_explained_in_twelve_lines_at_most_and_its_report_judges_nothing(
    tmp_path: Path,
) -> None:
    ran = python(tmp_path, FAILS, "--report-dir", "r")

    assert (ran.code, ran.out) == (1, "before\n"), ran
    _, _, talk = ran.err.partition("RuntimeError: the engine is gone\n")
    assert talk.startswith("✗ "), ran
    assert "RuntimeError: the engine is gone" in talk, ran
    assert talk.count("\n") <= 12, ran
    written = report(tmp_path)
    assert (written["verdict"], written["exit_code"]) == (None, 1)
    facts = written["facts"]
    assert isinstance(facts, dict)
    assert (facts["exit_code"], facts["log"]) == (1, "command.log")
    cause = facts["diagnosis"]["root_cause"]
    assert cause["place"]["text"] == "RuntimeError: the engine is gone"
    findings = written["findings"]
    assert isinstance(findings, list)
    assert findings[0]["evidence"][0]["line"] == cause["place"]["line"]
    assert findings[0]["evidence"][0]["file"] == "r/command.log"
    # Of two streams at two pipes, nobody knows which one was written to first.
    assert "before\n" in (tmp_path / "r" / "command.log").read_text()


def test_the_lines_of_two_streams_stay_whole_in_the_log(tmp_path: Path) -> None:
    program = """
import array, fcntl, os, termios

def write(stream, text):
    os.write(stream, text)
    unread = array.array("i", [1])
    while unread[0]:
        fcntl.ioctl(stream, termios.FIONREAD, unread)

for number in range(30):
    write(1, b"out")
    write(2, b"err\\n")
    write(1, b"put\\n")
raise SystemExit(1)
"""
    python(tmp_path, program, "--report-dir", "r")

    lines = (tmp_path / "r" / "command.log").read_text().splitlines()
    assert sorted(lines) == ["err"] * 30 + ["output"] * 30


OUTAGE = (
    'import sys; sys.exit("pip._vendor.urllib3.exceptions.ReadTimeoutError: '
    "HTTPSConnectionPool(host='files.pythonhosted.org', port=443): Read timed out.\")"
)


@pytest.mark.parametrize(
    ("program", "options", "code"),
    [
        pytest.param(OUTAGE, (), 1, id="outside, and nobody asked"),
        pytest.param(OUTAGE, ("--exit-code-by-class",), 75, id="outside"),
        pytest.param(FAILS, ("--exit-code-by-class",), 1, id="in the change"),
    ],
)
@pytest.mark.gate(1)
def test_by_class_what_lies_outside_the_change_is_75(
    tmp_path: Path, program: str, options: tuple[str, ...], code: int
) -> None:
    ran = python(tmp_path, program, "--report-dir", "r", *options)

    assert (ran.code, report(tmp_path)["exit_code"]) == (code, code), ran


@needs_mounts
@pytest.mark.parametrize(("is_full", "code"), [(True, 75), (False, 1)])
def test_by_class_a_full_disk_is_75_only_while_a_disk_is_full(
    tmp_path: Path, is_full: bool, code: int
) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    fails = "import os; raise OSError(28, os.strerror(28))"
    command = words(*OPTIONS, "--exit-code-by-class", "--", sys.executable, "-c", fails)
    fill = (
        f"mount -t tmpfs -o size=64k tmpfs {disk} && cat /dev/zero > {disk}/zero;"
        if is_full
        else ""
    )
    ran = subprocess.run(
        ["unshare", "-rm", "sh", "-c", f"{fill} exec {shlex.join(command)}"],
        cwd=tmp_path, env=environment(), check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip

    assert ran.returncode == code


def test_by_class_the_repositorys_own_code_for_infra_holds(tmp_path: Path) -> None:
    (tmp_path / "ci-doctor.toml").write_text("[exit-codes]\ninfra = 255\n")

    assert python(tmp_path, OUTAGE, "--exit-code-by-class").code == 255


def test_a_success_says_nothing_and_loads_no_diagnosis(tmp_path: Path) -> None:
    program = "import os; os.write(2, b'last of stderr')"
    ran = diagnosed(tmp_path, sys.executable, "-c", program, PYTHONPROFILEIMPORTTIME="1")

    assert ran.code == 0, ran
    ours, _, rest = ran.err.rpartition("last of stderr")
    assert "ci_doctor.system.relay" in ours
    assert "ci_doctor.diagnosis.diagnosis" not in ran.err
    assert "✗" not in rest


def test_the_output_keeps_a_secret_that_log_and_report_do_not(tmp_path: Path) -> None:
    ran = diagnosed(
        tmp_path,
        "sh",
        "-c",
        'echo "RuntimeError: refused $HF_TOKEN" >&2; exit 1',
        options=("--report-dir", "r"),
        HF_TOKEN="a-rather-secret-word",
    )

    before, _, talk = ran.err.partition("✗ ")
    assert "refused a-rather-secret-word" in before, ran
    assert "a-rather-secret-word" not in talk, ran
    for file in (tmp_path / "r").iterdir():
        assert "a-rather-secret-word" not in file.read_text(), file
    assert "[redacted]" in (tmp_path / "r" / "command.log").read_text()


def test_a_command_that_removes_the_report_directory_has_a_report_nevertheless(
    tmp_path: Path,
) -> None:
    ran = diagnosed(tmp_path, "sh", "-c", "rm -r r; exit 3", options=("--report-dir", "r"))

    assert ran.code == 3, ran
    facts = report(tmp_path)["facts"]
    assert isinstance(facts, dict)
    assert (facts["log"], facts["diagnosis"]) == (None, None)


def test_a_link_in_the_place_of_the_log_is_not_written_through(tmp_path: Path) -> None:
    (tmp_path / "r").mkdir()
    (tmp_path / "r" / "command.log").symlink_to(tmp_path / "mine")

    ran = diagnosed(tmp_path, "touch", "ran", options=("--report-dir", "r"))

    assert ran.code == 2, ran
    assert not (tmp_path / "mine").exists()
    assert not (tmp_path / "ran").exists()


def test_without_a_report_directory_no_file_stays(tmp_path: Path) -> None:
    (tmp_path / "tmp").mkdir()
    work = tmp_path / "work"
    work.mkdir()
    ran = diagnosed(work, "sh", "-c", "exit 3", TMPDIR=str(tmp_path / "tmp"))

    assert ran.code == 3
    assert (list(work.iterdir()), list((tmp_path / "tmp").iterdir())) == ([], [])


def test_json_has_no_place_on_the_commands_stdout(tmp_path: Path) -> None:
    ran = doctor(*OPTIONS, "--json", "--", "touch", "ran", cwd=tmp_path)

    assert ran.code == 2, ran
    assert "--report-dir" in json.loads(ran.out)["error"]["hint"]
    assert not (tmp_path / "ran").exists()


def test_a_dry_run_runs_nothing_and_may_print_json(tmp_path: Path) -> None:
    ran = doctor(*OPTIONS, "--dry-run", "--json", "--", "touch", "ran", cwd=tmp_path)

    assert (ran.code, json.loads(ran.out)["verdict"]) == (0, None), ran
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    "options",
    [
        pytest.param(("run", "--exit-code-by-class"), id="no diagnosis"),
        pytest.param(("run", "--diagnose", "--log-limit", "much"), id="no size"),
    ],
)
def test_options_that_do_not_fit_start_nothing(tmp_path: Path, options: tuple[str, ...]) -> None:
    ran = doctor(*options, "--", "touch", "ran", cwd=tmp_path)

    assert ran.code == 2, ran
    assert not (tmp_path / "ran").exists()


# --- on a terminal ---

ON_TERMINAL = words(*OPTIONS, "--")


def test_on_a_terminal_the_command_has_one_of_the_same_size_and_no_byte_is_changed(
    tmp_path: Path,
) -> None:
    program = (
        "import os; print([os.isatty(n) for n in range(3)], os.get_terminal_size(1).columns); "
        "print('\x1b[1mbold\x1b[0m\tend')"
    )
    command = (*ON_TERMINAL, sys.executable, "-c", program)
    with ControllingTerminal(command, cwd=tmp_path, columns=123) as terminal:
        assert terminal.wait() == 0
        # The real terminal makes CR LF of LF, once.
        assert b"[True, True, True] 123\r\n\x1b[1mbold\x1b[0m\tend\r\n" in terminal.written


@pytest.mark.nightly
def test_where_stderr_alone_is_a_terminal_stdout_stays_a_pipe(tmp_path: Path) -> None:
    program = "import os; print([os.isatty(n) for n in range(3)])"
    line = shlex.join((*ON_TERMINAL, sys.executable, "-c", program))
    with ControllingTerminal(("sh", "-c", f"{line} | cat"), cwd=tmp_path) as terminal:
        assert terminal.wait() == 0
        assert b"[True, False, True]" in terminal.written


def test_ctrl_c_reaches_the_command_once(tmp_path: Path) -> None:
    command = (*ON_TERMINAL, sys.executable, str(COUNTS_SIGNALS))
    with ControllingTerminal(command, cwd=tmp_path) as terminal:
        terminal.read_until(b"\nready\r\n")
        for count in range(1, ROUNDS + 1):
            # The echo comes after the kernel has signalled the whole group: the command may have
            # printed its SIGINT while ci-doctor's was still to come.
            terminal.press(CTRL_C + b"#")
            terminal.read_until(b"#", times=count)
            terminal.read_until(b"SIGINT", times=count)
            os.kill(terminal.process.pid, BARRIER)
            terminal.read_until(BARRIER.name.encode(), times=count)
        os.kill(terminal.process.pid, signal.SIGUSR2)
        assert terminal.wait() == 7
        assert terminal.written.count(b"SIGINT") == ROUNDS


@pytest.mark.nightly
def test_ctrl_c_ends_ci_doctor_as_it_ends_the_command(tmp_path: Path) -> None:
    command = (*ON_TERMINAL, "sh", "-c", "echo ready; read -r _")
    with ControllingTerminal(command, cwd=tmp_path) as terminal:
        terminal.read_until(b"\nready\r\n")
        terminal.press(CTRL_C)
        assert terminal.wait() == -signal.SIGINT
        assert "✗".encode() not in terminal.written, "nobody asked why"


@pytest.mark.nightly
def test_a_new_size_of_the_terminal_reaches_the_command(tmp_path: Path) -> None:
    program = (
        "import os, signal, sys\n"
        "def show(*_):\n"
        "    columns = os.get_terminal_size(1).columns\n"
        "    os.write(1, b'columns %d\\n' % columns)\n"
        "    if columns == 99: sys.exit(5)\n"
        "signal.signal(signal.SIGWINCH, show)\n"
        "show()\n"
        "while True: signal.pause()\n"
    )
    command = (*ON_TERMINAL, sys.executable, "-c", program)
    with ControllingTerminal(command, cwd=tmp_path) as terminal:
        terminal.read_until(b"columns 80")
        terminal.resize(99)
        assert terminal.wait() == 5


def test_a_job_is_stopped_by_its_key_and_goes_on_in_the_foreground(tmp_path: Path) -> None:
    job = shlex.join((*ON_TERMINAL, "sh", "-c", "echo ready; read -r word; echo got $word; exit 6"))
    script = f"set -m; {job}; echo stopped with $?; fg; echo ended with $?"
    with ControllingTerminal(("bash", "-c", script), cwd=tmp_path) as terminal:
        terminal.read_until(b"\nready\r\n")
        terminal.press(CTRL_Z)
        terminal.read_until(b"stopped with 148")
        terminal.press(b"again\n")
        assert terminal.wait() == 0
        assert b"got again" in terminal.written
        assert b"ended with 6" in terminal.written


@pytest.mark.nightly
def test_a_background_process_keeps_its_terminal(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "go")
    job = shlex.join((*ON_TERMINAL, "sh", "-c", "(read -r _ < go; echo late) & exit 3"))
    script = f"{job}; echo ended with $?; echo > go; wait; read -r _"
    with ControllingTerminal(("sh", "-c", script), cwd=tmp_path) as terminal:
        terminal.read_until(b"ended with 3")
        terminal.read_until(b"late\r\n")
        terminal.press(b"\n")
        assert terminal.wait() == 0


# --- the exit status is evidence ---


FAILURES = {
    "a made compiler": "echo 'widget.x:3: unknown gadget' >&2; exit 1",
    "words of success at the end": "echo 'error: widget 3 does not fit'; echo 'Job succeeded'; exit 2",
    "a missing command": "no-such-command-of-ours --flag",
    "a missing file": "cat no-such-file-of-ours",
    "an exception": f"{sys.executable} -c '[][3]'",
    "python without a module": f"{sys.executable} -m no_such_module_of_ours",
}


@pytest.mark.parametrize("program", FAILURES.values(), ids=list(FAILURES))
@pytest.mark.gate(4)
def test_a_failed_command_with_words_has_a_cause(tmp_path: Path, program: str) -> None:
    ran = diagnosed(tmp_path, "sh", "-c", program)

    assert "no line explains it" not in ran.err
    assert " % sure: " in ran.err


@pytest.mark.parametrize(
    ("program", "words"),
    [
        ("kill -KILL $$", "killed by SIGKILL (9)"),
        ("sh -c 'kill -KILL $$'; exit 137", "exit code 137 (128+9: SIGKILL)"),
    ],
)
@pytest.mark.gate(1)
def test_of_a_command_that_a_signal_ended_the_kernel_is_asked(
    tmp_path: Path, program: str, words: str
) -> None:
    ran = diagnosed(tmp_path, "sh", "-c", f"echo loading; {program}", options=("--report-dir", "r"))
    facts = report(tmp_path)["facts"]

    assert words in ran.err
    assert isinstance(facts, dict)
    assert facts["kernel"]
    assert all("kernel" in each for each in facts["kernel"])
    assert facts["diagnosis"]["root_cause"] is None or "Killed" in str(facts["diagnosis"])
