# SPDX-License-Identifier: Apache-2.0
"""`prepare` as a library: settings and an environment in, exports and an outcome out."""

from pathlib import Path

import pytest

from ci_doctor.environment.exports import MARKER
from ci_doctor.environment.preparation import Preparation, outcome, prepare
from ci_doctor.environment.settings import SetupEnvSettings
from ci_doctor.errors import PreparationError
from ci_doctor.model.facts.setup_env import RunFacts, SetupEnvFacts
from ci_doctor.model.verdict import Verdict


@pytest.fixture
def settings(tmp_path: Path) -> SetupEnvSettings:
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "x"\nversion = "1.0"\n')
    return SetupEnvSettings(projects=(str(tmp_path),))


def test_the_exports_end_with_their_marker(settings: SetupEnvSettings) -> None:
    preparation = prepare(settings, {})
    assert list(preparation.exports)[-1] == MARKER
    assert preparation.exports["PYTHONHASHSEED"] == "0"
    assert preparation.changed == tuple(preparation.exports)[:-1]


def test_a_second_preparation_changes_nothing(settings: SetupEnvSettings) -> None:
    first = prepare(settings, {})
    second = prepare(settings, first.exports)
    assert (second.exports, second.changed) == (first.exports, ())
    assert outcome(second).summary == "nothing to change: 4 variables already set"


def test_the_outcome_has_typed_facts_and_a_dry_run_judges_nothing(
    settings: SetupEnvSettings,
) -> None:
    preparation = prepare(settings, {})
    done = outcome(preparation)
    assert done.verdict is Verdict.PASS
    assert isinstance(done.facts, SetupEnvFacts)
    assert not isinstance(done.facts, RunFacts)
    assert [fact.requested for fact in done.facts.determinism] == [":4096:8", "0", "FALSE", "FALSE"]
    planned = outcome(preparation, dry_run=True)
    assert (planned.verdict, planned.error) == (None, None)
    assert planned.summary.startswith("would change ")


def test_with_a_file_the_jobs_own_variables_do_not_count_as_changed(
    settings: SetupEnvSettings, tmp_path: Path
) -> None:
    preparation = prepare(settings, {})
    output = tmp_path / "env.sh"

    def changed(of: Preparation) -> tuple[str, ...]:
        return of.changed

    assert changed(preparation.with_output(output, differs=False)) == ()
    assert changed(preparation.with_output(output, differs=True))[-1] == str(output)


def test_a_finding_of_severity_error_refuses_the_exports(tmp_path: Path) -> None:
    toml = '[build-system]\nrequires = ["setuptools", "setuptools-scm"]\n[project]\nname = "pkg"\n'
    (tmp_path / "pyproject.toml").write_text(
        f'{toml}dynamic = ["version"]\n[tool.setuptools_scm]\n'
    )
    environ = {"SETUPTOOLS_SCM_PRETEND_VERSION_FOR_PKG": "no version"}
    with pytest.raises(PreparationError) as caught:
        prepare(SetupEnvSettings(projects=(str(tmp_path),)), environ)
    assert [finding.rule for finding in caught.value.findings] == ["version/invalid-pretend"]
