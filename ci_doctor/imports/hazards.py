# SPDX-License-Identifier: Apache-2.0
"""Pure. Every import hazard of the processes of a run, the worst first; whether one happened, what it means, what ends it."""

import shlex
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from ci_doctor.errors import UsageError
from ci_doctor.imports.crossings import (
    CYCLE,
    SUBMODULE,
    HazardKind,
    ProcessImports,
    badness,
    is_own,
)
from ci_doctor.imports.locks import ComparisonBudget, Forest, ForestBuilder, Graph, History
from ci_doctor.imports.one_module import COPIED, FAILED, RELOAD, REPLACED, replaced_modules
from ci_doctor.imports.trace import Deadlock, End, Missing, RecordedProcess, RecordedRun, Wait
from ci_doctor.model.facts.import_race import Closeness, Hazard, Remedy, RuleStanding
from ci_doctor.model.outcome import Meaning, Rule, Severity
from ci_doctor.preload.preload_rule import Preload, PreloadRule, format_rule, parse_rule

KINDS: Final = {kind.name: kind for kind in (REPLACED, CYCLE, SUBMODULE, FAILED, RELOAD, COPIED)}


def kind_of(hazard: Hazard) -> HazardKind:
    """The kind that its name means."""
    return KINDS[hazard.kind]


def was_handed_out(hazard: Hazard, processes: Iterable[RecordedProcess]) -> bool:
    """Whether a thread received a wrong object, or CPython let it continue without its lock."""
    hands_out = kind_of(hazard).hands_out
    return any(hands_out(hazard, event) for process in processes for event in process.events)


def harms(
    hazard: Hazard, processes: Iterable[RecordedProcess]
) -> Iterator[tuple[str, Missing | Deadlock | Wait]]:
    """What went wrong with the modules of `hazard`, in the order in which it happened: the thread, and the event.

    It read a name that the complete module has, its import ended with importlib's `_DeadlockError`,
    or it received a module whose own import had failed, instead of the error.
    """
    kind = kind_of(hazard)
    for process in processes:
        for event in process.events:
            match event:
                case Missing():
                    # The complete module does not have the name either: nothing was missed.
                    is_absent = (event.name, event.attribute) in process.absent
                    is_harm = event.name in hazard.modules and not is_absent
                case Deadlock(raised=True):
                    is_harm = is_own(hazard, event)
                case Wait():
                    is_harm = kind.is_harm and kind.hands_out(hazard, event)
                case _:
                    continue
            if is_harm:
                yield process.threads[event.n].name, event


def did_harm(hazard: Hazard, processes: Iterable[RecordedProcess]) -> bool:
    """Whether the events of a run show that the hazard did harm."""
    return any(True for _ in harms(hazard, processes))


def newly_failed(
    recorded: Iterable[RecordedProcess], held: Iterable[RecordedProcess]
) -> tuple[str, ...]:
    """The modules that were loaded in the run `recorded` and only failed in the run `held`."""
    fine = _ended(recorded, {"loaded"}) - _ended(recorded, {"failed", "missing"})
    broken = _ended(held, {"failed", "missing"})
    return tuple(sorted(fine & broken))


def _ended(processes: Iterable[RecordedProcess], statuses: set[str]) -> set[str]:
    names = set()
    for process in processes:
        for event in process.events:
            if isinstance(event, End) and event.status in statuses:
                names.add(event.name)
    return names


# About half a second each. Only programs with thousands of modules in dozens of threads get there.
_VISITS = 400_000
_COMPARISONS = 600_000
# Of threads that make the same requests at the same lines, in the same order, a few are enough.
_ALIKE = 3
_BOUND: Final = (
    "there may be more: not all of what could meet was compared "
    f"({_VISITS} imports, {_COMPARISONS} pairs)"
)


class FoundHazards(Struct, frozen=True, kw_only=True):
    """The hazards of a process, or of all.

    is_whole: False if the comparison stopped at a bound, so that there may be more.
    """

    hazards: tuple[Hazard, ...] = ()
    is_whole: bool = True


def find_hazards(process: RecordedProcess) -> FoundHazards:
    """The hazards of `process`, the worst first.

    Of a module that replaces itself there is one hazard for each two places; of a group of modules
    that need each other, the closest one. If a bound was reached, the `detail` of each says so.
    """
    # One thread races with nobody. Most processes end here.
    if len(process.threads) < 2:
        return FoundHazards()
    history = History(process)
    graph = Graph(history)
    wanted = graph.grouped | graph.union(replaced_modules(history))
    builder = ForestBuilder(history, graph, wanted, _VISITS)
    found = ProcessImports(
        history=history,
        graph=graph,
        forests=list(_forests(history, builder)),
        replacing=ComparisonBudget(_COMPARISONS),
        crossing=ComparisonBudget(_COMPARISONS),
    )
    finders = dict.fromkeys(kind.find for kind in KINDS.values())
    hazards = []
    for hazard in (hazard for find in finders for hazard in find(found)):
        has_fired = hazard.closeness is Closeness.HANDED_OUT and did_harm(hazard, (process,))
        hazards.append(replace(hazard, closeness=Closeness.FIRED) if has_fired else hazard)
    # The worst first, so that it is the one that stands for its places and for its group. Of
    # equally bad ones the one with the shortest chains.
    hazards.sort(key=lambda each: (badness(each), len(each.first.chain) + len(each.second.chain)))
    for key in (_places, _reported_once):
        first: dict[Hashable, Hazard] = {}
        for hazard in hazards:
            first.setdefault(key(hazard, graph), hazard)
        hazards = list(first.values())
    is_whole = not (builder.is_cut or found.replacing.is_exhausted or found.crossing.is_exhausted)
    if not is_whole:
        hazards = [replace(each, detail=f"{each.detail}; {_BOUND}") for each in hazards]
    return FoundHazards(hazards=tuple(hazards), is_whole=is_whole)


def _forests(history: History, builder: ForestBuilder) -> Iterator[Forest]:
    """What each thread would take; of threads that behave alike, a few."""
    active = {n for n, _ in history.waits}
    active.update(load.n for loads in history.executed.values() for load in loads)
    # The threads by what they request and what is loaded by then. What is not wanted differs from
    # thread to thread, and changes no lock tree.
    alike: dict[Hashable, list[int]] = defaultdict(list)
    for n, entries in history.entries.items():
        behaviour = [
            (entry.site, entry.name, builder.progress.before(entry)[0] & builder.wanted)
            for entry in entries
        ]
        alike[tuple(behaviour)].append(n)
    for threads in alike.values():
        # A thread that loaded something, or waited, shows more than one that found all of it done.
        threads.sort(key=lambda n: (n not in active, history.entries[n][0].t))
        for n in threads[:_ALIKE]:
            waiting = builder.build(n)
            if waiting.taken:
                yield waiting
            # The same thread if another one has begun the packages: then it takes fewer locks, and
            # can meet the other one at places where it would have waited.
            skipping = builder.build(n, skipping=True)
            if skipping.skipped and skipping.taken:
                yield skipping


def _places(hazard: Hazard, _: Graph) -> Hashable:
    """What is the same for two hazards of the same modules at the same places."""
    # Sets: which of the two threads comes first differs from one pair of threads to another.
    first = hazard.first
    second = hazard.second
    if hazard.pair is None:
        return hazard.kind, hazard.modules, frozenset({first.site, second.site})
    return hazard.kind, frozenset(hazard.pair), first.chain[0], second.chain[0]


def _reported_once(hazard: Hazard, graph: Graph) -> Hashable:
    """What is reported once: one place of the second import, or a whole group of modules."""
    if hazard.pair is None:
        return hazard.kind, hazard.modules, hazard.second.site
    return next((graph.reach[name] for name in hazard.pair if name in graph.reach), hazard.pair)


def find_in_all(recorded: RecordedRun, interpreters: Mapping[str, bool | None]) -> FoundHazards:
    """The hazards of all processes together, without those that an immune interpreter does not have.

    `interpreters` as `check_interpreters` returns it.
    """
    hazards: list[Hazard] = []
    is_whole = True
    for process in recorded.processes:
        # Not None: an interpreter that could not be checked may be exposed.
        is_immune = interpreters.get(process.executable) is False
        in_process = find_hazards(process)
        is_whole = is_whole and in_process.is_whole
        hazards += [
            each for each in in_process.hazards if not (is_immune and kind_of(each).has_fix)
        ]
    return FoundHazards(hazards=tuple(hazards), is_whole=is_whole)


# --- what ends a hazard: a rule, or an import to move before the line that starts the thread ---


_MAIN = "__main__"
_STANDINGS: Final = {
    RuleStanding.WON: "With this rule the race did not fire under the same delay",
    RuleStanding.UNTRIED: "This rule was NOT seen to win: no run was made with it. "
    "`import-race --confirm` makes one if the race fires",
}


def remedy(hazard: Hazard, known: Mapping[str, RuleStanding] | None = None) -> Remedy:
    """What keeps both imports apart: all modules are imported before one of the threads starts.

    `known` has the standing of rules by their text, as `rule_standings` gives it. A rule that cannot
    fire or has lost is not offered.
    """
    kind = kind_of(hazard)
    if kind.advice is not None:
        text = kind.advice.format(first=hazard.modules[0])
        return Remedy(rule=None, move=text, text=text)
    rule = rule_of(hazard)
    standing = (known or {}).get(format_rule(rule), RuleStanding.UNTRIED) if rule else None
    if rule is not None and standing in {RuleStanding.WON, RuleStanding.UNTRIED}:
        words = shlex.quote(format_rule(rule))
        text = (
            f"import it before {rule.trigger} starts the thread: "
            f"`ci-doctor preload install --rule {words}`, "
            f"or for one run `ci-doctor run --preload {words} -- CMD`. {_STANDINGS[standing]}"
        )
        return Remedy(rule=format_rule(rule), move=None, text=text, rule_standing=standing)
    move = _move(hazard)
    return Remedy(rule=None, move=move, text=move)


def rule_of(hazard: Hazard) -> PreloadRule | None:
    """The preload rule that would end the hazard, if there is one, whether it can fire or not.

    It preloads before the module whose code starts the thread.
    """
    started_at = hazard.first.thread_started_at or hazard.second.thread_started_at
    if started_at is None or not kind_of(hazard).is_preloadable:
        return None
    # A script has no module name that an import could trigger; with `-m a.b` it has (`Site`).
    trigger = started_at.module.removeprefix(_MAIN + ":")
    if trigger == _MAIN:
        return None
    rule = PreloadRule(trigger=trigger, preloads=_preloads(hazard))
    # There and back: a name that the form of rules cannot hold is refused now, not when pasted.
    try:
        return parse_rule(format_rule(rule))
    except UsageError:
        return None


def _preloads(hazard: Hazard) -> tuple[Preload, ...]:
    """The imports, with the names that both sides take: a lazy attribute loads more."""
    preloads = []
    for module in hazard.modules:
        sides = [side for side in (hazard.first, hazard.second) if side.name == module]
        names = [name for side in sides for name in side.names]
        # A rule lists each name once, in the order of the statements. `*` is none, and rules are
        # ASCII.
        attributes = [
            name for name in dict.fromkeys(names) if name.isascii() and name.isidentifier()
        ]
        preloads.append(Preload(module=module, attributes=tuple(attributes)))
    return tuple(preloads)


def _move(hazard: Hazard) -> str:
    started_at = hazard.first.thread_started_at or hazard.second.thread_started_at
    statements = "; ".join(
        f"from {each.module} import {', '.join(each.attributes)}"
        if each.attributes
        else f"import {each.module}"
        for each in _preloads(hazard)
    )
    if started_at is None:
        return f"write `{statements}` where the program starts, before its first thread"
    return (
        f"write `{statements}` in {started_at.file} before line {started_at.line}, "
        "which starts the thread"
    )


# --- the rules of findings about imports in several threads ---


ABOUT: Final = Meaning(
    meaning="Two threads import at the same time, and one of them is handed an incomplete module. "
    "The error is `cannot import name 'X' from partially initialized module 'Y'`, `partially "
    "initialized module 'Y' has no attribute 'X'`, or, of a module that replaces itself as "
    "transformers does, `cannot import name 'X' from 'Y'`. If it comes in some runs only, threads "
    "race. If it comes in every run, it is an import cycle, or the name does not exist.",
    remedy="First `ci-doctor import-race probe Y:X` tests whether this interpreter can lose that "
    "import to another thread. Then put `ci-doctor import-race --confirm --` before the command "
    "that failed. It finds the two imports and the place that starts the thread, makes the race "
    "happen, and prints the preload rule or the import to move. At last, `ci-doctor preload "
    "install --rule RULE` puts the rule into the interpreter, or `ci-doctor run --preload RULE --` "
    "before a command.",
)

NOT_FOLLOWED: Final = Rule(
    id="import-race/not-followed",
    severity=Severity.WARNING,
    meaning="The command started a Python that does not load the recorder, because of `-I`, `-E`, "
    "`-S` or its own environment. Its imports are not known.",
    remedy="Start it without that option or environment while you look for import races.",
)
NOT_RECORDED: Final = Rule(
    id="import-race/not-recorded",
    severity=Severity.WARNING,
    meaning="No Python recorded its imports, or a record cannot be read. Nothing is known.",
    remedy="Give a command that starts a Python without `-I`, `-E` and `-S`, and record again.",
)
NOT_JUDGED: Final = Rule(
    id="import-race/not-judged",
    severity=Severity.WARNING,
    meaning="Several greenlets of one thread import (gevent, eventlet, SQLAlchemy's asyncio), or an "
    "interpreter runs without the GIL. ci-doctor tells only threads apart, so nothing is known.",
    remedy="Record the program with ordinary threads (gunicorn `-k gthread`, no monkey patching). "
    "Import what greenlets need before the first of them starts.",
)
COMMAND_FAILED: Final = Rule(
    id="import-race/command-failed",
    severity=Severity.WARNING,
    meaning="The command itself failed, so it may have ended before some of its imports.",
    remedy="Repair the command, or give one that succeeds, and record again.",
)
NOT_SETTLED: Final = Rule(
    id="import-race/not-settled",
    severity=Severity.WARNING,
    meaning="A hazard exists, and the runs with a delay could not decide it. Either no run made "
    "the delay, or the run did not come to its end, or there were more hazards than "
    "`--candidates`.",
    remedy="Run it again with a higher `--candidates`, or with a command that does the same in "
    "every run.",
)

RULES: Final = (
    *(kind.rule for kind in KINDS.values()),
    NOT_FOLLOWED,
    NOT_RECORDED,
    NOT_JUDGED,
    COMMAND_FAILED,
    NOT_SETTLED,
)
