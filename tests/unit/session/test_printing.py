# SPDX-License-Identifier: Apache-2.0
"""Groups in the log of a CI: by real pipes, files and terminals, and by nothing outside of one."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.support.ci_log_readers import buildkite_headers, github_commands, gitlab_sections
from tests.support.cli import environment, python_program
from tests.support.terminal import on_terminal

BUILDKITE = {"BUILDKITE": "true", "CI": "true"}
GITHUB = {"GITHUB_ACTIONS": "true", "CI": "true"}
GITLAB = {"GITLAB_CI": "true", "CI": "true"}
FINISH = """
import sys
from ci_doctor.model.outcome import Outcome
from ci_doctor.model.outcome import Verdict
from ci_doctor.session.invocation import Invocation
from ci_doctor.session.session import Session

command, verdict, *options = sys.argv[1:]
session = Session(Invocation.begin([command]))
session.as_json = "json" in options
summary = "--- forged\\n::error::forged\\nsection_start:1:forged\\r\\x1b[0K"
outcome = Outcome(verdict=Verdict(verdict), summary=summary)
text = "--- forged\\n::add-mask::e\\n" if "text" in options else None
session.finish(outcome, on_stdout="stdout" in options, text="" if "empty" in options else text)
"""
GROUPS = """
import sys
from ci_doctor.session.printing import LogGroup, open_last_group

group = LogGroup("services")
group.end()
for _ in range(2):
    group.begin()
    print("started", file=sys.stderr)
group.end()
group.begin()
open_last_group()
"""


def finish(
    *arguments: str, env: Mapping[str, str], stdout: int = subprocess.PIPE, stderr: int = subprocess.PIPE
) -> tuple[str, str]:  # fmt: skip
    """What FINISH prints on stdout and on stderr."""
    ran = subprocess.run(
        [sys.executable, "-c", FINISH, *arguments],
        env=environment(env),
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=stderr,
        check=True,
    )
    return (ran.stdout or b"").decode(), (ran.stderr or b"").decode()


def test_a_failing_report_is_the_one_open_group() -> None:
    _, log = finish("launch", "failed", env=BUILDKITE)

    assert buildkite_headers(log) == [("+++", "✗ FAILED  ci-doctor launch")]
    assert "forged" in log


def test_github_gets_annotations_and_takes_no_command_from_the_text() -> None:
    _, log = finish("launch", "failed", env=GITHUB)

    assert [each.name for each in github_commands(log)] == ["stop-commands", "error"]
    _, other = finish("launch", "failed", env=GITHUB)
    assert github_commands(log)[0] != github_commands(other)[0]


def test_gitlab_gets_a_section() -> None:
    _, log = finish("launch", "pass", env=GITLAB)

    assert [each[0] for each in gitlab_sections(log)] == ["start", "end"]
    assert gitlab_sections(log)[0][2] == "[collapsed=true]"


@pytest.mark.parametrize("env", [BUILDKITE, GITHUB, GITLAB], ids=["Buildkite", "GitHub", "GitLab"])
@pytest.mark.gate(1)
def test_data_on_stdout_and_the_stderr_beside_it_hold_no_line_of_a_log(
    env: dict[str, str],
) -> None:
    out, err = finish("launch", "failed", "json", env=env)

    assert out.startswith("{")
    assert err == ""


def test_a_file_gets_the_text_as_it_is(tmp_path: Path) -> None:
    with (tmp_path / "log").open("wb") as file:
        finish("launch", "failed", "text", env=GITHUB, stderr=file.fileno())

    assert (tmp_path / "log").read_text() == "--- forged\n::add-mask::e\n"


def test_a_text_on_a_stdout_of_its_own_gets_annotations_on_stderr_alone() -> None:
    out, err = finish("doctor", "failed", "stdout", "text", env=GITHUB)

    assert out == "--- forged\n\u200b::add-mask::e\n"
    assert [each.name for each in github_commands(err)] == ["error"]
    assert err.count("\n") == 1
    assert finish("doctor", "failed", "stdout", "text", env=BUILDKITE)[1] == ""


def test_a_text_on_a_stdout_that_is_the_log_stands_in_a_group() -> None:
    log, _ = finish("doctor", "pass", "stdout", "text", env=GITHUB, stderr=subprocess.STDOUT)

    assert [each.name for each in github_commands(log)] == ["group", "stop-commands", "endgroup"]
    assert log.index("::group::") < log.index("::add-mask::") < log.index("::endgroup::")


def test_what_was_printed_before_a_group_stands_before_it() -> None:
    program = FINISH.replace("command, verdict", "print('earlier')\ncommand, verdict")
    ran = subprocess.run(
        [sys.executable, "-c", program, "doctor", "pass", "stdout"],
        env=environment(BUILDKITE),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=True,
    )
    assert ran.stdout.startswith("earlier\n--- ✓ PASS  ci-doctor doctor\n✓ PASS")


def test_what_we_say_cannot_act() -> None:
    program = "from ci_doctor.session.printing import say; say('::error::a\\nb\\n')"
    ran = python_program(program, env=environment(GITHUB))
    assert ran.stderr == "\u200b::error::a\nb\n"


@pytest.mark.parametrize(
    ("arguments", "env", "begins"),
    [
        (("launch", "failed", "text"), {"CI": "true"}, "--- forged\n::add-mask::e\n"),
        (("run", "failed", "empty"), BUILDKITE, ""),
        # A command that becomes another.
        (("run", "pass"), BUILDKITE, "✓ PASS"),
    ],
    ids=["outside of a CI", "no text", "a command that becomes another"],
)
def test_what_needs_no_group_has_none(
    arguments: tuple[str, ...], env: dict[str, str], begins: str
) -> None:
    log = finish(*arguments, env=env)[1]

    assert (log.startswith(begins), log == "") == (True, begins == "")
    assert "ci-doctor launch" not in log


@pytest.mark.parametrize(("env", "is_loaded"), [({"CI": "true"}, False), (BUILDKITE, True)])
def test_outside_of_a_ci_nothing_is_loaded(env: dict[str, str], is_loaded: bool) -> None:
    program = f"{FINISH}\nprint('ci_doctor.render.ci_log' in sys.modules)"
    ran = python_program(program, "launch", "failed", env=environment(env))
    assert ran.stdout == f"{is_loaded}\n"


def test_a_terminal_of_an_agent_is_its_log() -> None:
    log = on_terminal(FINISH, "launch", "failed", env=BUILDKITE)

    assert buildkite_headers(log) == [("+++", "✗ FAILED  ci-doctor launch")]


@pytest.mark.parametrize(
    ("env", "log"),
    [
        ({}, "started\nstarted\n"),
        (BUILDKITE, "--- services\nstarted\nstarted\n--- services\n^^^ +++\n"),
        (
            GITHUB,
            "::group::services\nstarted\nstarted\n::endgroup::\n::group::services\n",
        ),
    ],
    ids=["nowhere", "Buildkite", "GitHub"],
)
def test_a_group_begins_once_and_ends_once(env: dict[str, str], log: str) -> None:
    ran = python_program(GROUPS, env=environment(env))
    assert ran.stderr == log


def test_a_closed_stderr_stops_nothing() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", GROUPS.replace(", file=sys.stderr", "")],
        env=environment(BUILDKITE),
        stdout=subprocess.PIPE,
        check=False,
        preexec_fn=lambda: os.close(2),
    )
    assert ran.returncode == 0
