# SPDX-License-Identifier: Apache-2.0
"""`ci-doctor run --watch -- SCRIPT`: a server that dies is said, a stall has evidence, what is left is named."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ci_doctor.services.ports import reserve_port
from tests.integration import test_run_diagnose as beside
from tests.support.cli import Ran, doctor, environment, words

pytestmark = pytest.mark.integration

SERVER = Path(__file__).parents[1] / "support" / "programs" / "toy_server.py"
OPTIONS = ("run", "--watch", "--determinism", "off", "--report-dir", "r")
PATIENCE_S = 120.0
# Long enough to be seen to end early on any machine.
LOOP = "i=0; until curl -sf http://localhost:$PORT/health >/dev/null; do i=$((i+1)); [ $i -gt 400 ] && exit 7; sleep 0.3; done\n"


@pytest.fixture
def port() -> Iterator[int]:
    reserved = reserve_port()
    yield reserved.number
    reserved.release()


def watched(cwd: Path, *command: str, options: tuple[str, ...] = (), **env: str) -> Ran:
    return doctor(*OPTIONS, *options, "--", *command, cwd=cwd, env=env, timeout=PATIENCE_S)


def watching(
    cwd: Path, *words_: str, stdout: int = subprocess.DEVNULL, stderr: int = subprocess.DEVNULL
) -> "subprocess.Popen[bytes]":
    """The same under way: `words_` are its other options and the command."""
    command = words(*OPTIONS, *words_)
    return subprocess.Popen(command, cwd=cwd, env=environment(), stdout=stdout, stderr=stderr)


def script(cwd: Path, text: str, port: int, name: str = "job.sh") -> str:
    """The name of a script of this text, in which SERVER and $PORT are as they say."""
    server = f"{sys.executable} -S {SERVER} {port}"
    (cwd / name).write_text(text.replace("SERVER", server).replace("$PORT", str(port)))
    return name


def seen(cwd: Path) -> dict[str, Any]:
    facts: dict[str, Any] = json.loads((cwd / "r" / "report.json").read_text())["facts"]["watch"]
    assert facts["problem"] is None
    return facts


def findings(cwd: Path) -> list[str]:
    report = json.loads((cwd / "r" / "report.json").read_text())
    return [finding["rule"] for finding in report["findings"]]


# --- a server that dies ---


@pytest.mark.parametrize("shell", ["bash", "dash"])
@pytest.mark.parametrize(
    "start",
    [
        "SERVER --before > server.log 2>&1 &\n",
        "set -e\n( cd . ; SERVER --before > server.log 2>&1 ) &\n",
        "SERVER --before --daemon --load 2 > server.log 2>&1\n",
        "SERVER --before 2>&1 | tee server.log &\n",
    ],
    ids=["job", "subshell", "daemon", "pipe"],
)
@pytest.mark.gate(2)
def test_a_server_that_fails_before_it_is_ready_ends_the_script_that_waits(
    tmp_path: Path, port: int, shell: str, start: str
) -> None:
    name = script(tmp_path, start + LOOP, port)

    ran = watched(tmp_path, shell, name, options=("--on-death", "end"))

    assert ran.code == 1, ran
    assert "before it was ready: exit code 1" in ran.err, ran
    assert f"the script still waits for port {port}" in ran.err, ran
    assert "device-side assert" in ran.err, "its own log says why"
    _, _, end = ran.err.partition("\nwaited for: ")
    assert "before it was ready" in end, "the end of a log is read first"
    assert "device-side assert" in end
    assert "wrote nothing" not in ran.err, "a silent script adds nothing to a cause that is named"
    assert findings(tmp_path)[0] == "watch/died"


@pytest.mark.parametrize("client_closes", [True, False])
def test_a_connection_to_the_former_server_of_a_port_makes_no_server_ready(
    tmp_path: Path, port: int, *, client_closes: bool
) -> None:
    with socket.create_server(("127.0.0.1", port)) as former:
        client = socket.create_connection(("127.0.0.1", port))
        accepted, _ = former.accept()
        # Who closes first keeps the connection in TIME_WAIT, and in FIN_WAIT2 until the client closes.
        accepted.close()
    if client_closes:
        client.close()
    name = script(tmp_path, "SERVER --before > server.log 2>&1 &\n" + LOOP, port)

    with client:
        ran = watched(tmp_path, "bash", name, options=("--on-death", "end"))

    assert "before it was ready: exit code 1" in ran.err, ran


def test_a_server_that_crashes_under_load_is_said_and_the_script_goes_on(
    tmp_path: Path, port: int
) -> None:
    text = (
        "SERVER --end 1 --signal 11 > server.log 2>&1 &\n" + LOOP + "while [ ! -e said ]; do "
        "curl -s http://localhost:$PORT/x > /dev/null; sleep 0.3; done\nexit 4\n"
    )
    name = script(tmp_path, text, port)
    with watching(tmp_path, "--", "bash", name, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        lines = iter(process.stderr.readline, b"")
        assert any(b"while it was in use: killed by SIGSEGV" in line for line in lines)
        waits = next(lines) + next(lines)
        (tmp_path / "said").touch()

    assert f"port {port}".encode() in waits
    assert f"{name}:3: while [ ! -e said ]".encode() in waits, "the place in the script"
    assert process.returncode == 4
    summary = json.loads((tmp_path / "r" / "report.json").read_text())["summary"]
    assert "while it was in use: killed by SIGSEGV" in summary
    assert summary.endswith("; then bash: exit code 4")
    server = next(each for each in seen(tmp_path)["servers"] if each["port"] == port)
    assert server["refused"] > 0, "how often it was asked before it was up"
    assert server["end_s"] is not None


def test_a_server_that_ends_with_its_first_answer_was_ready(tmp_path: Path, port: int) -> None:
    text = (
        "SERVER --answers 1 > server.log 2>&1 &\n"
        "until curl -sf http://localhost:$PORT/health > /dev/null; do sleep 0.05; done\n"
        "while sleep 0.3; do curl -s http://localhost:$PORT/x > /dev/null; done\n"
    )
    ran = watched(tmp_path, "bash", script(tmp_path, text, port), options=("--on-death", "end"))

    assert ran.code == 1, ran
    assert "while it was in use: exit code 1" in ran.err, ran


@pytest.mark.nightly
def test_a_script_in_the_background_that_asks_seldom_waits_too(tmp_path: Path, port: int) -> None:
    inner = (
        "SERVER --before > s.log 2>&1 &\n"
        "until curl -sf http://127.0.0.1:$PORT/health > /dev/null; do sleep 11; done\ntouch ready\n"
    )
    script(tmp_path, inner, port, "inner.sh")
    text = "bash inner.sh & i=0; until [ -e ready ]; do i=$((i+1)); [ $i -gt 90 ] && exit 7; sleep 1; done\n"
    ran = watched(tmp_path, "bash", script(tmp_path, text, port), options=("--on-death", "end"))

    assert ran.code == 1, ran
    assert "before it was ready: exit code 1" in ran.err, ran


@pytest.mark.parametrize("timeout", ["", ", timeout=5"], ids=["blocking", "with-a-time-out"])
@pytest.mark.gate(1)
def test_a_python_that_polls_a_dead_server_is_told(tmp_path: Path, port: int, timeout: str) -> None:
    text = f"""
import subprocess, sys, time, urllib.request
server = subprocess.Popen([sys.executable, "-S", {str(SERVER)!r}, "--port", "{port}", "--before"])
for _ in range(400):
    try:
        urllib.request.urlopen("http://127.0.0.1:{port}/health"{timeout})
    except OSError:
        time.sleep(0.2)
sys.exit(7)
"""
    (tmp_path / "job.py").write_text(text)

    ran = watched(tmp_path, sys.executable, "job.py", options=("--on-death", "end"))

    assert ran.code == 1, ran
    assert "device-side assert" in ran.err, "what the script wrote is the log of its server"


@pytest.mark.nightly
def test_a_recipe_of_make_is_a_script_too(tmp_path: Path, port: int) -> None:
    recipe = "\tSERVER --before > server.log 2>&1 & \\\n\twhile ! curl -sf localhost:$PORT; do sleep 0.3; done\n"
    script(tmp_path, f"test:\n{recipe}", port, "Makefile")

    ran = watched(tmp_path, "make", "test", options=("--on-death", "end"))

    assert ran.code == 1, ran
    assert f"the script still waits for port {port}" in ran.err, ran


CLIENT = """
import sys, time, urllib.request
failures = 0
while failures < 2:
    try:
        urllib.request.urlopen("http://127.0.0.1:{port}/x", timeout=5).read()
    except OSError:
        failures += 1
        time.sleep(0.3)
    time.sleep(0.2)
sys.exit(5)
"""


@pytest.mark.gate(1)
@pytest.mark.parametrize(
    ("end", "word"),
    [
        ("--code 1", "died .* after its start, while it was in use: exit code 1"),
        ("--signal 9", "died .* after its start, while it was in use: killed by SIGKILL"),
        ("--code 0", "ended .* after its start: exit code 0"),
    ],
)
def test_a_server_that_had_ended_before_its_client_failed_is_said_first(
    tmp_path: Path, port: int, end: str, word: str
) -> None:
    (tmp_path / "client.py").write_text(CLIENT.format(port=port))
    text = (
        f"set -e\nSERVER --answers 8 {end} > server.log 2>&1 &\nPID=$!\n"
        "until curl -sf http://localhost:$PORT/ > /dev/null; do sleep 0.1; done\n"
        f"{sys.executable} -S client.py\nkill $PID\n"
    )
    ran = watched(tmp_path, "bash", script(tmp_path, text, port))

    assert ran.code == 5, ran
    _, _, last = ran.err.partition("\nended before: ")
    assert re.search(word, last), ran
    assert "last words" not in ran.err.partition("\nended before: ")[0], "they come second"
    assert f"to port {port} refused since" in last
    assert ("device-side assert" in last) == ("--code 1" in end), "its own log says why"
    report = json.loads((tmp_path / "r" / "report.json").read_text())
    assert re.search(word + ".*; then bash: exit code 5$", report["summary"]), report["summary"]
    assert findings(tmp_path)[0] == "watch/died"


GONE = "while kill -0 $! 2> /dev/null; do sleep 0.2; done\nexit 4\n"


@pytest.mark.parametrize(
    "text",
    [
        "SERVER --before > server.log 2>&1 &\n" + GONE,
        "SERVER --answers 1 > server.log 2>&1 &\n" + LOOP + GONE,
    ],
    ids=["before it was ready", "after its last answer"],
)
def test_a_job_that_ended_badly_is_perhaps_the_cause_where_nothing_shows_more(
    tmp_path: Path, port: int, text: str
) -> None:
    ran = watched(tmp_path, "bash", script(tmp_path, text, port))

    assert ran.code == 4, ran
    assert re.search(r"perhaps the cause: python\S* .*: exit code 1", ran.err), ran
    assert "RuntimeError: CUDA error: device-side assert triggered" in ran.err
    assert "no diagnosis" not in ran.err
    first = json.loads((tmp_path / "r" / "report.json").read_text())["findings"][0]
    assert first["rule"] == "watch/ended"
    # Nobody knows whether it is the cause, so nothing is said of another run.
    assert "another run" not in str(first).lower()
    assert seen(tmp_path)["deaths"] == []


@pytest.mark.parametrize(
    "text",
    [
        # A part of what failed.
        "set -o pipefail\nSERVER --before 2>&1 | cat\n",
        "SERVER > server.log 2>&1 &\n" + LOOP + "kill %1\nwait\nexit 4\n",
    ],
    ids=["in a pipe", "stopped by the script"],
)
def test_an_end_that_the_script_made_or_is_itself_is_no_other_cause(
    tmp_path: Path, port: int, text: str
) -> None:
    ran = watched(tmp_path, "bash", script(tmp_path, text, port))

    assert ran.code != 0, ran
    assert "perhaps" not in ran.err
    assert seen(tmp_path)["ends"] == []


def test_a_server_that_died_while_the_script_waited_for_another_one_is_said_first(
    tmp_path: Path, port: int
) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        text = (
            "SERVER --answers 2 --code 3 > server.log 2>&1 &\n"
            "until curl -sf http://localhost:$PORT/ > /dev/null; do sleep 0.1; done\n"
            "for i in $(seq 1 12); do\n"
            f"  curl -sf http://127.0.0.1:{other.getsockname()[1]}/ && break\n"
            "  [ $i = 4 ] && curl -sf http://localhost:$PORT/ > /dev/null\n"
            "  sleep 0.3\ndone\necho timed out; exit 1\n"
        )
        ran = watched(tmp_path, "bash", script(tmp_path, text, port))

    assert ran.code == 1, ran
    before, _, last = ran.err.partition("\nended before: ")
    assert "timed out" not in before, ran
    assert "it asked in vain for port" in last, ran
    assert findings(tmp_path)[:2] == ["watch/died", "diagnose/unclassified"]


def test_a_server_that_a_failed_script_stops_was_no_loss(tmp_path: Path, port: int) -> None:
    text = (
        "SERVER --on-term 1 > server.log 2>&1 &\nPID=$!\n" + LOOP + f"{sys.executable} -S -c "
        "'import sys, time; time.sleep(1.2); sys.exit(5)'\nrc=$?\nkill $PID; sleep 0.6\n"
        "curl -s http://localhost:$PORT/ && exit 9\nexit $rc\n"
    )
    ran = watched(tmp_path, "bash", script(tmp_path, text, port))

    assert ran.code == 5, ran
    assert seen(tmp_path)["deaths"] == []


def test_a_server_that_was_stopped_and_started_anew_is_nobodys_loss(
    tmp_path: Path, port: int
) -> None:
    text = (
        "SERVER > one.log 2>&1 &\nPID=$!\n" + LOOP + "kill -9 $PID\n"
        "SERVER --load 4 > two.log 2>&1 &\nPID=$!\n" + LOOP + "kill $PID; wait $PID\nexit 0\n"
    )
    ran = watched(tmp_path, "bash", script(tmp_path, text, port))

    assert ran.code == 0, ran
    assert seen(tmp_path)["deaths"] == []
    assert "✗" not in ran.err


# --- what is left ---


def test_what_is_left_is_named_and_lives_on(tmp_path: Path, port: int) -> None:
    ran = watched(tmp_path, "sh", script(tmp_path, "SERVER > s.log 2>&1 &\n" + LOOP, port))

    (left,) = seen(tmp_path)["left"]["things"]
    pid = int(left["name"])
    os.kill(pid, signal.SIGKILL)  # it lived
    assert ran.code == 0
    assert f"listens on port {port}, writes to {tmp_path}/s.log (kill {pid})" in ran.err, ran


@pytest.mark.parametrize("option", ["--clean", "--allow"])
def test_what_is_left_is_ended_or_allowed(tmp_path: Path, port: int, option: str) -> None:
    options = (option, "*toy_server.py*") if option == "--allow" else (option,)
    text = "setsid SERVER > s.log 2>&1 &\necho $! > pid\n" + LOOP
    ran = watched(tmp_path, "bash", script(tmp_path, text, port), options=options)

    pid = int((tmp_path / "pid").read_text())
    assert ran.code == 0, ran
    assert seen(tmp_path)["left"]["things"] == []
    if option == "--allow":
        os.kill(pid, signal.SIGKILL)
        assert "the script" not in ran.err, ran
    else:
        assert not Path(f"/proc/{pid}").exists()
        assert f"process {pid} was ended with the script" in ran.err, ran


def test_a_job_that_is_cancelled_leaves_nothing(tmp_path: Path, port: int) -> None:
    text = (
        "setsid SERVER --on-term 0 > s.log 2>&1 &\necho $! > pid\n" + LOOP + "echo up\nsleep 99\n"
    )
    name = script(tmp_path, text, port)
    with watching(tmp_path, "--", "bash", name, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\n"
        process.terminate()

    assert process.returncode == -signal.SIGTERM
    assert not Path("/proc", (tmp_path / "pid").read_text().strip()).exists()


# --- stalls, and what it costs ---


def test_a_stall_has_evidence(tmp_path: Path) -> None:
    text = "import socket\na, b = socket.socketpair()\ndef wait_for_peer():\n    a.recv(1)\nwait_for_peer()\n"
    (tmp_path / "hangs.py").write_text(text)
    (tmp_path / "job.sh").write_text(
        f"{sys.executable} hangs.py &\nPID=$!\nread -r _ < go\nkill $PID\n"
    )
    os.mkfifo(tmp_path / "go")
    process = subprocess.Popen(
        words(*OPTIONS, "--stall", "2s", "--stacks", "--", "bash", "job.sh"),
        cwd=tmp_path,
        env=environment({"PATH": "/usr/bin:/bin"}),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    with process:
        assert process.stderr is not None
        lines = iter(process.stderr.readline, b"")
        assert any(b"nothing has been done for" in line for line in lines)
        assert any(b"hangs.py" in line for line in lines), "which Python it is"
        assert any(b"in wait_for_peer" in line for line in lines), "the stack of a Python"
        (tmp_path / "go").write_text("\n")
        process.communicate(timeout=PATIENCE_S)

    assert process.returncode == 0
    (stall,) = seen(tmp_path)["stalls"]
    assert stall["why"] == "stall"
    assert "watch/stall" in findings(tmp_path)


def test_the_time_of_the_step_ends_in_evidence(tmp_path: Path) -> None:
    ran = watched(tmp_path, "sleep", "2", options=("--deadline", "1s"))

    assert ran.code == 0
    assert "the step's time is nearly over" in ran.err, ran
    assert seen(tmp_path)["stalls"][0]["why"] == "deadline"


@pytest.mark.nightly
def test_thousands_of_short_processes_are_counted_and_cost_little(tmp_path: Path) -> None:
    text = "i=0; while [ $i -lt 3000 ]; do /bin/true; i=$((i+1)); done\n"
    (tmp_path / "job.sh").write_text(text)

    assert watched(tmp_path, "dash", "job.sh").code == 0

    report = json.loads((tmp_path / "r" / "report.json").read_text())
    facts = seen(tmp_path)
    assert facts["unseen"] > 1500, "no look sees most of them"
    # A twentieth of a core: the promise is less, and is measured on a quiet machine.
    assert facts["cpu_s"] < 0.05 * report["duration_s"] + 0.1


@pytest.mark.parametrize(
    "option", ["--clean", "--stacks", "--on-death=end", "--allow=x", "--stall=5"]
)
def test_its_options_need_it(tmp_path: Path, option: str) -> None:
    ran = doctor("run", option, "--", "true", cwd=tmp_path)

    assert ran.code == 2
    assert f"{option.partition('=')[0]} needs --watch" in ran.err


# --- a command notices nothing: as beside it without a watch ---


@pytest.fixture(autouse=True)
def _with_a_watch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(beside, "OPTIONS", ("run", "--watch", "--determinism", "off"))


counter = beside.counter
test_streams = beside.test_both_streams_stay_apart_and_every_byte_stays_as_it_is
test_order = beside.test_where_both_streams_go_to_one_place_their_order_is_kept
test_a_reader_that_leaves = (
    beside.test_a_reader_that_leaves_ends_the_command_by_sigpipe_and_nobody_explains_it
)
test_a_signal = beside.test_a_signal_to_ci_doctor_alone_is_handed_on_each_time
test_a_signal_to_all = beside.test_a_signal_to_the_whole_group_comes_once
test_no_file = beside.test_no_file_of_ours_stays_open_in_the_command
test_stopping = beside.test_a_command_that_is_stopped_stops_ci_doctor_until_it_is_continued
test_background = beside.test_what_runs_on_in_the_background_delays_nobody_and_is_heard_on
test_keys = beside.test_ctrl_c_reaches_the_command_once
