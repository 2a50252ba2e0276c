# SPDX-License-Identifier: Apache-2.0
"""What builds of one project mean."""

from pathlib import Path

import pytest

from ci_doctor.environment.backends.setuptools_scm import SETUPTOOLS_SCM
from ci_doctor.environment.project import Project
from ci_doctor.environment.proof.metadata_result import BuiltMetadata
from ci_doctor.environment.proof.trial import Trial, judge_trial, same_version
from ci_doctor.model.finding import Severity

PINNED = Project(directory=Path("/p"), name="x", tool="setuptools-scm", source=SETUPTOOLS_SCM)
UNPINNED = Project(directory=Path("/p"), name="x", tool="versioneer", advice="set tag_prefix")
RIGHT = BuiltMetadata(version="1.0")
OTHER = BuiltMetadata(version="2.0")
FAILED = BuiltMetadata(failure="InvalidVersion: 'nightly-cu13'")
TAGS = ("nightly-cu13",)


@pytest.mark.parametrize(
    ("trial", "rule"),
    [
        pytest.param(Trial(project=PINNED, expected="1.0", actual=RIGHT), None, id="proven"),
        pytest.param(Trial(project=PINNED, expected="v1.0", actual=RIGHT), None, id="normal form"),
        pytest.param(
            Trial(project=PINNED, expected="1.0", tags=TAGS, actual=FAILED, reference=RIGHT),
            "version/broken-build",
            id="breaks on the tag",
        ),
        pytest.param(
            Trial(project=PINNED, expected="1.0", tags=TAGS, actual=OTHER, reference=RIGHT),
            "version/broken-build",
            id="another version",
        ),
        pytest.param(
            Trial(project=PINNED, expected="1.0", actual=FAILED, reference=FAILED),
            "version/not-proven",
            id="fails anyway",
        ),
        pytest.param(
            Trial(project=PINNED, expected="1.0", reason="no network"), None, id="not tried"
        ),
        pytest.param(
            Trial(project=UNPINNED, actual=RIGHT, reference=RIGHT), None, id="bears the tag"
        ),
        pytest.param(
            Trial(project=UNPINNED, tags=TAGS, actual=OTHER, reference=RIGHT),
            "version/broken-build",
            id="the tag changes it",
        ),
    ],
)
def test_what_a_trial_means(trial: Trial, rule: str | None) -> None:
    findings = judge_trial(trial, demanded=False)
    assert [each.rule for each in findings] == ([] if rule is None else [rule])


def test_a_proof_that_was_demanded_and_not_made_is_a_warning() -> None:
    (finding,) = judge_trial(
        Trial(project=PINNED, expected="1.0", reason="no network"), demanded=True
    )
    assert (finding.rule, finding.severity) == ("version/not-proven", Severity.WARNING)
    assert "no network" in finding.summary


def test_what_is_broken_names_the_tags_and_how_to_go_on() -> None:
    trial = Trial(project=UNPINNED, tags=TAGS, actual=FAILED, reference=RIGHT)
    (finding,) = judge_trial(trial, demanded=False)
    assert finding.severity is Severity.ERROR
    assert [each.excerpt for each in finding.evidence] == ["refs/tags/nightly-cu13"]
    assert finding.remedy is not None
    assert finding.remedy.startswith("git tag --delete -- nightly-cu13  #")
    assert "set tag_prefix" in finding.remedy


def test_texts_that_are_no_versions_are_compared_as_they_are() -> None:
    assert same_version("1.0", "v1.0.0")
    assert same_version("nightly", "nightly")
    assert not same_version("nightly", "1.0")
