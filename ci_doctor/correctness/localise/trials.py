# SPDX-License-Identifier: Apache-2.0
"""What a pair of fresh starts is sent, and what it shows: where the candidate answers otherwise. Pure."""

from collections.abc import Mapping, Sequence
from enum import StrEnum

from msgspec import Struct

from ci_doctor.load.requests import Request

# So many ids are named one by one.
_NAMED = 3


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
    """How a start took one request: what is compared (None: no answer), tokens, and when it ended."""

    answer: str | None
    prompt_tokens: int = 0
    answer_tokens: int = 0
    at_s: float = 0.0


# For each block that a start ended, its answers by name.
StartAnswers = Sequence[Mapping[str, SentAnswer]]


class TrialSend(Struct, frozen=True, kw_only=True):
    """One request of a trial. `wrong`: the candidate answers otherwise; None if nobody knows."""

    name: str
    block: int
    at_once: int
    wrong: bool | None = None
    prompt_tokens: int = 0
    answer_tokens: int = 0
    at_s: float = 0.0


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
        return sum(each.wrong is not None for each in self.sends)


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


def observed(trial: Trial, baseline: StartAnswers, candidate: StartAnswers) -> TrialResult:
    """What the answers of both starts to a trial show, as far as both came."""
    sends = []
    for number, (block, left, right) in enumerate(
        zip(trial.blocks, baseline, candidate, strict=False)
    ):
        for name in block.names:
            expected = left[name]
            is_known = expected.answer is not None
            sends.append(
                TrialSend(
                    name=name,
                    block=number,
                    at_once=min(block.at_once, len(block.names)),
                    wrong=right[name].answer != expected.answer if is_known else None,
                    prompt_tokens=expected.prompt_tokens,
                    answer_tokens=expected.answer_tokens,
                    at_s=right[name].at_s,
                )
            )
    return TrialResult(trial=trial, sends=tuple(sends))


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
    return f"{names[0]}, …, {names[-1]}"


def _named(names: Sequence[str]) -> str:
    if len(names) > _NAMED:
        return f"{len(names)} requests ({names[0]} to {names[-1]})"
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else last
