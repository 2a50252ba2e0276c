# SPDX-License-Identifier: Apache-2.0
"""The recipe nightly: a build of the default branch writes baselines and history, a pull request reads them."""

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.integration.test_plugin_robust import needs_mounts
from tests.support.cli import doctor, environment
from tests.support.github_machine import ROOT, write_ci_doctor
from tests.support.pipeline_steps import command_of, retried, step_of

pytestmark = [pytest.mark.integration, pytest.mark.nightly, needs_mounts]
RECIPE = ROOT / "examples" / "recipes" / "nightly"
NIGHTLY = step_of(RECIPE / "nightly.yml", "baselines")
PULL_REQUEST = step_of(RECIPE / "pull-request.yml", "correctness")
SHARED = "/mnt/ci-doctor"
MAIN = {"BUILDKITE_BRANCH": "main", "BUILDKITE_PULL_REQUEST": "false"}
FEATURE = {"BUILDKITE_BRANCH": "feature", "BUILDKITE_PULL_REQUEST": "12"}
# In a namespace of mounts: the shared directory at its place, writable or not.
MOUNT = """mount -t tmpfs tmpfs /mnt; mkdir /mnt/ci-doctor
mount --bind "$1" /mnt/ci-doctor; [ "$2" = rw ] || mount -o remount,bind,ro /mnt/ci-doctor
shift 2; exec "$@" """


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout on an agent after one nightly build; `shared` beside it is the shared directory."""
    pytest.importorskip("numpy")
    folder = tmp_path_factory.mktemp("agent")
    shutil.copytree(ROOT / "examples" / "tiny-llm", folder / "tiny-llm")
    shutil.copytree(RECIPE, folder / "recipes" / "nightly")
    (folder / "shared").mkdir()
    write_ci_doctor(folder / "bin" / "ci-doctor")
    ran, log = job(folder, NIGHTLY, MAIN, access="rw", build="night-1")
    assert ran == 0, log
    assert "1 baseline start archived in /mnt/ci-doctor/baselines" in log
    return folder


def job(
    folder: Path, step: dict[str, Any], variables: dict[str, str], *, access: str, build: str
) -> tuple[int, str]:
    """The exit status and the log of a job of `step`."""
    program = Path(sys.executable).parent
    env = environment(
        {
            "BUILDKITE": "true",
            "BUILDKITE_JOB_ID": f"job-of-{build}",
            "BUILDKITE_BUILD_ID": build,
            "BUILDKITE_COMMIT": "4fe1a2b",
            "BUILDKITE_PIPELINE_DEFAULT_BRANCH": "main",
            "CI_DOCTOR_REPORT_DIR": str(folder / build),
            **variables,
            **step["env"],
        }
    )
    env["PATH"] = f"{folder / 'bin'}:{program}:{env['PATH']}"
    words = ["sh", "-ec", MOUNT, "sh", str(folder / "shared"), access]
    ran = subprocess.run(
        ["unshare", "-rm", *words, "/bin/bash", "-e", "-c", command_of(step)],
        cwd=folder / "recipes" / "nightly",
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return ran.returncode, " ".join(ran.stdout.split())


def shared_files(folder: Path) -> dict[str, int]:
    shared = folder / "shared"
    return {
        str(each.relative_to(shared)): each.stat().st_mtime_ns
        for each in shared.rglob("*")
        if each.is_file()
    }


def test_a_pull_request_starts_no_baseline_and_writes_nothing(agent: Path) -> None:
    before = shared_files(agent)

    code, log = job(agent, PULL_REQUEST, FEATURE, access="ro", build="pull-1")

    assert code == 0, log
    assert "starts none | B1 archived a1 of 1 build" in log, "no baseline was started today"
    assert "nothing was archived: this is a build of pull request 12" in log
    assert shared_files(agent) == before


def test_a_regression_against_the_archived_baseline_is_red_and_not_retried(agent: Path) -> None:
    """The variant that must fail."""
    variant = {**PULL_REQUEST, "command": f"{PULL_REQUEST['command']} --config regression.toml"}

    code, log = job(agent, variant, FEATURE, access="ro", build="pull-2")

    assert code == 1, log
    assert "REGRESSION correctness" in log
    assert "archived a1 of 1 build" in log
    # The history is read, although it cannot be written.
    assert "not seen before in this history; this run is not written: " in log
    assert not retried(PULL_REQUEST, code)
    assert retried(PULL_REQUEST, 75)


def test_a_pull_request_that_wants_to_write_is_refused(agent: Path) -> None:
    """It can set every variable; the mount refuses it."""
    before = shared_files(agent)
    forged = {**MAIN, "CI_DOCTOR_CORRECTNESS_ARCHIVE_WRITE": "always"}

    code, log = job(agent, PULL_REQUEST, forged, access="ro", build="pull-3")

    assert code == 0, log
    assert "the baseline could not be archived: cannot write /mnt/ci-doctor/baselines/" in log
    assert log.count("cannot write /mnt/ci-doctor/baselines/") == 1, "the file is named once"
    assert "Read-only file system" in log
    assert shared_files(agent) == before


def test_the_history_of_a_night_is_published_whole(agent: Path) -> None:
    ran = doctor(
        "history", "flaky", "--json", "--database", agent / "shared/history.sqlite", cwd=agent
    )

    assert ran.code == 0, ran
    assert {"history.sqlite"} == {name for name in shared_files(agent) if "/" not in name}
