# SPDX-License-Identifier: Apache-2.0
"""The time of a run: its budget, how long a start takes, how many fit, and the run that would decide. Pure."""

import math
import shlex
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from ci_doctor.config.decoding import seconds_above_zero
from ci_doctor.correctness.results import StartResult
from ci_doctor.correctness.settings import Arm, CorrectnessSettings, Policy, Rules
from ci_doctor.correctness.verdict.schedule import sequence
from ci_doctor.model.words import step_seconds
from ci_doctor.render import formatting
from ci_doctor.services.spec import LONGEST_RESERVE_S, reserve_of

DEFAULT_BUDGET_S = 25 * 60.0
# The most that processes get to end by themselves: SIGKILL must come well before the report.
LONGEST_GRACE_S = 5.0


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
        return min(LONGEST_RESERVE_S, reserve_of(self.seconds) + self.spent_s)

    @property
    def grace_s(self) -> float:
        """The seconds in which processes may end by themselves, well before the report is due."""
        return min(LONGEST_GRACE_S, reserve_of(self.seconds) / 3)

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
    """The seconds that a Buildkite step's timeout leaves, and a sentence; None without a timeout."""
    times = step_seconds(environ.get("BUILDKITE_TIMEOUT", ""))
    if times is None:
        return None
    timeout_s, seconds = times
    return seconds, (
        f"budget {formatting.duration(seconds)}: the step's timeout of "
        f"{formatting.duration(timeout_s)} (BUILDKITE_TIMEOUT), less {formatting.duration(timeout_s - seconds)} "
        "for checkout, setup and upload"
    )


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


# A proposed budget leaves this much beyond what the starts took.
SLACK_SHARE = 0.25
_SLACK_S = 30.0
# Candidate starts of a proposed new run under the policy `any`, beyond those that did not decide.
_MORE = 2
# A run that made every start goes on to this many times as many.
_FACTOR = 2


class Pace(Struct, frozen=True, kw_only=True):
    """What to make, and for how long.

    `archived`: enough builds were archived to pass without a baseline start of today. `began` and
    `deadline` are monotonic times. `share`: what starts that run at once take, of the sum of their
    own times.
    """

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
        """What a run starts, and in what time, for the line before the first start. No full stop.

        `names` are the services of each arm, `requests` are sent to each start.
        """
        arms = " and ".join(f"{name} ({arm.value})" for arm, name in names.items())
        seconds = max(0.0, self.deadline - self.began)
        return (
            f"{arms}: {self._needs(results)} starts, {formatting.amount(requests, 'request')} each, "
            f"{formatting.duration(seconds)} of the budget for them"
        )

    def outlook(self, results: Sequence[StartResult], now: float) -> str:
        """How many starts still fit; no full stop.

        Empty before a start has answered everything: nobody knows then.
        """
        measured = self.measured(results)
        if measured is None:
            return ""
        remaining = _left(self.order, results)
        left_s = max(0.0, self.deadline - now)
        # Without rounding errors: exactly the budget still fits.
        took = [
            math.fsum(measured[arm] for arm in remaining[:end])
            for end in range(1, len(remaining) + 1)
        ]
        fitting = sum(each <= left_s for each in took)
        return (
            f"{formatting.duration(left_s)} left of {formatting.duration(self.deadline - self.began)}: "
            f"about {fitting} of at most {formatting.amount(len(remaining), 'more start')} of {_mean(measured)} fit"
        )

    def measured_deadline(self, results: Sequence[StartResult]) -> float:
        """The deadline by which all starts end that the run may need, by what these took.

        Never earlier than the present one; the present one without a start that answered everything.
        """
        measured = self.measured(results)
        if measured is None:
            return self.deadline
        took_s = math.fsum(measured[arm] for arm in self.order)
        seconds = took_s * (1 + SLACK_SHARE) + LONGEST_RESERVE_S
        return max(self.deadline, self.began + seconds)

    def next_run(
        self, results: Sequence[StartResult], argv: Sequence[str], directory: str, reserve_s: float
    ) -> tuple[str, str]:
        """The run that goes on with an undecided experiment, and may decide it: its cost in words, and the command.

        `argv` are the words behind `ci-doctor` of that run, `directory` is its report directory,
        `reserve_s` the part of a budget that is kept for the report. A run of the policy `any` that made
        every start has no looks to go on to, and is made anew.
        """
        arms = _left(self.order, results)
        options, cost = ["--resume", directory], "up to {} more"
        if not arms and self.rules.policy is Policy.ANY:
            retries = self.rules.retries + _MORE
            arms = sequence(replace(self.rules, retries=retries), archived=self.archived)
            options, cost = ["--retries", str(retries)], "a new run of up to {}"
        elif not arms:
            most, limits = _FACTOR * self.rules.max_starts, self.rules.limits
            longer = replace(self.rules, max_starts=most, earlier_max_starts=limits)
            arms = _left(sequence(longer, archived=self.archived), results)
            options += ["--max-starts", str(most)]
        words = f"{cost.format(len(arms))} {'start' if len(arms) == 1 else 'starts'}"
        # If no start came to its end, the budget was too short for anything.
        seconds = _FACTOR * (self.deadline - self.began)
        if measured := self.measured(results):
            took_s = math.fsum(measured[arm] for arm in arms)
            seconds = took_s * (1 + SLACK_SHARE) + _SLACK_S
            words = f"{words}, about {formatting.duration(took_s)} at {_mean(measured)} a start"
        # Whole minutes: a budget to paste, and not a measurement.
        budget = f"{math.ceil((seconds + reserve_s) / 60)}m"
        return words, command_line(argv, [*options, "--budget", budget])

    def measured(self, results: Sequence[StartResult]) -> Mapping[Arm, float] | None:
        """What the starts took that answered everything, in seconds; None without any.

        A start that died took less time. A median, because one slow start must not sway it. An arm
        without such a start has the other's.
        """
        seconds: dict[Arm, list[float]] = {arm: [] for arm in Arm}
        for each in results:
            if each.counts and each.failure is None:
                seconds[each.start.arm].append(self.share * each.duration_s)
        everyone = [each for own in seconds.values() for each in own]
        if not everyone:
            return None
        # The arms differ by what they load, but less than a start differs from a guess.
        return {arm: statistics.median(own or everyone) for arm, own in seconds.items()}

    def _needs(self, results: Sequence[StartResult]) -> str:
        """`2 to 16`, `15 more`: how many starts a verdict takes, at best and at most."""
        counts = Counter(each.start.arm for each in results if each.counts)
        more = " more" if counts else ""
        remaining = _left(self.order, results)
        fewest = len(remaining)
        # The best case: all answers are equal, so the first starts of each arm decide.
        for count, arm in enumerate(remaining, start=1):
            counts[arm] += 1
            is_known = self.archived or counts[Arm.BASELINE] >= self.rules.least_baselines
            if is_known and counts[Arm.CANDIDATE] >= self.rules.least_candidates:
                fewest = count
                break
        most = len(remaining)
        return f"{most}{more}" if fewest == most else f"{fewest} to {most}{more}"


def _mean(measured: Mapping[Arm, float]) -> str:
    return formatting.duration(statistics.fmean(measured.values()))


def _left(order: Sequence[Arm], results: Sequence[StartResult]) -> tuple[Arm, ...]:
    """The starts of an order that are still to be made, whichever were made out of turn."""
    made = Counter(each.start.arm for each in results if each.counts)
    left = []
    for arm in order:
        made[arm] -= 1
        if made[arm] < 0:
            left.append(arm)
    return tuple(left)
