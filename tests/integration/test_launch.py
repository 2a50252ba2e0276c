# SPDX-License-Identifier: Apache-2.0
"""`ci-doctor launch` as its users run it: the command's own status, the root cause, and that nothing is left behind."""

import fcntl
import json
import os
import select
import shlex
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.integration.import_programs import Program
from tests.integration.test_plugin_robust import needs_mounts
from tests.support.cli import BARE, Ran, begin, environment, inside, words
from tests.support.report_schema import checked_report

pytestmark = pytest.mark.integration

PROGRAMS = Path(__file__).parents[1] / "support" / "programs"
TCP = "tcp://127.0.0.1:{port}"
LIMIT_S = 180.0  # guards against hanging only
SECRET = "sk-4242-do-not-tell"
# A client that asks the service for its end, and then has nothing more to say.
ASK = "import sys, urllib.request\ntry: urllib.request.urlopen(sys.argv[1])\nexcept BaseException: pass  # also when it is told to end, because the server has\n"


class Site:
    """A folder where a group is launched; each service has it as its last argument, so that it can be found again."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.out = directory / "out"

    def service(self, program: str, *arguments: str) -> str:
        """The command of a service that runs a program of tests/support."""
        return shlex.join([*BARE, str(PROGRAMS / f"{program}.py"), *arguments, str(self.directory)])

    def python(self, program: str, *arguments: str) -> list[str]:
        """The words of a client that is a program of tests/support."""
        return [*BARE, str(PROGRAMS / f"{program}.py"), *arguments]

    @property
    def api(self) -> tuple[str, str]:
        """The option for a service `api` that answers."""
        return "--service", f"api={self.service('answers', '{port}')}"

    def launch(self, *args: str, env: Mapping[str, str | None] | None = None) -> Ran:
        """Launch to the end."""
        return inside("launch", "--report-dir", self.out, *args, cwd=self.directory, env=env)

    def begin(self, *args: str) -> subprocess.Popen[bytes]:
        """Launch, and do not wait."""
        return begin("launch", "--report-dir", self.out, *args, cwd=self.directory)

    def configure(self, **services: Mapping[str, Any]) -> None:
        """Write ci-doctor.toml; JSON strings and lists are TOML too."""
        lines = []
        for name, table in services.items():
            lines += [
                f"[services.{name}]",
                *(f"{key} = {json.dumps(value)}" for key, value in table.items()),
            ]
        (self.directory / "ci-doctor.toml").write_text("\n".join(lines) + "\n")

    @property
    def report(self) -> dict[str, Any]:
        """The report that was written, which fits its schema."""
        return checked_report((self.out / "report.json").read_text())

    def events(self, name: str) -> list[dict[str, Any]]:
        """What stands in a file of events."""
        return list(map(json.loads, (self.directory / name).read_text().splitlines()))

    def rules(self) -> list[str]:
        """The rules of the report's findings."""
        return [finding["rule"] for finding in self.report["findings"]]

    def living(self) -> list[str]:
        """The command lines of what was started here and still runs."""
        found = []
        for process in psutil.process_iter(["cmdline", "status"]):
            line = process.info["cmdline"] or ()
            if (
                any(str(self.directory) in word for word in line)
                and process.info["status"] != psutil.STATUS_ZOMBIE
            ):
                found.append(" ".join(line))
        return found

    def outlives(self, told: Path) -> tuple[str, ...]:
        """The options for a service `api` that writes down each signal and ends by none."""
        service = shlex.join([*self.python("outlives", str(told), "{port}"), str(self.directory)])
        return "--service", f"api={service}", "--ready", f"api={TCP}"

    def asked_of_an_engine(self, fate: str, then: str = "", path: str = "ask") -> dict[str, Any]:
        """The report of a client that asks a service which loses its engine; it ends with 1."""
        asks = f"import sys, urllib.request as r; r.urlopen(sys.argv[1]){then}"
        service = f"api={self.service('loses_its_engine', '{port}', fate)}"
        url = f"http://127.0.0.1:{{api.port}}/{path}"
        ran = self.launch("--service", service, "--", sys.executable, "-c", asks, url)
        assert ran.code == 1, ran
        return self.report


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    site = Site(tmp_path)
    yield site
    # What the kernel kills with its parent needs a moment to end.
    deadline = time.monotonic() + 20
    while site.living() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert site.living() == []


def check(site: Site, ran: Ran, verdict: str | None, code: int) -> dict[str, Any]:
    report = site.report
    assert (report["verdict"], report["exit_code"], ran.code) == (verdict, code, code), ran
    assert "Traceback" not in ran.err.replace("│", ""), ran
    return report


def until(condition: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + LIMIT_S
    while not condition():
        assert time.monotonic() < deadline, what
        select.select([], [], [], 0.01)


def says(path: Path, text: str) -> Callable[[], bool]:
    return lambda: path.exists() and text in path.read_text().split()


# --- the client ---


def test_a_client_runs_under_ready_services_and_knows_where_they_are(site: Site) -> None:
    program = (
        "import os, sys, urllib.request\n"
        "url = os.environ['CI_DOCTOR_SERVICES_MY_API_URL']\n"
        "assert url.endswith(sys.argv[1]) and os.environ['CI_DOCTOR_SERVICES_MY_API_PORT'] == sys.argv[1]\n"
        "assert os.path.exists(os.environ['CI_DOCTOR_SERVICES_MY_API_LOG'])\n"
        "print(urllib.request.urlopen(url).status)\n"
    )
    ran = site.launch(
        "--service",
        f"my-api={site.service('answers', '{port}')}",
        "--",
        sys.executable,
        "-c",
        program,
        "{my-api.port}",
    )
    check(site, ran, "pass", 0)
    assert ran.out == "200\n", "the client's stdout is its own"
    assert "PASS" in ran.err


@pytest.mark.parametrize(
    ("script", "code"), [("exit 3", 3), ("exit 75", 75), ("kill -9 $$", 137), ("kill $$", 143)]
)
@pytest.mark.gate(1)
def test_the_clients_status_is_handed_on(site: Site, script: str, code: int) -> None:
    ran = site.launch(*site.api, "--", "bash", "-c", script)
    check(site, ran, "failed", code)
    assert site.rules()[0] == "services/client-failed"


def test_the_client_reads_our_stdin(site: Site) -> None:
    ran = subprocess.run(
        words("launch", *site.api, "--", "cat"),
        cwd=site.directory, env=environment(), input=b"said\n", capture_output=True, check=False, timeout=LIMIT_S,
    )  # fmt: skip
    assert (ran.returncode, ran.stdout) == (0, b"said\n")


def test_with_json_the_report_is_all_there_is_on_stdout(site: Site) -> None:
    ran = site.launch("--json", *site.api, "--", "echo", "hello")
    assert json.loads(ran.out)["verdict"] == "pass"
    assert "hello\n" in ran.err


@pytest.mark.parametrize(
    ("name", "code"), [("no-such-command", 127), ("./plain", 126), ("./gone", 127)]
)
@pytest.mark.gate(1)
def test_a_client_that_cannot_be_run_is_known_before_anything_is_started(
    site: Site, name: str, code: int
) -> None:
    (site.directory / "plain").write_text("")
    ran = site.launch(*site.api, "--", name)
    assert check(site, ran, None, code)["error"]["message"].startswith(f"{name}: ")
    assert not (site.out / "logs").exists()


@pytest.mark.nightly
def test_a_client_without_its_interpreter_stops_what_was_started(site: Site) -> None:
    (site.directory / "script").write_text("#!/no/such/interpreter\n")
    (site.directory / "script").chmod(0o755)
    check(site, site.launch(*site.api, "--", "./script"), None, 127)


# --- a service that dies ---


def test_a_service_that_dies_of_a_lost_import_names_the_next_step(site: Site) -> None:
    Program(name="", text="from lazypkg import Nothing").write(site.directory)
    service = f"api={shlex.join([sys.executable, 'main.py'])} {{port}}"
    ran = site.launch("--service", service, "--ready", f"api={TCP}", "--", "true")
    assert ran.code == 1, ran
    (finding,) = site.report["findings"]
    assert "> ImportError: cannot import name 'Nothing'" in finding["evidence"][0]["excerpt"]
    assert "`ci-doctor import-race probe lazypkg:Nothing`" in finding["remedy"]
    assert "less +" in finding["remedy"], "the log comes first"


def test_a_service_that_dies_under_the_client_ends_it(site: Site) -> None:
    told = site.directory / "told"
    ran = site.launch(
        *site.api, "--",
        "bash", "-c", f"trap 'echo told > {told}; exit 9' TERM; {sys.executable} -c {shlex.quote(ASK)} http://127.0.0.1:{{api.port}}/exit/4; "
        "while :; do sleep 0.05; done",
    )  # fmt: skip
    report = check(site, ran, "failed", 1)
    assert told.read_text() == "told\n"
    assert site.rules()[0] == "services/died"
    assert "bash was stopped by ci-doctor, and ended with exit code 9" in json.dumps(
        report["findings"][0]
    )


def test_a_client_that_fails_with_its_server_is_not_the_cause(site: Site) -> None:
    script = f"{sys.executable} -c {shlex.quote(ASK)} http://127.0.0.1:{{api.port}}/exit/4; exit 9"
    ran = site.launch(*site.api, "--", "bash", "-c", script)
    check(site, ran, "failed", 1)
    assert site.rules()[0] == "services/died"


@pytest.mark.gate(1)
@pytest.mark.parametrize("fate", ["ends", "stays"])
def test_a_client_that_fails_after_its_server_has_lost_a_worker_is_not_the_cause(
    site: Site, fate: str
) -> None:
    first = site.asked_of_an_engine(fate)["findings"][0]
    assert first["rule"] == "services/descendant-died"
    assert "api lost its process" in first["summary"]
    assert "exit code 3" in first["summary"]


@pytest.mark.gate(1)
@pytest.mark.parametrize("path", ["ask", "other"])
def test_a_client_that_fails_is_shown_what_its_server_has_logged_meanwhile(
    site: Site, path: str
) -> None:
    first = site.asked_of_an_engine("raises", "; sys.exit(1)", path)["findings"][0]
    assert first["rule"] == "services/client-failed"
    is_shown = "> RuntimeError: the generator has no offset" in json.dumps(first["evidence"])
    assert is_shown is (path == "ask")


def test_a_worker_that_was_replaced_is_not_blamed_for_a_client_that_fails(site: Site) -> None:
    first = site.asked_of_an_engine("replaces")["findings"][0]
    assert first["rule"] == "services/client-failed"
    assert "exit code 3" in json.dumps(first["evidence"])


@pytest.mark.nightly
def test_a_client_that_ends_well_and_ends_its_server_passes(site: Site) -> None:
    program = "import os, sys, urllib.request\ntry: urllib.request.urlopen(sys.argv[1])\nexcept Exception: pass\nos._exit(0)\n"
    ran = site.launch(
        *site.api,
        "--", sys.executable, "-c", program, "http://127.0.0.1:{api.port}/exit/0"
    )  # fmt: skip
    # Which of the two ends first is not ours to say: the server may even end after the launch has begun to stop it.
    # All three stories are true, and none blames the client.
    assert (ran.code, *site.rules()[:1]) in {
        (0, "services/ended-with-client"),
        (1, "services/died"),
        (0,),
    }, ran


@pytest.mark.nightly
def test_a_service_that_is_not_ready_in_time_fails(site: Site) -> None:
    ran = site.launch(
        "--service", f"api={site.service('accepts_and_hangs', '{port}')}", "--timeout", "700ms"
    )
    check(site, ran, "failed", 1)
    assert site.rules()[0] == "services/not-ready"


# --- a group ---


def test_a_configured_group_starts_in_order_and_tells_of_it(site: Site) -> None:
    site.configure(
        router={"command": site.service("answers", "{port}"), "needs": ["a", "b"]},
        a={"command": site.service("answers", "{port}"), "needs": ["kv"]},
        b={"command": site.service("answers", "{port}"), "needs": ["kv"]},
        kv={"command": site.service("answers", "{port}")},
        unused={"command": site.service("exits", "1", "{port}")},
    )
    ran = site.launch("--service", "router", "--events", "deep/events.jsonl", "--", "true")
    check(site, ran, "pass", 0)
    events = site.events("deep/events.jsonl")
    told = [f"{event['event']} {event['service']}" for event in events]
    assert told[:2] == ["started kv", "ready kv"]
    assert told.index("started router") > max(told.index("ready a"), told.index("ready b"))
    assert sorted(told[-4:]) == ["stopped a", "stopped b", "stopped kv", "stopped router"]
    assert [event["t"] for event in events] == sorted(event["t"] for event in events)
    assert "deep/events.jsonl" in {each["path"] for each in site.report["attachments"]}


API = "api=true {port}"


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ([], "there is nothing to start"),
        (["--service", "api="], "empty"),
        (["--service", API, "--ready", "apo=/x"], "did you mean `api`?"),
        (["--service", API, "--ready", "api=gopher://x"], "api"),
        (["--service", API, "--needs", "api=api"], "circle"),
        (["--service", "api=no-such-server {port}"], "command not found: no-such-server"),
        (["--service", API, "--timeout", "0"], "--timeout must be more than 0"),
        (["--service", API, "--timeout", "soon"], "not a duration"),
        (["--service", API, "--events", "/proc/x/events"], "cannot write events"),
        (["--service", API, "echo", "--", "hello"], "belongs to no option"),
        (["--service", API, "--", "echo", "{apo.port}"], "unknown placeholder {apo.port}"),
        (["--config", "gone.toml"], "gone.toml"),
    ],
)
@pytest.mark.gate(1)
def test_what_is_wrong_is_found_before_anything_is_started(
    site: Site, args: list[str], said: str
) -> None:
    ran = site.launch(*args)
    report = check(site, ran, None, 2)
    assert said in f"{report['error']['message']} {report['error']['hint']}"
    assert not (site.out / "logs").exists()


# --- what a signal does ---


def ready(run: subprocess.Popen[bytes], text: bytes = b"ready:") -> None:
    """Read what it says until everything is ready, or until it has said another text."""
    assert run.stderr is not None
    for line in run.stderr:
        if text in line:
            return
    pytest.fail("it ended before it was ready")


@pytest.mark.parametrize(
    ("number", "code"),
    [
        (signal.SIGINT, 130),
        (signal.SIGTERM, 143),
        (signal.SIGHUP, 143),
        (signal.SIGQUIT, 143),
    ],
)
@pytest.mark.gate(2)
def test_a_signal_ends_it_in_order(site: Site, number: signal.Signals, code: int) -> None:
    run = site.begin(*site.api)
    ready(run)
    run.send_signal(number)
    _, err = run.communicate(timeout=LIMIT_S)
    assert run.returncode == code, err
    assert (site.report["verdict"], site.report["exit_code"]) == (None, code)
    assert (
        site.report["error"]["message"]
        == f"interrupted by {number.name}; every process was stopped"
    )
    assert site.report["error"]["kind"] == number.name.lower()


def test_a_death_ends_it_without_a_client_too(site: Site) -> None:
    run = site.begin(*site.api, "--events", "events.jsonl")
    ready(run)
    os.kill(site.events("events.jsonl")[0]["pid"], signal.SIGKILL)
    run.communicate(timeout=LIMIT_S)
    assert run.returncode == 1
    assert site.report["facts"]["cause"]["signal"] == "SIGKILL"


def guardian_of(run: subprocess.Popen[bytes]) -> psutil.Process:
    for process in psutil.Process(run.pid).children():
        if process.name() == "ci-doctor-guard":
            return process
    raise AssertionError("there is no guardian")


def waits_for_events(run: subprocess.Popen[bytes]) -> bool:
    """Whether the main thread is in epoll_wait(2), by the kernel's name for the place."""
    place = Path(f"/proc/{run.pid}/wchan").read_text()
    return "epoll" in place or "ep_poll" in place


def killed(process: psutil.Process) -> None:
    process.kill()
    until(lambda: not process.is_running() or process.status() == "zombie", "it lives")


@pytest.mark.parametrize("moment", ["client", "stop"])
@pytest.mark.gate(1)
def test_a_launch_comes_to_its_end_without_its_guardian(site: Site, moment: str) -> None:
    told, go = site.directory / "told", site.directory / "go"
    slow = f"until test -e {go}; do sleep 0.01; done; exec {site.service('answers', '{port}')}"
    client = f"echo ready > {told}; until test -e {told}.go; do sleep 0.01; done; exit 3"
    last = f"trap 'echo asked > {told}.end; until test -e {told}.go2; do sleep 0.01; done' INT"
    run = site.begin(
        *("--service", f"kv={site.service('answers', '{port}')}"),
        *("--service", f"api={shlex.join(['sh', '-c', slow])}", "--needs", "api=kv"),
        *("--service", f"log={shlex.join(['sh', '-c', f'{last}; while :; do sleep 0.01; done'])}"),
        *("--ready", "log=exec:true"),
        *("--", "sh", "-c", client),
    )
    ready(run, b"api started")
    guardian = guardian_of(run)
    go.touch()
    until(says(told, "ready"), "the client never ran")
    # The guardian's answer that the client was started has been read only then.
    until(lambda: waits_for_events(run), "the launch never waits")
    if moment == "client":
        killed(guardian)
    Path(f"{told}.go").touch()
    until(says(Path(f"{told}.end"), "asked"), "nothing was stopped")
    if moment == "stop":
        killed(guardian)
    Path(f"{told}.go2").touch()
    run.communicate(timeout=LIMIT_S)
    assert (run.returncode, site.report["verdict"]) == (3, "failed")
    assert site.rules()[0] == "services/client-failed"


@pytest.mark.nightly
def test_a_launch_that_loses_its_guardian_starts_nothing_more_and_leaves_nothing(
    site: Site,
) -> None:
    go = site.directory / "go"
    slow = f"until test -e {go}; do sleep 0.01; done; exec {site.service('answers', '{port}')}"
    run = site.begin("--service", f"api={shlex.join(['sh', '-c', slow])}", "--", "true")
    ready(run, b"api started")
    below = psutil.Process(run.pid).children(recursive=True)
    killed(guardian_of(run))
    go.touch()
    run.communicate(timeout=LIMIT_S)
    assert (run.returncode, site.report["error"]["kind"]) == (75, "infra")
    assert "the guardian process is gone" in site.report["error"]["message"]
    assert not any(process.is_running() for process in below)


def test_a_second_signal_kills_at_once_and_the_report_is_written(site: Site) -> None:
    told = site.directory / "told"
    run = site.begin(*site.outlives(told))
    ready(run)
    run.send_signal(signal.SIGINT)
    until(says(told, "SIGINT"), "the service was never asked to end")
    run.send_signal(signal.SIGINT)
    run.communicate(timeout=LIMIT_S)
    assert run.returncode == 130
    assert "SIGTERM" not in told.read_text().split(), "the next step of an orderly end"
    assert site.report["exit_code"] == 130
    assert site.report["facts"]["stopped"]["killed"]
    assert site.rules() == [], "it had no time to end by itself"


def test_what_ignores_every_request_is_killed_and_named(site: Site) -> None:
    told = site.directory / "told"
    ran = site.launch(*site.outlives(told), "--", "true")
    check(site, ran, "pass", 0)
    assert site.rules() == ["services/killed"]
    assert set(told.read_text().split()) >= {"ready", "SIGINT", "SIGTERM"}


def test_a_signal_while_a_service_starts_ends_it_too(site: Site) -> None:
    run = site.begin(
        "--service", f"api={site.service('accepts_and_hangs', '{port}')}", "--", "true"
    )
    ready(run, b"api started")
    run.send_signal(signal.SIGTERM)
    run.communicate(timeout=LIMIT_S)
    assert run.returncode == 143
    assert (site.report["exit_code"], site.report["attempts"][0]["ok"]) == (143, False)


def test_sigterm_ends_in_time_even_where_everything_ignores_it(site: Site) -> None:
    told, asked = site.directory / "told", site.directory / "asked"
    run = site.begin(*site.outlives(told), "--", *site.python("outlives", str(asked)))
    until(says(asked, "ready"), "the client never ran")
    began = time.monotonic()
    run.send_signal(signal.SIGTERM)
    run.communicate(timeout=LIMIT_S)
    assert time.monotonic() - began < 9.5, "the agent gives 10 s"
    assert run.returncode == 143
    assert "SIGTERM" in asked.read_text().split()
    assert site.report["error"] is not None


def test_a_client_may_wind_down_when_we_are_asked_to_end(site: Site) -> None:
    told = site.directory / "told"
    run = site.begin(
        *site.api,
        "--",
        *site.python("winds_down", str(told), "0.3"),
    )
    until(says(told, "ready"), "the client never ran")
    run.send_signal(signal.SIGTERM)
    run.communicate(timeout=LIMIT_S)
    assert run.returncode == 143
    assert told.read_text().split() == ["ready", "SIGTERM", "done"]


def test_ctrl_c_on_a_terminal_reaches_the_client_once(site: Site) -> None:
    told = site.directory / "told"
    leader, follower = os.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    run = subprocess.Popen(
        words(
            "launch", "--report-dir", str(site.out), *site.api,
            "--", *site.python("winds_down", str(told), "0.5"),
        ),
        cwd=site.directory, env=environment({"TERM": "xterm"}), stdin=follower, stdout=follower, stderr=follower,
        start_new_session=True, preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509
    )  # fmt: skip
    os.close(follower)
    until(says(told, "ready"), "the client never ran")
    os.write(leader, b"\x03")
    shown = b""
    try:
        while piece := os.read(leader, 4096):
            shown += piece
    except OSError:  # EIO: the other end is closed
        pass
    os.close(leader)
    assert run.wait(LIMIT_S) == 130, shown.decode()
    assert told.read_text().split() == ["ready", "SIGINT", "done"]
    assert site.report["exit_code"] == 130


# --- what is written ---


def test_no_log_keeps_a_secret(site: Site) -> None:
    program = "import os, sys; print(os.environ['API_TOKEN'], flush=True); sys.exit(3)"
    ran = site.launch(
        "--service", f"api={sys.executable} -c {shlex.quote(program)} {{port}}", "--events", "e.jsonl", "--follow",
        env={"API_TOKEN": SECRET},
    )  # fmt: skip
    check(site, ran, "failed", 1)
    written = "".join(path.read_text() for path in site.directory.rglob("*") if path.is_file())
    assert SECRET not in written + ran.err + ran.out
    assert "[redacted]" in (site.out / "logs" / "api-1.log").read_text()
    assert "api | [redacted]" in ran.err, "what services write can be followed"


def test_the_clients_words_are_told_without_secrets_and_on_one_line(site: Site) -> None:
    ran = site.launch(
        *site.api, "--", "sh", "-c", f"true\n: {SECRET}",
        env={"API_TOKEN": SECRET}
    )  # fmt: skip
    check(site, ran, "pass", 0)
    assert SECRET not in ran.err
    assert [line for line in ran.err.splitlines() if line.startswith("running ")] == [
        "running sh -c 'true : [redacted]'"
    ]


def test_a_launch_that_cannot_go_on_leaves_no_secret_in_a_log(site: Site) -> None:
    script = site.directory / "no-interpreter"
    script.write_text("echo\n")
    script.chmod(0o755)
    program = "import os, time; print(os.environ['API_TOKEN'], 'up', flush=True); time.sleep(60)"
    site.configure(
        api={"command": [sys.executable, "-c", program, str(site.directory)], "ready": "log:up"},
        late={"command": [str(script)], "ready": "log:up", "needs": ["api"]},
    )
    ran = site.launch("--", "true", env={"API_TOKEN": SECRET})
    assert ran.code == 2, ran
    assert (site.out / "logs" / "api-1.log").read_text() == "[redacted] up\n"


def test_streams_that_are_closed_are_empty_ones_to_the_client_and_never_files_of_ours(
    site: Site,
) -> None:
    told = site.directory / "told"
    program = f"import os; open({str(told)!r}, 'w').write(' '.join(os.readlink(f'/proc/self/fd/{{n}}') for n in (0, 1, 2)))"
    command = words("launch", "--report-dir", str(site.out), *site.api,
                    "--", sys.executable, "-c", program)  # fmt: skip
    closing = ["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", *command]
    subprocess.run(closing, cwd=site.directory, env=environment(), timeout=LIMIT_S, check=True)
    assert told.read_text() == "/dev/null /dev/null /dev/null"
    assert site.report["verdict"] == "pass"


@needs_mounts
def test_a_service_that_fills_the_disk_with_its_log_is_outside_the_change(site: Site) -> None:
    disk = site.directory / "disk"
    disk.mkdir()
    pour = "import sys\nwhile True: sys.stdout.write('x' * 99 + chr(10)); sys.stdout.flush()"
    command = words("launch", "--json", "--report-dir", str(disk / "out"),
                    "--service", f"api={sys.executable} -c {shlex.quote(pour)} {site.directory}", "--ready", "api=log:never",
                    "--", "true")  # fmt: skip
    mount = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c"]
    script = 'mount -t tmpfs -o size=1m none "$0" && exec "$@"'
    ran = subprocess.run(
        [*mount, script, str(disk), *command],
        cwd=site.directory, env=environment(), capture_output=True, timeout=LIMIT_S, check=False,
    )  # fmt: skip
    assert ran.returncode == 75, ran
    report = json.loads(ran.stdout)
    assert report["verdict"] == "infra"
    assert "no space is left on the disk of its log" in report["findings"][0]["summary"]


def test_a_service_that_hangs_under_its_client_has_died_with_evidence(site: Site) -> None:
    serve = (
        "import http.server, os, sys; open('pid', 'w').write(str(os.getpid()))\n"
        "http.server.test(http.server.SimpleHTTPRequestHandler, port=int(sys.argv[1]))"
    )
    site.configure(
        s={
            "command": [*BARE, "-c", serve, "{port}", str(site.directory)],
            "ready": "http://127.0.0.1:{port}/",
            "liveness_period": "300ms",
            "liveness_failures": 2,
        }
    )
    probe = "s={ http = '/', attempt_timeout = '100ms' }"
    stop = "import os, signal; os.kill(int(open('pid').read()), signal.SIGSTOP); signal.pause()"
    ran = site.launch("--liveness", probe, "--", *BARE, "-c", stop)
    (finding,) = check(site, ran, "failed", 1)["findings"]
    assert finding["rule"] == "services/hung"
    assert "failed 2 times in a row" in finding["summary"]
    shown = [each["excerpt"] for each in finding["evidence"]]
    assert any("stopped (SIGSTOP)" in text for text in shown), shown
    assert any("GET / HTTP/1.1" in text for text in shown), shown


def test_a_liveness_probe_that_can_be_made_no_more_lets_nothing_pass(site: Site) -> None:
    asked = site.directory / "asked"
    asked.write_text("#!/bin/sh\n")
    asked.chmod(0o755)
    site.configure(
        s={
            "command": site.service("answers", "{port}"),
            "liveness": f"exec:{asked}",
            "liveness_period": "100ms",
        }
    )
    ran = site.launch(
        "--", *BARE, "-c", f"import os, signal; os.unlink({str(asked)!r}); signal.pause()"
    )
    (finding,) = check(site, ran, "infra", 75)["findings"]
    assert "s is watched no more" in finding["summary"]
    assert f"cannot run {asked}" in finding["summary"]
