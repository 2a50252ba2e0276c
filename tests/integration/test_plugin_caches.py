"""The plugin's option `cache`, through the real hooks: restored before the command, judged and saved after it."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.support import stand_in_agent
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

    @property
    def cache_option(self) -> dict[str, Any]:
        option: dict[str, Any] = self.options["cache"]  # type: ignore[assignment]
        return option

    def run(self, command: str = COMPILE, *others: object) -> tuple[int, str]:
        """A job whose step lists the plugin once more for each of `others`."""
        # Each job has an id of its own, and so a directory.
        shutil.rmtree(self.workplace.checkout / "ci-doctor-report", ignore_errors=True)
        self.workplace.agent_log.unlink(missing_ok=True)
        job = self.workplace.job(command, self.options, **self.environment)
        job.other_configurations = list(others)
        return job.run(), job.log

    def report(self) -> dict[str, Any]:
        """That of the job's caches: there is one."""
        (path,) = (self.workplace.checkout / "ci-doctor-report" / JOB_ID).rglob("report.json")
        assert path.parent.name == "caches"
        content: dict[str, Any] = json.loads(path.read_bytes())
        return content

    def annotation(self) -> tuple[str, str]:
        (annotation,) = stand_in_agent.annotations(self.workplace.agent_log).values()
        return annotation


@pytest.fixture
def steps(tmp_path: Path) -> Steps:
    return Steps(tmp_path)


def test_a_second_job_restores_what_the_first_one_compiled_and_its_report_says_so(
    steps: Steps,
) -> None:
    assert steps.run()[0] == 0
    compiled = (steps.cache / "kernel.so").read_bytes()
    shutil.rmtree(steps.cache)

    status, log = steps.run()

    assert status == 0, log
    assert (steps.cache / "kernel.so").read_bytes() == compiled
    facts = steps.report()["facts"]
    assert facts["restored"][0]["caches"][0]["result"] == "restored"
    assert facts["effects"][0]["caches"][0]["effect"] == "paid", log
    assert facts["saved"][0]["caches"][0]["result"] == "unchanged"
    # A job that nobody judges has passed, whatever its caches did.
    style, body = steps.annotation()
    assert style == "success"
    assert body.count("**Caches:** mine paid") == 1


def test_a_command_that_fails_saves_nothing(steps: Steps) -> None:
    status, log = steps.run(f"{COMPILE}; exit 3")

    assert status == 3, log
    assert not list(steps.store.rglob("*.pack"))


@pytest.mark.nightly
def test_a_store_that_cannot_be_used_changes_no_job(steps: Steps) -> None:
    steps.store.write_text("no directory")

    status, log = steps.run()

    assert status == 0, log
    # The annotation names the store of both hooks, and the job has passed all the same.
    style, body = steps.annotation()
    assert style == "success"
    assert body.count("cache/unavailable") >= 2


def test_a_strict_step_that_saves_nothing_does_not_start_without_a_cache(steps: Steps) -> None:
    steps.cache_option.update(strict=True, save=False)

    status, log = steps.run("echo RAN")

    assert (status, "RAN" in log) == (86, False), log


@pytest.mark.nightly
def test_the_plugin_listed_twice_moves_its_caches_once_and_starts_if_it_saves_them(
    steps: Steps,
) -> None:
    steps.cache_option["strict"] = True
    other = {**steps.options, "cache": {**steps.cache_option, "families": [f"other={steps.cache}"]}}

    status, log = steps.run(COMPILE, steps.options, other)

    assert status == 0, log
    facts = steps.report()["facts"]
    families = [[each["family"] for each in part["caches"]] for part in facts["saved"]]
    assert sorted(families) == [["mine"], ["other"]]
    assert len(facts["restored"]) == 2


def test_a_mistyped_key_of_the_option_fails_the_job_before_its_command(steps: Steps) -> None:
    steps.options["cache"] = {"stor": "x"}

    status, log = steps.run("echo RAN")

    assert status == 2
    assert "`store`" in log or "store" in log
    assert "RAN" not in log
