# SPDX-License-Identifier: Apache-2.0
"""Pure. The keys of steps and jobs, from Buildkite's and GitHub's reference pages (read in 2026).

Buildkite: https://buildkite.com/docs/pipelines/configure/step-types. GitHub:
https://docs.github.com/actions/reference/workflows-and-actions/workflow-syntax.
A test compares the first with the published schema of pipelines.
"""

from functools import lru_cache
from typing import Final

from ci_doctor.lint.pipelines.word_sets import words

_ALL: Final = words(
    "allow_dependency_failure branches depends_on id identifier if key label name type"
)
COMMAND_KEYS: Final = _ALL | words(
    "agents artifact_paths cache cancel_on_build_failing checkout command commands concurrency "
    "concurrency_group concurrency_method env if_changed image matrix notify parallelism plugins priority "
    "retry secrets signature skip soft_fail timeout_in_minutes script"
)
WAIT_KEYS: Final = _ALL | {"wait", "waiter", "continue_on_failure", "if_changed"}
BLOCK_KEYS: Final = _ALL | {
    "block",
    "blocked_state",
    "fields",
    "prompt",
    "allowed_teams",
    "if_changed",
}
INPUT_KEYS: Final = _ALL | {
    "input",
    "blocked_state",
    "fields",
    "prompt",
    "allowed_teams",
    "if_changed",
}
TRIGGER_KEYS: Final = _ALL | {"trigger", "async", "build", "skip", "soft_fail", "if_changed"}
GROUP_KEYS: Final = _ALL | {"group", "steps", "if_changed", "notify", "skip"}
BUILDKITE_KEYS: Final = (
    COMMAND_KEYS | WAIT_KEYS | BLOCK_KEYS | INPUT_KEYS | TRIGGER_KEYS | GROUP_KEYS
)
PIPELINE_KEYS: Final = words("agents env image notify secrets priority checkout steps")

# What the generators of public LLM-serving repositories add.
GENERATOR_KEYS: Final = words(
    "agent_pool agent_tags amd_only depends_on_any device dind fast_check fast_check_only gpu grade instance_size instance_type "
    "job_env mirror mirror_hardwares mirror_hardware mount_buildkite_agent no_gpu no_plugin num_devices "
    "num_gpus num_nodes optional source_file_dependencies torch_nightly working_dir"
)

WORKFLOW_KEYS: Final = words(
    "cache-mode name run-name on true permissions env defaults concurrency jobs"
)
JOB_KEYS: Final = words(
    "cache-mode name permissions needs if runs-on snapshot environment concurrency outputs env defaults steps "
    "timeout-minutes strategy continue-on-error container services uses with secrets"
)
WORKFLOW_STEP_KEYS: Final = words(
    "background cancel id if name parallel uses run wait wait-all working-directory shell with env continue-on-error timeout-minutes"
)


@lru_cache(maxsize=1024)
def nearest_key(name: str, known: frozenset[str]) -> str | None:
    """The key that was probably meant: spelt alike but for case, `-` and `_`, or one or two letters."""
    plain = _plain(name)
    for key in sorted(known):
        if _plain(key) == plain:
            return key
    if len(plain) < 4:
        return None
    allowed = 1 if len(plain) < 8 else 2
    near = [(distance(plain, _plain(key), allowed), key) for key in known]
    best = min(near)
    return best[1] if best[0] <= allowed else None


def _plain(name: str) -> str:
    return name.lower().replace("-", "").replace("_", "")


def distance(one: str, other: str, limit: int) -> int:
    """Letters to add, drop, replace or swap between two words; limit + 1 where there are more."""
    if abs(len(one) - len(other)) > limit:
        return limit + 1
    before: list[int] = []
    row = list(range(len(other) + 1))
    for i, letter in enumerate(one, 1):
        last, before, row = before, row, [i]
        for j, against in enumerate(other, 1):
            cost = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (letter != against))
            if i > 1 and j > 1 and letter == other[j - 2] and one[i - 2] == against:
                cost = min(cost, last[j - 2] + 1)
            row.append(cost)
        if min(row) > limit:
            return limit + 1
    return min(row[-1], limit + 1)
