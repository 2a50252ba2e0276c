# SPDX-License-Identifier: Apache-2.0
"""`prepare` as a library, and what a later command says of a preparation that did not happen."""

import json
from pathlib import Path

import pytest

from ci_doctor.config.loading import Config, load_config
from ci_doctor.environment.determinism import SetupEnvSettings
from ci_doctor.environment.exports import MARKER, marker
from ci_doctor.environment.preparation import (
    missing_preparation,
    outcome,
    prepare,
    prepared_value,
    set_on_agent,
)
from ci_doctor.errors import ConfigError, PreparationError
from ci_doctor.model.facts.diagnose import RunFacts, SetupEnvFacts
from ci_doctor.model.outcome import Severity, Verdict
from ci_doctor.model.words import EVALUATION, PREPARED


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

    assert preparation.with_output(output, differs=False).changed == ()
    assert preparation.with_output(output, differs=True).changed[-1] == str(output)


def test_a_finding_of_severity_error_refuses_the_exports(tmp_path: Path) -> None:
    toml = '[build-system]\nrequires = ["setuptools", "setuptools-scm"]\n[project]\nname = "pkg"\n'
    (tmp_path / "pyproject.toml").write_text(
        f'{toml}dynamic = ["version"]\n[tool.setuptools_scm]\n'
    )
    environ = {"SETUPTOOLS_SCM_PRETEND_VERSION_FOR_PKG": "no version"}
    with pytest.raises(PreparationError) as caught:
        prepare(SetupEnvSettings(projects=(str(tmp_path),)), environ)
    assert [finding.rule for finding in caught.value.findings] == ["version/invalid-pretend"]


JOB = {"BUILDKITE_JOB_ID": "0190-j1"}
PLUGIN = {"BUILDKITE_PLUGINS": json.dumps([{"./buildkite_plugins/ci-doctor": None}])}
SECTION = '[setup-env]\ndeterminism = "default"\n'


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def config(folder: Path, text: str = SECTION) -> Config:
    path = folder / "ci-doctor.toml"
    path.write_text(text)
    return load_config(path, folder)


def prepared(loaded: Config, job: dict[str, str] | None = None) -> dict[str, str]:
    """The environment of a job that setup-env prepared."""
    job = JOB if job is None else job
    variables = {"PYTHONHASHSEED": "0"}
    return {
        **job,
        **variables,
        MARKER: marker(variables, {}),
        PREPARED: prepared_value(loaded, job),
    }


@pytest.mark.parametrize("environ", [{}, JOB, {**JOB, PREPARED: "other:x"}])
def test_who_does_not_use_it_hears_nothing(environ: dict[str, str], folder: Path) -> None:
    assert missing_preparation(config(folder, "[exit-codes]\ninfra = 255\n"), environ) == ()


STRICT = SECTION.replace("default", "strict")
NEVER_RAN = "ci-doctor.toml:1 configures it, but CI_DOCTOR_PREPARED is not set"


@pytest.mark.parametrize(
    ("before", "now", "changes", "words"),
    [
        (None, SECTION, JOB, NEVER_RAN),
        (SECTION, SECTION, {"BUILDKITE_JOB_ID": "0190-j2"}, "that of job 0190-j1"),
        (SECTION, STRICT, {}, "other settings than those of ci-doctor.toml:1"),
        (None, "", {"CI_DOCTOR_SETUP_ENV_DETERMINISM": "strict"}, "_DETERMINISM configures it"),
        (None, "", {**JOB, **PLUGIN}, "the step's ci-doctor plugin was to run it"),
    ],
)
def test_a_preparation_that_is_expected_and_not_there_is_a_warning(
    before: str | None, now: str, changes: dict[str, str], words: str, folder: Path
) -> None:
    environ = {**(prepared(config(folder, before)) if before is not None else {}), **changes}

    (finding,) = missing_preparation(config(folder, now), environ)

    assert (finding.rule, finding.severity) == ("setup-env/not-prepared", Severity.WARNING)
    assert words in finding.summary
    assert EVALUATION in str(finding.remedy)


def test_a_job_that_was_prepared_hears_nothing(folder: Path) -> None:
    loaded = config(folder)

    assert missing_preparation(loaded, prepared(loaded)) == ()
    # Neither does a container that gets the exports without the agent's variables, or the reverse.
    assert missing_preparation(loaded, {**prepared(loaded), "BUILDKITE_JOB_ID": ""}) == ()
    assert missing_preparation(loaded, {**prepared(loaded, {}), **JOB}) == ()
    # What to do if it is missing is no other setting.
    assert (
        missing_preparation(config(folder, SECTION + 'if_missing = "error"\n'), prepared(loaded))
        == ()
    )
    assert missing_preparation(config(folder, '[setup-env]\nif_missing = "off"\n'), JOB) == ()
    loaded = config(folder, "")
    assert missing_preparation(loaded, {**prepared(loaded), **PLUGIN}) == ()


@pytest.mark.parametrize(
    "plugins",
    [
        [{"./ci-doctor": {"setup-env": False}}],
        [{"./ci-doctor": {"setup-env": "false"}}],
        [{"docker#v5": {"image": "x"}}],
        {},
        ["docker"],
    ],
)
def test_a_step_without_it_does_not(plugins: object, folder: Path) -> None:
    environ = {**JOB, "BUILDKITE_PLUGINS": json.dumps(plugins)}

    assert missing_preparation(config(folder, ""), environ) == ()


def test_exports_that_are_gone_or_changed_are_named(folder: Path) -> None:
    loaded = config(folder, "")
    variables = {"A": "1", "B": "2", "C": "3"}
    environ = {
        "A": "1",
        "B": "0",
        MARKER: marker(variables, {}),
        PREPARED: prepared_value(loaded, {}),
    }

    gone, changed = missing_preparation(loaded, environ)

    assert (gone.rule, gone.severity) == ("setup-env/lost-exports", Severity.WARNING)
    assert "exported C" in gone.summary
    assert (changed.severity, changed.summary.endswith(": B")) == (Severity.NOTE, True)


def test_an_error_where_the_repository_wants_one(folder: Path) -> None:
    loaded = config(folder, '[setup-env]\nif_missing = "error"\n')

    with pytest.raises(PreparationError, match="setup-env did not prepare this job") as raised:
        missing_preparation(loaded, JOB)

    assert [finding.severity for finding in raised.value.findings] == [Severity.ERROR]
    assert missing_preparation(loaded, prepared(loaded)) == ()


def test_a_wrong_section_is_named(folder: Path) -> None:
    with pytest.raises(ConfigError, match="determinsm"):
        missing_preparation(config(folder, "[setup-env]\ndeterminsm = 1\n"), {})


def test_outside_a_job_with_a_job_api_nothing_is_tried() -> None:
    assert set_on_agent({"A": "1"}, {}) == ()
    assert set_on_agent({"A": "1"}, {"BUILDKITE_AGENT_JOB_API_SOCKET": "/s"}) == ()
