# SPDX-License-Identifier: Apache-2.0
"""What the plugin's hooks put on the build's page: one annotation per step, true of its last attempt."""

import os
import shlex
import shutil
import sys

import pytest

from tests.support import stand_in_agent
from tests.support.annotated_page import AnnotatedPage, shown
from tests.support.bootstrap import Job
from tests.support.plugin_workplace import JOB_ID, Workplace

pytestmark = pytest.mark.integration

CONTEXT = "ci-doctor:step:e2e"


def styles(workplace: Workplace) -> dict[str, str]:
    annotations = stand_in_agent.annotations(workplace.agent_log)
    return {context: style for context, (style, _) in annotations.items()}


def page(workplace: Workplace) -> AnnotatedPage:
    """The one annotation of the build."""
    ((_, body),) = stand_in_agent.annotations(workplace.agent_log).values()
    return shown(body)


def retry(workplace: Workplace, command: str, configuration: dict[str, object]) -> Job:
    """The second attempt, on an agent that has nothing of the first."""
    shutil.rmtree(workplace.checkout / "ci-doctor-report", ignore_errors=True)
    return workplace.job(
        command, configuration, BUILDKITE_JOB_ID="0190-retry", BUILDKITE_RETRY_COUNT="1"
    )


@pytest.mark.nightly
def test_a_failed_command_is_explained_on_one_annotation_with_a_page(real: Workplace) -> None:
    command = "echo 'OSError: [Errno 28] No space left on device' >> build.log; exit 1"
    job = real.job(command, {"pythons": sys.executable, "diagnose": "build.log"})

    assert job.run() == 1, job.log
    assert list(styles(real)) == [CONTEXT]
    explained = page(real)
    assert "No space left on device" in explained.unfolded
    assert "build.log:1" in explained.unfolded
    assert "✓ setup-env" in explained.unfolded
    (artifact,) = [link for link in explained.links if link.startswith("artifact:")]
    assert artifact == f"artifact://{JOB_ID}/diagnose/report.html"
    assert artifact.removeprefix("artifact://") in real.uploaded()


@pytest.mark.nightly
def test_a_secret_does_not_reach_the_page(real: Workplace) -> None:
    command = 'echo "OSError: [Errno 28] No space left on device $MY_TOKEN" >> build.log; exit 1'
    job = real.job(
        command, {"setup-env": False, "diagnose": "build.log"}, MY_TOKEN="hush-hush-4711"
    )

    assert job.run() == 1, job.log
    assert "No space left on device" in page(real).text
    everything = real.agent_log.read_text()
    everything += (real.checkout / "ci-doctor-report" / JOB_ID / "diagnose/report.html").read_text()
    assert "hush-hush-4711" not in everything


def test_a_retry_that_is_cured_leaves_nothing_red(real: Workplace) -> None:
    real.link("false")
    for wrong in ({"project": "."}, {"projects": "gone"}, {"executable": "false"}):
        assert real.job(configuration={"pythons": sys.executable, **wrong}).run() != 0
    assert styles(real) == {CONTEXT: "error"}
    job = retry(real, "true", {"pythons": sys.executable})

    assert job.run() == 0, job.log
    assert styles(real) == {CONTEXT: "success"}
    assert "Passed on attempt 2." in page(real).unfolded
    assert real.verdicts() == ["pass"]


@pytest.mark.nightly
def test_a_retry_makes_green_what_it_has_no_report_for(real: Workplace) -> None:
    failing = f"ci-doctor launch --ready x=/ --service x={shlex.quote(sys.executable)} -- true"
    assert real.job(failing, {"setup-env": False}).run() != 0
    assert styles(real) == {CONTEXT: "error"}

    job = retry(real, "true", {"setup-env": False})

    assert job.run() == 0, job.log
    assert styles(real) == {CONTEXT: "success"}
    assert "Passed on attempt 2. Attempt 1: " in page(real).unfolded
    assert real.verdicts() == ["void"]


@pytest.mark.nightly
def test_a_retry_that_annotates_nothing_removes_what_was_said(real: Workplace) -> None:
    assert real.job(configuration={"projects": "gone", "pythons": sys.executable}).run() == 2

    job = retry(real, "true", {"annotate": False, "pythons": sys.executable})

    assert job.run() == 0, job.log
    assert styles(real) == {}
    assert "0190-retry/setup-env/report.json" in real.uploaded()


def test_a_second_failure_says_what_the_first_one_was(real: Workplace) -> None:
    options: dict[str, object] = {"setup-env": False, "diagnose": "build.log"}
    full = "echo 'OSError: [Errno 28] No space left on device' > build.log; exit 1"
    assert real.job(full, options, BUILDKITE_BUILD_URL="https://buildkite.com/o/p/builds/1").run()

    job = retry(real, "rm -f build.log; exit 3", options)
    real.link("rm")
    job.environment["BUILDKITE_BUILD_URL"] = "https://buildkite.com/o/p/builds/1"

    assert job.run() == 3, job.log
    second = page(real)
    assert "Failed: the command ended with status 3" in second.unfolded
    assert "Attempt 2. Attempt 1: " in second.unfolded
    assert "No space left on device, exit status 1, log." in second.unfolded
    assert f"https://buildkite.com/o/p/builds/1#{JOB_ID}" in second.links


@pytest.mark.nightly
def test_parallel_jobs_keep_their_annotations(real: Workplace) -> None:
    wrong = {"projects": "gone", "pythons": sys.executable}
    real.job(configuration=wrong, BUILDKITE_PARALLEL_JOB="0").run()
    for job_id, count in (("0190-b", "0"), ("0190-c", "1")):
        job = real.job(
            configuration={"pythons": sys.executable},
            BUILDKITE_JOB_ID=job_id,
            BUILDKITE_PARALLEL_JOB="1",
            BUILDKITE_RETRY_COUNT=count,
        )
        assert job.run() == 0, job.log

    assert styles(real) == {f"{CONTEXT}:0": "error", f"{CONTEXT}:1": "success"}


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("first", "second"),
    [({}, {}), ({"report-dir": "one"}, {"report-dir": "two"})],
    ids=["one place", "two places"],
)
def test_a_plugin_that_is_listed_twice_with_other_options_tells_of_both(
    real: Workplace, first: dict[str, str], second: dict[str, str]
) -> None:
    job = real.job("env", {"pythons": sys.executable, **first})
    job.other_configurations = [{"pythons": sys.executable, "determinism": "strict", **second}]

    assert job.run() == 0, job.log
    assert "the step lists the plugin twice" not in job.log
    assert list(styles(real)) == [CONTEXT]
    assert "2 reports" in page(real).folded


@pytest.mark.nightly
def test_what_the_command_published_elsewhere_stays_on_the_annotation(real: Workplace) -> None:
    failing = f"launch --report-dir elsewhere --ready x=/ --service x={shlex.quote(sys.executable)}"
    command = f"ci-doctor {failing} -- true || ci-doctor report elsewhere --publish"
    job = real.job(command, {"pythons": sys.executable})

    assert job.run() == 0, job.log
    (style,) = styles(real).values()
    assert style != "success"
    told = page(real)
    assert "✓ setup-env" in told.unfolded
    assert "launch" in told.unfolded
    assert real.verdicts() != ["pass"]
    assert real.uploaded().count("check out/elsewhere/report.json") == 1


@pytest.mark.nightly
def test_a_hostile_label_stays_text(real: Workplace) -> None:
    label = "</details><script>alert(1)</script>\n# $(touch owned) \u202e ](javascript:alert(1))"
    job = real.job("exit 3", {"setup-env": False}, BUILDKITE_LABEL=label)

    assert job.run() == 3, job.log
    assert "</details><script>alert(1)</script> # $(touch owned)" in page(real).unfolded
    assert not os.path.lexists(real.checkout / "owned")
