# SPDX-License-Identifier: Apache-2.0
"""The artifacts of builds through a stand-in agent, and what is known of their jobs."""

import os
from pathlib import Path

import pytest

from ci_doctor.buildkite.artifacts import DownloadLimits
from ci_doctor.errors import UsageError
from ci_doctor.history.evidence import JobEvidence
from ci_doctor.history.ingest import (
    LIMITS,
    FilesToRead,
    NamedBuild,
    agent_of_job,
    build_files,
    named_build,
)
from tests.support import stand_in_agent
from tests.support.stand_in_api import BUILD_ID

CURRENT = NamedBuild(label="build 900", pipeline="serving", number=900, commit="abc")
OTHER = NamedBuild(label="build 812", id=BUILD_ID, number=812)


class MadeUpBuilds:
    def __init__(self, root: Path, *, version: str = "3.110.0", failing: str | None = None) -> None:
        self.root = root
        self.log = root / "log"
        stand_in_agent.install(root / "bin", self.log, version=version, failing=failing)

    def put(self, job: str, path: str, build: str | None = None, size: int = 2) -> None:
        stand_in_agent.put_artifact(self.log, job, path, b"x" * size, build=build, retried=True)

    def download(self, *builds: NamedBuild, limits: DownloadLimits = LIMITS) -> FilesToRead:
        environ = {
            **os.environ,
            "PATH": f"{self.root / 'bin'}:{os.environ['PATH']}",
            "BUILDKITE": "true",
            "BUILDKITE_JOB_ID": "own",
        }
        asked = JobEvidence(commit="asked")
        return build_files(builds, agent_of_job(environ), self.root / "into", asked, limits=limits)


def test_evidence_of_several_builds_is_downloaded_and_its_jobs_are_known(tmp_path: Path) -> None:
    made = MadeUpBuilds(tmp_path)
    made.put("j1", "out/junit.xml")
    made.put("j2", "out/junit.xml")
    made.put("j1", "top.json")
    made.put("j1", "weights.bin")
    made.put("j3", "report.json", BUILD_ID)

    files = made.download(CURRENT, OTHER)

    assert files.unreadable == ()
    by_place = {file.at: file for file in files.files}
    assert sorted(by_place) == [
        "build 812/report.json",
        "build 900/of-j1/out/junit.xml",
        "build 900/of-j2/out/junit.xml",
        "build 900/top.json",
    ]
    assert all(file.path.is_file() for file in files.files)
    assert by_place["build 900/of-j2/out/junit.xml"].known == JobEvidence(
        key="j2", pipeline="serving", build=900, commit="abc"
    )
    # What somebody says fills in what is not known.
    assert by_place["build 812/report.json"].known == JobEvidence(
        key="j3", build=812, commit="asked"
    )


def test_a_file_that_is_too_large_or_hostile_is_named_and_not_downloaded(tmp_path: Path) -> None:
    made = MadeUpBuilds(tmp_path)
    made.put("j1", "small.xml")
    made.put("j1", "huge.xml", size=200)
    made.put("j1", "../../../escaped.xml")

    files = made.download(CURRENT, limits=DownloadLimits(file_bytes=100))

    assert [file.at for file in files.files] == ["build 900/of-j1/small.xml"]
    text = " ".join(each.problem for each in files.unreadable)
    assert "huge.xml" in text
    assert "escaped.xml" in text
    assert {each.place for each in files.unreadable} == {"build 900"}
    assert not list(tmp_path.parent.rglob("escaped.xml"))


@pytest.mark.parametrize(
    ("version", "failing", "problem"),
    [("3.20.0", None, "older than 3.23"), ("3.110.0", "artifact search", "500")],
)
def test_what_the_agent_cannot_do_is_a_part_of_the_result(
    tmp_path: Path, version: str, failing: str | None, problem: str
) -> None:
    made = MadeUpBuilds(tmp_path, version=version, failing=failing)
    made.put("j1", "junit.xml")

    files = made.download(CURRENT)

    assert files.files == ()
    assert problem in files.unreadable[0].problem


def test_without_an_agent_there_are_no_artifacts() -> None:
    with pytest.raises(UsageError, match="no Buildkite job"):
        agent_of_job({"PATH": ""})


THIS_JOB = {
    "BUILDKITE_PIPELINE_SLUG": "serving",
    "BUILDKITE_BUILD_NUMBER": "900",
    "BUILDKITE_BUILD_ID": "0193a000-0000-4000-8000-000000000900",
    "BUILDKITE_COMMIT": "abc",
    "BUILDKITE_BRANCH": "main",
}


@pytest.mark.parametrize("word", ["current", "900", THIS_JOB["BUILDKITE_BUILD_ID"]])
def test_the_build_of_this_job_is_known_by_its_variables(word: str) -> None:
    assert named_build(word, THIS_JOB) == NamedBuild(
        label="build 900", pipeline="serving", number=900, commit="abc", branch="main"
    )


def test_another_build_is_known_by_its_id() -> None:
    assert named_build(BUILD_ID, THIS_JOB) == NamedBuild(label=BUILD_ID, id=BUILD_ID)


@pytest.mark.parametrize("word", ["", "latest", "812", "../812"])
def test_what_is_no_build_is_a_usage_error(word: str) -> None:
    with pytest.raises(UsageError, match="it is no build"):
        named_build(word, THIS_JOB)
