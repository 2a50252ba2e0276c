# SPDX-License-Identifier: Apache-2.0
"""Pure. The `retry` and `soft_fail` of a step that fit a repository's exit codes.

A failure of the change is never retried and never let pass. So a code that others end with, too,
gets no rule if the rule could hide such a failure.
https://buildkite.com/docs/pipelines/configure/retry
https://buildkite.com/docs/pipelines/configure/soft-fail
"""

from collections.abc import Iterator, Mapping

from msgspec.structs import replace

from ci_doctor.model.facts.config import RetryRule, RetryRulesFacts, SoftFailRule
from ci_doctor.model.verdict import Verdict

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
