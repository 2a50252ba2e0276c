# SPDX-License-Identifier: Apache-2.0
"""Pure. The attempts of a build by step, and whether a retry made sense."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Final

from msgspec import Struct

from ci_doctor.build.job_attempt import JobAttempt
from ci_doctor.model.facts.build import CauseFacts, RetryWorth
from ci_doctor.model.outcome import About
from ci_doctor.model.verdict import MISSING, NO_VERDICT, Verdict, is_green, worst
from ci_doctor.model.words import shortened
from ci_doctor.render.formatting import amount, duration, listed, printable, short_line

# --- what a reader calls a step ---

_EMOJI: Final = re.compile(r":[a-z0-9_+-]{1,40}:")  # `:pytest:`
_LONGEST: Final = 100


def plain_name(attempts: Sequence[JobAttempt]) -> str:
    """The label without emoji, else the key, the command, the place of the files.

    One line of at most 100 characters. A parallel job has its number, from 1, behind it.
    """
    name = short_name(_words(attempts))
    index = attempts[0].about.parallel_index
    if index is None:
        return name
    counts = [each.parallel_count for each in attempts if each.parallel_count]
    return f"{name} {index + 1}/{max(counts)}" if counts else f"{name} {index + 1}"


def _words(attempts: Sequence[JobAttempt]) -> str:
    for each in attempts:
        label = _EMOJI.sub("", each.label or "").strip()
        if label:
            return label
    first = attempts[0]
    own = first.about.step or first.command or first.place or f"job {first.facts.job}"
    return own if own.strip() else "step"


def short_name(text: str) -> str:
    """`text` in one harmless line of at most 100 characters; `step` if nothing of it can be seen."""
    # Before it is looked through: it may be a megabyte.
    beginning = printable(text[: _LONGEST * 10])
    return short_line(beginning, _LONGEST) or "step"


# --- the attempts of a build by step: one for each parallel job, and for each job of a matrix ---

Identity = tuple[str, ...]


class BuildStep(Struct, frozen=True, kw_only=True):
    """A step with its attempts, by their numbers.

    name: different for each. Two jobs that claim the same attempt both stand in `attempts`.
    """

    name: str
    attempts: tuple[JobAttempt, ...]

    @property
    def key(self) -> str | None:
        """The step's key."""
        return self.attempts[0].about.step

    @property
    def label(self) -> str | None:
        """The step's label, as the pipeline gives it."""
        labels = [each.label for each in self.attempts if each.label]
        return labels[0] if labels else None

    @property
    def parallel_index(self) -> int | None:
        """Of a step with `parallelism`, from 0."""
        return self.attempts[0].about.parallel_index

    @property
    def last(self) -> tuple[JobAttempt, ...]:
        """The job of the last attempt, or all jobs that claim to be it."""
        number = self.attempts[-1].facts.attempt
        return tuple(each for each in self.attempts if each.facts.attempt == number)

    @property
    def verdict(self) -> str:
        """That of the last attempt."""
        return worst(each.facts.verdict for each in self.last)

    def claimed_twice(self) -> list[int]:
        """The attempts that more than one job claims."""
        counts = Counter(each.facts.attempt for each in self.attempts)
        return sorted(number for number, count in counts.items() if count > 1)


def build_identity(about: About) -> Identity:
    """What tells two builds apart: pipeline and number, else the commit."""
    if about.build is not None:
        return (about.pipeline or "", str(about.build))
    return ("", about.commit or "")


def steps_of(attempts: Iterable[JobAttempt]) -> tuple[BuildStep, ...]:
    """Every attempt in exactly one step; the order of `attempts` means nothing."""
    groups: dict[Identity, list[JobAttempt]] = defaultdict(list)
    everything = sorted(attempts, key=_order)
    labelled = [each for each in everything if each.label]
    owners: dict[Identity, set[Identity]] = defaultdict(set)
    for each in labelled:
        identity = _identity(each)
        groups[identity].append(each)
        owners[_keyed(each)].add(identity)
    for each in everything:
        if each.label:
            continue
        # A report knows its step's key, but not its label.
        same_key = owners.get(_keyed(each), set()) if each.about.step else set()
        identity = next(iter(same_key)) if len(same_key) == 1 else _identity(each)
        groups[identity].append(each)
    split = [part for group in groups.values() for part in _by_command(group)]
    return _named(split)


def _order(attempt: JobAttempt) -> tuple[int, str, str, str]:
    facts = attempt.facts
    return (facts.attempt, facts.began_at or "", facts.job or "", attempt.place)


def _keyed(attempt: JobAttempt) -> Identity:
    about = attempt.about
    return (*build_identity(about), about.step or "", str(about.parallel_index))


def _identity(attempt: JobAttempt) -> Identity:
    """What the attempts of one step share."""
    if attempt.about.step or attempt.label:
        return (*_keyed(attempt), attempt.label or "")
    if attempt.command:
        return (*_keyed(attempt), "", attempt.command)
    return (*_keyed(attempt), "", "", attempt.facts.job or attempt.place)


def _by_command(group: Sequence[JobAttempt]) -> list[list[JobAttempt]]:
    """The jobs of a matrix, if their labels are the same: only their commands tell them apart.

    A retry runs the same command. A job that is no retry of another must not hide its failure.
    """
    parts: dict[str, list[JobAttempt]] = defaultdict(list)
    for each in group:
        parts[each.command or ""].append(each)
    nameless = parts.get("", [])
    if len(parts) == 2 and nameless:
        return _by_work(group)
    return [part for same in parts.values() for part in _by_work(same)]


def _by_work(group: Sequence[JobAttempt]) -> list[list[JobAttempt]]:
    """Jobs that claim the same attempt, by their variables, plugins and queues, if all are known."""
    numbers = [each.facts.attempt for each in group]
    if len(set(numbers)) == len(numbers) or any(each.work is None for each in group):
        return [list(group)]
    parts: dict[str | None, list[JobAttempt]] = defaultdict(list)
    for each in group:
        parts[each.work].append(each)
    return list(parts.values())


def _named(groups: Sequence[Sequence[JobAttempt]]) -> tuple[BuildStep, ...]:
    """Steps with names that are all different, in the order of their names."""
    names = [(plain_name(group), _order(group[0]), group) for group in groups]
    names.sort(key=lambda each: each[:2])
    used: set[str] = set()
    steps = []
    for name, _, group in names:
        number = 2
        free = name
        while free in used:
            free = f"{name} ({number})"
            number += 1
        own = free
        used.add(own)
        steps.append(BuildStep(name=own, attempts=tuple(sorted(group, key=_order))))
    return tuple(steps)


# --- whether a retry made sense ---

_UNJUDGED = frozenset({MISSING, NO_VERDICT})


def lies_outside(attempt: JobAttempt) -> bool:
    """Whether the attempt failed by a cause outside the change, and another run helps."""
    if attempt.cause is not None:
        return attempt.cause.may_be_retried
    return attempt.facts.verdict == Verdict.INFRA


def worth_of_retry(attempt: JobAttempt, following: Sequence[JobAttempt]) -> RetryWorth | None:
    """What the next attempt was good for; `following` are the jobs that claim to be it.

    None if there is none, or if `attempt` had passed.
    """
    if not following or not attempt.has_failed:
        return None
    result = worst(each.facts.verdict for each in following)
    if result in _UNJUDGED:
        return RetryWorth.UNKNOWN
    if not is_green(result):
        return RetryWorth.IN_VAIN
    if lies_outside(attempt):
        return RetryWorth.HELPED
    # Cancelled, or no report of it: nobody knows whether there was a failure to hide.
    if attempt.facts.verdict in _UNJUDGED and attempt.cause is None:
        return RetryWorth.UNKNOWN
    return RetryWorth.HID_A_FAILURE


def worths_of_retries(step: BuildStep) -> dict[str, RetryWorth]:
    """The worth of the retry after each attempt that failed, by the attempt's place and job."""
    numbers = sorted({each.facts.attempt for each in step.attempts})
    by_number = {
        number: [each for each in step.attempts if each.facts.attempt == number]
        for number in numbers
    }
    worths = {}
    for number, after in pairwise(numbers):
        for attempt in by_number[number]:
            worth = worth_of_retry(attempt, by_number[after])
            if worth is not None:
                worths[attempt_id(attempt)] = worth
    return worths


def attempt_id(attempt: JobAttempt) -> str:
    """A text that no other attempt has."""
    return f"{attempt.facts.job or ''} {attempt.place}"


# --- names, numbers and costs of a build in words ---

__all__ = ("amount", "clipped", "listed", "spent")

LONGEST_LINE: Final = 2_000  # of a log: enough to recognise it
LONGEST_FIELD: Final = 500  # a name, or a title


def spent(facts: CauseFacts) -> str:
    """`; 12 min 20 s, 24 min 40 s of GPU time`, as far as it is known."""
    parts = []
    if facts.seconds is not None:
        parts.append(duration(facts.seconds))
    if facts.gpu_seconds is not None:
        parts.append(f"{duration(facts.gpu_seconds)} of GPU time")
    return f"; {', '.join(parts)}" if parts else ""


def clipped(text: str, most: int = LONGEST_LINE) -> str:
    """`text`, cut after `most` characters: a line of a log may be a megabyte long."""
    return shortened(text, most)
