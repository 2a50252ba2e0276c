# SPDX-License-Identifier: Apache-2.0
"""A job's environment with preload rules, as a library."""

from pathlib import Path

import pytest

from ci_doctor.environment.determinism import SetupEnvSettings
from ci_doctor.environment.preparation import outcome
from ci_doctor.errors import UsageError
from ci_doctor.model.facts.diagnose import RunFacts
from ci_doctor.preload.injection import RULES_VARIABLE, prepare_command, prepare_job

RULE = "serve=json:dumps"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "x"\nversion = "1.0"\n')
    return tmp_path


def settings(project: Path, *rules: str) -> SetupEnvSettings:
    return SetupEnvSettings(projects=(str(project),), preload=rules)


def test_a_command_gets_the_rules_by_its_environment(project: Path) -> None:
    environ, preparation = prepare_command(settings(project, RULE), ["python", "x.py"], {})
    assert environ[RULES_VARIABLE] == RULE
    assert "PYTHONPATH" in preparation.changed
    facts = outcome(preparation).facts
    assert isinstance(facts, RunFacts)
    assert facts.preload == (RULE,)
    assert preparation.findings == ()


@pytest.mark.parametrize(
    ("option", "remedy"), [("-I", "ci-doctor preload install"), ("-S", "start it without -S")]
)
def test_a_python_that_is_not_reached_is_a_finding(project: Path, option: str, remedy: str) -> None:
    command = ["python3", option, "x.py"]
    _, preparation = prepare_command(settings(project, RULE), command, {})
    (finding,) = preparation.findings
    assert finding.rule == "preload/not-reached"
    assert remedy in (finding.remedy or "")


def test_a_named_project_must_be_there_also_with_rules(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"has no pyproject\.toml"):
        prepare_command(settings(tmp_path, RULE), ["true"], {})


def test_a_shim_needs_an_interpreter(project: Path) -> None:
    with pytest.raises(UsageError, match="no interpreter to go into"):
        prepare_job(settings(project, RULE), {"PATH": str(project)})
