# SPDX-License-Identifier: Apache-2.0
"""`ci-doctor import-race -- CMD` as its users run it: what is flagged in one run, and that the command stays as it is."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.integration.import_programs import MODULES, Program, command, named
from tests.integration.preload_venvs import Venv, interpreters
from tests.support.cli import Ran, begin, doctor, inside, python_program
from tests.support.report_schema import checked_report

pytestmark = pytest.mark.integration

# A run that waits for something longer than this has failed.
LIMIT_S = 180.0  # guards against hanging only
FIRES = """
import sys, threading

def background():
    import slowly

threading.Thread(target=background).start()
while "slowly" not in sys.modules:
    pass
from slowly import Thing
"""
# Ends once the main thread waits for it (importlib keeps who waits by thread, in 3.12 and later as lists).
SLOWLY = """
import importlib._bootstrap as bootstrap, threading, time
deadline = time.monotonic() + 120
while not bootstrap._blocking_on.get(threading.main_thread().ident) and time.monotonic() < deadline:
    time.sleep(0.001)
"""


class Site:
    """A folder with a program in it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.out = directory / "out"

    def put(self, program: Program | str, **modules: str) -> None:
        """Write a program of the corpus, or a main.py of its own."""
        if isinstance(program, Program):
            program.write(self.directory)
        else:
            Program(name="", text=program).write(self.directory)
        for name, text in modules.items():
            (self.directory / f"{name}.py").write_text(text)

    def race(self, *args: str, stdin: str | None = None) -> Ran:
        """Run `ci-doctor import-race ARGS` here."""
        line: tuple[str | Path, ...] = ("import-race", "--report-dir", self.out, *args)
        if stdin is None:
            return inside(*line, cwd=self.directory)
        with (self.directory / stdin).open("rb") as file:
            return doctor(*line, cwd=self.directory, stdin=file)

    def python(self, text: str, *args: str) -> Ran:
        """Record a program of one line."""
        return self.race(*args, "--", sys.executable, "-c", text)

    @property
    def report(self) -> dict[str, Any]:
        """The report that was written, which fits its schema."""
        return checked_report((self.out / "report.json").read_text())

    def findings(self) -> list[tuple[str, str]]:
        """Rule and severity of each finding."""
        return [(finding["rule"], finding["severity"]) for finding in self.report["findings"]]


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def test_a_race_that_did_not_happen_is_flagged_with_both_places_and_a_remedy(site: Site) -> None:
    site.put(named("replaced, thread first"))

    ran = site.race("--", *command(named("replaced, thread first")))

    assert ran.code == 86, ran
    assert ran.out == "fine\n"
    (hazard,) = site.report["facts"]["hazards"]
    assert (hazard["kind"], hazard["closeness"], hazard["modules"]) == (
        "self-replacing package",
        "latent",
        ["lazypkg"],
    )
    lines = (site.directory / "main.py").read_text().splitlines()
    assert lines[hazard["first"]["site"]["line"] - 1].strip() == "import lazypkg"
    assert lines[hazard["second"]["site"]["line"] - 1].strip() == "from lazypkg import Thing"
    assert "threading.Thread" in lines[hazard["first"]["thread_started_at"]["line"] - 1]
    (finding,) = site.report["findings"]
    assert (finding["rule"], finding["severity"]) == ("import-race/self-replacing", "warning")
    assert {each.get("file") for each in finding["evidence"][:2]} == {"main.py"}
    assert "lazypkg" in finding["remedy"]
    assert "--confirm" in site.report["summary"]


def test_a_race_that_happens_is_an_error_even_where_the_program_goes_on(site: Site) -> None:
    swallowed = FIRES.replace(
        "from slowly import Thing",
        "try:\n    from slowly import Thing\nexcept ImportError:\n    print('swallowed')",
    )
    site.put(swallowed, slowly=SLOWLY + MODULES["lazypkg/__init__.py"])

    ran = site.race("--", sys.executable, "main.py")

    assert (ran.code, ran.out) == (1, "swallowed\n"), ran
    assert site.report["verdict"] == "failed", "nothing was compared, so it is no regression"
    assert site.findings() == [("import-race/self-replacing", "error")]
    assert site.report["facts"]["counts"]["fired"] == 1


@pytest.mark.parametrize(
    "name", ["replaced, spawn child", "replaced, subprocess", "replaced, zipapp", "replaced, -c"]
)
@pytest.mark.gate(3)
def test_every_way_to_start_a_python_is_followed(site: Site, name: str) -> None:
    site.put(named(name))

    ran = site.race("--", *command(named(name)))

    assert ran.code == 86, ran
    assert site.findings() == [("import-race/self-replacing", "warning")]


def test_a_program_without_a_hazard_passes_and_keeps_its_output(site: Site) -> None:
    ran = site.python(
        "import json, sys; print(sys.stdin.read() + 'out'); print('err', file=sys.stderr)"
    )

    assert (ran.code, ran.out) == (0, "out\n"), ran
    assert ran.err.startswith("err\n")
    assert site.report["verdict"] == "pass"
    assert site.report["facts"]["interpreters"] == {sys.executable: "exposed"}


RELOADS = """
import importlib, threading
import plain_b
told = threading.Semaphore(0)

def background():
    {use}
    {background}

thread = threading.Thread(target=background)
thread.start()
{before}
importlib.reload(plain_b)
print("fine")
"""


USES = ("import plain_b", "plain_b.__name__")


@pytest.mark.parametrize("use", USES)
def test_a_reload_beside_a_thread_that_has_the_module_is_no_pass(site: Site, use: str) -> None:
    background = "told.acquire(timeout=0.5)"
    site.put(RELOADS.format(use=use, background=background, before=""))

    ran = site.race("--confirm", "--", sys.executable, "main.py")

    assert (ran.code, ran.out) == (86, "fine\n"), ran
    assert site.findings() == [("import-race/reload", "warning")]
    assert len(site.report["attempts"]) == 1, "no delay decides it"


def test_a_second_copy_beside_a_thread_that_has_the_first_is_no_pass(site: Site) -> None:
    background = "told.acquire(timeout=0.5)"
    text = RELOADS.format(use=USES[0], background=background, before="")
    again = "import sys; del sys.modules['plain_b']\nimport plain_b"
    site.put(text.replace("importlib.reload(plain_b)", again))

    ran = site.race("--", sys.executable, "main.py")

    assert (ran.code, ran.out) == (86, "fine\n"), ran
    assert site.findings() == [("import-race/second-copy", "warning")]
    (hazard,) = site.report["facts"]["hazards"]
    assert hazard["first"]["site"]["line"] == 14


@pytest.mark.parametrize("use", USES)
def test_a_reload_after_the_thread_was_joined_passes(site: Site, use: str) -> None:
    site.put(RELOADS.format(use=use, background="", before="thread.join()"))

    assert site.race("--", sys.executable, "main.py").code == 0


def test_what_was_not_looked_at_is_said_where_there_are_threads(site: Site) -> None:
    site.put("import threading\nthread = threading.Thread(target=print)\nthread.start()")

    ran = site.race("--", sys.executable, "main.py")

    assert ran.code == 0, ran
    assert "Not looked at" in ran.err
    assert any("sys.modules" in each for each in site.report["facts"]["analysis"]["not_looked_at"])
    assert site.python("import json").code == 0
    assert site.report["facts"]["analysis"]["not_looked_at"] == []


def test_without_the_two_dashes_it_says_where_they_belong_and_no_command_is_127(site: Site) -> None:
    ran = site.race("python", "app.py")
    assert ran.code == 2
    assert site.report["error"]["hint"].endswith("-- python app.py")

    absent = site.race("--", "no-such-command")
    assert absent.code == 127
    assert "no-such-command: command not found" in absent.err


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ((sys.executable, "-I", "-c", "pass"), "-I"),
        ((sys.executable, "-E", "-c", "pass"), "-E"),
        (("true",), "Python"),
    ],
)
@pytest.mark.gate(2)
def test_what_is_not_followed_is_void_and_never_a_pass(
    site: Site, line: tuple[str, ...], reason: str
) -> None:
    ran = site.race("--", *line)

    assert ran.code == 86, ran
    assert site.report["verdict"] == "void"
    assert reason in site.report["summary"]


def test_a_child_that_is_not_followed_is_named(site: Site) -> None:
    ran = site.python(
        "import subprocess, sys; subprocess.run([sys.executable, '-I', '-c', 'pass'])"
    )

    assert ran.code == 0, ran
    assert site.findings() == [("import-race/not-followed", "warning")]


def test_a_server_is_ended_when_its_time_is_up_and_that_is_no_failure(site: Site) -> None:
    ran = site.python("import threading; threading.Event().wait()", "--timeout", "1")

    assert ran.code == 0, ran
    assert site.report["facts"]["command"]["timed_out"] is True


def test_a_command_that_fails_proves_nothing(site: Site) -> None:
    ran = site.python("raise SystemExit(3)")

    assert ran.code == 86
    assert site.findings() == [("import-race/command-failed", "warning")]
    assert "exit code 3" in site.report["summary"]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
@pytest.mark.gate(1)
def test_a_signal_stops_the_whole_tree_and_the_report_is_written(
    site: Site, number: signal.Signals, code: int
) -> None:
    child = "import threading; print('up', flush=True); threading.Event().wait()"
    parent = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {child!r}]).wait()"
    line = ("import-race", "--report-dir", site.out, "--", sys.executable, "-c", parent)
    running = begin(*line, cwd=site.directory)
    assert running.stdout is not None
    assert running.stdout.readline() == b"up\n"
    below = psutil.Process(running.pid).children(recursive=True)

    running.send_signal(number)
    running.communicate(timeout=LIMIT_S)

    assert running.returncode == code
    assert not any(map(_lives, below))
    report = site.report
    assert report["verdict"] is None
    assert len(report["facts"]["processes"]) == 2


def _lives(process: psutil.Process) -> bool:
    return process.is_running() and process.status() != psutil.STATUS_ZOMBIE


def test_what_outlives_the_command_is_stopped(site: Site) -> None:
    text = "import subprocess, sys; print(subprocess.Popen(['sleep', '600'], start_new_session=True).pid)"
    ran = site.python(text)

    assert ran.code == 0, ran
    assert not psutil.pid_exists(int(ran.out))
    assert site.report["facts"]["command"]["outlived"] == ["sleep"]


def test_a_report_holds_no_secret_of_the_environment(site: Site) -> None:
    secret = "sk-4242-do-not-tell"
    line = ("import-race", "--report-dir", site.out, "--", sys.executable, "-c")
    program = f"import json  # {secret}"
    ran = inside(*line, program, cwd=site.directory, env={"HF_TOKEN": secret})

    assert ran.code == 0
    for path in site.out.iterdir():
        assert secret not in path.read_text(), path


def test_with_json_stdout_is_the_report_alone_and_the_command_keeps_its_words(site: Site) -> None:
    program = "import json, sys; print(sys.argv[1:])"
    ran = site.race("--json", "--", sys.executable, "-c", program, "--json", "probe")

    assert json.loads(ran.out)["verdict"] == "pass"
    assert ran.err == "['--json', 'probe']\n"


def test_no_descriptor_of_ours_reaches_the_command(site: Site) -> None:
    program = "import os; print(sorted(map(int, os.listdir('/proc/self/fd'))))"
    ran = site.python(program)
    plain = python_program(program, stdin=subprocess.DEVNULL, env=dict(os.environ))

    assert ran.out == plain.stdout


def test_an_interpreter_that_the_recorder_does_not_know_is_void(tmp_path: Path) -> None:
    venv = Venv(interpreters()["own"], tmp_path / "v")
    # As a CPython to come may be: what the recorder stands in for is not there.
    venv.put({"unknown.pth": "import sys; del sys.modules['_frozen_importlib']._gcd_import\n"})

    ran = inside("import-race", "--json", "--", venv.python, "-c", "pass", cwd=tmp_path)

    report = json.loads(ran.out)
    assert (ran.code, report["verdict"]) == (86, "void"), ran
    assert "was not recorded: its import system is not one that is known" in report["summary"]
