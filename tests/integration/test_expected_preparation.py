# SPDX-License-Identifier: Apache-2.0
"""Commands of a job whose preparation never happened, and of one where it did."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from ci_doctor.model.words import EVALUATION
from tests.support.cli import Ran, doctor, inside

pytestmark = pytest.mark.integration

RULE = "setup-env/not-prepared"
TRUE = ("--", sys.executable, "-c", "pass")
SERVICE = f"""
[services.one]
command = ["{sys.executable}", "-m", "http.server", "--bind", "127.0.0.1", "{{port}}"]
ready = "tcp://127.0.0.1:{{port}}"

[correctness]
requests = "requests.jsonl"
budget = "1s"

[correctness.baseline]
services = ["one"]

[correctness.candidate]
services = ["one"]

[restart-check]
requests = "requests.jsonl"
budget = "1s"
"""
COMMANDS = {
    "launch": ("launch", *TRUE),
    "import-race": ("import-race", *TRUE),
    "wait": ("wait", "--pid", "1", "--ready", "exec:true", "--timeout", "0"),
    "correctness": ("correctness",),
    "restart-check": ("restart-check",),
}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "pkg"\nversion = "1.0"\n')
    (tmp_path / "requests.jsonl").write_text('{"id": "r", "path": "/v1/completions", "body": {}}\n')
    configure(tmp_path, "[setup-env]\n")
    return tmp_path


def configure(project: Path, section: str) -> None:
    (project / "ci-doctor.toml").write_text(section + SERVICE)


def report(ran: Ran) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(ran.out)
    return found


def rules(ran: Ran) -> list[str]:
    return [finding["rule"] for finding in report(ran)["findings"] if finding["rule"] == RULE]


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.gate(1)
def test_says_so_and_goes_on(command: str, project: Path) -> None:
    ran = inside(*with_json(command), cwd=project)

    assert rules(ran) == [RULE], ran
    (finding,) = (each for each in report(ran)["findings"] if each["rule"] == RULE)
    # To paste: a command that is wrapped as prose would be two.
    assert finding["remedy_kind"] == "command"
    assert finding["remedy"].endswith(f"\n{EVALUATION}")


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.gate(1)
def test_starts_nothing_where_the_repository_wants_an_error(command: str, project: Path) -> None:
    configure(project, '[setup-env]\nif_missing = "error"\n')
    ran = inside(*with_json(command), cwd=project)

    assert (ran.code, rules(ran)) == (1, [RULE]), ran
    assert (report(ran)["verdict"], report(ran)["attempts"]) == ("failed", []), ran


def test_a_job_that_was_prepared_hears_nothing(project: Path) -> None:
    exports = json.loads(inside("setup-env", "--format", "json", cwd=project).out)

    for command in ("launch", "wait"):
        assert rules(inside(*with_json(command), cwd=project, env=exports)) == [], command


def test_run_prepares_what_it_starts(project: Path) -> None:
    inner = (sys.executable, "-m", "ci_doctor", *with_json("import-race"))
    ran = doctor("run", "--", *inner, cwd=project)

    assert (ran.code in (0, 86), rules(ran)) == (True, []), ran


@pytest.mark.nightly
def test_a_dry_run_is_in_no_job(project: Path) -> None:
    for command in ("launch", "correctness", "restart-check"):
        words = with_json(command)
        place = 1 if "--" in words else len(words)
        ran = inside(*words[:place], "--dry-run", *words[place:], cwd=project)
        assert rules(ran) == [], ran


def with_json(command: str) -> tuple[str, ...]:
    name, *rest = COMMANDS[command]
    return (name, "--json", *rest)
