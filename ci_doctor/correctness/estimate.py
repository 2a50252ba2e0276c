# SPDX-License-Identifier: Apache-2.0
"""How many starts fit into the time, what that leaves undecided, and what would decide it. Pure."""

import math
import shlex
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from enum import StrEnum

from msgspec import Struct

from ci_doctor.correctness.settings import Arm
from ci_doctor.render import figures

# What is assumed of a server that was never seen.
READY_S = 30.0
ANSWER_S = 1.0
# Of a step's timeout, what checkout, setup and the upload of the report need.
LEAST_MARGIN_S = 60.0
MARGIN_SHARE = 0.1
# A budget that is proposed leaves this much beyond the estimate.
_SLACK_SHARE = 0.25
_SLACK_S = 30.0
_REPLACED = {"--budget", "--resume", "--report-dir"}


class Source(StrEnum):
    """Where an estimate comes from."""

    ASSUMED = "assumed"
    EARLIER = "earlier run"
    MEASURED = "measured"


class Estimate(Struct, frozen=True, kw_only=True):
    """Seconds that a start of each arm takes from its first process to its last, and in words where that is known from."""

    start_s: Mapping[Arm, float]
    source: Source
    basis: str

    def total(self, arms: Sequence[Arm]) -> float:
        """Seconds that these starts take, one after the other."""
        return math.fsum(self.start_s[arm] for arm in arms)

    def fitting(self, arms: Sequence[Arm], left_s: float) -> int:
        """How many of these starts, from the first on, end within `left_s` seconds."""
        return sum(self.total(arms[:count]) <= left_s for count in range(1, len(arms) + 1))

    def __str__(self) -> str:
        """`83.0 s`, or `40.0 s (baseline) and 83.0 s (candidate)` where they differ."""
        baseline, candidate = (figures.duration(self.start_s[arm]) for arm in Arm)
        return (
            baseline
            if baseline == candidate
            else f"{baseline} (baseline) and {candidate} (candidate)"
        )


def assumed(requests: int, passes: int, concurrency: int) -> Estimate:
    """Before anything is known: 30 s to be ready, 1 s an answer, `concurrency` of `requests` at once in each pass."""
    seconds = READY_S + passes * math.ceil(requests / concurrency) * ANSWER_S
    return Estimate(
        start_s=dict.fromkeys(Arm, seconds),
        source=Source.ASSUMED,
        basis=f"assumed: {READY_S:.0f} s to be ready, {ANSWER_S:.0f} s an answer",
    )


def earlier(durations: Sequence[tuple[Arm, float]]) -> Estimate | None:
    """From the seconds that the starts of an earlier run took (`record.earlier_durations`); None where there are none."""
    return (
        _from(durations, Source.EARLIER, "as in the earlier run in this report directory")
        if durations
        else None
    )


def corrected(prior: Estimate, durations: Sequence[tuple[Arm, float]]) -> Estimate:
    """`prior`, corrected by the seconds that the starts of this run took.

    For each arm the median of its own starts, or else of the other's: one slow start does not sway it.
    """
    if not durations:
        return prior
    return _from(
        durations, Source.MEASURED, f"measured in {figures.amount(len(durations), 'start')}"
    )


def _from(durations: Sequence[tuple[Arm, float]], source: Source, basis: str) -> Estimate:
    of_all = statistics.median(seconds for _, seconds in durations)
    own = {arm: [seconds for which, seconds in durations if which is arm] for arm in Arm}
    medians = {arm: statistics.median(own[arm]) if own[arm] else of_all for arm in Arm}
    return Estimate(start_s=medians, source=source, basis=basis)


class Schedule(Struct, frozen=True, kw_only=True):
    """What is planned and done: `order` are all starts (`schedule.order`), `made` those that count already.

    `archived` baseline starts stand beside them, and `least_candidates` must have answered before a pass.
    """

    order: tuple[Arm, ...]
    made: tuple[Arm, ...] = ()
    archived: int = 0
    least_candidates: int = 1
    alpha: float = 0.05

    @property
    def remaining(self) -> tuple[Arm, ...]:
        """The starts of `order` that are still to be made, whichever were made out of turn."""
        made = Counter(self.made)
        left = []
        for arm in self.order:
            made[arm] -= 1
            if made[arm] < 0:
                left.append(arm)
        return tuple(left)

    @property
    def fewest(self) -> int:
        """How many more starts a verdict takes at best: one at least, if any more are made."""
        counts = Counter(self.made)
        counts[Arm.BASELINE] += self.archived
        for count, arm in enumerate(("", *self.remaining)):
            if arm:
                counts[Arm(arm)] += 1
            if counts[Arm.BASELINE] and counts[Arm.CANDIDATE] >= self.least_candidates:
                return max(count, min(1, len(self.remaining)))
        return len(self.remaining)

    def smallest_p(self, more: int) -> float:
        """The smallest p-value after `more` further starts; 1 where an arm has none.

        One labeling of all, or two where the arms are of one size: then each has a mirror image that is as extreme.
        """
        counts = Counter((*self.made, *self.remaining[:more]))
        baseline, candidate = counts[Arm.BASELINE] + self.archived, counts[Arm.CANDIDATE]
        labelings = math.comb(baseline + candidate, candidate)
        return min(1.0, (1 + (baseline == candidate)) / labelings)


def outlook(estimate: Estimate, schedule: Schedule, left_s: float) -> str:
    """One sentence: how many starts fit into `left_s` seconds, and what that leaves undecided. No full stop."""
    remaining, fewest = schedule.remaining, schedule.fewest
    fitting = estimate.fitting(remaining, left_s)
    time = f"{figures.duration(max(0.0, left_s))} left"
    if fitting == len(remaining):
        pace = statistics.fmean(estimate.start_s.values())
        room = (
            figures.amount(math.floor(left_s / pace), "start")
            if pace > 0
            else "any number of starts"
        )
        needs = str(fitting) if fewest == fitting else f"{fewest} to {fitting}"
        return f"{time}: about {room} of {estimate} fit ({estimate.basis}); the schedule needs {needs}{_more(schedule)}"
    fit = "fits" if fitting == 1 else "fit"
    if estimate.source is Source.ASSUMED and not fitting:
        return f"{time}: whether a start fits is not known before the first ({estimate.basis})"
    return (
        f"{time}: about {fitting} of {len(remaining)}{_more(schedule)} starts of {estimate} {fit} ({estimate.basis}): "
        f"{_undecided(schedule, fitting, fewest)}"
    )


def _more(schedule: Schedule) -> str:
    return " more" if schedule.made else ""


def _undecided(schedule: Schedule, fitting: int, fewest: int) -> str:
    if fitting < fewest:
        return f"nothing can be decided, not even that the answers are equal: that takes {fewest}{_more(schedule)}"
    smallest = schedule.smallest_p(fitting)
    why = (
        f" (its smallest p would be {_p(smallest)}, above {schedule.alpha:g})"
        if smallest > schedule.alpha
        else ": that takes every start, for it is done in one look at the end"
    )
    return f"equal answers and a flaky baseline can be told, a regression cannot be decided{why}"


def _p(value: float) -> str:
    """Two figures that count, rounded up: a p-value is never told smaller than it is."""
    digits = max(2, 1 - math.floor(math.log10(value)))
    return f"{math.ceil(value * 10**digits - 1e-9) / 10**digits:.{digits}f}"


def settles(
    estimate: Estimate,
    schedule: Schedule,
    argv: Sequence[str],
    directory: str,
    reserve_s: float = 0.0,
) -> str:
    """What would settle an undecided run, in starts and minutes, with the command. No full stop.

    `argv` are the words behind `ci-doctor` of the run that is to go on, `directory` its report directory, `reserve_s`
    what a budget keeps back for the report.
    """
    more = ["--resume", directory, "--budget", _budget(estimate, schedule.remaining, reserve_s)]
    return f"{_cost(estimate, schedule.remaining, 'more start')}: {_command(argv, more)}"


def settles_anew(
    estimate: Estimate,
    order: Sequence[Arm],
    argv: Sequence[str],
    retries: int,
    reserve_s: float = 0.0,
) -> str:
    """The same where every start was made: a new run in the schedule `order`, which `retries` asks for.

    Not by going on with this one: to look again after more starts would be a second chance to call chance a regression.
    """
    more = ["--retries", str(retries), "--budget", _budget(estimate, order, reserve_s)]
    return f"a new run of up to {_cost(estimate, order, 'start')}: {_command(argv, more)}"


def _cost(estimate: Estimate, arms: Sequence[Arm], what: str) -> str:
    seconds = figures.duration(estimate.total(arms))
    return f"{figures.amount(len(arms), what)}, about {seconds} at {estimate} a start ({estimate.basis})"


def _budget(estimate: Estimate, arms: Sequence[Arm], reserve_s: float) -> str:
    return f"{math.ceil((estimate.total(arms) * (1 + _SLACK_SHARE) + _SLACK_S + reserve_s) / 60)}m"


def _command(argv: Sequence[str], more: Sequence[str]) -> str:
    """The command line with `more` in the place of what it says on the same things."""
    replaced = _REPLACED | set(more)
    words: list[str] = []
    skip = False
    for word in argv:
        option = word.partition("=")[0]
        if not skip and option not in replaced:
            words.append(word)
        # `--budget 25m` is two words, `--budget=25m` is one.
        skip = not skip and word in replaced
    return shlex.join(["ci-doctor", *words, *more])


def default_budget(environ: Mapping[str, str]) -> tuple[float, str] | None:
    """Seconds that a Buildkite step's own timeout leaves, and the sentence that says so; None where it has none.

    BUILDKITE_TIMEOUT is in minutes, or the word `false`. It is counted from the start of the job, hooks and uploads
    included (https://buildkite.com/docs/pipelines/configure/build-timeouts), and nothing tells a job when it started. So
    a margin is left: a tenth, or a minute if that is more, but never more than half.
    """
    try:
        timeout_s = 60.0 * int(environ.get("BUILDKITE_TIMEOUT", ""))
    except ValueError:
        return None
    if timeout_s <= 0:
        return None
    margin_s = min(max(LEAST_MARGIN_S, MARGIN_SHARE * timeout_s), timeout_s / 2)
    return timeout_s - margin_s, (
        f"budget {figures.duration(timeout_s - margin_s)}: the step's timeout of {figures.duration(timeout_s)} "
        f"(BUILDKITE_TIMEOUT), less {figures.duration(margin_s)} for checkout, setup and upload"
    )
