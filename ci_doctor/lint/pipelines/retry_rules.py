# SPDX-License-Identifier: Apache-2.0
"""Pure. The automatic retries of a Buildkite step, as its pipeline writes them."""

from typing import Final

from msgspec import Struct

from ci_doctor.lint.pipelines.reading.yaml_nodes import (
    MappingNode,
    Node,
    ScalarNode,
    SequenceNode,
    is_true,
    mapping_of,
    scalars_of,
    text_of,
    whole_number,
)

# Reasons by which Buildkite names a job whose agent was stopped, refused it or was never there.
AGENT_REASONS: Final = frozenset(
    {"agent_stop", "agent_refused", "agent_incompatible", "stack_error", "process_run_error"}
)


class StepRetry(Struct, frozen=True, eq=False, kw_only=True):
    """One condition.

    any_status: it matches 1 to 255, by `"*"` or because it names no status. named: by `"*"`.
    limit: None if it is left to its default, 2.
    """

    place: Node
    statuses: tuple[int, ...] = ()
    any_status: bool = False
    named: bool = False
    reason: str | None = None
    limit: int | None = None


def retry_rules(step: MappingNode) -> list[StepRetry]:
    """The rules of `retry.automatic`; one for `automatic: true`."""
    retry = mapping_of(step.get("retry"))
    automatic = retry.get("automatic") if retry else None
    if is_true(automatic) and automatic is not None:
        return [StepRetry(place=automatic, any_status=True)]
    listed = automatic.items if isinstance(automatic, SequenceNode) else [automatic]
    return [_rule(each) for each in listed if isinstance(each, MappingNode)]


def _rule(node: MappingNode) -> StepRetry:
    status = node.get("exit_status")
    place: Node = status if isinstance(status, ScalarNode) else node
    reasons = [each.value for each in scalars_of(node.get("signal_reason"))]
    numbers = [whole_number(each) for each in scalars_of(status)]
    return StepRetry(
        place=place,
        statuses=tuple(each for each in numbers if each is not None),
        any_status=text_of(status) == "*"
        or (status is None and not reasons and node.get("signal") is None),
        named=text_of(status) == "*",
        reason=next(
            (each for each in reasons if each in AGENT_REASONS), reasons[0] if reasons else None
        ),
        limit=whole_number(node.get("limit")),
    )
