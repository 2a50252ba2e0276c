# SPDX-License-Identifier: Apache-2.0
"""Completion, which is click's own, typed into real shells on a terminal."""

import os
import re
import select
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.cli import ROOT, environment
from tests.support.terminal import without_colour

pytestmark = pytest.mark.integration

READY = "ready for a line: "
# A program on PATH answers the shell's questions; the function of the same name shows what the line has become.
FUNCTION = "ci-doctor() { printf 'line <%s>\\n' \"$*\"; }"
# How each is started, and what it needs before it completes anything.
SHELLS = {
    "bash": (["bash", "--norc", "--noprofile", "-i"], ":"),
    "zsh": (["zsh", "-f", "-i"], "autoload -U compinit; compinit -D -u"),
}
LINES = [
    ("la", "launch"),
    ("preload ver", "preload verify"),
    ("launch --fol", "launch --follow"),
    ("setup-env --determinism st", "setup-env --determinism strict"),
    ("setup-env --project some-d", "setup-env --project some-directory/"),
    ("correctness --requests prom", "correctness --requests prompts.jsonl"),
]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "ci-doctor.toml").write_text('[services.vllm]\ncommand = "x {port}"\n')
    (tmp_path / "some-directory").mkdir()
    (tmp_path / "prompts.jsonl").touch()
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "ci-doctor").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m ci_doctor "$@"\n')
    (tools / "ci-doctor").chmod(0o755)
    return tmp_path


def variables(project: Path) -> dict[str, str]:
    path = f"{project / 'bin'}:/usr/bin:/bin"
    return environment({"PATH": path, "HOME": str(project), "TERM": "xterm", "LC_ALL": "C.UTF-8"})


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.gate(1)
def test_lines_are_completed(shell: str, project: Path) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"no {shell}")
    words, first = SHELLS[shell]
    ours = f'eval "$(_CI_DOCTOR_COMPLETE={shell}_source ci-doctor)"'
    setup = [first, ours, FUNCTION, f"PS1='{READY[:5]}''{READY[5:]}'"]
    leader, follower = os.openpty()
    process = subprocess.Popen(
        words,
        cwd=project,
        env=variables(project),
        stdin=follower,
        stdout=follower,
        stderr=follower,
        start_new_session=True,
    )
    os.close(follower)
    os.write(leader, ("; ".join(setup) + "\n").encode())
    until(leader, READY)
    lines = {}
    for begun, _ in LINES:
        # The shell takes the end of the line when it is through with the tab.
        os.write(leader, f"ci-doctor {begun}\t\r".encode())
        seen = until(leader, rf"(?s)line <(.*?)>.*{READY}")
        (line,) = re.findall(r"line <(.*?)>", seen)
        # zsh takes the slash away that it has put behind a directory.
        lines[begun] = line.rstrip("/")
    os.write(leader, b"exit\r")
    process.wait(timeout=60)
    os.close(leader)

    assert lines == {begun: completed.rstrip("/") for begun, completed in LINES}


def until(leader: int, pattern: str) -> str:
    """What the terminal shows until `pattern` is there."""
    seen = ""
    while not re.search(pattern, seen):
        assert select.select([leader], [], [], 60)[0], seen
        try:
            seen += without_colour(os.read(leader, 4096).decode(errors="replace"))
        except OSError:  # the shell has ended
            raise AssertionError(seen) from None
    return seen


def test_fish_offers_them(project: Path) -> None:
    if shutil.which("fish") is None:
        pytest.skip("no fish")
    program = "_CI_DOCTOR_COMPLETE=fish_source ci-doctor | source; for line in $argv; complete --do-complete $line; end"
    ended = subprocess.run(
        ["fish", "--no-config", "-c", program, *(f"ci-doctor {begun}" for begun, _ in LINES)],
        cwd=project,
        env=variables(project),
        capture_output=True,
        text=True,
        check=True,
    )
    offered = [line.partition("\t")[0] for line in ended.stdout.splitlines()]
    assert offered == [completed.rsplit(maxsplit=1)[-1] for _, completed in LINES], ended


def test_the_page_shows_what_is_tested_here() -> None:
    page = (ROOT / "docs" / "install.md").read_text()

    assert 'eval "$(_CI_DOCTOR_COMPLETE=bash_source ci-doctor)"' in page
    assert 'eval "$(_CI_DOCTOR_COMPLETE=zsh_source ci-doctor)"' in page
    assert "_CI_DOCTOR_COMPLETE=fish_source ci-doctor | source" in page


def test_a_key_loads_no_more_than_its_command_and_writes_no_report(project: Path) -> None:
    reports = project / "reports"
    program = (
        "import sys; from ci_doctor.cli import main; main([]); print(*sys.modules, file=sys.stderr)"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program],
        cwd=project,
        env={
            **variables(project),
            "_CI_DOCTOR_COMPLETE": "bash_complete",
            "COMP_WORDS": "ci-doctor\nla",
            "COMP_CWORD": "1",
            "CI_DOCTOR_REPORT_DIR": str(reports),
        },
        capture_output=True,
        text=True,
        check=True,
    )
    loaded = set(ended.stderr.split())
    assert not {"ci_doctor.commands.launch", "ci_doctor.commands.lint", "msgspec"} & loaded
    assert not reports.exists()
