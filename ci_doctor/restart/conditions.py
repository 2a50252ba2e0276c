# SPDX-License-Identifier: Apache-2.0
"""Acts on the network and processes: waits until the conditions of `recovered` hold."""

import asyncio
from collections.abc import Mapping, Sequence

from ci_doctor.load.metrics import read_metrics
from ci_doctor.restart.observed import ConditionResult
from ci_doctor.restart.settings import Condition
from ci_doctor.services.busy_timeout import BusyTimeout
from ci_doctor.services.probes.probe import wait_until_ready
from ci_doctor.services.probes.ready import parse_ready
from ci_doctor.services.running import RunningGroup
from ci_doctor.services.spec import LaunchContext, fill, placeholders_for
from ci_doctor.system import clock

# Between two reads of /metrics, which some servers compute anew each time.
_PAUSE_S = 0.08
_ATTEMPT_S = 2.0


async def all_results(
    group: RunningGroup,
    conditions: Sequence[Condition],
    context: LaunchContext,
    limit_s: float,
    *,
    before: Mapping[str, float],
    since: float,
) -> tuple[ConditionResult, ...]:
    """Wait for each condition at most `limit_s` seconds.

    The seconds of a result count from the monotonic time `since`. `before` holds what a metric
    without `at_least` must come back to, by the condition's label.
    """

    async def one(condition: Condition) -> ConditionResult:
        if condition.metric is None:
            problem = await _probe(group, condition, context, limit_s)
        else:
            wanted = condition.at_least
            if wanted is None:
                wanted = before.get(condition.label)
            problem = await _metric(group, condition.service, condition.metric, limit_s, wanted)
        after_s = None
        if problem is None:
            after_s = clock.now() - since
        return ConditionResult(label=condition.label, after_s=after_s, problem=problem)

    # At the same time, so that each has the whole limit, and its seconds are its own.
    return tuple(await asyncio.gather(*map(one, conditions)))


async def metrics_now(group: RunningGroup, conditions: Sequence[Condition]) -> dict[str, float]:
    """What the conditions without `at_least` must come back to, by label.

    A metric that is not there is left out.
    """
    values = {}
    for condition in conditions:
        if condition.metric is None or condition.at_least is not None:
            continue
        base_url = group.services[condition.service].base_url
        metrics = await read_metrics(base_url, _ATTEMPT_S)
        if metrics is not None and condition.metric in metrics:
            values[condition.label] = metrics[condition.metric]
    return values


async def _probe(
    group: RunningGroup, condition: Condition, context: LaunchContext, limit_s: float
) -> str | None:
    assert condition.ready is not None  # noqa: S101 - a condition has one of the two
    # Looked up now: after a relaunch it is another start, with another log.
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
    group: RunningGroup, service: str, metric: str, limit_s: float, wanted: float | None
) -> str | None:
    """None once it holds; without a wanted value, once the metric is there at all."""
    time_limit = BusyTimeout(limit_s, group.living_pids)
    while True:
        metrics = await read_metrics(group.services[service].base_url, _ATTEMPT_S)
        value = None
        if metrics is not None:
            value = metrics.get(metric)
        if value is not None and (wanted is None or value >= wanted):
            return None
        # After the attempt: with a limit of 0 there is still one.
        if time_limit.left_s() <= 0:
            if metrics is None:
                return "/metrics did not answer"
            return _lacking(metric, value, wanted)
        await asyncio.sleep(_PAUSE_S)


def _lacking(metric: str, value: float | None, wanted: float | None) -> str:
    if value is None:
        return f"/metrics holds no {metric}"
    if wanted is None:
        return f"{metric} is {value:g}"
    return f"{metric} is {value:g}, and {wanted:g} are wanted"
