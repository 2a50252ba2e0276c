"""The plugin's option `cache`, through the real hooks: restored before the command, judged and saved after it."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.support.plugin_workplace import JOB_ID, Workplace

pytestmark = pytest.mark.integration

COMPILE = "mkdir -p mine && [ -e mine/kernel.so ] || echo compiled-$$ > mine/kernel.so; cat mine/kernel.so"


class Steps:
    """Jobs of one step on one agent, with a store beside the checkout."""

    def __init__(self, folder: Path) -> None:
        self.workplace = Workplace(folder)
        self.workplace.real_ci_doctor()
        self.store = folder / "store"
        self.environment = {"CI_DOCTOR_STATE_DIR": str(folder / "state"), "HOME": str(folder)}
        self.options: dict[str, object] = {
            "setup-env": False,
            "cache": {"store": str(self.store), "families": [f"mine={self.cache}"]},
        }

    @property
    def cache(self) -> Path:
        return self.workplace.checkout / "mine"

    def run(self, command: str = COMPILE) -> tuple[int, str]:
        job = self.workplace.job(command, self.options, **self.environment)
        return job.run(), job.log

    def report(self, name: str) -> dict[str, Any]:
        path = self.workplace.checkout / "ci-doctor-report" / JOB_ID / name / "report.json"
        content: dict[str, Any] = json.loads(path.read_bytes())
        return content


@pytest.fixture
def steps(tmp_path: Path) -> Steps:
    return Steps(tmp_path)


def test_a_second_job_restores_what_the_first_one_compiled_and_its_report_says_so(
    steps: Steps,
) -> None:
    assert steps.run()[0] == 0
    compiled = (steps.cache / "kernel.so").read_bytes()
    shutil.rmtree(steps.workplace.checkout / "ci-doctor-report")
    shutil.rmtree(steps.cache)

    status, log = steps.run()

    assert status == 0, log
    assert (steps.cache / "kernel.so").read_bytes() == compiled
    effect = steps.report("cache-2")
    assert effect["facts"]["caches"][0]["effect"] == "paid", log


def test_a_command_that_fails_saves_nothing(steps: Steps) -> None:
    status, log = steps.run(f"{COMPILE}; exit 3")

    assert status == 3, log
    assert not list(steps.store.rglob("*.pack"))


def test_a_store_that_cannot_be_used_changes_no_job(steps: Steps) -> None:
    steps.store.write_text("no directory")

    status, log = steps.run()

    assert status == 0, log
    assert "cache/not-saved" in log, log


def test_a_mistyped_key_of_the_option_fails_the_job_before_its_command(steps: Steps) -> None:
    steps.options["cache"] = {"stor": "x"}

    status, log = steps.run("echo RAN")

    assert status == 2
    assert "`store`" in log or "store" in log
    assert "RAN" not in log
