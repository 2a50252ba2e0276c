# SPDX-License-Identifier: Apache-2.0
"""Publishing the report of a build through a stand-in agent: each failure costs its part alone."""

import os
from pathlib import Path

import msgspec
import pytest

from ci_doctor.build.current import CONTEXT, publish_build
from ci_doctor.model.facts.build import BuildFacts, StepFacts
from ci_doctor.model.outcome import Report, Verdict
from tests.support import stand_in_agent
from tests.support.builders import a_report


def a_build() -> Report:
    return msgspec.structs.replace(
        a_report(Verdict.FAILED, command="build"), facts=msgspec.to_builtins(BuildFacts())
    )


def environ(folder: Path) -> dict[str, str]:
    job = {"BUILDKITE": "true", "BUILDKITE_JOB_ID": "j1"}
    return {**os.environ, "PATH": f"{folder / 'bin'}:{os.environ['PATH']}", **job}


@pytest.mark.parametrize(
    ("failing", "words"),
    [
        ("artifact", "artifact upload failed with status 1"),
        ("annotate", "annotate failed with status 1"),
        ("meta-data", "meta-data set failed with status 1"),
    ],
)
def test_an_api_that_answers_500_costs_its_part_alone(
    tmp_path: Path, failing: str, words: str
) -> None:
    log = tmp_path / "log"
    stand_in_agent.install(tmp_path / "bin", log, failing=failing)

    lines = publish_build(a_build(), environ(tmp_path))

    assert all(words in line for line in lines)
    assert lines
    bodies = stand_in_agent.annotations(log)
    parts = {
        "artifact": bool(stand_in_agent.artifacts(log)),
        "annotate": bool(bodies),
        "meta-data": bool(stand_in_agent.metadata(log)),
    }
    assert parts == {name: name != failing for name in parts}
    # Without its page there is no link to it.
    if bodies:
        assert ("artifact://" in bodies[CONTEXT][1]) is (failing != "artifact")


def test_a_page_that_cannot_be_made_costs_the_page_alone(tmp_path: Path) -> None:
    log = tmp_path / "log"
    stand_in_agent.install(tmp_path / "bin", log)
    facts = {**a_build().facts, "no JSON": object()}
    report = msgspec.structs.replace(a_build(), facts=facts)

    (line,) = publish_build(report, environ(tmp_path))

    assert line.startswith("the page is not uploaded: TypeError: ")
    assert "artifact://" not in stand_in_agent.annotations(log)[CONTEXT][1]
    assert stand_in_agent.metadata(log)["ci-doctor:verdict"] == "failed"


def test_an_annotation_that_cannot_be_made_costs_the_annotation_alone(tmp_path: Path) -> None:
    log = tmp_path / "log"
    stand_in_agent.install(tmp_path / "bin", log)
    step = StepFacts(name="e2e", verdict="failed", attempts=())
    facts = msgspec.to_builtins(BuildFacts(build_steps=(step,)))
    report = msgspec.structs.replace(a_build(), facts=facts)

    (line,) = publish_build(report, environ(tmp_path))

    assert line.startswith("the annotation is not published: IndexError: ")
    assert stand_in_agent.artifacts(log)
    assert stand_in_agent.metadata(log)["ci-doctor:verdict"] == "failed"


def test_without_an_agent_a_line_says_so(tmp_path: Path) -> None:
    (line,) = publish_build(a_build(), {"PATH": ""})

    assert line.endswith("nothing is published")
