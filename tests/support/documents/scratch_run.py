# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: runs the statements of a block one after another in one bash, as a reader would type them."""

import os
import re
import shutil
import subprocess
import sys
import venv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.support.cli import environment
from tests.support.documents.marker import Run
from tests.support.documents.page import ROOT
from tests.support.documents.shell_commands import Statement

_EXIT = re.compile(r"#.*?\bexit (\d+)")
_DURATION = re.compile(r"\b\d+(\.\d+)? (s|ms|min)\b")
_TEMPORARY = re.compile(r"/tmp/[\w./-]+")
_BLANKS = re.compile(r"[ \t]+")
_ANYTHING = "…"


@dataclass(frozen=True)
class RanStatement:
    """A statement that has ended: its exit status (None if the shell ended before), and all that it printed."""

    statement: Statement
    code: int | None
    printed: str


def run_statements(marker: Run, chosen: Sequence[Statement], scratch: Path) -> list[RanStatement]:
    """Run statements in a directory below `scratch` that the marker describes."""
    place = _workplace(marker, scratch)
    output = scratch / "output"
    output.mkdir()
    lines = []
    for number, statement in enumerate(chosen):
        # In braces, not in a subshell: a variable that it sets is there for the next one.
        lines.append(f"{{\n{statement.text}\n}} >{output}/{number} 2>&1")
        lines.append(f"echo $? >{output}/{number}.code")
    subprocess.run(
        ["bash", "-c", "\n".join(lines)],
        cwd=place,
        env=_environment(scratch),
        stdin=subprocess.DEVNULL,
        timeout=180,
        check=False,
    )
    return [_ended(statement, output / str(number)) for number, statement in enumerate(chosen)]


def expected_codes(marker: Run, chosen: Sequence[Statement]) -> list[int]:
    """The status of each statement: its own comment names one, as in `# exit 1: …`, or the marker does."""
    usual = marker.exit * len(chosen) if len(marker.exit) == 1 else marker.exit
    assert len(usual) == len(chosen), f"the marker names {len(usual)} statuses of {len(chosen)}"
    codes = []
    for statement, code in zip(chosen, usual, strict=True):
        own = _EXIT.search(statement.text)
        codes.append(code if own is None else int(own[1]))
    return codes


def shows(page: str, printed: str) -> bool:
    """Whether a page shows what was printed: a line `…` stands for any lines, and times and temporary paths may differ."""
    parts = [re.escape(_comparable(line)) for line in page.rstrip("\n").splitlines()]
    pattern = "\n".join(r"(?:.*\n)*?.*" if part == _ANYTHING else part for part in parts)
    text = "\n".join(_comparable(line) for line in printed.rstrip("\n").splitlines())
    return re.fullmatch(pattern, text) is not None


def _comparable(line: str) -> str:
    line = _DURATION.sub("N s", _TEMPORARY.sub("PATH", line))
    return _BLANKS.sub(" ", line).rstrip()


def _workplace(marker: Run, scratch: Path) -> Path:
    place = scratch / "place"
    if marker.directory is None:
        place.mkdir()
    else:
        shutil.copytree(
            ROOT / marker.directory, place, ignore=shutil.ignore_patterns("__pycache__")
        )
    if marker.git:
        git = ["git", "-C", str(place)]
        subprocess.run([*git, "init", "--quiet"], check=True)
        subprocess.run([*git, "add", "."], check=True)
        subprocess.run([*git, "commit", "--quiet", "-m", "All"], check=True)
        subprocess.run([*git, "update-ref", "refs/remotes/origin/main", "HEAD"], check=True)
    if marker.venv:
        venv.create(place / ".venv", with_pip=False, symlinks=True)
    return place


def _environment(scratch: Path) -> dict[str, str]:
    programs = scratch / "bin"
    programs.mkdir()
    tool = programs / "ci-doctor"
    tool.write_text(f'#!/bin/sh\nexec {sys.executable} -m ci_doctor "$@"\n')
    tool.chmod(0o755)
    path = f"{programs}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    return environment({"PATH": path, "NO_COLOR": "1", "HOME": str(scratch), "COLUMNS": None})


def _ended(statement: Statement, output: Path) -> RanStatement:
    code = Path(f"{output}.code")
    printed = output.read_text(errors="replace") if output.exists() else ""
    return RanStatement(statement, int(code.read_text()) if code.exists() else None, printed)
