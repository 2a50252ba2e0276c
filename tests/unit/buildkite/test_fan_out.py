# SPDX-License-Identifier: Apache-2.0
import gzip
import json
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from ci_doctor.buildkite.agent import ApiTime
from ci_doctor.buildkite.fan_out import (
    Asked,
    BuildSteps,
    Evidence,
    NotEvidenceError,
    Origin,
    chosen,
    gather,
    leave,
    sealed,
    unsealed,
)
from ci_doctor.buildkite.steps import TASK_VARIABLE, StepTemplate, job_step
from ci_doctor.errors import InfraError, UsageError
from tests.support import stand_in_agent
from tests.support.pipeline_steps import schema_problems

PLAN = "ab" * 32
ORIGIN = Origin(build="b1", plan=PLAN, task="1-2", step="s1", job="j1")
ASKED = Asked(build="b1", plan=PLAN, steps={"1-2": ("s1", "s2"), "3-4": ("s1",)})
JOB = {
    "BUILDKITE": "true",
    "BUILDKITE_JOB_ID": "j1",
    "BUILDKITE_BUILD_ID": "b1",
    "BUILDKITE_STEP_KEY": "s1",
    "BUILDKITE_COMMAND": "pip install -e .\nci-doctor correctness --fan-out",
    "BUILDKITE_AGENT_META_DATA_QUEUE": "gpus",
    "BUILDKITE_PLUGINS": '[{"docker#v5.0":{"image":"vllm:$TAG"}},"ci-doctor"]',
    "BUILDKITE_TIMEOUT": "60",
}


def whole(**changes: object) -> tuple[str, str, Evidence]:
    origin = replace(ORIGIN, **changes)
    return origin.artifact("0" * 64), origin.job, Evidence(origin=origin, body=b"x")


def steps_of(folder: Path, **options: str) -> BuildSteps:
    """Those of a job with a stand-in agent in `folder`, which logs there; `options` as `install` has them."""
    stand_in_agent.install(folder / "bin", folder / "log", **options)
    agent = BuildSteps.find({**JOB, "PATH": f"{folder / 'bin'}:/usr/bin:/bin"})
    assert agent is not None
    return agent


def test_evidence_is_read_as_it_was_sealed() -> None:
    content = sealed(ORIGIN, b"some\nlines\n")
    assert unsealed(content, 100) == Evidence(origin=ORIGIN, body=b"some\nlines\n")
    assert sealed(ORIGIN, b"some\nlines\n") == content


@pytest.mark.parametrize(
    "spoil",
    [
        lambda content: content[: len(content) // 2],
        lambda content: gzip.compress(gzip.decompress(content) + b"more"),
        lambda content: gzip.compress(gzip.decompress(content).replace(b"some", b"same")),
        lambda content: gzip.compress(
            gzip.decompress(content).replace(b"evidence/1", b"evidence/0")
        ),
        lambda content: b"no gzip" + content,
        lambda _: gzip.compress(b"[]\n"),
        lambda _: b"",
    ],
)
def test_what_was_changed_or_cut_is_no_evidence(spoil: object) -> None:
    assert callable(spoil)
    with pytest.raises(NotEvidenceError):
        unsealed(spoil(sealed(ORIGIN, b"some\nlines\n")), 100)


def test_more_than_the_limit_is_not_unpacked() -> None:
    with pytest.raises(NotEvidenceError):
        unsealed(sealed(ORIGIN, b"0" * 1000), 999)


@pytest.mark.parametrize(
    ("changes", "job", "reason"),
    [
        ({"build": "b2"}, "j1", "another build"),
        ({"plan": "cd" * 32}, "j1", "another plan"),
        ({}, "j2", "made by job j1"),
        ({"step": "s3"}, "j1", "was not asked"),
        ({"task": "3-4", "step": "s2"}, "j1", "was not asked"),
        ({"task": "5-6"}, "j1", "was not asked"),
    ],
)
def test_evidence_of_something_else_is_refused(
    changes: dict[str, object], job: str, reason: str
) -> None:
    name, _, evidence = whole(**changes)
    gathered = chosen([(name, job, evidence)], ASKED)
    assert not gathered.evidence
    assert reason in gathered.refused[0]


def test_all_attempts_that_are_whole_are_gathered_in_their_order() -> None:
    files: list[tuple[str, str, Evidence | str]] = [
        # A step that was asked later, since no job of the first one had left evidence then.
        whole(job="j4", step="s2"),
        whole(job="j2", retry=1),
        whole(),
        ("x", "j3", "its content was changed"),
    ]
    gathered = chosen(files, ASKED)
    assert [each.origin.job for each in gathered.evidence["1-2"]] == ["j1", "j2", "j4"]
    assert len(gathered.refused) == 1


def test_two_jobs_for_one_attempt_are_none() -> None:
    gathered = chosen([whole(), whole(job="j2")], ASKED)
    assert not gathered.evidence
    assert "made 2 times" in gathered.refused[0]


def test_what_jobs_leave_is_gathered_once_each(tmp_path: Path) -> None:
    log = tmp_path / "log"
    stand_in_agent.install(tmp_path / "bin", log)
    agent: BuildSteps | None = None
    for number in range(1, 65):
        environ = {
            **JOB,
            "PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin",
            "BUILDKITE_JOB_ID": f"j{number}",
        }
        origin = Origin.of(environ, plan=PLAN, task=str(number))
        agent = BuildSteps.find(environ, api_time=ApiTime())
        assert agent is not None
        if number < 3:
            leave(agent, origin, b"%d" % number)
        else:
            digest = f"{number:064}"
            stand_in_agent.put_artifact(
                log, origin.job, origin.artifact(digest), sealed(origin, b"%d" % number)
            )
    stand_in_agent.put_artifact(log, "j9", f"of/another-{PLAN[:16]}.evidence.gz", b"", build="b2")
    (tmp_path / "into").mkdir()
    assert agent is not None
    asked = Asked(build="b1", plan=PLAN, steps={str(each): ("s1",) for each in range(1, 65)})
    gathered = gather(agent, tmp_path / "into", asked)
    bodies = {task: [int(each.body) for each in left] for task, left in gathered.evidence.items()}
    assert bodies == {str(each): [each] for each in range(1, 65)}
    assert not gathered.refused + gathered.problems


def test_evidence_that_cannot_be_uploaded_fails_the_job(tmp_path: Path) -> None:
    agent = steps_of(tmp_path, failing="artifact upload")
    with pytest.raises(InfraError, match="not uploaded"):
        leave(agent, ORIGIN, b"x")


def test_steps_are_those_of_the_running_one_and_fit_the_schema() -> None:
    step = job_step(StepTemplate(), JOB, key="k-1", task="{}", jobs=4)
    deciding = job_step(StepTemplate(), JOB, key="k-2", task="{}", after="k-1")
    assert schema_problems(step, deciding) == []
    assert step["command"] == JOB["BUILDKITE_COMMAND"]
    assert step["agents"] == {"queue": "gpus"}
    assert step["plugins"] == [{"docker#v5.0": {"image": "vllm:$TAG"}}, "ci-doctor"]
    assert (step["parallelism"], step["timeout_in_minutes"], step["soft_fail"]) == (4, 60, True)
    assert step["env"] == {TASK_VARIABLE: "{}"}
    assert deciding["depends_on"] == [{"step": "k-1", "allow_failure": True}]
    assert "soft_fail" not in deciding
    assert "parallelism" not in deciding
    template = StepTemplate(queue="q", image="i", concurrency=3, plugins=(), command="x", timeout=5)
    other = job_step(template, JOB, key="k-3", task="{}")
    assert schema_problems(other) == []
    assert "plugins" not in other
    assert other["concurrency_method"] == "eager"
    # The schema is one: a key that it does not know is seen.
    assert schema_problems({**step, "paralellism": 4})


def test_a_group_without_a_number_of_jobs_is_refused() -> None:
    with pytest.raises(msgspec.ValidationError, match="takes `concurrency`"):
        msgspec.convert({"concurrency_group": "pool"}, StepTemplate)


def test_more_jobs_than_one_upload_takes_are_refused() -> None:
    with pytest.raises(UsageError, match="500"):
        job_step(StepTemplate(), JOB, key="k", task="{}", jobs=401)


def test_variables_of_the_pipeline_go_on_and_secrets_do_not(tmp_path: Path) -> None:
    file = tmp_path / "env"
    file.write_text(
        'VLLM_USE_V1="1"\nMODE="a \\"b\\" $c"\nHF_TOKEN="hf_x"\nBUILDKITE_COMMAND="x"\nCI="true"\n'
        'ODD="\\x00"\nno line\n'
    )
    step = job_step(
        StepTemplate(env={"MORE": "1"}),
        {**JOB, "BUILDKITE_ENV_FILE": str(file)},
        key="k",
        task="{}",
    )
    own = {"VLLM_USE_V1": "1", "MODE": 'a "b" $c', "MORE": "1", TASK_VARIABLE: "{}"}
    assert step["env"] == own


def test_steps_that_an_earlier_attempt_has_uploaded_are_no_failure(tmp_path: Path) -> None:
    agent = steps_of(tmp_path)
    step = job_step(StepTemplate(), JOB, key="k", task=json.dumps({"$": "$HOME"}))
    assert agent.upload_steps([step]).ok
    assert agent.upload_steps([step]).ok
    (uploaded,) = stand_in_agent.uploaded(tmp_path / "log")
    assert uploaded == step


@pytest.mark.parametrize(
    "text",
    ["echo 🙂", "a\u2028b\u0085c\x7f\ufeff", "ü \\ud83d", "yes", "$HOME $$X ${Y:-z}\n\t- a: b"],
)
def test_what_is_uploaded_means_the_same_in_yaml(tmp_path: Path, text: str) -> None:
    # Generated pipelines were given to `pipeline upload --dry-run` of agent v3.20.0, and to the parser of v4.
    agent = steps_of(tmp_path)
    step = job_step(
        StepTemplate(env={"OWN": text}), {**JOB, "BUILDKITE_COMMAND": text}, key="k", task="{}"
    )
    result = agent.upload_steps([step])
    assert result.ok, result
    (uploaded,) = stand_in_agent.uploaded(tmp_path / "log")
    assert uploaded == step
