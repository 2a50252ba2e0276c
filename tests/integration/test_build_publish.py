# SPDX-License-Identifier: Apache-2.0
"""`ci-doctor build publish` in the last step of a made-up build, through the stand-in agent."""

import json
import os
from pathlib import Path

import cmarkgfm
import pytest

from tests.support import stand_in_agent
from tests.support.builds import a_job, a_red_build, job_id, write_build
from tests.support.cli import Ran, doctor, inside

pytestmark = pytest.mark.integration
CONTEXT = "ci-doctor:build"


def publish(folder: Path, *words: str, path: str | None = None, **environ: str) -> Ran:
    in_job = {
        "PATH": path or f"{folder / 'bin'}:{os.environ['PATH']}",
        "BUILDKITE": "true",
        "BUILDKITE_JOB_ID": job_id("publish"),
        "BUILDKITE_STEP_KEY": "publish",
        **environ,
    }
    # What Python itself does at its start is seen in a process of its own.
    run = doctor if "PYTHONPATH" in in_job else inside
    return run("build", "publish", *words, cwd=folder, env=in_job)


def a_build(folder: Path, *, version: str = "3.110.0") -> Path:
    log = folder / "log"
    stand_in_agent.install(folder / "bin", log, version=version)
    stand_in_agent.put_build(log, write_build(folder / "uploaded", a_red_build(), "correctness"))
    return log


@pytest.mark.parametrize("version", ["3.23.0", "3.109.0", "3.109.1", "4.0.0"])
@pytest.mark.gate(1)
def test_a_red_build_is_annotated_with_its_page_and_meta_data_and_ends_with_0(
    version: str,
    tmp_path: Path,
) -> None:
    log = a_build(tmp_path, version=version)

    ran = publish(tmp_path)

    assert ran.code == 0, ran
    style, body = stand_in_agent.annotations(log)[CONTEXT]
    assert style == "error"
    assert "a disk is full" in body
    assert 'href="artifact://ci-doctor-build/report.html"' in body
    html = cmarkgfm.github_flavored_markdown_to_html(body)
    assert html.count("<table>") == 2
    metadata = stand_in_agent.metadata(log)
    assert metadata["ci-doctor:verdict"] == "failed"
    causes = json.loads(metadata["ci-doctor:causes"])
    assert {"fingerprint": "5d1c9a70e2b4", "title": "a disk is full", "jobs": 2} in causes
    page = stand_in_agent.artifact_content(log, "ci-doctor-build/report.html").decode()
    assert "a disk is full" in page
    report = json.loads(stand_in_agent.artifact_content(log, "ci-doctor-build/report.json"))
    assert report["verdict"] == "failed"

    published = stand_in_agent.annotations(log)
    again = publish(tmp_path, BUILDKITE_JOB_ID=job_id("publish", 2))

    # What the first one published is no report of a job.
    assert again.code == 0, again
    assert stand_in_agent.annotations(log) == published


def test_on_request_it_ends_with_the_verdicts_code_and_a_missing_step_is_void(
    tmp_path: Path,
) -> None:
    log = tmp_path / "log"
    stand_in_agent.install(tmp_path / "bin", log)
    stand_in_agent.put_build(log, write_build(tmp_path / "uploaded", [a_job("unit")]))

    ran = publish(tmp_path, "--exit-code", "--expect", "e2e")

    assert ran.code == 86, ran
    assert stand_in_agent.metadata(log)["ci-doctor:verdict"] == "void"
    assert "e2e" in stand_in_agent.annotations(log)[CONTEXT][1]


def test_without_any_room_for_files_the_annotation_says_so(tmp_path: Path) -> None:
    log = a_build(tmp_path)
    # As Python fails on a machine where each temporary directory is read-only.
    startup = tmp_path / "startup"
    startup.mkdir()
    (startup / "sitecustomize.py").write_text(
        "import tempfile\n"
        "def refuse(*_, **__):\n"
        "    raise FileNotFoundError(2, 'No usable temporary directory found')\n"
        "tempfile.gettempdir = tempfile.mkdtemp = refuse\n"
    )

    ran = publish(tmp_path, PYTHONPATH=str(startup))
    gated = publish(tmp_path, "--exit-code", PYTHONPATH=str(startup))

    assert ran.code == 0, ran
    assert gated.code == 86, gated
    _, body = stand_in_agent.annotations(log)[CONTEXT]
    assert "there is no place to download to: No usable temporary directory found" in body
    assert "artifact://" not in body
    assert stand_in_agent.metadata(log)["ci-doctor:verdict"] == "void"
    assert "the page is not uploaded" in ran.err


def test_without_an_agent_it_says_so_and_never_fails_the_build(tmp_path: Path) -> None:
    python_only = str(tmp_path / "empty")

    current = publish(tmp_path, path=python_only)
    gate = publish(tmp_path, "--exit-code", path=python_only)

    assert "no buildkite-agent on PATH: nothing is published" in current.err
    assert current.code == 0
    # A gate does not pass because nothing could be read.
    assert gate.code == 86, gate


def test_outside_a_job_it_needs_paths(tmp_path: Path) -> None:
    ran = publish(tmp_path, BUILDKITE="false")

    assert ran.code == 2, ran
    assert "not a Buildkite job" in ran.err


def test_an_agent_that_cannot_search_publishes_that_nothing_was_read(tmp_path: Path) -> None:
    log = a_build(tmp_path, version="3.22.0")

    ran = publish(tmp_path)

    assert ran.code == 0, ran
    assert "older than 3.23" in stand_in_agent.annotations(log)[CONTEXT][1]
