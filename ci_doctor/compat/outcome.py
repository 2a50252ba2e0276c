# SPDX-License-Identifier: Apache-2.0
"""Acts on the network and on the user's cache: `compat`, from a request to an outcome, for two packages or for their published versions."""

import gc
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Final

from msgspec import Struct
from packaging.requirements import InvalidRequirement, Requirement

from ci_doctor.compat import breaks as rules
from ci_doctor.compat.breaks import (
    BreakFact,
    CodeTreeFact,
    CompatFacts,
    DirectionFact,
    Judged,
    MatrixFacts,
    PairFact,
    finding,
    other_findings,
)
from ci_doctor.compat.judge import judge
from ci_doctor.compat.sources import Releases, open_source
from ci_doctor.compat.world import CodeTree
from ci_doctor.errors import UsageError
from ci_doctor.model.outcome import Evidence, Finding, Outcome, Row, Table, Verdict, row
from ci_doctor.render.formatting import amount


class CompatRequest(Struct, frozen=True, kw_only=True):
    """Sources as they were typed.

    python: the interpreter whose packages may be named. python_version: what `sys.version_info`
    guards are decided by.
    """

    caller: str
    callees: tuple[str, ...]
    python: Path | None
    python_version: tuple[int, int]


def version_pair(text: str | None) -> tuple[int, int] | None:
    """`3.12` as numbers. Raises UsageError if it is no version of Python."""
    if text is None:
        return None
    major, dot, minor = text.partition(".")
    if not dot or not major.isdecimal() or not minor.isdecimal():
        raise UsageError(f"--python-version {text} is no version", hint="write it like 3.12")
    return int(major), int(minor)


def check(request: CompatRequest, *, tell: Callable[[str], None] = lambda _: None) -> Outcome:
    """Whether the caller still calls the callees correctly.

    `failed` if a place surely breaks; `inconclusive` if no call could be judged. Raises UsageError
    if a source cannot be opened.
    """
    tell(f"opening {request.caller}")
    caller = open_source(request.caller, request.python)
    callees = [open_source(each, request.python) for each in request.callees]
    judged = judge(caller, callees, python=request.python_version, tell=tell)
    return compat_outcome(caller, callees, judged)


def check_matrix(
    request: CompatRequest, *, tell: Callable[[str], None] = lambda _: None
) -> Outcome:
    """Which versions of the packages work together; each operand is a specification or a local source.

    Raises UsageError for a wrong operand, InfraError if an index or a file cannot be read.
    """
    from ci_doctor.compat.sources import Releases, cache_directory

    releases = Releases(cache_directory(), request.python_version)
    run = MatrixRun(releases, request.python_version, tell)
    operands = [run.operand(each) for each in (request.caller, *request.callees)]
    return matrix_outcome(tuple(run.pairs(operands)))


def compat_outcome(caller: CodeTree, callees: Sequence[CodeTree], judged: Judged) -> Outcome:
    """The outcome of what was judged."""
    breaks = sorted(judged.breaks, key=lambda each: (not each.is_error, each.file, each.line))
    facts = [
        CodeTreeFact(label=each.label, distribution=each.distribution, version=each.version)
        for each in (caller, *callees)
    ]
    findings = [finding(broken) for broken in breaks]
    findings += other_findings(judged)
    return Outcome(
        verdict=verdict_of(judged),
        summary=_summary(caller, callees, judged),
        findings=tuple(findings),
        tables=tuple(_tables(caller, callees, judged)),
        facts=CompatFacts(
            caller=facts[0],
            callees=tuple(facts[1:]),
            files=judged.files,
            resolved=judged.resolved,
            unknown=judged.unknown,
            guarded=judged.guarded,
            share=judged.share,
            open_imports=tuple(judged.open_imports),
            unread=judged.unread,
            breaks=tuple(breaks),
        ),
    )


def verdict_of(judged: Judged) -> Verdict:
    """`failed` if an error reaches nobody's handler.

    A pass needs a place that was judged, no import at the top of a module that nobody can judge, and no file that
    names a callee and cannot be read.
    """
    if judged.errors:
        return Verdict.FAILED
    is_judged = judged.total and not judged.open_imports and not judged.unread_callers
    return Verdict.PASS if is_judged else Verdict.INCONCLUSIVE


def _summary(caller: CodeTree, callees: Sequence[CodeTree], judged: Judged) -> str:
    names = f"{_name(caller)} calls {', '.join(map(_name, callees))}"
    errors = judged.errors
    others = len(judged.breaks) - errors
    if not judged.total and not errors:
        return f"{names}: no place could be judged"
    # Rounded down: 100 % is said of all.
    judged_text = f"{amount(judged.total, 'place')} judged ({int(100 * judged.share)} %)"
    unknown = [
        f"{amount(len(each), thing)} cannot be {verb}"
        for each, thing, verb in (
            (judged.open_imports, "import", "judged"), (judged.unread_callers, "file", "read")
        )
        if each
    ]  # fmt: skip
    if unknown and not judged.breaks:
        return f"{names}: {judged_text}, none breaks, but {' and '.join(unknown)}"
    if not judged.breaks:
        return f"{names}: {judged_text}, none breaks"
    text = f"{names}: {amount(errors, 'place')} will break"
    if others:
        text = f"{text}, {amount(others, 'warning')}"
    return f"{text}; {judged_text}"


def _name(tree: CodeTree) -> str:
    if tree.distribution is None:
        return tree.label
    return f"{tree.distribution} {tree.version or '(no version)'}"


def _tables(caller: CodeTree, callees: Sequence[CodeTree], judged: Judged) -> list[Table]:
    rows = [row("caller", _name(caller), caller.label)]
    rows += [row("callee", _name(each), each.label) for each in callees]
    rows.append(row("files that name the callee", judged.files))
    for kind, count in sorted(judged.resolved.items()):
        rows.append(row(f"{kind} judged", count))
    rows.append(row("protected by a handler or an undecided version guard", judged.guarded))
    rows.append(row("not judged: the source does not decide them", judged.unknown))
    return [Table(title="What was judged", rows=tuple(rows))]


# --- which published versions of two packages work together ---


def matrix_outcome(pairs: Sequence[PairFact]) -> Outcome:
    """`failed` if a pair breaks; `inconclusive` if a pair could not be judged and none breaks."""
    broken = [each for each in pairs if first_break(each) is not None]
    void = [each for each in pairs if first_break(each) is None and not was_judged(each)]
    working = len(pairs) - len(broken) - len(void)
    verdict = Verdict.PASS
    if broken:
        verdict = Verdict.FAILED
    elif void:
        verdict = Verdict.INCONCLUSIVE
    text = f"{working} of {amount(len(pairs), 'pair')} work"
    if broken:
        text = f"{text}, {len(broken)} break"
    if void:
        text = f"{text}, {len(void)} could not be judged"
    return Outcome(
        verdict=verdict,
        summary=text,
        findings=tuple(_findings(broken)),
        tables=(_table(pairs),),
        facts=MatrixFacts(pairs=tuple(pairs)),
    )


def first_break(pair: PairFact) -> tuple[DirectionFact, BreakFact] | None:
    """The first break of a pair, and the direction in which it happens."""
    for direction in pair.directions:
        if direction.breaks:
            return direction, direction.breaks[0]
    return None


def was_judged(pair: PairFact) -> bool:
    """Whether places of a direction could be judged, all imports that the modules begin with, and each file that names the other."""
    is_open = any(each.open_imports or each.unread for each in pair.directions)
    return not is_open and any(sum(each.resolved.values()) for each in pair.directions)


def _table(pairs: Sequence[PairFact]) -> Table:
    rows: list[Row] = []
    for pair in pairs:
        label = f"{pair.first} with {pair.second}"
        first = first_break(pair)
        judged = sum(sum(each.resolved.values()) for each in pair.directions)
        if first is not None:
            direction, broken = first
            count = sum(len(each.breaks) for each in pair.directions)
            where = f"{direction.caller}: {broken.file}:{broken.line}: {broken.sentence}"
            rows.append(row(label, "breaks", count, judged, where))
        else:
            rows.append(row(label, "works" if was_judged(pair) else "not judged", 0, judged, ""))
    columns = ("result", "breaks", "places judged", "first break")
    return Table(title="Pairs", columns=columns, rows=tuple(rows))


def _findings(broken: Sequence[PairFact]) -> list[Finding]:
    """One finding for each first break, with the pairs that have it."""
    pairs: dict[tuple[str, str, str], list[str]] = {}
    sample: dict[tuple[str, str, str], tuple[DirectionFact, BreakFact]] = {}
    for pair in broken:
        first = first_break(pair)
        if first is None:
            continue
        key = (first[1].rule, first[1].file, first[1].sentence)
        pairs.setdefault(key, []).append(f"{pair.first} with {pair.second}")
        sample.setdefault(key, first)
    by_id = {each.id: each for each in rules.RULES}
    findings = []
    for key, names in pairs.items():
        direction, fact = sample[key]
        evidence = [Evidence(file=fact.file, line=fact.line, excerpt=fact.excerpt)]
        if fact.now is not None:
            text = f"{direction.callee}: {fact.now.text}"
            evidence.append(Evidence(file=fact.now.file, line=fact.now.line, excerpt=text))
        evidence.append(Evidence(excerpt=f"in {', '.join(names)}"))
        caller = direction.caller.partition(" ")[0]
        summary = f"{caller}: {fact.file}:{fact.line}: {fact.sentence}"
        rule = by_id[fact.rule]
        findings.append(rule.finding(summary, evidence=tuple(evidence), remedy=rule.remedy))
    return findings


_MOST_PAIRS: Final = 400
Tell = Callable[[str], None]


class MatrixRun:
    """Judges pairs of versions, in both directions."""

    def __init__(self, releases: Releases, python: tuple[int, int], tell: Tell) -> None:
        self._releases = releases
        self._python = python
        self._tell = tell

    def operand(self, text: str) -> list[CodeTree]:
        """The versions that a specification means, or the one local source.

        Raises UsageError if there is none, InfraError if no index answers.
        """
        if Path(text).exists() or "@" in text:
            return [open_source(text)]
        try:
            wanted = Requirement(text)
        except InvalidRequirement as error:
            raise UsageError(
                f"{text} is no path and no specification: {error}",
                hint="write it like 'vllm>=0.18,<0.20'",
            ) from error
        self._tell(f"looking for {text}")
        published = sorted(self._releases.versions(wanted.name))
        chosen = list(wanted.specifier.filter(published, prereleases=True))
        if not chosen:
            raise UsageError(
                f"no version of {wanted.name} is {text}",
                hint=f"see `pip index versions {wanted.name}`",
            )
        trees = []
        # Pre-releases only if nothing else is wanted.
        for version in [each for each in chosen if not each.is_prerelease] or chosen:
            self._tell(f"reading {wanted.name} {version}")
            trees.append(self._releases.tree(wanted.name, version))
        return trees

    def pairs(self, operands: Sequence[Sequence[CodeTree]]) -> Iterator[PairFact]:
        """The first operand with each of the others, version by version."""
        first, *others = operands
        count = len(first) * sum(map(len, others))
        if count > _MOST_PAIRS:
            raise UsageError(
                f"{count} pairs are more than {_MOST_PAIRS}", hint="name fewer versions"
            )
        for other in others:
            for one, two in product(first, other):
                self._tell(f"{one.label} and {two.label}")
                yield PairFact(
                    first=one.label,
                    second=two.label,
                    directions=(self._direction(one, two), self._direction(two, one)),
                )

    def _direction(self, caller: CodeTree, callee: CodeTree) -> DirectionFact:
        judged = judge(caller, [callee], python=self._python)
        gc.collect()  # the scopes of a pair are circles of hundreds of megabytes
        errors = [each for each in judged.breaks if each.is_error]
        return DirectionFact(
            caller=caller.label,
            callee=callee.label,
            resolved=judged.resolved,
            open_imports=len(judged.open_imports),
            unread=len(judged.unread_callers),
            breaks=tuple(errors),
        )
