# SPDX-License-Identifier: Apache-2.0
"""Projects with a pytest of their own, in an environment without ci-doctor, and `ci-doctor pytest` on them."""

import subprocess
import sys
import sysconfig
import textwrap
from pathlib import Path
from typing import Any

from tests.support.cli import Ran, inside
from tests.support.report_schema import checked_report

CORE = ("pytest", "_pytest", "pluggy", "iniconfig", "packaging", "pygments", "py.py")
XDIST = ("xdist", "execnet")
RERUNFAILURES = ("pytest_rerunfailures.py",)


def make_environment(directory: Path, *packages: str) -> Path:
    """The interpreter of a virtual environment that holds pytest and these packages of ours, and nothing else."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", directory], check=True)
    ours = Path(sysconfig.get_path("purelib"))
    theirs = next(directory.glob("lib/python*/site-packages"))
    for name in (*CORE, *packages):
        (theirs / name).symlink_to(ours / name)
        stem = {"xdist": "pytest_xdist"}.get(name, name.removesuffix(".py"))
        for information in ours.glob(f"{stem}-*.dist-info"):
            (theirs / information.name).symlink_to(information)
    return directory / "bin" / "python"


class TestProject:
    """A folder with tests, and the interpreter that runs them."""

    __test__ = False

    def __init__(self, directory: Path, python: Path) -> None:
        self.directory = directory
        self.python = python
        self.reports = directory.with_name(f"{directory.name}-reports")
        directory.mkdir()
        self.put("pytest.ini", "[pytest]\n")

    def put(self, name: str, text: str) -> None:
        """Write a file of the project; `text` may be indented."""
        path = self.directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))

    def doctor(self, *words: str, env: dict[str, str | None] | None = None) -> Ran:
        """Run `ci-doctor pytest WORDS` here."""
        # As a project of somebody else: nothing of ours is on the path of its tests.
        changes: dict[str, str | None] = {"PYTHONDONTWRITEBYTECODE": "1", **(env or {})}
        return inside(
            "pytest",
            "--python",
            self.python,
            "--report-dir",
            self.reports,
            *words,
            cwd=self.directory,
            env=changes,
        )

    def pytest(self, *words: str) -> str:
        """What pytest itself prints here."""
        ran = subprocess.run(
            [self.python, "-m", "pytest", *words],
            cwd=self.directory,
            capture_output=True,
            text=True,
            check=False,
        )
        return ran.stdout

    @property
    def report(self) -> dict[str, Any]:
        """The report of the last run, which fits its schema."""
        return checked_report((self.reports / "report.json").read_text())

    def verdicts(self) -> dict[str, str]:
        """The verdicts of the tests that did not simply pass, by node id."""
        return {test["test"]: test["verdict"] for test in self.report["facts"]["tests"]}

    def attempts(self, test: str) -> list[str]:
        """The attempts of a test that did not simply pass: `alone failed`."""
        for each in self.report["facts"]["tests"]:
            if each["test"] == test:
                return [f"{attempt['run']} {attempt['outcome']}" for attempt in each["attempts"]]
        raise KeyError(test)

    def rules(self) -> list[str]:
        """The rules of the findings about tests."""
        rules = [finding["rule"] for finding in self.report["findings"]]
        return [rule for rule in rules if rule.startswith("test-run/")]
