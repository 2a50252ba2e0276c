# SPDX-License-Identifier: Apache-2.0
"""`install` and `remove` as a library: no command line, no terminal, no exit code."""

import sys
import venv
from pathlib import Path

import pytest

from ci_doctor.errors import UsageError
from ci_doctor.model.facts.preload import ChangeFacts
from ci_doctor.model.outcome import CaseOutcome, ErrorKind
from ci_doctor.model.verdict import Verdict
from ci_doctor.preload.interpreters import Interpreters
from ci_doctor.preload.outcome.change import install, remove

RULE = "serve=json:dumps"


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    venv.create(tmp_path / "v", symlinks=True)
    return tmp_path / "v"


def site(directory: Path) -> list[str]:
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    return sorted(path.name for path in (directory / "lib" / version / "site-packages").iterdir())


def test_a_shim_is_planned_installed_and_removed(directory: Path) -> None:
    targets = Interpreters(venvs=(str(directory),))
    before = site(directory)

    plan = install(targets, [RULE], dry_run=True)
    assert (plan.verdict, plan.error, site(directory)) == (None, None, before)
    assert plan.summary.startswith("would write ")

    done = install(targets, [RULE])
    assert (done.verdict, done.summary.split()[0]) == (Verdict.PASS, "wrote")
    facts = done.facts
    assert isinstance(facts, ChangeFacts)
    (target,) = facts.targets
    assert (target.state, target.rules, facts.dry_run) == ("changed", (RULE,), False)
    assert "ci_doctor_preload.pth" in site(directory)

    again = install(targets, [RULE])
    assert again.summary == "nothing to change in 1 interpreter"
    assert remove(targets).summary.startswith("removed ")
    assert site(directory) == before


def test_a_refused_interpreter_holds_back_the_others(directory: Path) -> None:
    before = site(directory)
    outcome = install(Interpreters(pythons=("no-such-python",), venvs=(str(directory),)), [RULE])
    assert outcome.verdict is None
    assert outcome.error is not None
    assert outcome.error.kind is ErrorKind.USAGE
    assert [case.outcome for case in outcome.cases] == [CaseOutcome.ERROR, CaseOutcome.SKIPPED]
    assert site(directory) == before


def test_a_file_of_others_is_a_finding_and_failed(directory: Path) -> None:
    targets = Interpreters(venvs=(str(directory),))
    (site_dir,) = (directory / "lib").glob("python3*/site-packages")
    (site_dir / "_ci_doctor_preload.py").write_text("mine = True\n")
    outcome = install(targets, [RULE])
    assert (outcome.verdict, [each.rule for each in outcome.findings]) == (
        Verdict.FAILED,
        ["preload/foreign-file"],
    )


def test_without_a_rule_there_is_nothing_to_install(directory: Path) -> None:
    with pytest.raises(UsageError, match="no rule"):
        install(Interpreters(venvs=(str(directory),)), [])
