# SPDX-License-Identifier: Apache-2.0
"""The job's environment and the names made from it."""

import string
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci_doctor.buildkite.job import (
    CONTEXT_LIMIT,
    JobEnd,
    JobEnvironment,
    is_default_branch_build,
    step_label,
    work_of,
    worst_verdict,
)
from ci_doctor.model.outcome import Verdict
from tests.support.builders import a_report
from tests.support.builds import MAIN_BUILD

ENVIRON = {
    "BUILDKITE": "true",
    "BUILDKITE_JOB_ID": "0190046e-e199-453b-a302-a21a4d649d31",
    "BUILDKITE_BUILD_ID": "b1",
    "BUILDKITE_BUILD_NUMBER": "1514",
    "BUILDKITE_BUILD_URL": "https://buildkite.com/o/p/builds/1514",
    "BUILDKITE_STEP_ID": "s1",
    "BUILDKITE_STEP_KEY": "e2e",
    "BUILDKITE_LABEL": ":python: e2e",
    "BUILDKITE_RETRY_COUNT": "2",
    "BUILDKITE_PARALLEL_JOB": "0",
    "BUILDKITE_PARALLEL_JOB_COUNT": "4",
    "BUILDKITE_BRANCH": "dev",
    "BUILDKITE_COMMIT": "abc",
    "BUILDKITE_BUILD_CHECKOUT_PATH": "/b/p",
}


def job(**changes: str) -> JobEnvironment:
    read = JobEnvironment.from_environ(ENVIRON | changes)
    assert read is not None
    return read


def test_every_variable_is_read_with_its_type() -> None:
    assert job() == JobEnvironment(
        job_id="0190046e-e199-453b-a302-a21a4d649d31",
        build_id="b1",
        build_number=1514,
        build_url="https://buildkite.com/o/p/builds/1514",
        step_id="s1",
        step_key="e2e",
        label=":python: e2e",
        retry_count=2,
        parallel_job=0,
        parallel_count=4,
        branch="dev",
        commit="abc",
        checkout="/b/p",
    )


def test_what_is_unset_or_empty_is_none() -> None:
    least = JobEnvironment.from_environ(
        {"BUILDKITE": "true", "BUILDKITE_JOB_ID": "j", "BUILDKITE_STEP_KEY": ""}
    )

    assert least == JobEnvironment(job_id="j")


@pytest.mark.parametrize(
    "environ",
    [
        {},
        {"BUILDKITE": "true"},
        {"BUILDKITE_JOB_ID": "j"},
        {"BUILDKITE": "false", "BUILDKITE_JOB_ID": "j"},
    ],
)
def test_elsewhere_there_is_no_job(environ: dict[str, str]) -> None:
    assert JobEnvironment.from_environ(environ) is None


def test_a_context_names_step_and_parallel_job() -> None:
    assert job().step_context().startswith("ci-doctor:step:e2e:0:")
    assert job(BUILDKITE_LABEL="", BUILDKITE_PARALLEL_JOB="").step_context() == "ci-doctor:step:e2e"


def test_jobs_of_a_matrix_with_one_label_have_contexts_by_command_or_job() -> None:
    one, other = job(BUILDKITE_COMMAND="a"), job(BUILDKITE_COMMAND="b")
    again = job(BUILDKITE_COMMAND="a", BUILDKITE_JOB_ID="another")

    assert one.step_context() == other.step_context()
    assert one.sibling_context(same_command=False) != other.sibling_context(same_command=False)
    assert one.sibling_context(same_command=False) == again.sibling_context(same_command=False)
    assert one.sibling_context(same_command=True) != again.sibling_context(same_command=True)


def test_a_retried_job_has_the_context_of_its_first_attempt() -> None:
    retried = job(BUILDKITE_JOB_ID="another", BUILDKITE_RETRY_COUNT="3")

    assert retried.step_context() == job().step_context()


@pytest.mark.parametrize(
    "change",
    [
        {"BUILDKITE_STEP_KEY": "unit"},
        {"BUILDKITE_PARALLEL_JOB": "1"},
        {"BUILDKITE_LABEL": "e2e a100"},
    ],
)
def test_other_steps_parallel_jobs_and_matrix_jobs_have_other_contexts(
    change: dict[str, str],
) -> None:
    assert job(**change).step_context() != job().step_context()


def test_a_label_of_any_length_makes_keys_that_an_agent_takes() -> None:
    one, other = (job(BUILDKITE_STEP_KEY="", BUILDKITE_LABEL="a" * 300_000 + end) for end in "xy")

    for key in (one.verdict_key(), one.annotations_key(), one.step_context()):
        assert len(key) < 200
    assert one.verdict_key() != other.verdict_key()


def test_a_verdict_key_names_the_step_by_its_key_label_or_id_and_a_parallel_job() -> None:
    by_label = job(BUILDKITE_STEP_KEY="")
    by_id = job(BUILDKITE_STEP_KEY="", BUILDKITE_LABEL="")

    assert job(BUILDKITE_PARALLEL_JOB="").verdict_key() == "ci-doctor:e2e:verdict"
    assert by_label.verdict_key() == "ci-doctor:python-e2e:0:verdict"
    assert by_id.verdict_key() == "ci-doctor:s1:0:verdict"


@given(
    key=st.text(string.ascii_letters + "-_:", max_size=120),
    label=st.text(max_size=200),
    command=st.text(max_size=120),
    same_command=st.booleans(),
)
def test_no_context_is_longer_than_the_agent_takes(
    key: str, label: str, command: str, same_command: bool
) -> None:
    own = JobEnvironment(job_id="j", step_key=key or None, label=label or None, command=command)

    for context in (own.step_context(), own.sibling_context(same_command=same_command)):
        assert len(context) <= CONTEXT_LIMIT
        assert context.isascii()


def test_long_contexts_that_differ_at_their_end_stay_different() -> None:
    one, two = (JobEnvironment(job_id="j", step_key="k" * 120 + end).step_context() for end in "ab")

    assert one != two


def test_a_label_belongs_to_a_step_unless_the_job_is_a_parallel_one() -> None:
    environ = {"BUILDKITE": "true", "BUILDKITE_JOB_ID": "7", "BUILDKITE_LABEL": "cuda 12"}

    assert step_label(environ) == "cuda 12"
    assert step_label({**environ, "BUILDKITE_PARALLEL_JOB": "0"}) is None
    assert step_label({"BUILDKITE_LABEL": "cuda 12"}) is None


def test_a_build_of_the_default_branch_is_is_default_branch_build() -> None:
    assert is_default_branch_build(MAIN_BUILD) == (
        True,
        "this is a build of the default branch main",
    )


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"BUILDKITE": ""}, "no Buildkite job"),
        ({"BUILDKITE_PULL_REQUEST": "17"}, "pull request 17"),
        ({"BUILDKITE_PULL_REQUEST": ""}, "unknown whether"),
        ({"BUILDKITE_BRANCH": "topic"}, "branch topic is not"),
        (
            {"BUILDKITE_BRANCH": "", "BUILDKITE_PIPELINE_DEFAULT_BRANCH": ""},
            "is not the default branch",
        ),
    ],
)
def test_nothing_else_is(change: dict[str, str], why: str) -> None:
    answer, reason = is_default_branch_build({**MAIN_BUILD, **change})

    assert not answer
    assert why in reason


COMMAND = "BUILDKITE_COMMAND_EXIT_STATUS"
HOOK = "BUILDKITE_LAST_HOOK_EXIT_STATUS"
CANCELLED = "BUILDKITE_JOB_CANCELLED"


@pytest.mark.parametrize(
    ("environ", "verdicts", "expected"),
    [
        ({COMMAND: "0"}, [Verdict.PASS], "pass"),
        ({COMMAND: "0", HOOK: "0"}, [Verdict.PASS], "pass"),
        # What ci-doctor has seen already keeps its name.
        ({COMMAND: "1"}, [Verdict.REGRESSION], "regression"),
        ({COMMAND: "75"}, [Verdict.PASS, Verdict.INFRA], "infra"),
        ({COMMAND: "0"}, [Verdict.NONDETERMINISTIC], "nondeterministic"),
        # What it has not seen is a failure.
        ({COMMAND: "1"}, [Verdict.PASS], "failed"),
        ({COMMAND: "1"}, [Verdict.FLAKY], "failed"),
        ({COMMAND: "1"}, [Verdict.INFRA], "failed"),
        ({COMMAND: "3"}, [Verdict.REGRESSION], "regression"),
        ({COMMAND: "-1"}, [Verdict.PASS], "failed"),
        ({COMMAND: "137", HOOK: "0"}, [Verdict.PASS], "failed"),
        ({COMMAND: "0", HOOK: "4"}, [Verdict.PASS], "failed"),
        ({HOOK: "4"}, [Verdict.PASS], "failed"),
        # Nobody knows what a command would have said that never ran, or not to its end.
        ({}, [Verdict.PASS], "error"),
        ({HOOK: "0"}, [Verdict.PASS], "error"),
        ({COMMAND: "-1", CANCELLED: "true"}, [Verdict.PASS], "error"),
        ({COMMAND: "143", "BUILDKITE_JOB_TIMED_OUT": "true"}, [Verdict.PASS], "error"),
        ({COMMAND: "143", CANCELLED: "true"}, [Verdict.REGRESSION], "regression"),
        # Empty evidence passes nothing.
        ({COMMAND: "0"}, [], "void"),
        ({COMMAND: "1"}, [], "failed"),
    ],
)
def test_a_job_that_failed_has_no_verdict_that_passes(
    environ: dict[str, str], verdicts: list[Verdict], expected: str
) -> None:
    end = JobEnd.from_environ(environ)

    assert worst_verdict([a_report(verdict) for verdict in verdicts], end) == expected


LINES = {
    "BUILDKITE_JOB_ID": "0190-a",
    "BUILDKITE_RETRY_COUNT": "0",
    "BUILDKITE_COMMAND": "bash serve.sh",
    "GPU": "h200",
}


def work(folder: Path, *, queue: str = "gpu", **changed: str) -> str | None:
    lines = [f'{name}="{value}"' for name, value in {**LINES, **changed}.items()]
    # The agent writes them in any order, below names of its own.
    path = folder / "env"
    path.write_text("\n".join(["BUILDKITE_GIT_CLEAN_FLAGS", *sorted(lines, key=hash), ""]))
    return work_of({"BUILDKITE_ENV_FILE": str(path), "BUILDKITE_AGENT_META_DATA_QUEUE": queue})


def test_a_retry_on_another_agent_has_the_same_work(tmp_path: Path) -> None:
    retry = work(
        tmp_path,
        BUILDKITE_JOB_ID="0190-b",
        BUILDKITE_RETRY_COUNT="1",
        BUILDKITE_AGENT_NAME="gpu-2",
        BUILDKITE_AGENT_ACCESS_TOKEN="another",
    )

    assert retry is not None
    assert retry == work(tmp_path)


@pytest.mark.parametrize(
    "change",
    [
        {"GPU": "a100"},
        {"BUILDKITE_COMMAND": "bash other.sh"},
        {"BUILDKITE_PLUGINS": "[]"},
        {"queue": "cpu"},
    ],
)
def test_other_jobs_of_a_matrix_have_other_work(change: dict[str, str], tmp_path: Path) -> None:
    assert work(tmp_path, **change) != work(tmp_path)


def test_a_secret_is_no_part_of_what_is_published(tmp_path: Path) -> None:
    assert work(tmp_path, DEPLOY_PASSWORD="1234") == work(tmp_path)


@pytest.mark.parametrize("name", ["", "nowhere", "folder", "null\0"])
def test_without_the_file_nobody_knows(name: str, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()

    assert work_of({"BUILDKITE_ENV_FILE": str(tmp_path / name) if name else ""}) is None
