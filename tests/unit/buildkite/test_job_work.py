# SPDX-License-Identifier: Apache-2.0
"""What tells the jobs of a matrix apart, from the file that the agent writes."""

from pathlib import Path

import pytest

from ci_doctor.buildkite.job import work_of

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
