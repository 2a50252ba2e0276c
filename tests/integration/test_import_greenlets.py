# SPDX-License-Identifier: Apache-2.0
"""What `ci-doctor import-race` cannot judge is never a pass; what switches within a thread is among it."""

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.integration.import_programs import Program
from tests.integration.preload_venvs import pyenv_python, skip_without
from tests.support.cli import Ran, inside

pytestmark = pytest.mark.integration
greenlet = pytest.importorskip("greenlet")

SPAWNED = """
import greenlet

def background():
    {background}

greenlet.greenlet(background).switch()
{foreground}
print("fine")
"""
# The worker is switched away from in the middle of its import.
SUSPENDED = """
import greenlet, sys
main = greenlet.getcurrent()

def background():
    import halting

worker = greenlet.greenlet(background)
worker.switch()
from halting import value
"""
# Its own import goes on in one greenlet, and another one uses it meanwhile.
HALFWAY = """
import greenlet

def use():
    try:
        from halfway import late
    except ImportError:
        print("late was missing")

greenlet.greenlet(use).switch()
late = 1
"""
THREADS = """
import threading
import greenlet

def background():
    import {module}

for module in range(3):
    thread = threading.Thread(target=background)
    thread.start()
    thread.join()
import {module}
print("fine")
"""
FORKED = """
import os, greenlet
child = os.fork()
if child == 0:
    import plain_a
    def background():
        import plain_b
    greenlet.greenlet(background).switch()
    os._exit(0)
os.waitpid(child, 0)
print("fine")
"""
INTERPRETER = """
import threading
try:
    import _interpreters as interpreters
    run = interpreters.exec
except ImportError:
    import _xxsubinterpreters as interpreters
    run = interpreters.run_string
made = interpreters.create()
run(made, open("inner.py").read())
interpreters.destroy(made)
"""
INNER = """
import threading
from paced import done, gap

def background():
    import lazypkg
    done.append(1)

threading.Thread(target=background).start()
gap()
from lazypkg import Thing
"""


def race(directory: Path, text: str, python: Path | None = None) -> tuple[Ran, dict[str, Any]]:
    Program(name="", text=text).write(directory)
    ran = inside(
        "import-race", "--report-dir", "out", "--", python or sys.executable, "main.py",
        cwd=directory,
    )  # fmt: skip
    return ran, json.loads((directory / "out" / "report.json").read_text())


@pytest.mark.parametrize(
    ("background", "foreground"),
    [
        ("import lazypkg", "from lazypkg import Thing"),
        ("import plain_a", "import plain_b"),
        ("__import__('lazypkg')", "import importlib; importlib.import_module('lazypkg')"),
    ],
)
@pytest.mark.gate(1)
def test_imports_of_two_greenlets_are_void(
    background: str, foreground: str, tmp_path: Path
) -> None:
    ran, report = race(tmp_path, SPAWNED.format(background=background, foreground=foreground))

    assert ran.out == "fine\n"
    assert (ran.code, report["verdict"]) == (86, "void"), ran
    assert "several greenlets import in one thread" in report["summary"]
    assert [finding["rule"] for finding in report["findings"]] == ["import-race/not-judged"]


def test_an_import_that_is_suspended_by_a_switch_is_no_pass(tmp_path: Path) -> None:
    (tmp_path / "halting.py").write_text(
        "import sys\nsys.modules['__main__'].main.switch()\nvalue = 1\n"
    )

    ran, report = race(tmp_path, SUSPENDED)

    assert "partially initialized module 'halting'" in ran.err
    assert (ran.code, report["verdict"]) == (86, "void"), ran


def test_greenlets_of_a_bundled_copy_are_void(tmp_path: Path) -> None:
    """Under another name, as a program does that brings its own."""
    copy = tmp_path / "bundled" / "stacks"
    copy.mkdir(parents=True)
    (copy / "__init__.py").write_text("")
    (compiled,) = Path(greenlet.__file__).parent.glob("_greenlet*.so")
    shutil.copy(compiled, copy)
    text = SPAWNED.format(background="import lazypkg", foreground="from lazypkg import Thing")

    ran, report = race(
        tmp_path,
        text.replace("import greenlet", "from bundled.stacks import _greenlet as greenlet"),
    )

    assert ran.out == "fine\n"
    assert (ran.code, report["verdict"]) == (86, "void"), ran


def test_an_import_that_was_running_when_greenlets_came_counts(tmp_path: Path) -> None:
    (tmp_path / "halfway.py").write_text(HALFWAY)

    ran, report = race(tmp_path, "import halfway")

    assert "late was missing" in ran.out
    assert (ran.code, report["verdict"]) == (86, "void"), ran


def test_a_forked_child_with_greenlets_is_void(tmp_path: Path) -> None:
    ran, report = race(tmp_path, FORKED)

    assert (ran.code, report["verdict"]) == (86, "void"), ran


def test_threads_of_a_program_that_only_has_greenlet_loaded_are_judged(tmp_path: Path) -> None:
    ran, report = race(tmp_path, THREADS.replace("{module}", "plain_a"))

    assert (ran.code, report["verdict"]) == (0, "pass"), ran


@pytest.mark.parametrize("version", ["3.12.1", "3.13.0"])
def test_threads_of_a_subinterpreter_are_judged(version: str, tmp_path: Path) -> None:
    python = pyenv_python(version)
    skip_without(python)
    (tmp_path / "inner.py").write_text(INNER)

    ran, report = race(tmp_path, INTERPRETER, python)

    assert ran.code == 86, ran
    assert [hazard["modules"] for hazard in report["facts"]["hazards"]] == [["lazypkg"]]
