# SPDX-License-Identifier: Apache-2.0
"""The time of a run: its budget, how long a start takes, how many fit, and the run that would decide. Pure."""

import math
import shlex
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from ci_doctor.config.decoding import seconds_above_zero
from ci_doctor.correctness.results import StartResult
from ci_doctor.correctness.settings import Arm, CorrectnessSettings, Policy, Rules
from ci_doctor.correctness.verdict.schedule import sequence
from ci_doctor.render import formatting
from ci_doctor.services.spec import LONGEST_RESERVE_S, reserve_of

DEFAULT_BUDGET_S = 25 * 60.0
# The most that processes get to end by themselves: SIGKILL must come well before the report.
LONGEST_GRACE_S = 5.0
# Part of a step's timeout is kept for checkout, setup and the upload of the report.
LEAST_MARGIN_S = 60.0
MARGIN_SHARE = 0.1


class Budget(Struct, frozen=True, kw_only=True):
    """`seconds` of wall clock from the monotonic time `began` on, the report included.

    `spent_s` of them are gone before the first start: they tell how busy the machine is. `is_assumed`:
    neither a person nor the step set them, so the first start may show that they are too few.
    """

    began: float
    seconds: float
    spent_s: float = 0.0
    is_assumed: bool = False

    @property
    def reserve_s(self) -> float:
        """The seconds that are kept for stopping and for the report.

        To write the report takes about as much work as to load what writes it, and a busy machine
        is as slow at both.
        """
        return min(LONGEST_RESERVE_S, self._quiet_reserve_s + self.spent_s)

    @property
    def grace_s(self) -> float:
        """The seconds in which processes may end by themselves, well before the report is due."""
        return min(LONGEST_GRACE_S, self._quiet_reserve_s / 3)

    @property
    def _quiet_reserve_s(self) -> float:
        return reserve_of(self.seconds)

    @property
    def deadline(self) -> float:
        """The monotonic time at which the last start is stopped."""
        return self.began + self.seconds - self.reserve_s


def budget_of(
    settings: CorrectnessSettings,
    environment: Mapping[str, str],
    began: float,
    now: float | None = None,
) -> tuple[Budget, str]:
    """The budget of a run that began at that monotonic time; `now` is the time, else `began`.

    The text says where it comes from, if nobody gave it. Raises UsageError.
    """
    spent_s = 0.0 if now is None else max(0.0, now - began)
    if settings.budget is not None:
        # What a person wrote needs no note of where it comes from.
        seconds = seconds_above_zero(settings.budget, "budget")
        return Budget(began=began, seconds=seconds, spent_s=spent_s), ""
    of_step = default_budget(environment)
    seconds, note = of_step or (DEFAULT_BUDGET_S, "")
    budget = Budget(began=began, seconds=seconds, spent_s=spent_s, is_assumed=of_step is None)
    return budget, note


def default_budget(environ: Mapping[str, str]) -> tuple[float, str] | None:
    """The seconds that a Buildkite step's timeout leaves, and a sentence; None without a timeout.

    BUILDKITE_TIMEOUT is in minutes, or the word `false`. It counts from the start of the job, hooks
    and uploads included (https://buildkite.com/docs/pipelines/configure/build-timeouts), and a job
    cannot know when it started. So a margin is left: a tenth, at least a minute, at most half.
    """
    try:
        timeout_s = 60.0 * int(environ.get("BUILDKITE_TIMEOUT", ""))
    except ValueError:
        return None
    if timeout_s <= 0:
        return None
    margin_s = min(max(LEAST_MARGIN_S, MARGIN_SHARE * timeout_s), timeout_s / 2)
    seconds = timeout_s - margin_s
    return seconds, (
        f"budget {formatting.duration(seconds)}: the step's timeout of "
        f"{formatting.duration(timeout_s)} (BUILDKITE_TIMEOUT), less {formatting.duration(margin_s)} "
        "for checkout, setup and upload"
    )


# Assumed of a server before its first start.
READY_S = 30.0
ANSWER_S = 1.0


class EstimateSource(StrEnum):
    """Where an estimate comes from."""

    ASSUMED = "assumed"
    EARLIER = "earlier run"
    MEASURED = "measured"


class Estimate(Struct, frozen=True, kw_only=True):
    """Seconds that a start of each arm takes, from its first process to its last.

    `basis` says in words where the figures come from.
    """

    start_s: Mapping[Arm, float]
    source: EstimateSource
    basis: str

    def total(self, arms: Sequence[Arm]) -> float:
        """Seconds that these starts take, one after the other."""
        return math.fsum(self.start_s[arm] for arm in arms)

    def fitting(self, arms: Sequence[Arm], left_s: float) -> int:
        """How many of these starts, from the first on, end within `left_s` seconds."""
        for count in range(1, len(arms) + 1):
            # `total` sums without rounding errors: exactly the budget still fits.
            if self.total(arms[:count]) > left_s:
                return count - 1
        return len(arms)

    def __str__(self) -> str:
        """`83.0 s`, or `40.0 s (baseline) and 83.0 s (candidate)` if they differ."""
        baseline = formatting.duration(self.start_s[Arm.BASELINE])
        candidate = formatting.duration(self.start_s[Arm.CANDIDATE])
        if baseline == candidate:
            return baseline
        return f"{baseline} (baseline) and {candidate} (candidate)"


def assumed(requests: int, passes: int, concurrency: int) -> Estimate:
    """Before any start: 30 s to be ready, 1 s for an answer.

    In each pass `concurrency` of the `requests` are under way at once.
    """
    seconds = READY_S + passes * math.ceil(requests / concurrency) * ANSWER_S
    return Estimate(
        start_s=dict.fromkeys(Arm, seconds),
        source=EstimateSource.ASSUMED,
        basis=f"assumed: {READY_S:.0f} s to be ready, {ANSWER_S:.0f} s an answer",
    )


def earlier(durations: Sequence[tuple[Arm, float]]) -> Estimate | None:
    """From the seconds that the starts of an earlier run took; None without any.

    They come from `finished_starts.earlier_durations`.
    """
    if not durations:
        return None
    basis = "as in the earlier run in this report directory"
    return _from(durations, EstimateSource.EARLIER, basis)


def corrected(prior: Estimate, durations: Sequence[tuple[Arm, float]]) -> Estimate:
    """`prior`, corrected by the seconds that the starts of this run took.

    For each arm the median of its own starts, else of the other's. A median, because one slow start
    must not sway it.
    """
    if not durations:
        return prior
    basis = f"measured in {formatting.amount(len(durations), 'start')}"
    return _from(durations, EstimateSource.MEASURED, basis)


def _from(durations: Sequence[tuple[Arm, float]], source: EstimateSource, basis: str) -> Estimate:
    of_all = []
    of_arm: dict[Arm, list[float]] = {arm: [] for arm in Arm}
    for arm, seconds in durations:
        of_all.append(seconds)
        of_arm[arm].append(seconds)
    medians = {}
    for arm, own in of_arm.items():
        # The arms differ by what they load, but less than a start differs from a guess.
        medians[arm] = statistics.median(own or of_all)
    return Estimate(start_s=medians, source=source, basis=basis)


# They say for how long and where a run is made, which another run decides anew.
_OF_THE_RUN = {"--budget", "--resume", "--report-dir"}


def command_line(argv: Sequence[str], more: Sequence[str], without: Sequence[str] = ()) -> str:
    """The command line with the options of `more` in the place of those that it has.

    `argv` are the words behind `ci-doctor`. Options in `without` are left out. All of these options
    have a value.
    """
    dropped = {*_OF_THE_RUN, *without}
    dropped.update(word for word in more if word.startswith("--"))
    words: list[str] = []
    is_value = False
    for word in argv:
        option = word.partition("=")[0]
        if not is_value and option not in dropped:
            words.append(word)
        # `--budget 25m` is two words, `--budget=25m` is one.
        is_value = not is_value and word in dropped
    return shlex.join(["ci-doctor", *words, *more])


# A proposed budget leaves this much beyond the estimate.
SLACK_SHARE = 0.25
_SLACK_S = 30.0


class NextRun(NamedTuple):
    """The run that would decide an undecided one: what it costs, in words, and its command."""

    cost: str
    command: str

    def __str__(self) -> str:
        return f"{self.cost}: {self.command}"


def resumed_run(
    estimate: Estimate,
    remaining: Sequence[Arm],
    argv: Sequence[str],
    directory: str,
    reserve_s: float = 0.0,
) -> NextRun:
    """How to resume an undecided run that has the starts `remaining` left. No full stop.

    `argv` are the words behind `ci-doctor` of the run to resume, `directory` is its report
    directory, `reserve_s` the part of a budget that is kept for the report.
    """
    budget = _budget(estimate, remaining, reserve_s)
    command = command_line(argv, ["--resume", directory, "--budget", budget])
    return NextRun(f"up to {_cost(estimate, remaining, 'more start')}", command)


def extended_run(
    estimate: Estimate,
    further: Sequence[Arm],
    argv: Sequence[str],
    directory: str,
    max_starts: int,
    reserve_s: float = 0.0,
) -> NextRun:
    """How to resume an undecided run that made every start, up to `max_starts` of them."""
    budget = _budget(estimate, further, reserve_s)
    words = ["--resume", directory, "--max-starts", str(max_starts), "--budget", budget]
    command = command_line(argv, words)
    return NextRun(f"up to {_cost(estimate, further, 'more start')}", command)


def new_run(
    estimate: Estimate,
    order: Sequence[Arm],
    argv: Sequence[str],
    retries: int,
    reserve_s: float = 0.0,
) -> NextRun:
    """How to make a new run of the policy `any` with more `retries`: it has no looks to go on to."""
    budget = _budget(estimate, order, reserve_s)
    command = command_line(argv, ["--retries", str(retries), "--budget", budget])
    return NextRun(f"a new run of up to {_cost(estimate, order, 'start')}", command)


def _cost(estimate: Estimate, arms: Sequence[Arm], what: str) -> str:
    count = formatting.amount(len(arms), what)
    seconds = formatting.duration(estimate.total(arms))
    return f"{count}, about {seconds} at {estimate} a start ({estimate.basis})"


def _budget(estimate: Estimate, arms: Sequence[Arm], reserve_s: float) -> str:
    seconds = estimate.total(arms) * (1 + SLACK_SHARE) + _SLACK_S + reserve_s
    # Whole minutes: a budget to paste, and not a measurement.
    return f"{math.ceil(seconds / 60)}m"


class Schedule(Struct, frozen=True, kw_only=True):
    """What is planned and done.

    `order` are all starts that the run may need, `made` those that count already. `archived`: enough
    builds were archived to pass without a baseline start of today. `least_baselines` and
    `least_candidates` must have answered before a pass.
    """

    order: tuple[Arm, ...]
    made: tuple[Arm, ...] = ()
    archived: bool = False
    least_baselines: int = 1
    least_candidates: int = 1

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
        """How many more starts a verdict takes at best: at least one, if any remain."""
        counts = Counter(self.made)
        remaining = self.remaining
        # The best case: all answers are equal, so the first starts of each arm decide.
        for count, arm in enumerate(remaining, start=1):
            counts[arm] += 1
            is_known = self.archived or counts[Arm.BASELINE] >= self.least_baselines
            if is_known and counts[Arm.CANDIDATE] >= self.least_candidates:
                return count
        return len(remaining)


def outlook(estimate: Estimate, schedule: Schedule, left_s: float, of_s: float) -> str:
    """How many starts fit into `left_s` of `of_s` seconds, and how many the run takes. No full stop."""
    remaining = schedule.remaining
    fitting = estimate.fitting(remaining, left_s)
    left = _left(left_s, of_s)
    # An assumption must not tell a person that nothing fits.
    if estimate.source is EstimateSource.ASSUMED and not fitting:
        return f"{left}: whether a start fits is not known before the first ({estimate.basis})"
    if fitting == len(remaining):
        return f"{left}: {_all_fit(estimate, schedule, left_s)}"
    fit = "fits" if fitting == 1 else "fit"
    return (
        f"{left}: about {fitting} of {len(remaining)}{_more(schedule)} starts of {estimate} {fit} "
        f"({estimate.basis})"
    )


def beginning(names: Mapping[Arm, str], schedule: Schedule, requests: int, seconds: float) -> str:
    """What a run starts, and its budget, for the line before the first start. No full stop.

    `names` are the services of each arm, `requests` are sent to each start, `seconds` are the budget.
    """
    arms = " and ".join(f"{name} ({arm.value})" for arm, name in names.items())
    return (
        f"{arms}: {_needs(schedule)} starts, {formatting.amount(requests, 'request')} each, "
        f"budget {formatting.duration(seconds)}"
    )


def _left(left_s: float, of_s: float) -> str:
    left = formatting.duration(max(0.0, left_s))
    return f"{left} left of {formatting.duration(of_s)}"


def _all_fit(estimate: Estimate, schedule: Schedule, left_s: float) -> str:
    pace = statistics.fmean(estimate.start_s.values())
    room = "any number of starts"
    if pace > 0:
        room = formatting.amount(math.floor(left_s / pace), "start")
    return f"about {room} of {estimate} fit ({estimate.basis}); the run takes {_needs(schedule)}"


def _needs(schedule: Schedule) -> str:
    most = len(schedule.remaining)
    fewest = schedule.fewest
    needs = str(most) if fewest == most else f"{fewest} to {most}"
    return f"{needs}{_more(schedule)}"


def _more(schedule: Schedule) -> str:
    return " more" if schedule.made else ""


# Candidate starts of a proposed new run under the policy `any`, beyond those that did not decide.
_MORE = 2
# A run that made every start goes on to this many times as many.
_FACTOR = 2


class Pace(Struct, frozen=True, kw_only=True):
    """The estimate before the first start (`prior`), what to make, and for how long.

    `archived`: enough builds were archived to pass without a baseline start of today. `began` and
    `deadline` are monotonic times. `share`: what starts that run at once take, of the sum of their
    own times.
    """

    prior: Estimate
    rules: Rules
    archived: bool
    began: float
    deadline: float
    share: float = 1.0

    @property
    def order(self) -> tuple[Arm, ...]:
        """All starts, should none of them decide before the last."""
        return sequence(self.rules, archived=self.archived)

    def beginning(
        self, names: Mapping[Arm, str], requests: int, results: Sequence[StartResult]
    ) -> str:
        """What is started, and the budget."""
        seconds = self.deadline - self.began
        return beginning(names, self._schedule(results), requests, seconds)

    def outlook(self, results: Sequence[StartResult], now: float) -> str:
        """How many starts still fit."""
        estimate = self._estimate(results)
        schedule = self._schedule(results)
        return outlook(estimate, schedule, self.deadline - now, self.deadline - self.began)

    def measured_deadline(self, results: Sequence[StartResult]) -> float:
        """The deadline by which all starts end that the run may need, by what these took.

        Never earlier than the present one; the present one without a start that answered everything.
        """
        counted = [each for each in results if each.counts and each.failure is None]
        if not counted:
            return self.deadline
        seconds = self._estimate(counted).total(self.order) * (1 + SLACK_SHARE) + LONGEST_RESERVE_S
        return max(self.deadline, self.began + seconds)

    def next_run(
        self, results: Sequence[StartResult], argv: Sequence[str], directory: str, reserve_s: float
    ) -> NextRun:
        """The run that would decide an undecided experiment: starts, minutes, and the command."""
        estimate = self._estimate(results)
        schedule = self._schedule(results)
        if schedule.remaining:
            return resumed_run(estimate, schedule.remaining, argv, directory, reserve_s)
        if self.rules.policy is Policy.ANY:
            retries = self.rules.retries + _MORE
            anew = sequence(replace(self.rules, retries=retries), archived=self.archived)
            return new_run(estimate, anew, argv, retries, reserve_s)
        most = _FACTOR * self.rules.max_starts
        limits = self.rules.limits
        longer = replace(self.rules, max_starts=most, earlier_max_starts=limits)
        further = replace(schedule, order=sequence(longer, archived=self.archived)).remaining
        return extended_run(estimate, further, argv, directory, most, reserve_s)

    def _estimate(self, results: Sequence[StartResult]) -> Estimate:
        durations = []
        for result in results:
            # A start that died took less time than one that answers everything.
            if result.failure is None and not result.cut_short:
                durations.append((result.start.arm, self.share * result.duration_s))  # noqa: PERF401
        return corrected(self.prior, durations)

    def _schedule(self, results: Sequence[StartResult]) -> Schedule:
        return Schedule(
            order=self.order,
            made=tuple(result.start.arm for result in results if result.counts),
            archived=self.archived,
            least_baselines=self.rules.least_baselines,
            least_candidates=self.rules.least_candidates,
        )
