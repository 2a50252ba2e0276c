# SPDX-License-Identifier: Apache-2.0
"""Which trial the next pair of starts gets, and what is concluded of all of them. Pure.

The first two trials are always the same: the request alone again and again, and all requests one at a
time. Then each pair gets the trial that tells most between the causes that still fit. At last the
cause is tried in fresh starts, once with and once without each part of its condition.
"""

import itertools
import random
from collections.abc import Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from ci_doctor.correctness.localise.causes import Cause, contexts, fitting
from ci_doctor.correctness.localise.copies import Copy, longer_copies, sized_copies, text_copies
from ci_doctor.correctness.localise.examining import (
    NAMING,
    examined,
    is_within,
    mixed,
    orders,
    telling_order,
)
from ci_doctor.correctness.localise.rates import by_rate
from ci_doctor.correctness.localise.shown import GROUP_TIMES, SentSoFar
from ci_doctor.correctness.localise.traits import CausePart, SendTable, parameters, said, valued
from ci_doctor.correctness.localise.trials import (
    Exam,
    LocalisedCause,
    LocalisedDifference,
    Trial,
    TrialBlock,
    one_by_one,
    together,
    words,
)
from ci_doctor.correctness.localise.weights import (
    Weighed,
    bracketed,
    candidates,
    chosen,
    most_telling,
)

# So many causes are weighed; what costs more is hardly one.
_MOST_CAUSES = 3000
_MOST_CONTRASTS = 3
_MOST_COPIES = 4
# For so many words and signs copies are sent.
_MOST_TEXTS = 20
# What grows with time.
_OVER_TIME = {
    "young", "first", "window", "from", "answer tokens", "tokens", "prompt tokens", "characters", "distinct",
}  # fmt: skip

# After so many trials it is asked whether time passed alone.
_LEAST_BEFORE_PAUSE = 4

# So often at most the same is sent to learn whether each start shows it.
_MOST_AGAIN = 4

# So many examinations has a cause, whatever its number.
_MOST_EXAMS = 3
_EXAMINED_COPIES = 8
# What weighed most before so many trials.
_STEADY = 2


class _Contrasts(Struct, frozen=True, kw_only=True):
    """A trial that differs by a cause, and the nearest ones to which its context or its target does not apply."""

    with_it: Trial | None = None
    without_context: tuple[Trial, ...] = ()
    without_target: tuple[Trial, ...] = ()

    @property
    def without(self) -> tuple[Trial, ...]:
        """All that must not differ."""
        return (*self.without_context, *self.without_target)


class Found(Struct, frozen=True, kw_only=True):
    """The cause that is told, with its contrasts, and others that fit as well."""

    cause: Cause
    contrasts: _Contrasts
    rivals: tuple[Cause, ...]
    exam: Exam


class LocalisationSearch(SentSoFar):
    """The state of a search: what was shown so far."""

    def __init__(self, subject: LocalisedDifference) -> None:
        super().__init__(subject)
        # What was computed of so many results.
        self._compared: dict[tuple[object, ...], _Contrasts] = {}
        self._last: tuple[int, Found | None] | None = None
        # What a cause has foretold: the place of the result, and the cause that weighed most before.
        self._foretold: list[tuple[int, Cause]] = []
        self._exams: list[tuple[str, str]] = []

    # --- what comes next ---

    def next_trial(self) -> Trial | None:
        """The trial of the next pair; None if nothing is left that tells anything."""
        first_trials = list(self._first_trials())
        for first in first_trials:
            if not self._is_made(first):
                return first
        if not any(each.differing for each in self.told):
            made = [each.trial for each in self.told]
            is_rare = not self.subject.always_differs and made.count(first_trials[-1]) < GROUP_TIMES
            return first_trials[-1] if is_rare else None
        weighed = self._weighed()
        mixed = [each for each in weighed.pool if len(set(map(frozenset, _groups(each)))) > 1]
        if not weighed.fits_all and mixed and self._is_of_groups():
            # Of groups of many kinds and sizes the rates tell more than equal ones once more.
            return min(mixed, key=lambda each: each.at_once)
        again = self._equal_once()
        if not weighed.fits_all and not self._is_noisy() and again is not None:
            return again
        if self._add_texts(weighed):
            weighed = self._weighed()
        cause = next(iter(chosen(weighed)), None) if weighed.fits_all else None
        if cause is not None:
            measured = bracketed(cause, self._table()[0], self._bases)
            self._foretold.append((len(self.results), measured))
        # What stays the cause is examined before the starts are used up.
        families = [each.family for _, each in self._foretold[-_STEADY:]]
        is_steady = len(families) == _STEADY and len(set(families)) == 1
        return (
            self._paused(weighed)
            or (self._examination(cause) if is_steady else None)
            or most_telling(weighed)
            or self._examination(cause)
            or next(iter(self._unseen_contrasts(weighed)), None)
            or self._left_over()
        )

    def _paused(self, weighed: Weighed) -> Trial | None:
        """The request before and after an idle time, once, if time may be the cause: requests take it as well."""
        is_made = any(each.trial.pause_s for each in self.told)
        families = [each.context.family for each in weighed.causes]
        if (
            is_made
            or not ("age" in families or _OVER_TIME & {*families[:1]})
            or len(self.results) < _LEAST_BEFORE_PAUSE
        ):
            return None
        return one_by_one([self._target()] * 2, pause_s=self.subject.pause_s)

    def _add_texts(self, weighed: Weighed) -> bool:
        """Copies without, and with nothing but, the words and signs that may be the cause."""
        target = self._target()
        parts = [part for each in chosen(weighed) for part in each.target.both or (each.target,)]
        parts += [each.target for each in weighed.causes if each.target.lack]
        known = len(self._bases)
        for text in list(dict.fromkeys(each.lack for each in parts))[:_MOST_TEXTS]:
            if text and text in said(self.requests[target]):
                self._add(target, text_copies(self.requests[target], text))
        if any("blocks" in part.family for part in parts):
            self._add(target, longer_copies(self.requests[target]))
        return len(self._bases) > known

    def _left_over(self) -> Trial | None:
        """What starts are left for: a number, or a smaller sequence, or whether it shows each time."""
        conclusion = self.found()
        if conclusion is not None:
            again = None if self.subject.always_differs else self._equal_once()
            made = self._numbered(conclusion)
            return again or next((each for each in made if not self._is_made(each)), None)
        smallest = next(iter(self._differing_trials()), None)
        if smallest is None:
            return None
        shown = self._all_shown(smallest)
        if len(shown) < 2:
            return smallest
        for each in self._smaller(smallest):
            if not self._all_shown(each):
                return each
        # Whether it shows in each start is known after some.
        if not all(shown):
            return smallest if len(shown) < _MOST_AGAIN else None
        return self._equal_once()

    def _numbered(self, found: "Found") -> Iterator[Trial]:
        """Trials with numbers between the largest that was equal and the least that differs."""
        target = self._target()
        names = (found.contrasts.with_it or one_by_one([target])).names
        part = found.cause.context
        if part.family.endswith("since"):
            yield from self._between(part, target)
        for one in (part, found.cause.target):
            copies = self._add(target, map(Copy, sized_copies(self.requests[target], one)))
            if copies:
                yield one_by_one([*names[:-1], target, *copies])

    def _between(self, part: CausePart, target: str) -> Iterator[Trial]:
        """The request after so many others that their number is nearest to the middle of the two."""
        others = [each for each in self.ids if each != target]
        made = [one_by_one([target, *others[:to], target]) for to in range(1, len(others) + 1)]
        if not part.numbers or part.least is None:
            return
        table, begins = self._table(made)
        parts = [each for each in contexts(table, ()) if each.family == part.family]
        if not parts:
            return
        numbers = [parts[0].numbers[begin - 1] for begin in begins[1:]]
        middle = (part.least + (part.below or 0)) / 2
        inside = [
            (abs(number - middle), at)
            for at, number in enumerate(numbers)
            if (part.below or 0) < number < part.least
        ]
        yield from (made[at] for _, at in sorted(inside))

    def _first_trials(self) -> Iterator[Trial]:
        yield self._alone(self.subject.request.id)
        if len(self.subject.requests) > 1:
            yield self._all()
        if self.subject.concurrency > 1 and not any(each.differing for each in self.told):
            yield together(
                self.subject.ids, self.subject.concurrency, max(GROUP_TIMES, self.subject.passes)
            )

    def _all(self) -> Trial:
        blocks: list[TrialBlock] = []
        for turn in range(min(self.subject.passes, 2)):
            made = one_by_one(self.ids).blocks
            first = replace(made[0], resets=turn > 0)
            blocks += [first, *made[1:]]
        return Trial(blocks=tuple(blocks))

    # --- what fits ---

    def _weighed(self, *, with_pool: bool = True) -> Weighed:
        """The causes that fit, and what they say of the trials that were not made."""
        pool = [
            each
            for each in (dict.fromkeys(self._pool()) if with_pool else ())
            if not self._is_made(each)
        ]
        table, begins = self._table(pool)
        observed = begins[0]
        plain = table.mask(each.name in self.ids for each in table.sends)
        fit = fitting(table, observed)
        causes = fit or _naming(table, observed)
        return Weighed(
            causes=_without_idle_traits(causes, plain)[:_MOST_CAUSES],
            fits_all=bool(fit),
            pool=pool,
            begins=begins,
            plain=plain,
        )

    def _table(self, trials: Sequence[Trial] = ()) -> tuple[SendTable, list[int]]:
        """All sends so far and those of trials that were not made; where each of these begins, and their end."""
        lanes = self.lanes()
        more = [self._expected(each) for each in trials]
        table = SendTable([*lanes, *more], self.requests, self.subject.ids, self._rows)
        return table, list(itertools.accumulate(map(len, more), initial=sum(map(len, lanes))))

    def _fitting(self, table: SendTable, observed: int) -> list[Cause]:
        """The causes that fit; if none does, those that name requests, whatever changed copies show."""
        return fitting(table, observed) or _naming(table, observed)

    # --- with and without ---

    def _basis(self, cause: Cause) -> list[Trial]:
        """Small trials whose last request may differ, the smallest first."""
        target, ids = self._target(), self.ids
        others = [each for each in ids if each != target]
        if self._is_of_groups():
            sizes = range(1, min(self.subject.concurrency, len(ids)) + 1)
            made = [
                together([target, *others[: size - 1]], size, GROUP_TIMES)
                for size in sizes
                if size > 1
            ]
            made += [
                together([target, name], 2, GROUP_TIMES) for name in (*others, *self._twin(target))
            ]
            return [one_by_one([target]), *sorted(made, key=lambda each: len(each.blocks[0].names))]
        repeats = len(self._alone(target).blocks)
        mentioned = [name for name in ids if name in cause.context.words.replace(",", "").split()]
        made = [one_by_one([name]) for name in (target, *self._copies(target))]
        made += [one_by_one([target] * count, resets=True) for count in range(2, repeats + 1)]
        made += [one_by_one([name, target]) for name in others]
        made += [
            one_by_one([*part, target])
            for count in (2, 3)
            for part in itertools.combinations(mentioned, count)
        ]
        whole = self._all().blocks
        made += [Trial(blocks=whole[:count]) for count in range(2, len(whole) + 1)]
        made += [
            one_by_one([target], pause_s=self.subject.pause_s),
            one_by_one([target] * 2, pause_s=self.subject.pause_s),
        ]
        return sorted(dict.fromkeys(made), key=lambda each: len(each.blocks))

    def contrasts(self, cause: Cause) -> "_Contrasts":
        """The smallest trial whose last request differs by the cause, and the nearest that do not."""
        key = (*_key(cause), len(self.results))
        if key not in self._compared:
            self._compared[key] = self._contrasted(cause)
        return self._compared[key]

    def _contrasted(self, cause: Cause) -> "_Contrasts":
        basis = self._basis(cause)
        parts = self._parts_of(cause, basis)
        with_it = next((each for each, part in zip(basis, parts, strict=True) if all(part)), None)
        if with_it is None:
            return _Contrasts()
        basis = list(dict.fromkeys((*basis, *self._variants(with_it, cause))))
        parts = self._parts_of(cause, basis)
        wanted = max(1, cause.context.needs)
        without_context = self._nearest(
            basis, parts, (True, False), with_it, wanted, cause.context.lack
        )
        without_target: tuple[Trial, ...] = ()
        if cause.target.trait or not without_context:
            without_target = self._nearest(
                basis, parts, (False, True), with_it, 1, cause.target.lack
            )
        if not without_context and not without_target:
            without_context = self._nearest(basis, parts, (False, False), with_it, 1)
        return _Contrasts(
            with_it=with_it, without_context=without_context, without_target=without_target
        )

    def _parts_of(self, cause: Cause, trials: Sequence[Trial]) -> list[tuple[bool, bool]]:
        """Whether the request that a trial is about is of the cause's target, and in its context."""
        table, begins = self._table(trials)
        like = self._like(cause, table, begins[0])
        if like is None:
            return [(False, False)] * len(trials)
        # Of a group it is the first one, else the last one.
        places = [
            begin if each.at_once > 1 else end - 1
            for each, (begin, end) in zip(trials, itertools.pairwise(begins), strict=True)
        ]
        masks = (like.target.mask, like.context.mask)
        return [(bool(masks[0] >> at & 1), bool(masks[1] >> at & 1)) for at in places]

    def _like(self, cause: Cause, table: SendTable, observed: int) -> Cause | None:
        """The cause, with its sends of another table."""
        for fit in (self._fitting(table, observed), _naming(table, observed)):
            for each in fit:
                if _key(each) == _key(cause):
                    return each
        return None

    # --- what a cause foretells ---

    def _examination(self, cause: Cause | None) -> Trial | None:
        """New requests in a new order, of which the cause foretells most; None if chance is excluded, or it was examined enough."""
        if cause is None or cause.target.family.startswith(NAMING):
            return None
        if self._exams.count(cause.family) >= _MOST_EXAMS or self._exam(cause).is_passed:
            return None
        number = len(self.results)
        draw = random.Random(number)  # noqa: S311 - no secret
        new = mixed(self.subject.requests, self.requests[self._target()], draw, number)
        with_it = self.contrasts(cause).with_it
        parts: list[tuple[str, ...]] = [(self._target(),)]
        if with_it and with_it.at_once == 1:
            parts = [with_it.names]
        at_once = self.subject.concurrency if self._is_of_groups() else 1
        self.requests |= {each.id: each for each in new}
        copies = self._copies(self._target())
        names = [*self.ids, *draw.sample(copies, min(len(copies), _EXAMINED_COPIES))]
        if at_once == 1:
            parts += [(each, self._target()) for each in self._of_a_key(cause)]
        trials = list(orders(names, [each.id for each in new], parts, at_once, draw))
        table, begins = self._table(trials)
        like = self._like(cause, table, begins[0])
        if like is None:
            return None
        rivals = fitting(table, begins[0], with_products=True)[:_MOST_CAUSES]
        self._exams.append(cause.family)
        return trials[telling_order(like, rivals, table, begins)]

    def _exam(self, cause: Cause) -> Exam:
        """What this cause has foretold, before its numbers came nearer to the border by it."""
        if cause.is_of_bodies and cause.family not in self._exams:
            # Copies of a request hold all else that it holds: what requests hold is tested by mixed ones.
            return Exam()
        table, _ = self._table()
        measured = bracketed(cause, table, self._bases)
        made = {number for number, each in self._foretold if is_within(measured, each)}
        like = self._like(cause, table, len(table.sends))
        begin, lanes = 0, []
        for sends in self.lanes():
            number = next(at for at, each in enumerate(self.told) if each.sends is sends)
            lanes += [(begin, len(sends))] if number in made else []
            begin += len(sends)
        known = table.mask(each.wrong is not None for each in table.sends)
        if like is None:
            return Exam()
        unsure = like.context.unsure | like.target.unsure
        exam = examined(like, table, lanes, table.wrong, known & ~unsure)
        return replace(exam, trials=tuple(sorted(made)))

    def _variants(self, trial: Trial, cause: Cause) -> Iterator[Trial]:
        """The trial with another request at its end, or, for a trait of what came before, right before it."""
        if trial.at_once > 1:
            target, *rest = trial.blocks[0].names
            for copy in self._copies(target):
                yield together([copy, *rest], trial.at_once, GROUP_TIMES)
            for copy in self._copies(rest[0]) if len(rest) == 1 else ():
                yield together([target, copy], trial.at_once, GROUP_TIMES)
            return
        *before, last = trial.names
        places = [(len(before), last)] if cause.target.trait else []
        if cause.context.trait and before:
            places.append((len(before) - 1, before[-1]))
        for place, name in places:
            base = self._bases.get(name, name)
            for other in (*self._copies(base), *self.ids):
                block = replace(trial.blocks[place], names=(other,))
                blocks = (*trial.blocks[:place], block, *trial.blocks[place + 1 :])
                yield replace(trial, blocks=blocks)
                # The same prompt came before: so it does of the other.
                if place == len(before) and last in before:
                    names = [other if each == last else each for each in trial.names]
                    yield one_by_one(names, pause_s=trial.pause_s)

    def _nearest(
        self,
        trials: Sequence[Trial],
        parts: Sequence[tuple[bool, bool]],
        wanted: tuple[bool, bool],
        trial: Trial,
        most: int,
        lack: str = "",
    ) -> tuple[Trial, ...]:
        """The trials nearest to `trial` of which exactly these parts hold; first those that lack just one."""
        rest = [each for each, part in zip(trials, parts, strict=True) if part == wanted]
        far = {}
        for each in rest:
            lacks = [self._lacks.get(name) for name in each.names]
            far[each] = (bool(lack) and lack not in lacks, *self._distance(each, trial))
        rest.sort(key=lambda each: far[each])
        alike = [each for each in rest if far[each] == far[rest[0]]]
        return tuple(alike[: max(1, min(most, _MOST_CONTRASTS))])

    def _unseen_contrasts(self, weighed: Weighed) -> Iterator[Trial]:
        for cause in candidates(weighed):
            contrasts = self.contrasts(cause)
            with_it = contrasts.with_it
            # What one start alone has shown may be chance.
            if with_it is not None and sum(bool(each.differing) for each in self.told) == 1:
                yield with_it
            for each in (*((with_it,) if with_it else ()), *contrasts.without):
                if self._shown(each) is None and not self._is_made(each):
                    yield each
            if self._is_borne(cause, contrasts):
                return
            before = with_it.names[:-1] if with_it is not None and with_it.at_once == 1 else ()
            yield from self._copies_in_place(with_it)
            if cause.context.trait and before and before[-1] in self.ids:
                # What is told by its answer is known once it was sent.
                target = self._target()
                made = [each for one in self._copies(before[-1]) for each in (one, target)]
                if made and not self._is_made(one_by_one(made)):
                    yield one_by_one(made)

    def _copies_in_place(self, trial: Trial | None) -> Iterator[Trial]:
        """A short trial again and again, with each changed copy in the place of its last request."""
        target = self._target()
        if trial is None or trial.names[-1] != target or trial.at_once > 1:
            return
        if len(trial.names) <= _MOST_COPIES:
            copies = self._copies(target)
            made = [copy if each == target else each for copy in copies for each in trial.names]
            if made and not self._is_made(one_by_one(made)):
                yield one_by_one(made)

    def _borne(self, causes: Sequence[Cause]) -> list[tuple[Cause, "_Contrasts"]]:
        """The causes whose every trait was tried, each with its contrasts; time foretells whatever grows with it."""
        timed = [each for each in causes if self._is_timed(each.context.family)]
        made = [(each, self.contrasts(each)) for each in timed]
        return [
            (each, contrasts)
            for each, contrasts in made
            if self._is_borne(each, contrasts) or self._exam(each).is_passed
        ]

    def _is_borne(self, cause: Cause, contrasts: "_Contrasts") -> bool:
        """Whether what lacks just a trait that the cause claims was equal, for each trait.

        Of a request that differs, that is a changed copy. So it is of what came before; or there is a
        start without it, if it is about the first or each second of a kind.
        """
        if None in self._controls(cause) or not self._is_timed(cause.context.family):
            return False
        needed = [self._is_needed(cause, each) for each in cause.context.both]
        # How much is under way shows in a start that differs, not between two.
        if "load" in cause.context.family or cause.context.family == "arrival":
            below = cause.target.mask & ~cause.context.mask
            needed.append(self._is_equal_in(below, elsewhere=0))
        if cause.context.beyond:
            needed.append(self._is_equal_in(cause.target.mask & cause.context.beyond))
        if not all(needed):
            return False
        if cause.context.needs > 1:
            made = [contrasts.with_it, *contrasts.without_context]
            shown = [self._shown(each) if each else None for each in made]
            return shown == [True, *[False] * cause.context.needs]
        if not cause.context.trait:
            return True
        equal = [each for each in contrasts.without_context if self._shown(each) is False]
        if cause.context.family.startswith(("first", "every")):
            return bool(equal)
        lacks = [self._lacks[name] for each in equal for name in each.names if name in self._lacks]
        return cause.context.lack in lacks if cause.context.lack else bool(lacks)

    def _controls(self, cause: Cause) -> list[str | None]:
        parts = cause.target.both or (cause.target,)
        return [self._control(cause, each) for each in parts if each.trait]

    def _is_needed(self, cause: Cause, part: CausePart) -> bool:
        """Whether a request in the other of two contexts was equal: with a difference, or in two starts."""
        (other,) = [each for each in cause.context.both if each is not part]
        return self._is_equal_in(cause.target.mask & other.mask & ~part.mask)

    def _is_equal_in(self, without: int, elsewhere: int = 1) -> bool:
        """Whether one of these sends was equal, in a start with a difference or in two `elsewhere`."""
        place, equal = 0, 0
        for lane in self.lanes():
            window = without >> place & ((1 << len(lane)) - 1)
            is_equal = any(window >> at & 1 and each.wrong is False for at, each in enumerate(lane))
            equal += is_equal * (2 if any(each.wrong for each in lane) else elsewhere)
            place += len(lane)
        return equal > 1

    def _control(self, cause: Cause, part: CausePart) -> str | None:
        """A copy of a request that differs, which lacked just this and was equal in the same context."""
        sends = [each for lane in self.lanes() for each in lane]
        differing = {self._bases.get(each.name, each.name) for each in sends if each.wrong}
        without = cause.context.mask & ~part.mask
        for each in cause.target.both:
            if each is not part:
                without &= each.mask
        wanted = {part.lack} if part.lack else set(self._lacks.values())
        equal = [
            each.name
            for place, each in enumerate(sends)
            if without >> place & 1
            and (each.wrong is False or (each.is_short and part.by_place))
            and self._bases.get(each.name) in differing
            and self._lacks[each.name] in wanted
        ]
        return next(iter(equal), None)

    def found(self) -> "Found | None":
        """The cause that is told, and what it rests on; None if none is."""
        if self._last is None or self._last[0] != len(self.results):
            self._last = len(self.results), self._conclude()
        return self._last[1]

    def _conclude(self) -> "Found | None":
        """The cause that fits everything, and whose traits were all tried."""
        shown = [each for each in self.told if each.differing and each.pairs]
        if not shown or (self._is_noisy() and len(shown) < 2):
            return None
        weighed = self._weighed(with_pool=False)
        table, _ = self._table()
        borne = self._borne(chosen(weighed))
        if not borne:
            # Where no start without a trait was left to make, the requests themselves are named.
            made = self._borne(candidates(weighed))
            made = made or self._borne(_naming(table, len(table.sends))[:1])
            sure = [each for each in made if self._is_sure(each[0])]
            borne = sure or self._untested(weighed) or made
        if not borne:
            return None
        (best, contrasts), *rest = borne
        return Found(
            cause=bracketed(best, table, self._bases), contrasts=contrasts, exam=self._exam(best),
            rivals=tuple(bracketed(each, table, self._bases) for each, _ in rest),
        )  # fmt: skip

    def _is_sure(self, cause: Cause) -> bool:
        """Whether it is more than that certain requests differ in a context that nothing has tried."""
        is_of_names = cause.target.family.startswith(NAMING)
        return not is_of_names or _is_name(cause) or self._exam(cause).is_passed

    def _untested(self, weighed: Weighed) -> list[tuple[Cause, "_Contrasts"]]:
        """The causes that fit, and are no more than that.

        Of a request and a condition beside it, one of both may fit by chance.
        """
        if not weighed.fits_all or self._is_noisy():
            return []
        return [
            (each, self.contrasts(each))
            for each in chosen(weighed)
            if self._is_timed(each.context.family)
            and (_is_name(each) or not each.target.family.startswith(NAMING))
        ]

    def conclusion(self) -> LocalisedCause:
        """What fits everything that was shown."""
        found = self.found()
        shown = self._differing_trials()
        noise = self._noise()
        if found is None:
            smaller = [] if not shown else list(self._smaller(shown[0]))
            differing = [each.trial for each in self.told if each.differing]
            vanished = [
                each for each in smaller if self._shown(each) is False and each not in differing
            ]
            return LocalisedCause(
                shown=shown, vanished=tuple(vanished[:_MOST_CONTRASTS]), noise=noise,
                copies=self._varied(), shorts=self._shorts(),
                by_rate=self._by_rate(),
            )  # fmt: skip
        with_it = found.contrasts.with_it
        if with_it is not None and self._shown(with_it):
            shown = (with_it,)
        vanished = [each for each in found.contrasts.without if self._shown(each) is False]
        cause = self._in_words(found.cause)
        if self._shorts() and found.cause.family == ("any", "any"):
            cause += f", from about token {self.place()} of its answer on"
        copies = tuple(dict.fromkeys(filter(None, self._controls(found.cause)))) or self._varied()
        # Names alone say little: what must be there is what equal copies lack.
        sent = (each.name for lane in self.lanes() for each in lane)
        inside = {name for at, name in enumerate(sent) if found.cause.context.mask >> at & 1}
        equal = [each for each in copies if each in inside]
        if equal and found.cause.target.family in {"some", "some bodies"}:
            cause += f" (equal: {'; '.join(equal[:_MOST_COPIES])})"
        return LocalisedCause(
            cause=cause,
            rivals=tuple(map(self._in_words, found.rivals)),
            exam=found.exam, is_tested=found.exam.is_passed or _is_name(found.cause),
            shown=shown, vanished=tuple(vanished), noise=noise,
            copies=copies, shorts=self._shorts(), by_rate=self._by_rate() if found.cause.target.family.startswith("some") else "",
        )  # fmt: skip

    def _in_words(self, cause: Cause) -> str:
        """The cause; of one that names requests, whether changed copies differ that it does not name."""
        said = cause.mask | cause.context.unsure | cause.target.unsure
        is_more = self._table()[0].wrong & ~said
        words = cause.in_words() + " (so do some changed copies)" * bool(is_more)
        same = self.unvaried(cause)
        names = (self._target(), *self.requests)
        told = " and ".join(
            valued(key, value, next(x for x in names if key in parameters(self.requests[x])))
            for key, value in same.items()
        )
        verb = "were" if len(same) > 1 else "was"
        return words + f" (only {told} {verb} sent)" * bool(same)

    def _by_rate(self) -> str:
        return by_rate(self._all_lanes(), self.subject, self.requests, self._bases)

    def _noise(self) -> str:
        """In how many starts something differed that did not in all; empty if there is no such thing."""
        trial = self._unsteady()
        if trial is None:
            return ""
        shown = self._all_shown(trial)
        return f"{words(trial)} differs in {sum(shown)} of {len(shown)} fresh starts"


def _groups(trial: Trial) -> list[tuple[str, ...]]:
    return [block.names for block in trial.blocks if block.at_once > 1]


def _is_name(cause: Cause) -> bool:
    """Whether it names requests, and no condition."""
    return cause.target.family.startswith(NAMING) and cause.context.family == "any"


def _naming(table: SendTable, observed: int) -> list[Cause]:
    """The causes that claim nothing of what requests hold and name some of the run, whatever changed copies show.

    A trait that a copy has shown to be none is no cause.
    """
    return [each for each in fitting(table, observed, plain_alone=True) if not each.is_of_bodies]


def _without_idle_traits(causes: Sequence[Cause], plain: int) -> list[Cause]:
    """The causes without traits that all requests of the run have, where `each request` fits too."""
    known = {each.mask & plain for each in causes if not each.target.trait}
    kept = []
    for each in causes:
        is_idle = each.target.trait and each.target.mask & plain == plain
        if not is_idle or each.mask & plain not in known:
            kept.append(each)
    return kept


def _key(cause: Cause) -> tuple[str, str, str, str]:
    return cause.target.family, cause.target.words, cause.context.family, cause.context.words
