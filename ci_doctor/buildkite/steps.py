# SPDX-License-Identifier: Apache-2.0
"""Reads the running job: steps of further jobs like it, by a template; the `retry` and `soft_fail` that fit exit codes."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final

from msgspec import Meta, Struct
from msgspec.structs import replace

from ci_doctor.buildkite.job import SECRET_NAME
from ci_doctor.errors import UsageError
from ci_doctor.model.facts.preparing import RetryRule, RetryRulesFacts, SoftFailRule
from ci_doctor.model.outcome import Verdict

# https://buildkite.com/docs/pipelines/configure/step-types/command-step

# What a job is asked for stands in this variable of its step; its form is that of the room that asks.
TASK_VARIABLE: Final = "CI_DOCTOR_TASK"
# "500 jobs per pipeline upload" (https://buildkite.com/docs/platform/limits), with room for the step after them.
MOST_JOBS: Final = 400
_MOST_ENV_BYTES: Final = 4 * 1024 * 1024
# What the agent sets in the file itself, or what a job must not inherit.
_ENV_LINE: Final = re.compile(r'([A-Za-z_][A-Za-z0-9_]*)=(".*")')
Count = Annotated[int, Meta(ge=1)]


class StepTemplate(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a step of further jobs has in place of what the running step has.

    `agents` are further rules beside `queue`. `plugins` are as in a pipeline. `concurrency` bounds the jobs that run at
    once, over all builds. `timeout` is in minutes. `command` must end in the same ci-doctor command.
    """

    queue: str | None = None
    agents: dict[str, str] = {}
    plugins: tuple[str | dict[str, Any], ...] | None = None
    image: str | None = None
    concurrency: Count | None = None
    concurrency_group: str | None = None
    command: str | None = None
    timeout: Count | None = None
    env: dict[str, str] = {}

    def __post_init__(self) -> None:
        if self.concurrency_group and self.concurrency is None:
            raise ValueError("`concurrency_group` takes `concurrency` beside it")


def job_step(
    template: StepTemplate,
    environ: Mapping[str, str],
    *,
    key: str,
    task: str,
    jobs: int = 1,
    after: str | None = None,
) -> dict[str, Any]:
    """A step of so many jobs like the running one, changed by `template`; each job gets `task`.

    A job of several knows its number by BUILDKITE_PARALLEL_JOB. Without `after` the step may fail softly: the step
    after it judges. That one runs whether or not the step `after` failed. Raises UsageError for too many jobs.
    """
    if jobs > MOST_JOBS:
        raise UsageError(
            f"{jobs} jobs in one step: Buildkite takes 500 in one upload",
            hint=f"ask for at most {MOST_JOBS}",
        )
    minutes = template.timeout or _integer(environ.get("BUILDKITE_TIMEOUT", ""))
    queue = template.queue or environ.get("BUILDKITE_AGENT_META_DATA_QUEUE")
    command = template.command or environ.get("BUILDKITE_COMMAND")
    plugins = template.plugins if template.plugins is not None else _own_plugins(environ)
    step: dict[str, Any] = {
        "label": key,
        "key": key,
        "command": command,
        "agents": {**({"queue": queue} if queue else {}), **template.agents},
        "plugins": list(plugins),
        "env": {**step_variables(environ), **template.env, TASK_VARIABLE: task},
        "image": template.image,
        "artifact_paths": environ.get("BUILDKITE_ARTIFACT_PATHS"),
        "timeout_in_minutes": minutes,
    }
    if jobs > 1:
        step["parallelism"] = jobs
    if template.concurrency is not None:
        step["concurrency"] = template.concurrency
        step["concurrency_group"] = template.concurrency_group or f"ci-doctor/{queue or 'agents'}"
        # In the order of upload a waiting job of another build would hold all agents back.
        step["concurrency_method"] = "eager"
    if after is None:
        step["soft_fail"] = True
    else:
        step["depends_on"] = [{"step": after, "allow_failure": True}]
        step["allow_dependency_failure"] = True
    return {name: value for name, value in step.items() if value not in (None, "", [], {})}


def _own_plugins(environ: Mapping[str, str]) -> Sequence[Any]:
    try:
        plugins = json.loads(environ.get("BUILDKITE_PLUGINS") or "[]")
    except ValueError:
        return ()
    return plugins if isinstance(plugins, list) else ()


def step_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that the pipeline gives the running job, as Buildkite sent them; none if its agent does not tell.

    They stand in BUILDKITE_ENV_FILE, one a line, quoted as Go does (github.com/buildkite/agent, agent/job_runner.go).
    """
    try:
        with Path(environ.get("BUILDKITE_ENV_FILE", "")).open("rb") as file:
            text = file.read(_MOST_ENV_BYTES).decode(errors="replace")
    except (OSError, ValueError):
        return {}
    variables: dict[str, str] = {}
    for line in text.splitlines():
        match = _ENV_LINE.fullmatch(line)
        if match is None or match[1].startswith("BUILDKITE") or match[1] in {"CI", TASK_VARIABLE}:
            continue
        # The agent refuses to upload the value of a secret. Of the whole build, each job has it anyway.
        if SECRET_NAME.search(match[1].encode()):
            continue
        try:
            variables[match[1]] = json.loads(match[2])
        except ValueError:
            # Go writes bytes that are no text in a way of its own.
            continue
    return variables


def _integer(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and int(text) else None


# --- the `retry` and `soft_fail` of a step that fit a repository's exit codes ---


# What a test run ends with by itself: pytest's own codes, and the one of pytest-rerunfailures.
# https://docs.pytest.org/en/stable/reference/exit-codes.html
_OF_TESTS = range(1, 8)
# What others end with though no test was judged.
_OF_OTHERS = {
    16: "bktec with a configuration error",
    64: "the plugin junit-annotate",
    94: "an agent that got no lock of its git mirror",
    100: "`buildkite-agent meta-data exists`",
    124: "timeout(1)",
    255: "a command killed by a signal (out of memory, too), or an agent that was stopped",
}
_INFRA_LIMIT = 2
# A loss of the agent has nothing to do with the job, and a second one in a row hardly happens.
_LOSS_LIMIT = 1
_LOSSES = (
    (
        RetryRule(exit_status=-1, signal_reason="none", limit=_LOSS_LIMIT),
        "The agent was lost: its machine is gone. `*` does not match -1.",
    ),
    (
        RetryRule(signal_reason="agent_stop", limit=_LOSS_LIMIT),
        "The agent was stopped in the middle of the job, as a spot instance is.",
    ),
    (
        RetryRule(signal_reason="agent_refused", limit=_LOSS_LIMIT),
        "The agent refused the job, and another one may take it.",
    ),
    (
        RetryRule(signal_reason="stack_error", limit=_LOSS_LIMIT),
        "The stack (Kubernetes) could not start the job.",
    ),
)
_HEAD = """\
# For a step: what `ci-doctor config retry-rules` makes of this repository's exit codes.
# No rule is about {failures}: a failure of the change is never retried and never let pass.
# One rule per signal_reason, because the published schema takes no list there. process_run_error
# has none: the agent gives it to every exit 125, a wrong image name of docker run included.
# 126, 127 and 128+n (137: killed) belong to the shell, and their causes differ: the plugin's option
# exit-codes makes {infra} of them only if the cause lies outside the change.
"""


def rules_for(codes: Mapping[str, int]) -> RetryRulesFacts:
    """The rules for the exit code of each verdict, and the YAML of them with its reasons."""
    retry = [rule for rule, _ in _LOSSES]
    soft_fail = []
    left_out = {}
    problem = _problem_of_retrying(codes)
    if problem:
        left_out[Verdict.INFRA.value] = problem
    else:
        retry.insert(0, RetryRule(exit_status=codes[Verdict.INFRA], limit=_INFRA_LIMIT))
    problem = _problem_of_passing(codes)
    if problem:
        left_out[Verdict.NONDETERMINISTIC.value] = problem
    else:
        soft_fail.append(SoftFailRule(exit_status=codes[Verdict.NONDETERMINISTIC]))
    facts = RetryRulesFacts(
        exit_codes=dict(codes), retry=tuple(retry), soft_fail=tuple(soft_fail), left_out=left_out
    )
    return replace(facts, yaml="".join(_yaml(facts)))


def _problem_of_retrying(codes: Mapping[str, int]) -> str:
    """Why a rule for `infra` would retry a failure of the change; empty if it would not."""
    code = codes[Verdict.INFRA]
    failures = {codes[Verdict.REGRESSION], codes[Verdict.FAILED]}
    if code not in _OF_TESTS and code not in failures:
        return ""
    return (
        f"infra has no rule: tests that fail end with {code}, too, and would be retried. "
        "Give it another code in [exit-codes]."
    )


def _problem_of_passing(codes: Mapping[str, int]) -> str:
    """Why a rule for `nondeterministic` would let something else pass; empty if it would not."""
    code = codes[Verdict.NONDETERMINISTIC]
    owner = ", ".join(_sharing(codes, Verdict.NONDETERMINISTIC))
    if not owner and code in _OF_TESTS:
        owner = "tests that fail"
    if not owner:
        owner = _OF_OTHERS.get(code, "")
    if not owner:
        return ""
    return (
        f"nondeterministic has no rule: {code} is also the code of {owner}, which would pass. "
        "Give it another code in [exit-codes]."
    )


def _sharing(codes: Mapping[str, int], verdict: Verdict) -> list[str]:
    """The other verdicts with the code of `verdict`."""
    return [name for name, code in codes.items() if code == codes[verdict] and name != verdict]


def _yaml(facts: RetryRulesFacts) -> Iterator[str]:
    codes = facts.exit_codes
    failures = sorted({codes[Verdict.REGRESSION], codes[Verdict.FAILED]})
    yield _HEAD.format(failures=" and ".join(map(str, failures)), infra=codes[Verdict.INFRA])
    for problem in facts.left_out.values():
        yield f"# {problem}\n"
    yield "retry:\n  automatic:\n"
    reasons = dict(_LOSSES)
    for rule in facts.retry:
        comments = [reasons[rule]] if rule in reasons else _about_infra(codes)
        for comment in comments:
            yield f"    # {comment}\n"
        # A rule as an item of a list, each field on its line.
        fields = {
            "exit_status": rule.exit_status,
            "signal_reason": rule.signal_reason,
            "limit": rule.limit,
        }
        mark = "-"
        for name, value in fields.items():
            if value is not None:
                yield f"    {mark} {name}: {value}\n"
                mark = " "
    if facts.soft_fail:
        yield "soft_fail:\n  # nondeterministic: the environment differs from itself; the change is not at fault.\n"
    for soft in facts.soft_fail:
        yield f"  - exit_status: {soft.exit_status}\n"


def _about_infra(codes: Mapping[str, int]) -> Iterator[str]:
    code = codes[Verdict.INFRA]
    yield "infra: the cause lies outside the change, and another run may help."
    owner = _OF_OTHERS.get(code)
    if owner:
        yield f"{code} is also the code of {owner}: that is retried, too."
    for name in _sharing(codes, Verdict.INFRA):
        yield f"{code} is also the code of {name}: that is retried, too."
