# SPDX-License-Identifier: Apache-2.0
"""`ci-doctor import-race --confirm`: what can race is made to, and what cannot ends as it does without us."""

import json
import os
import signal
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from tests.integration.import_programs import SAFE, Program, command, named
from tests.integration.preload_venvs import pyenv_python, skip_without
from tests.support.cli import Ran, begin, inside
from tests.support.other_user import open_folder

pytestmark = pytest.mark.integration

RULES = {
    "self-replacing package": "import-race/self-replacing",
    "import cycle": "import-race/cycle",
    "submodule order": "import-race/submodule-order",
    "failed import": "import-race/failed-import",
}
# One for each kind and each place that a thread can come from.
RACY = (
    "replaced, thread first",
    "replaced, main first",
    "replaced, main too early",
    "replaced, asyncio thread",
    "replaced, daemon thread",
    "replaced, forkserver child",
    "replaced, daemon at exit",
    "replaced, thread of C code",
    "replaced, forked in a thread",
    "replaced, -m",
    "cycle, thread at b",
    "cycle of three, a and c",
    "submodule, thread at package",
    "submodule, main first",
    "failed import",
)


def confirm(directory: Path, line: list[str], *args: str) -> tuple[Ran, dict[str, Any]]:
    ran = inside(
        "import-race", "--confirm", "--report-dir", "out", *args, "--", *line, cwd=directory
    )
    return ran, json.loads((directory / "out" / "report.json").read_text())


def recorded(directory: Path, python: Path | str = sys.executable) -> tuple[Ran, dict[str, Any]]:
    """A run without `--confirm`."""
    ran = inside("import-race", "--report-dir", "out", "--", python, "main.py", cwd=directory)
    return ran, json.loads((directory / "out" / "report.json").read_text())


def fires(program: Program, directory: Path, python: Path | str = sys.executable) -> dict[str, Any]:
    """The report on a program that is made to fail."""
    program.write(directory)

    ran, report = confirm(directory, command(program, python))

    assert ran.code == 1, ran
    assert "fine" in ran.out, "by itself it does not fail"
    errors = [finding for finding in report["findings"] if finding["severity"] == "error"]
    assert {finding["rule"] for finding in errors} == {RULES[program.kind or ""]}
    confirmed = [
        hazard for hazard in report["facts"]["hazards"] if hazard["standing"] == "confirmed"
    ]
    assert all(set(hazard["modules"]) <= program.modules for hazard in confirmed)
    return report


@pytest.mark.parametrize("name", RACY)
@pytest.mark.gate(2)
def test_a_racy_program_that_does_not_fail_by_itself_is_made_to(name: str, tmp_path: Path) -> None:
    fires(named(name), tmp_path)


@pytest.mark.parametrize(
    ("version", "name"),
    [
        ("3.8.18", "cycle, thread at a"),
        ("3.10.13", "submodule, thread at submodule"),
        ("3.12.1", "submodule, thread at submodule"),
        ("3.13.0", "cycle, thread at a"),
    ],
)
@pytest.mark.gate(1)
def test_other_interpreters_are_made_to(version: str, name: str, tmp_path: Path) -> None:
    python = pyenv_python(version)
    skip_without(python)

    report = fires(named(name), tmp_path, python)

    assert {each["version"] for each in report["facts"]["processes"]} == {version}


# "awaited thread" is the one that is run three times with another stdin, below.
@pytest.mark.parametrize(
    "program",
    [each for each in SAFE if each.name != "awaited thread"],
    ids=lambda program: program.name,
)
@pytest.mark.gate(2)
def test_a_safe_program_ends_as_it_does_without_us(program: Program, tmp_path: Path) -> None:
    program.write(tmp_path)

    ran, report = confirm(tmp_path, command(program))

    assert (ran.code, ran.out) == (0, "fine\n"), ran
    assert report["verdict"] == "pass"
    assert report["findings"] == []
    for attempt in report["attempts"][1:]:
        assert attempt["facts"]["same_end_as_recorded"]
    for output in (tmp_path / "out").glob("import-race/*.stdout"):
        assert output.read_text() == "fine\n"


def test_a_wrong_module_in_which_nothing_is_missing_is_a_warning(tmp_path: Path) -> None:
    program = named("replaced, same names")
    program.write(tmp_path)

    ran, report = confirm(tmp_path, command(program))

    assert (ran.code, report["verdict"]) == (0, "pass"), ran
    (finding,) = report["findings"]
    assert (finding["rule"], finding["severity"]) == ("import-race/self-replacing", "warning")
    assert "nothing that it read was missing" in finding["summary"]
    held = report["attempts"][1]["facts"]
    assert (held["handed_out"], held["fired"]) == (True, False)
    assert report["facts"]["counts"]["no harm seen"] == 1


CAUGHT = """
import threading
from paced import done, gap

def background():
    import lazypkg
    done.append(1)

threading.Thread(target=background).start()
gap()
{read}
print("fine")
"""


@pytest.mark.parametrize(
    ("read", "missing"),
    [
        ("try: from lazypkg import Thing\nexcept ImportError: pass", "Thing"),
        ("import lazypkg\ngetattr(lazypkg, 'Thing', None)", "Thing"),
        ("import lazypkg\nhasattr(lazypkg, 'Nothing') or hasattr(lazypkg, 'Thing')", "Thing"),
    ],
    ids=["except", "default", "hasattr"],
)
def test_a_name_that_is_missed_without_an_error_is_harm(
    read: str, missing: str, tmp_path: Path
) -> None:
    Program(name="", text=CAUGHT.format(read=read)).write(tmp_path)

    ran, report = confirm(tmp_path, [sys.executable, "main.py"])

    assert ran.code == 1, ran
    (finding,) = report["findings"]
    shown = finding["evidence"][-1]["excerpt"]
    assert f"thread MainThread found no {missing} in lazypkg at main.py:" in shown
    assert "ended with exit code 0" in shown
    assert "Nothing" not in shown, "the module never has this one"


def test_one_held_run_settles_what_fires_with_it(tmp_path: Path) -> None:
    two = """
    import threading
    from paced import done, gap

    def background():
        import lazypkg
        import outer.lazy
        done.append(1)

    threading.Thread(target=background).start()
    gap()
    from lazypkg import Thing
    from outer.lazy import Thing
    """
    Program(name="", text=two).write(tmp_path)

    ran, report = confirm(tmp_path, [sys.executable, "main.py"], "--candidates", "1")

    assert ran.code == 1, ran
    standings = {hazard["modules"][0]: hazard["standing"] for hazard in report["facts"]["hazards"]}
    assert sorted(standings.values()) == ["confirmed", "open"], "the second was beyond --candidates"
    assert "import-race/not-settled" in {finding["rule"] for finding in report["findings"]}


def test_each_run_reads_stdin_from_its_start(tmp_path: Path) -> None:
    from tests.integration.test_import_race import Site

    site = Site(tmp_path)
    site.put("import sys\nassert sys.stdin.read() == 'text'\n" + named("awaited thread").text)
    (tmp_path / "input").write_text("text")

    ran = site.race("--confirm", "--", sys.executable, "main.py", stdin="input")

    assert (ran.code, ran.out) == (0, "fine\n"), ran
    assert site.report["findings"] == []
    assert {each["standing"] for each in site.report["facts"]["hazards"]} == {"not confirmed"}
    assert [
        attempt["outcome"].split("; ")[-1].split(" (")[0] for attempt in site.report["attempts"]
    ] == ["exit code 0"] * 4


def test_a_run_that_ends_before_the_other_import_settles_nothing(tmp_path: Path) -> None:
    once = """
    import os, sys, threading
    from paced import done, gap

    def background():
        import lazypkg
        done.append(1)

    threading.Thread(target=background).start()
    if os.path.exists("used"):
        sys.exit("used")
    open("used", "w").close()
    gap()
    from lazypkg import Thing
    """
    Program(name="", text=once).write(tmp_path)

    ran, report = confirm(tmp_path, [sys.executable, "main.py"])

    assert (ran.code, report["verdict"]) == (86, "inconclusive"), ran
    assert [hazard["standing"] for hazard in report["facts"]["hazards"]] == ["open"]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_a_program_that_drops_its_privileges_is_followed() -> None:
    text = "import os, threading, time, types\nos.setuid(65534)\n" + textwrap.dedent(
        named("replaced, thread first").text
    )
    with open_folder() as folder:
        Program(name="", text=text).write(folder)
        ran, report = recorded(folder)

    assert ran.code == 86, ran
    assert [hazard["modules"] for hazard in report["facts"]["hazards"]] == [["lazypkg"]]


def test_a_signal_in_a_held_run_ends_it_and_no_other_is_made(tmp_path: Path) -> None:
    named("awaited thread").write(tmp_path)
    line = ("import-race", "--confirm", "--report-dir", "out", "--", sys.executable, "main.py")
    running = begin(*line, cwd=tmp_path)
    assert running.stderr is not None
    while not running.stderr.readline().startswith(b"confirming 1/1"):
        pass

    running.send_signal(signal.SIGTERM)
    _, said = running.communicate(timeout=180)

    assert running.returncode == 143
    assert b"confirming" not in said
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert report["verdict"] is None
    assert [hazard["standing"] for hazard in report["facts"]["hazards"]] == ["open"]


# A module of the program starts the thread, which a rule can come before.
SERVICE = """
import threading
from paced import done, gap

def background():
    import lazypkg
    done.append(1)

def serve():
    thread = threading.Thread(target=background)
    thread.start()
    gap()
    from lazypkg import Thing
    thread.join()
    print("fine")
"""
# As above, but the module imports the package before any rule of its own name can.
CHILD = """
import multiprocessing, sys
{definition}
if __name__ == "__main__":
    process = multiprocessing.get_context({method!r}).Process(target={target})
    process.start()
    process.join()
    sys.exit(process.exitcode)
"""
TEST_MODULE = SERVICE.replace("def serve", "def test_serve")
CONFTEST = "import pytest\n" + SERVICE.replace("def serve", "@pytest.fixture\ndef serve")


def write(directory: Path, files: dict[str, str]) -> None:
    Program(name="", text="import service; service.serve()").write(directory)
    for name, text in files.items():
        (directory / name).write_text(text)


def remedies(report: dict[str, Any]) -> list[dict[str, Any]]:
    return [hazard["remedy"] for hazard in report["facts"]["hazards"]]


def test_a_rule_of_a_race_that_fires_is_tried_and_wins(tmp_path: Path) -> None:
    write(tmp_path, {"service.py": SERVICE})

    ran, report = confirm(tmp_path, [sys.executable, "main.py"])

    assert ran.code == 1, ran
    (advice,) = remedies(report)
    assert (advice["rule"], advice["rule_standing"]) == ("service=lazypkg:Thing", "won")
    assert "did not fire under the same delay" in " ".join(ran.err.split())
    assert report["attempts"][-1]["facts"]["rule"] == "service=lazypkg:Thing"


def test_a_rule_that_was_not_tried_is_marked_so(tmp_path: Path) -> None:
    write(tmp_path, {"service.py": SERVICE})

    ran, report = recorded(tmp_path)

    (advice,) = remedies(report)
    assert (advice["rule"], advice["rule_standing"]) == ("service=lazypkg:Thing", "not tried")
    assert "NOT seen to win" in " ".join(ran.err.split())


def test_a_rule_that_loses_is_not_offered(tmp_path: Path) -> None:
    # The package forgets itself after its first import, so that the thread imports it again.
    forgetful = SERVICE.replace(
        "def serve():", "def serve():\n    import sys; sys.modules.pop('lazypkg', None)"
    )
    write(tmp_path, {"service.py": forgetful})

    ran, report = confirm(tmp_path, [sys.executable, "main.py"])

    assert ran.code == 1, ran
    (advice,) = remedies(report)
    assert (advice["rule"], advice["rule_standing"]) == (None, None)
    assert advice["move"].startswith("write `from lazypkg import Thing`")


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
@pytest.mark.gate(1)
def test_a_child_of_multiprocessing_gets_no_rule_for_its_copy_of_main(
    method: str, tmp_path: Path
) -> None:
    text = CHILD.format(definition=SERVICE, method=method, target="serve")
    write(tmp_path, {"main.py": text})

    ran, report = confirm(tmp_path, [sys.executable, "main.py"])

    assert ran.code == 1, ran
    assert "__mp_main__=" not in ran.err
    assert {advice["rule"] for advice in remedies(report)} == {None}
    assert all(advice["move"].startswith("write ") for advice in remedies(report))


@pytest.mark.parametrize("method", ["spawn", "fork"])
@pytest.mark.gate(1)
def test_a_module_that_a_child_imports_gets_its_rule(method: str, tmp_path: Path) -> None:
    text = CHILD.format(definition="import service", method=method, target="service.serve")
    write(tmp_path, {"main.py": text, "service.py": SERVICE})

    ran, report = confirm(tmp_path, [sys.executable, "main.py"])

    assert ran.code == 1, ran
    assert {(advice["rule"], advice["rule_standing"]) for advice in remedies(report)} == {
        ("service=lazypkg:Thing", "won")
    }


@pytest.mark.parametrize(
    ("files", "options", "has_rule"),
    [
        ({"test_it.py": TEST_MODULE}, (), False),
        ({"test_it.py": TEST_MODULE}, ("--import-mode=importlib",), False),
        ({"test_it.py": TEST_MODULE}, ("--assert=plain",), True),
        ({"conftest.py": CONFTEST, "test_it.py": "def test_it(serve): pass"}, (), False),
        (
            {"service.py": SERVICE, "test_it.py": "import service\ntest_it = service.serve"},
            (),
            True,
        ),
    ],
)
@pytest.mark.nightly
def test_a_module_that_pytest_rewrites_gets_no_rule(
    files: dict[str, str], options: tuple[str, ...], has_rule: bool, tmp_path: Path
) -> None:
    write(tmp_path, files)
    line = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options, "test_it.py"]

    ran, report = confirm(tmp_path, line)

    assert ran.code == 1, ran
    standings = {advice["rule_standing"] for advice in remedies(report) if advice["rule"]}
    assert standings == ({"won"} if has_rule else set())


@pytest.mark.parametrize("version", ["3.8.18", "3.9.18", "3.10.13", "3.11.7", "3.12.1"])
@pytest.mark.gate(1)
def test_a_living_subinterpreter_leaves_the_status_of_the_command(
    version: str, tmp_path: Path
) -> None:
    python = pyenv_python(version)
    skip_without(python)
    text = """
        import sys
        import _xxsubinterpreters as interpreters
        made = interpreters.create()
        interpreters.run_string(made, "import json")
        sys.exit(3)
    """
    (tmp_path / "main.py").write_text(textwrap.dedent(text))

    ran, report = recorded(tmp_path, python)

    assert (ran.code, report["verdict"]) == (86, "inconclusive"), ran
    assert report["facts"]["command"]["exit_code"] == 3
