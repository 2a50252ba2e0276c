# SPDX-License-Identifier: Apache-2.0
"""Acts on the network and processes: waits until the conditions of `recovered` hold."""

import asyncio
from collections.abc import Mapping, Sequence

from ci_doctor.load.metrics import read_metrics
from ci_doctor.restart.observed import ConditionResult
from ci_doctor.restart.settings import Condition
from ci_doctor.services.probes.probe import wait_until_ready
from ci_doctor.services.probes.ready import parse_ready
from ci_doctor.services.running import RunningGroup
from ci_doctor.services.spec import LaunchContext, fill, placeholders_for
from ci_doctor.system import clock

_PAUSE_S = 0.08
_ATTEMPT_S = 2.0


async def all_held(
    group: RunningGroup,
    conditions: Sequence[Condition],
    context: LaunchContext,
    limit_s: float,
    *,
    before: Mapping[str, float],
    since: float,
) -> tuple[ConditionResult, ...]:
    """Wait for each at most `limit_s`; seconds count from the monotonic time `since`.

    `before` holds what a metric without `at_least` must come back to, by the condition's label.
    """

    async def one(condition: Condition) -> ConditionResult:
        if condition.metric is not None:
            seen = await _metric(
                group, condition, condition.metric, limit_s, before.get(condition.label)
            )
        else:
            seen = await _probe(group, condition, context, limit_s)
        return ConditionResult(
            label=condition.label, after_s=None if seen else clock.now() - since, seen=seen
        )

    return tuple(await asyncio.gather(*map(one, conditions)))


async def metrics_now(group: RunningGroup, conditions: Sequence[Condition]) -> dict[str, float]:
    """What the conditions without `at_least` must come back to, by label; a metric that is not there is left out."""
    found = {}
    for condition in conditions:
        if condition.metric is not None and condition.at_least is None:
            metrics = (
                await read_metrics(group.services[condition.service].base_url, _ATTEMPT_S) or {}
            )
            if condition.metric in metrics:
                found[condition.label] = metrics[condition.metric]
    return found


async def _probe(
    group: RunningGroup, condition: Condition, context: LaunchContext, limit_s: float
) -> str | None:
    assert condition.ready is not None  # noqa: S101 - a condition has one of the two
    instance = group.instances[condition.service]
    placeholders = placeholders_for(condition.service, context, group.ports)
    probe = parse_ready(
        condition.ready,
        instance.service.port,
        directory=instance.filled.cwd,
        fill=lambda text: fill(text, placeholders),
    )
    return await wait_until_ready(probe, limit_s, group.probe_context(instance))


async def _metric(
    group: RunningGroup, condition: Condition, metric: str, limit_s: float, before: float | None
) -> str | None:
    """None once it holds; without a wanted value, once the metric is there at all."""
    wanted = condition.at_least if condition.at_least is not None else before
    deadline = clock.now() + limit_s
    while True:
        metrics = await read_metrics(group.services[condition.service].base_url, _ATTEMPT_S)
        value = None if metrics is None else metrics.get(metric)
        if value is not None and (wanted is None or value >= wanted):
            return None
        if clock.now() >= deadline:
            return _lacking(metric, value, wanted, page=metrics is not None)
        await asyncio.sleep(_PAUSE_S)


def _lacking(metric: str, value: float | None, wanted: float | None, *, page: bool) -> str:
    if not page:
        return "/metrics did not answer"
    if value is None:
        return f"/metrics holds no {metric}"
    return (
        f"{metric} is {value:g}, and {wanted:g} are wanted"
        if wanted is not None
        else f"{metric} is {value:g}"
    )
