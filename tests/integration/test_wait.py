# SPDX-License-Identifier: Apache-2.0
"""`ci-doctor wait`, with servers that somebody else has started."""

import contextlib
import json
import os
import shlex
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ci_doctor.services.ports import reserve_port
from tests.integration.test_plugin_robust import needs_mounts
from tests.support.cli import BARE, Ran, begin, doctor, environment, inside, words

pytestmark = pytest.mark.integration

PROGRAMS = Path(__file__).parents[1] / "support" / "programs"
LIMIT_S = 180.0  # guards against hanging only


class Scene:
    """Processes that the test itself starts, and one port that is free."""

    def __init__(self, directory: Path, port: int) -> None:
        self.directory = directory
        self.port = port
        self.url = f"http://127.0.0.1:{port}/health"
        self.log = directory / "server.log"
        self.started: list[subprocess.Popen[bytes]] = []

    def start(self, *command: str) -> subprocess.Popen[bytes]:
        with self.log.open("ab") as log:
            process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                cwd=self.directory,
                start_new_session=True,
            )
        self.started.append(process)
        return process

    def program(self, name: str, *arguments: str) -> subprocess.Popen[bytes]:
        return self.start(*BARE, str(PROGRAMS / f"{name}.py"), *arguments)

    def python(self, program: str) -> subprocess.Popen[bytes]:
        return self.start(sys.executable, "-c", program)

    def wait(self, *arguments: str | Path, ready: str | None = None) -> Ran:
        return inside("wait", "--ready", ready or self.url, *arguments, cwd=self.directory)

    def begin(self, *arguments: str | Path, ready: str | None = None) -> subprocess.Popen[bytes]:
        """A wait under way: its first line has come."""
        waiting = begin("wait", "--ready", ready or self.url, *arguments, cwd=self.directory)
        assert "waiting for" in first_line(waiting)
        return waiting

    def report(
        self, *arguments: str | Path, ready: str | None = None
    ) -> tuple[Ran, dict[str, Any]]:
        ran = self.wait("--json", *arguments, ready=ready)
        return ran, json.loads(ran.out)

    def pid_in(self, name: str) -> int:
        path = self.directory / name
        deadline = time.monotonic() + LIMIT_S
        while time.monotonic() < deadline:
            with contextlib.suppress(FileNotFoundError, ValueError):
                return int(path.read_text())
            os.sched_yield()
        raise AssertionError(f"{path} was never written")


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    port = reserve_port()
    scene = Scene(tmp_path, port.number)
    yield scene
    for process in scene.started:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if process.stdin is not None:
            process.stdin.close()
    port.release()


def first_line(process: subprocess.Popen[bytes]) -> str:
    assert process.stderr is not None
    return process.stderr.readline().decode()


# --- ready ---


def test_a_server_that_is_loading_is_waited_for(scene: Scene) -> None:
    server = scene.program("answers", str(scene.port), "5")
    ran, report = scene.report("--pid", str(server.pid))
    assert (ran.code, report["verdict"]) == (0, "pass")
    assert f"(pid {server.pid}) is ready: {scene.url}" in report["summary"]
    assert report["facts"]["pid"] == server.pid
    assert report["cases"][0]["outcome"] == "passed"
    assert server.poll() is None, "it is left running"


def test_a_server_that_is_ready_already_costs_one_look(scene: Scene) -> None:
    server = scene.program("answers", str(scene.port))
    assert scene.wait("--pid", str(server.pid)).code == 0
    # The kernel takes the connection: a busy server cannot be late.
    tcp = f"tcp://127.0.0.1:{scene.port}"
    ran = scene.wait("--pid", str(server.pid), "--timeout", "0", ready=tcp)
    assert ran.code == 0, ran
    assert ran.out == ""
    assert "✓ PASS" in ran.err


def test_a_child_of_the_process_may_be_the_one_that_answers(scene: Scene) -> None:
    answers = PROGRAMS / "answers.py"
    program = f"import subprocess, sys; subprocess.run([sys.executable, {str(answers)!r}, '{scene.port}'])"
    parent = scene.python(program)
    assert scene.wait("--pid", str(parent.pid)).code == 0


def test_a_pidfile_may_be_written_late(scene: Scene) -> None:
    path = scene.directory / "run" / "server.pid"
    waiting = scene.begin("--pidfile", path, "--report-dir", "report")
    path.parent.mkdir()
    path.touch()
    server = scene.program("answers", str(scene.port))
    path.write_text(f"{server.pid}\n")
    _, err = waiting.communicate(timeout=LIMIT_S)
    assert waiting.returncode == 0, err
    report = json.loads((scene.directory / "report" / "report.json").read_text())
    assert report["facts"]["pid"] == server.pid


@pytest.mark.parametrize(
    ("ready", "program"),
    [
        ("log:^server is ready$", "print('server is ready', flush=True); input()"),
        ("exec:test -e run.ready", "open('run.ready', 'w'); input()"),
    ],
)
@pytest.mark.gate(1)
def test_every_kind_of_probe_can_be_waited_for(scene: Scene, ready: str, program: str) -> None:
    server = scene.python(program)
    ran = scene.wait("--pid", str(server.pid), "--log", scene.log, ready=ready)
    assert ran.code == 0, ran


# --- death ---


def test_a_death_is_told_with_the_root_line_of_its_log(scene: Scene) -> None:
    server = scene.program("dies_with_traceback")
    ran = scene.wait("--pid", str(server.pid), "--log", scene.log, "--timeout", "30")
    assert ran.code == 1
    assert "> ImportError: libcudart.so.12" in ran.err
    assert "✗ FAILED" in ran.err.splitlines()[0]


@pytest.mark.parametrize(
    ("code", "told"), [(3, "exit code 3"), (0, "exit code 0"), (-11, "killed by SIGSEGV (11)")]
)
@pytest.mark.gate(1)
def test_a_zombie_that_nobody_waits_for_is_dead(scene: Scene, code: int, told: str) -> None:
    parent = scene.program("never_waits", "child.pid", str(code))
    pid = scene.pid_in("child.pid")
    waiting = scene.begin("--json", "--pid", str(pid))
    assert parent.stdin is not None
    parent.stdin.write(b".")
    parent.stdin.flush()
    out, _ = waiting.communicate(timeout=LIMIT_S)
    assert waiting.returncode == 1
    message = json.loads(out)["findings"][0]["summary"]
    assert told in message
    assert Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z", (
        "it is one still"
    )
    ran, report = scene.report("--pid", str(pid))
    assert ran.code == 1
    assert "died before ci-doctor looked" in report["findings"][0]["summary"]
    assert told in report["findings"][0]["summary"]


def test_a_cause_outside_the_change_is_75(scene: Scene) -> None:
    outage = "fatal: unable to access 'https://github.com/a/b/': Could not resolve host: github.com"
    server = scene.program("exits", "1", outage)
    ran, report = scene.report("--pid", str(server.pid), "--log", scene.log)
    assert (ran.code, report["verdict"]) == (75, "infra")
    assert "by its log" in report["findings"][0]["summary"]


def test_a_worker_killed_under_a_living_server_is_a_death(scene: Scene) -> None:
    server = scene.program("keeps_a_worker", "worker.pid")
    worker = scene.pid_in("worker.pid")
    waiting = scene.begin("--json", "--pid", str(server.pid))
    os.kill(worker, signal.SIGKILL)
    out, _ = waiting.communicate(timeout=LIMIT_S)
    assert waiting.returncode == 1
    finding = json.loads(out)["findings"][0]
    assert finding["rule"] == "services/descendant-died"
    assert f"lost its process python (pid {worker})" in finding["summary"].replace(
        Path(sys.executable).name, "python"
    )


def test_the_end_of_a_worker_can_be_ignored(scene: Scene) -> None:
    server = scene.program("keeps_a_worker", "worker.pid")
    worker = scene.pid_in("worker.pid")
    ignoring = ("--descendants", "ignore")
    waiting = scene.begin("--pid", str(server.pid), *ignoring, ready="file:done")
    os.kill(worker, signal.SIGKILL)
    while (status := Path(f"/proc/{worker}")).exists():
        os.sched_yield()
    assert not status.exists()
    (scene.directory / "done").touch()
    waiting.communicate(timeout=LIMIT_S)
    assert waiting.returncode == 0


@pytest.mark.nightly
def test_ci_doctor_is_gone_within_milliseconds_of_a_death(scene: Scene) -> None:
    delays, whole_runs = [], []
    for number in range(3):
        report = f"report-{number}"
        parent = scene.program("never_waits", f"{number}.pid", "1")
        pid = scene.pid_in(f"{number}.pid")
        waiting = scene.begin("--pid", str(pid), "--log", scene.log, "--report-dir", report)
        watch = os.pidfd_open(waiting.pid)
        assert parent.stdin is not None
        began = time.monotonic()
        parent.stdin.write(b".")
        parent.stdin.flush()
        assert select_one(watch)
        delays.append(time.monotonic() - began)
        os.close(watch)
        waiting.communicate()
        assert (scene.directory / report / "report.json").exists()
        began = time.monotonic()
        # With the start of a process, which the other one has behind it.
        line = ("--ready", scene.url, "--pid", str(pid), "--log", str(scene.log))
        assert doctor("wait", *line, cwd=scene.directory).code == 1
        whole_runs.append(time.monotonic() - began)
    # 30 ms and 300 ms on a quiet machine. Load slows both down alike; a poll is slow on its own.
    assert statistics.median(delays) < statistics.median(whole_runs), (delays, whole_runs)


def select_one(descriptor: int) -> bool:
    import select

    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(LIMIT_S * 1000))


# --- not ready, and not the one ---


def test_another_process_on_the_port_is_named(scene: Scene) -> None:
    other = scene.program("answers", str(scene.port))
    assert scene.wait("--pid", str(other.pid)).code == 0
    server = scene.python("input()")
    ran, report = scene.report("--pid", str(server.pid))
    assert (ran.code, report["verdict"]) == (75, "infra")
    message = report["findings"][0]["summary"]
    assert f"(pid {other.pid}, since 20" in message
    assert f"port {scene.port} is owned by" in message
    assert "retry on another machine" in report["findings"][0]["remedy"]


@pytest.mark.nightly
def test_a_younger_process_on_the_port_is_another_one_too(scene: Scene) -> None:
    server = scene.python("input()")
    other = scene.program("answers", str(scene.port))
    ran, report = scene.report("--pid", str(server.pid))
    assert ran.code == 75
    assert f"(pid {other.pid}, since 20" in report["findings"][0]["summary"]


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (None, "does not exist"),
        ("", "is empty"),
        ("soon", "holds 'soon', which is no process id"),
        ("1", "holds '1'"),
    ],
)
@pytest.mark.gate(1)
def test_a_pidfile_that_names_nobody_in_time_is_told(
    scene: Scene, content: str | None, told: str
) -> None:
    path = scene.directory / "server.pid"
    if content is not None:
        path.write_text(content)
    ran, report = scene.report("--pidfile", path, "--timeout", "100ms")
    assert ran.code == 1
    assert told in report["findings"][0]["summary"]


# --- interrupted ---


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
@pytest.mark.gate(1)
def test_a_signal_ends_the_wait_with_a_report_and_nothing_else(
    scene: Scene, number: signal.Signals, code: int
) -> None:
    server = scene.python("input()")
    here = ("--report-dir", "report")
    waiting = scene.begin("--pid", str(server.pid), *here, ready="exec:sleep 600")
    waiting.send_signal(number)
    waiting.communicate(timeout=LIMIT_S)
    assert waiting.returncode == code
    report = json.loads((scene.directory / "report" / "report.json").read_text())
    assert report["verdict"] is None
    assert number.name in report["error"]["message"]
    assert report["summary"] == report["error"]["message"], "the page says it once"
    assert server.poll() is None


# --- the command line ---


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ([], "exactly one of --pid and --pidfile"),
        (["--pid", "-5"], "--pid -5 names no process"),
        (["--pid", "abc"], "is not a whole number"),
        (["--pid", "5", "--timeout", "soon"], "--timeout: not a duration"),
        (["--pid", "5", "--ready", "/health"], "write the whole URL: http://127.0.0.1:8000/health"),
        (["--pid", "5", "--ready", "http://127.0.0.1:{port}/"], "`wait` knows no {port}"),
        (["--pid", "5", "--ready", "health"], "is none of"),
        (["--pid", "5", "--ready", "log:x"], "name it with --log FILE"),
        (
            ["--pid", "5", "--ready", '{ http = "http://h/", authorization = "NO_SUCH" }'],
            "NO_SUCH, which is not set",
        ),
    ],
)
@pytest.mark.gate(2)
def test_what_cannot_be_waited_for_is_a_usage_error(
    scene: Scene, arguments: list[str], told: str
) -> None:
    ran = scene.wait(*arguments)
    assert ran.code == 2
    assert told in ran.err


def test_a_command_that_does_not_exist_is_a_usage_error(scene: Scene) -> None:
    server = scene.python("input()")
    ran = scene.wait("--pid", str(server.pid), ready="exec:no-such-command")
    assert ran.code == 2
    assert "cannot run no-such-command" in ran.err


# --- a server behind a pipe ---


def pipeline(scene: Scene, rest: str, *server: str) -> int:
    """The `$!` of a server with `rest` of a pipeline behind it, in the background of a shell."""
    answers = shlex.join(
        [sys.executable, *(server or (str(PROGRAMS / "answers.py"), str(scene.port)))]
    )
    return background(scene, f"mkfifo fifo; {answers} 2>&1 {rest}")


def background(scene: Scene, line: str) -> int:
    """The `$!` of a line that runs in the background of a shell."""
    script = f"{line} & echo $! > last.new; mv last.new last; wait"
    shell = subprocess.Popen(
        ["bash", "-c", script],
        cwd=scene.directory,
        stdin=subprocess.DEVNULL,
        start_new_session=True,
    )
    scene.started.append(shell)
    return scene.pid_in("last")


@pytest.mark.parametrize(
    "rest",
    [
        "| tee log",
        "| cat | tee log",
        "| grep --line-buffered -v x | sed -u s/a/b/ > log",
        "> fifo & cat < fifo",
    ],
)
@pytest.mark.gate(1)
def test_a_server_that_writes_into_the_pipe_of_the_process_is_its_own(
    scene: Scene, rest: str
) -> None:
    last = pipeline(scene, rest)

    ran = scene.wait("--pid", str(last))

    assert ran.code == 0, ran


def test_the_death_of_a_server_behind_a_pipe_is_the_death_though_the_pipe_stays(
    scene: Scene,
) -> None:
    program = f"""
import http.server, os, subprocess
subprocess.Popen(["sleep", "600"])  # it holds the pipe
class Loading(http.server.BaseHTTPRequestHandler):
    asked = 0
    def do_GET(self):
        Loading.asked += 1
        if Loading.asked > 40:
            os._exit(3)
        self.send_error(503)
http.server.HTTPServer(("127.0.0.1", {scene.port}), Loading).serve_forever()
"""
    last = pipeline(scene, "| cat | tee log", "-c", program)

    ran, report = scene.report("--pid", str(last))

    # Its exit code is known only if the shell has not taken it yet.
    assert ran.code == 1, ran
    assert report["facts"]["cause"]["pid"] != last


def test_a_server_that_is_no_command_of_the_pipeline_is_a_wrong_pid(scene: Scene) -> None:
    scene.program("answers", str(scene.port))

    ran = scene.wait("--pid", str(background(scene, "sleep 60 | cat")))

    assert ran.code == 2, ran
    assert "`$!` of a pipeline is its last command" in ran.err


# --- several processes ---


def test_of_several_processes_one_answers_and_all_must_live(scene: Scene) -> None:
    server = scene.program("answers", str(scene.port))
    other = scene.python("import time; time.sleep(600)")
    pids = ("--pid", str(server.pid), "--pid", str(other.pid))
    assert scene.wait(*pids).code == 0

    other.kill()
    other.wait()
    ran = scene.wait(*pids)

    assert ran.code == 1, ran
    assert f"pid {other.pid}" in ran.err


# --- a pidfile of an earlier run ---


def test_a_pidfile_that_is_older_than_its_process_is_stale(scene: Scene) -> None:
    server = scene.program("answers", str(scene.port))
    pidfile = scene.directory / "server.pid"
    pidfile.write_text(f"{server.pid}\n")
    assert scene.wait("--pidfile", pidfile).code == 0

    os.utime(pidfile, (0, 0))
    ran = scene.wait("--pidfile", pidfile)

    assert ran.code == 2, ran
    assert "is stale" in " ".join(ran.err.split())


@needs_mounts
def test_a_full_disk_of_the_working_directory_is_not_that_of_an_unknown_log(scene: Scene) -> None:
    server = scene.python("import time; time.sleep(600)")
    disk = scene.directory / "disk"
    disk.mkdir()
    # A folder of 1022 names takes whole pages of this file system, as a log does that fills its disk.
    fill = (
        "mkdir here && cd here && seq 1022 | xargs touch && ! cat /dev/zero 2>/dev/null > ../full"
    )
    script = f'mount -t tmpfs -o size=64k none "$0" && cd "$0" && {fill} && exec "$@"'
    command = words("wait", "--pid", str(server.pid), "--ready", f"tcp://127.0.0.1:{scene.port}",
                    "--timeout", "0", "--report-dir", str(scene.directory / "out"), "--json")  # fmt: skip
    ran = subprocess.run(
        ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script, str(disk), *command],
        cwd=scene.directory, env=environment(), capture_output=True, timeout=LIMIT_S, check=False,
    )  # fmt: skip
    assert ran.returncode == 1, ran
    assert [each["rule"] for each in json.loads(ran.stdout)["findings"]] == ["services/not-ready"]


def test_the_hint_for_a_probe_that_is_missing_names_its_option(tmp_path: Path) -> None:
    ran = inside("wait", "http://127.0.0.1:9", cwd=tmp_path)

    assert ran.code == 2, ran
    assert "write --ready PROBE" in " ".join(ran.err.split())
