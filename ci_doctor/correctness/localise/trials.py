# SPDX-License-Identifier: Apache-2.0
"""What a pair of fresh starts is sent, what it shows, and which difference of an experiment it is about. Pure."""

import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from functools import lru_cache
from itertools import product

from msgspec import Struct

from ci_doctor.correctness.report.differences import TELLING
from ci_doctor.correctness.results import Experiment, StartResult
from ci_doctor.correctness.settings import Arm, ExperimentPlan
from ci_doctor.correctness.verdict.compare import counted
from ci_doctor.correctness.verdict.starts import ArmStart, DifferenceKind, of_arm, outcomes
from ci_doctor.correctness.verdict.validity import Decision
from ci_doctor.load.requests import Request
from ci_doctor.model.outcome import Verdict

# Where a server tells no tokens.
_CHARACTERS_A_TOKEN = 4
# For each condition of a cause.
EXAM_LEVEL = 0.01
# So many ids are named one by one.
_NAMED = 3
_PIECE = re.compile(r"\w+|[^\w\s]")


class TrialBlock(Struct, frozen=True, kw_only=True):
    """Requests by their names, `at_once` of them under way together; `resets`: an arm with a `reset` path is reset before."""

    names: tuple[str, ...]
    at_once: int = 1
    resets: bool = False


class Trial(Struct, frozen=True, kw_only=True):
    """What one start gets from its beginning: blocks in their order, and a pause before the last."""

    blocks: tuple[TrialBlock, ...]
    pause_s: float = 0.0

    @property
    def names(self) -> tuple[str, ...]:
        """All that is sent, in this order."""
        return tuple(name for block in self.blocks for name in block.names)

    @property
    def at_once(self) -> int:
        """The most requests that are under way together."""
        return max(block.at_once for block in self.blocks)


def one_by_one(names: Sequence[str], *, resets: bool = False, pause_s: float = 0.0) -> Trial:
    """One request after the other; `resets`: before each but the first."""
    blocks = [
        TrialBlock(names=(name,), resets=resets and place > 0) for place, name in enumerate(names)
    ]
    return Trial(blocks=tuple(blocks), pause_s=pause_s)


def together(names: Sequence[str], at_once: int, times: int = 1) -> Trial:
    """The same requests `times` over, `at_once` of them at a time, each time in another order."""
    blocks = []
    for turn in range(times):
        shift = turn * len(names) // times
        order = (*names[shift:], *names[:shift])
        blocks.append(TrialBlock(names=order, at_once=at_once, resets=turn > 0))
    return Trial(blocks=tuple(blocks))


class SentAnswer(Struct, frozen=True, kw_only=True):
    """How a start took one request: what is compared (None: no answer), the text of its first choice, tokens, why it ended, and when.

    Tokens are 0 where the server does not tell them; those of the answer are of all its `choices`.
    """

    answer: str | None
    text: str = ""
    prompt_tokens: int = 0
    answer_tokens: int = 0
    finish: str = ""
    at_s: float = 0.0
    choices: int = 1


# For each block that a start ended, its answers by name.
StartAnswers = Sequence[Mapping[str, SentAnswer]]


class TrialSend(Struct, frozen=True, kw_only=True):
    """One request of a trial. `wrong`: the candidate answers otherwise; None if nobody knows.

    `length`: how long the baseline's answer is, in tokens, and after how many of them the candidate's
    `differs_at` at the latest, about at the `place`, if it `is_text`. `is_short`: it ends before a difference could show, so that `wrong` is None.
    `is_behind`: the candidate's text begins with all of the baseline's.
    `said` is the baseline's answer; of one that differs up to the word or sign in which it does.
    """

    name: str
    block: int
    at_once: int
    wrong: bool | None = None
    prompt_tokens: int = 0
    answer_tokens: int = 0
    finish: str = ""
    at_s: float = 0.0
    length: float = 0.0
    differs_at: float = 0.0
    place: float = 0.0
    is_text: bool = True
    is_short: bool = False
    is_behind: bool = False
    said: str = ""


class TrialResult(Struct, frozen=True, kw_only=True):
    """What one pair of fresh starts showed; `pairs` is 0 for the starts of the experiment itself.

    `sends` are those that both starts came to. `why` is the reason if there are none.
    """

    trial: Trial
    sends: tuple[TrialSend, ...] = ()
    pairs: int = 1
    why: str = ""

    @property
    def differing(self) -> tuple[TrialSend, ...]:
        """The requests to which the candidate answered otherwise."""
        return tuple(each for each in self.sends if each.wrong)

    @property
    def compared(self) -> int:
        """How many could be compared."""
        return sum(each.wrong is not None or each.is_short for each in self.sends)

    @property
    def untold(self) -> tuple[int, ...]:
        """The places, from 1, of sends of which nobody knows whether they differ."""
        return tuple(at for at, each in enumerate(self.sends, 1) if each.wrong is None)


class TrialStanding(StrEnum):
    """Whether a condition shows the difference."""

    DIFFERS = "differs"
    EQUAL = "equal"
    NOT_TRIED = "not tried"


def standing_of(result: TrialResult) -> TrialStanding:
    """Whether any request of it differs."""
    if not result.compared:
        return TrialStanding.NOT_TRIED
    return TrialStanding.DIFFERS if result.differing else TrialStanding.EQUAL


class LocalisedDifference(Struct, frozen=True, kw_only=True):
    """What is localised: a difference on `request`, seen with all `requests`.

    `differing` are the ids of those that differ in the same way, `request` among them. So many as
    `concurrency` were under way at once, in `passes`. Of `pairs` pairs of starts, one of each arm,
    `differing_pairs` differ on `request`. `pause_s` is a time that a start may well be left idle.
    """

    request: Request
    requests: tuple[Request, ...]
    differing: tuple[str, ...]
    concurrency: int
    passes: int
    pairs: int
    differing_pairs: int
    pause_s: float = 1.0

    @property
    def ids(self) -> tuple[str, ...]:
        """All requests of the run."""
        return tuple(each.id for each in self.requests)

    @property
    def always_differs(self) -> bool:
        """Whether every pair of starts of the experiment differs."""
        return self.differing_pairs == self.pairs


@lru_cache(maxsize=1 << 16)
def common(one: str, other: str) -> int:
    """How many characters two texts share at their beginning."""
    most = min(len(one), len(other))
    return next((place for place in range(most) if one[place] != other[place]), most)


@lru_cache(maxsize=1 << 16)
def pieces(text: str, end: int) -> int:
    """How many words and signs a text has before a place, which is about as many as it has tokens."""
    cut = end < len(text) and text[end - 1 : end + 1].isalnum() and end > 0
    return len(_PIECE.findall(text[:end])) - cut


def words_and_signs(text: str) -> list[str]:
    """The words and signs of a text in their order."""
    return _PIECE.findall(text)


def _said(text: str, shared: int) -> str:
    """The beginning of a text, with the whole word or sign at a place in it."""
    ends = (each.end() for each in _PIECE.finditer(text))
    return text[: next((end for end in ends if end > shared), None)]


def observed(trial: Trial, baseline: StartAnswers, candidate: StartAnswers) -> TrialResult:
    """What the answers of both starts to a trial show, as far as both came."""
    sends = []
    for number, (block, left, right) in enumerate(
        zip(trial.blocks, baseline, candidate, strict=False)
    ):
        for name in block.names:
            expected = left[name]
            is_known = expected.answer is not None
            given, size = right[name].text, len(expected.text)
            length = expected.answer_tokens / expected.choices or size / _CHARACTERS_A_TOKEN
            shared = common(given, expected.text)
            said, is_behind = _said(expected.text, shared), 0 < size == shared
            # What goes on behind the whole text, or differs beside it, shows in an answer of any length.
            shared = shared if shared < size else 0
            place = pieces(expected.text, shared) * length / max(1, pieces(expected.text, size))
            sends.append(
                TrialSend(
                    name=name,
                    block=number,
                    at_once=min(block.at_once, len(block.names)),
                    wrong=right[name].answer != expected.answer if is_known else None,
                    prompt_tokens=expected.prompt_tokens,
                    answer_tokens=expected.answer_tokens,
                    finish=expected.finish,
                    at_s=right[name].at_s,
                    length=length,
                    is_text=size > 0,
                    differs_at=max(place, shared * length / max(1, size)),
                    place=place,
                    is_behind=is_behind,
                    said=said,
                )
            )
    return TrialResult(trial=trial, sends=tuple(sends))


def is_of_one(trial: Trial, subject: LocalisedDifference) -> bool:
    """Whether a trial is one request of the run, once or several times."""
    return len(set(trial.names)) == 1 and trial.names[0] in subject.ids


def words(trial: Trial) -> str:
    """A trial as the label of a row: `r1 alone, 3 times`, `r5 after r0 and r1`."""
    names = trial.names
    pause = f", after {trial.pause_s:.1f} s without a request" if trial.pause_s else ""
    if trial.at_once > 1:
        times = len(trial.blocks)
        often = "" if times == 1 else f", {times} times"
        first = trial.blocks[0]
        if first.at_once < len(first.names):
            return f"{len(first.names)} requests, {first.at_once} at once{often}"
        sizes = [len(block.names) for block in trial.blocks]
        if len({frozenset(block.names) for block in trial.blocks}) > 1:
            return f"{len(names)} requests in {times} groups, {min(sizes)} to {max(sizes)} at once"
        return f"{_named(sorted(first.names))} at once{often}"
    if len(set(names)) == 1:
        return f"{names[0]} alone{f', {len(names)} times' if len(names) > 1 else ''}{pause}"
    *before, last = names
    if last not in before and len(before) <= _NAMED:
        return f"{last} after {_named(before)}{pause}"
    return f"{len(names)} requests one at a time: {_listed(names)}{pause}"


def _listed(names: Sequence[str]) -> str:
    if len(names) <= _NAMED:
        return ", ".join(names)
    return f"{names[0]}, …, {names[-2]}, {names[-1]}"


def _named(names: Sequence[str]) -> str:
    if len(names) > _NAMED:
        return f"{len(names)} requests ({names[0]} to {names[-1]})"
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else last


class Exam(Struct, frozen=True, kw_only=True):
    """What a cause has foretold of sends that it was not made from: so many to differ, and so many not to, and all were so.

    Of `other` ones under way at once it was otherwise: nobody knows their order.
    `chance` is that of the condition that is least sure. `trials` are the places of the results that it foretold, from 0.
    """

    differing: int = 0
    equal: int = 0
    other: int = 0
    chance: float = 1.0
    trials: tuple[int, ...] = ()

    @property
    def sends(self) -> int:
        """All of which it has foretold something."""
        return self.differing + self.equal + self.other

    @property
    def is_passed(self) -> bool:
        """Whether chance is excluded for each condition."""
        return self.chance <= EXAM_LEVEL


class LocalisedCause(Struct, frozen=True, kw_only=True):
    """The conclusion. `cause` is the one that fits everything; `rivals` fit as well, in words.

    `shown` are trials in which the difference came (the smallest first), `vanished` those without.
    `copies` lack just what requests must hold, and were equal; without such a thing they are changed copies
    that were equal where the request differed. `shorts` equal answers were too short to tell. `noise` is a sentence if some starts do not show it.
    `is_tested`: the `exam` excludes chance, or the cause names requests alone; else it fits, and is no more than that.
    `by_rate` is what the rates show where there is no cause, or one that names requests; empty if chance is not excluded.
    """

    cause: str | None = None
    rivals: tuple[str, ...] = ()
    shown: tuple[Trial, ...] = ()
    vanished: tuple[Trial, ...] = ()
    copies: tuple[str, ...] = ()
    noise: str = ""
    shorts: int = 0
    by_rate: str = ""
    exam: Exam = Exam()
    is_tested: bool = False


class Localisation(Struct, frozen=True, kw_only=True):
    """The trials that were made for `subject`, and the `conclusion` of them all.

    `starts` were made for it. `stopped` is the reason why no more were made, empty if nothing was
    left to try. `notes` are sentences. `requests` are those that trials name; `requests_file` holds
    those of the smallest trial that differs, if a command needs them.
    """

    subject: LocalisedDifference
    conclusion: LocalisedCause = LocalisedCause()
    results: tuple[TrialResult, ...] = ()
    requests: dict[str, Request] = {}
    starts: tuple[StartResult, ...] = ()
    stopped: str = ""
    notes: tuple[str, ...] = ()
    requests_file: str | None = None

    @property
    def smallest(self) -> Trial | None:
        """The smallest trial in which the difference came again; None if it never did."""
        return next(iter(self.conclusion.shown), None)

    @property
    def has_tried(self) -> bool:
        """Whether any start has shown something."""
        return any(each.compared for each in self.results)


LOCALISED = (Verdict.REGRESSION, Verdict.FLAKY, Verdict.INCONCLUSIVE)

# What is undecided is worth more starts where the baseline is steady: then no noise hides the cause.
_STEADY = (DifferenceKind.CHANGED, DifferenceKind.SOMETIMES)

# A start is left idle for as long as one took, within these bounds.
_PAUSE_S = (1.0, 10.0)


def subject_of(
    plan: ExperimentPlan, experiment: Experiment, decision: Decision
) -> LocalisedDifference | None:
    """The difference to localise; None if there is none that a condition of the requests may explain. Pure."""
    if decision.verdict not in LOCALISED:
        return None
    starts = _comparable(experiment)
    names = differing_requests(plan.ids, starts, decision)
    if decision.verdict is Verdict.INCONCLUSIVE:
        names = [name for name in names if decision.kinds[name] in _STEADY]
    if not names or (decision.verdict is Verdict.FLAKY and _is_of_starts(experiment, names)):
        return None
    first = names[0]
    request = next(each for each in plan.requests if each.id == first)
    pairs = list(product(of_arm(starts, Arm.BASELINE), of_arm(starts, Arm.CANDIDATE)))
    differing = [one for one, other in pairs if one.answers[first] != other.answers[first]]
    return LocalisedDifference(
        request=request,
        requests=plan.requests,
        # Noise on another request must not pass for this difference.
        differing=_alike(first, names, decision),
        concurrency=min(plan.concurrency, len(plan.requests)),
        passes=plan.passes,
        pairs=len(pairs),
        differing_pairs=len(differing),
        pause_s=min(
            max(_PAUSE_S[0], *(each.duration_s for each in experiment.results)), _PAUSE_S[1]
        ),
    )


def _is_of_starts(experiment: Experiment, names: Sequence[str]) -> bool:
    """Whether each start repeats its own answers to these requests in several passes."""
    passes = [result.digests.get(name, {}) for result in experiment.results for name in names]
    digests = [list(each.values()) for each in passes if each]
    return all(len(each) > 1 and len(set(each)) == 1 for each in digests)


def _alike(first: str, names: Sequence[str], decision: Decision) -> tuple[str, ...]:
    """The differing requests that carry a regression; without such a test those of the same kind."""
    disputed = decision.test.disputed if decision.test else ()
    if first in disputed:
        return tuple(name for name in names if name in disputed)
    return tuple(name for name in names if decision.kinds[name] is decision.kinds[first])


def _comparable(experiment: Experiment) -> list[ArmStart]:
    """The starts that are evidence, and worked."""
    return [start for start in counted(experiment.starts) if start.answered and not start.failed]


def differing_requests(
    requests: Sequence[str], starts: Sequence[ArmStart], decision: Decision
) -> list[str]:
    """The requests that differ between starts of the two arms, the most telling first. Pure."""
    baseline, candidate = (of_arm(starts, arm) for arm in Arm)
    if not baseline or not candidate:
        return []
    disputed = decision.test.disputed if decision.test else ()
    names = []
    for request in requests:
        kind = decision.kinds.get(request)
        if kind in TELLING and len(outcomes(starts, request)) > 1:
            names.append((request not in disputed, TELLING.index(kind), request))
    # The sort is stable: of equal ones the first of the file comes first.
    names.sort(key=lambda each: each[:2])
    return [request for _, _, request in names]
