# SPDX-License-Identifier: Apache-2.0
"""`ci-doctor correctness --fan-out`: starts as jobs of a build, each a real process with real servers, on agents that differ,
are lost, or run a job twice. The agent's command line and the scheduler are stood in for."""

import json
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from ci_doctor.buildkite.fan_out import Origin, sealed, unsealed
from tests.integration.test_correctness import SERVER
from tests.support import stand_in_agent
from tests.support.cli import BARE, inside, words
from tests.support.orders import SEED
from tests.support.report_schema import checked_report
from tests.support.stand_in_build import BUILD, Fate, StandInBuild

pytestmark = pytest.mark.integration

ALIKE = {f"agent-{number}": {"VLLM_KIND": "h100"} for number in range(5)}
REQUESTS = "".join(
    json.dumps({"id": f"r{number}", "body": {"prompt": f"p{number}", "temperature": 0}}) + "\n"
    for number in range(4)
)


def server(folder: Path, traits: str) -> str:
    return f"{shlex.join([*BARE, str(SERVER)])} {{port}} start={{start}} {traits} {folder}"


def a_build(
    folder: Path,
    baseline: str = "",
    candidate: str = "",
    *more: str,
    agents: Mapping[str, Mapping[str, str]] = ALIKE,
    fate: Fate = lambda *_: "",
    configuration: str = "",
) -> StandInBuild:
    line = words(
        "correctness", "--baseline", server(folder, baseline), "--candidate", server(folder, candidate),
        "--requests", "requests.jsonl", "--passes", "1", "--seed", str(SEED), "--fan-out", *more,
    )  # fmt: skip
    return StandInBuild(
        folder,
        shlex.join(line),
        agents,
        files={"requests.jsonl": REQUESTS, "ci-doctor.toml": configuration},
        fate=fate,
    )


def verdict_of(build: StandInBuild) -> dict[str, Any]:
    """The report of the last job, which has the verdict."""
    last = build.run()
    report = last.directory / "ci-doctor-report" / "report.json"
    assert report.exists(), last
    checked: dict[str, Any] = checked_report(report.read_text())
    assert checked["exit_code"] == last.status, last
    return checked


def lines(report: Mapping[str, Any], title: str) -> list[str]:
    tables = [table for table in report["tables"] if table["title"] == title]
    return [str(row) for table in tables for row in table["rows"]]


def lost(key: str, number: int, retries: int = 1) -> Fate:
    """That the job with this number of a step is lost."""
    return lambda step, job, retry: (
        "lost" if key in step and job == number and retry < retries else ""
    )


def test_a_first_pair_that_agrees_is_one_job_and_a_pass(tmp_path: Path) -> None:
    build = a_build(tmp_path)
    report = verdict_of(build)
    assert report["verdict"] == "pass", report
    assert [job.status for job in build.jobs] == [0, 0, 0]
    assert len(build.of_step("starts")) == 1
    assert report["facts"]["schedule"]["made"] == "A1 B1"
    assert lines(report, "Jobs")


@pytest.mark.gate(1)
def test_a_difference_asks_for_the_rest_of_the_block_and_a_fault_is_red(tmp_path: Path) -> None:
    build = a_build(tmp_path, "", "flip")
    report = verdict_of(build)
    assert report["verdict"] == "regression", report
    # Two starts in each job, and one in the last.
    assert [len(build.of_step(f"starts-{wave}")) for wave in (1, 2, 3)] == [1, 4, 0]
    assert report["facts"]["starts"] == {"baseline": 4, "candidate": 5}
    order = report["facts"]["schedule"]["order"].split()
    assert [name[0] for name in report["facts"]["schedule"]["made"].split()] == order[:9]
    last = build.jobs[-1].directory / "ci-doctor-report"
    assert {path.parent.name for path in last.glob("logs/*/*.log")} >= {"A1", "B5"}


@pytest.mark.nightly
def test_a_lost_agent_costs_its_pair_which_is_made_once_more(tmp_path: Path) -> None:
    build = a_build(tmp_path, "", "flip", fate=lost("starts-2", 1))
    report = verdict_of(build)
    assert report["verdict"] == "regression", report
    assert [len(build.of_step(f"starts-{wave}")) for wave in (1, 2, 3)] == [1, 4, 1]
    assert "correctness/fan-out" in [each["rule"] for each in report["findings"]]


@pytest.mark.nightly
def test_a_pair_that_is_lost_twice_is_never_agreement(tmp_path: Path) -> None:
    build = a_build(
        tmp_path, "", "", "--min-candidate-starts", "2", "--min-baseline-starts", "2",
        fate=lambda step, job, _: "lost" if "starts-2" in step or ("starts-1" in step and job == 1) else "",
    )  # fmt: skip
    report = verdict_of(build)
    assert report["verdict"] == "inconclusive", report
    assert report["exit_code"] == 86
    assert "lost in two jobs" in report["summary"]
    # Nothing resumes it.
    assert not [each for each in report["findings"] if "resumes" in (each["remedy"] or "")]


def test_after_a_cancelled_job_nothing_is_decided(tmp_path: Path) -> None:
    build = a_build(tmp_path, fate=lambda step, *_: "cancelled" if "starts" in step else "")
    build.run()
    assert build.of_step("decides") == []
    assert build.skipped == [f"{build.of_step('starts')[0].key.replace('starts', 'decides')}"]


@pytest.mark.nightly
@pytest.mark.parametrize("fate", ["retried", "twice"])
def test_a_job_that_runs_again_counts_once(tmp_path: Path, fate: str) -> None:
    build = a_build(
        tmp_path, fate=lambda step, _, retry: fate if "starts-1" in step and retry == 0 else ""
    )
    report = verdict_of(build)
    assert report["verdict"] == "pass", report
    if fate == "retried":
        jobs = build.of_step("starts-1")
        # The first attempt counts: who repeats a job does not choose among answers.
        assert jobs[0].job in lines(report, "Jobs")[0]
        assert jobs[1].job in lines(report, "Jobs")[1]
    else:
        # Two contents of one attempt: neither counts, and the pair is made once more.
        assert len(build.of_step("starts-2")) == 1


@pytest.mark.parametrize("what", ["build", "job", "plan", "content"])
@pytest.mark.gate(1)
def test_evidence_of_something_else_is_never_agreement(tmp_path: Path, what: str) -> None:
    build = a_build(tmp_path, "", "flip", fate=lost("starts-", 0, 9))
    agreeing = a_build(tmp_path / "other")
    agreeing.folder.mkdir(exist_ok=True)
    theirs = verdict_of(agreeing)
    assert theirs["verdict"] == "pass"
    (path,) = [str(each["path"]) for each in stand_in_agent.artifacts(agreeing.log)]
    evidence = unsealed(stand_in_agent.artifact_content(agreeing.log, path), 1 << 30)

    def forge(step: str, number: int, retry: int) -> str:
        if "starts" not in step:
            return ""
        task = json.loads(
            stand_in_agent.uploaded(build.log)[-2]["env"]["CI_DOCTOR_TASK"]  # type: ignore[index]
        )
        own = Origin(build=BUILD, plan=task["plan"], task="1-2", step=step, job="j1")
        other = {"build": "another", "job": "j2", "plan": "0" * 64, "content": "j1"}[what]
        origin = own if what == "content" else replace(own, **{what: other})
        content = sealed(origin, evidence.body)
        if what == "content":
            # Not at its end, where bits may only fill a byte.
            middle = len(content) // 2
            changed = bytes([content[middle] ^ 1])
            content = content[:middle] + changed + content[middle + 1 :]
        name = f"ci-doctor-evidence/{step}-{task['plan'][:16]}.evidence.gz"
        stand_in_agent.put_artifact(build.log, "j1", name, content)
        return "lost"

    build.fate = forge
    report = verdict_of(build)
    assert report["verdict"] not in {"pass", "flaky"}, report
    assert "correctness/fan-out" in [each["rule"] for each in report["findings"]]


@pytest.mark.nightly
def test_agents_of_different_kinds_are_compared_within_a_kind_alone(tmp_path: Path) -> None:
    agents = {
        **{f"h{number}": {"VLLM_KIND": "h100", "CUDA_VISIBLE_DEVICES": "0"} for number in range(2)},
        **{f"a{number}": {"VLLM_KIND": "a100", "CUDA_VISIBLE_DEVICES": "1"} for number in range(2)},
    }
    more = ("--min-candidate-starts", "4", "--min-baseline-starts", "4")
    build = a_build(tmp_path, "flip%1", "flip%1", *more, agents=agents)
    report = verdict_of(build)
    assert report["verdict"] in {"pass", "inconclusive"}, report
    assert "kinds" in report["summary"], report["summary"]


def test_the_template_says_where_and_how_the_jobs_run(tmp_path: Path) -> None:
    build = a_build(
        tmp_path,
        configuration='[correctness.step]\nqueue = "h100"\nimage = "vllm:1"\nconcurrency = 2\n'
        'plugins = [{ "docker#v5" = { image = "vllm:1" } }]\nagents = { gpu = "h100" }\ntimeout = 30\nenv = { OMP_NUM_THREADS = "1" }\n',
    )
    # A variable that may change answers makes another kind of agent, and no other experiment.
    assert verdict_of(build)["verdict"] == "pass"
    step, deciding = stand_in_agent.uploaded(build.log)
    assert step["agents"] == {"queue": "h100", "gpu": "h100"}
    assert step["plugins"] == [{"docker#v5": {"image": "vllm:1"}}]
    assert (step["image"], step["concurrency"], step["timeout_in_minutes"]) == ("vllm:1", 2, 30)
    assert deciding["agents"] == {"queue": "gpus"}
    assert "image" not in deciding


def test_a_container_that_does_not_get_the_task_asks_for_nothing_more(tmp_path: Path) -> None:
    build = a_build(tmp_path)
    build.command = f"unset CI_DOCTOR_TASK; {build.command}"
    build.run()
    assert [job.status for job in build.jobs] == [0, 2, 2]
    assert "CI_DOCTOR_TASK did not reach" in build.jobs[-1].output


@pytest.mark.nightly
def test_64_starts_run_in_parallel_jobs(tmp_path: Path) -> None:
    agents = {f"agent-{number}": {"VLLM_KIND": "h100"} for number in range(32)}
    more = ("--min-candidate-starts", "32", "--min-baseline-starts", "32", "--start-timeout", "300")
    build = a_build(tmp_path, "", "", *more, agents=agents)
    report = verdict_of(build)
    assert report["verdict"] == "pass", report
    assert report["facts"]["starts"] == {"baseline": 32, "candidate": 32}
    assert len(build.of_step("starts-1")) == 32


def test_outside_a_build_it_says_what_to_write(tmp_path: Path) -> None:
    (tmp_path / "requests.jsonl").write_text(REQUESTS)
    line = ["correctness", "--baseline", server(tmp_path, ""), "--candidate", server(tmp_path, "")]
    ran = inside(*line, "--requests", "requests.jsonl", "--fan-out", cwd=tmp_path)
    assert ran.code == 2, ran
    assert "--fan-out local:N" in ran.err
