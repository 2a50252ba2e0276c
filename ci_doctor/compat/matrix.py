# SPDX-License-Identifier: Apache-2.0
"""Acts on the network and on the user's cache: which published versions of two packages work together."""

import ast
import gc
import hashlib
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from pathlib import Path, PurePosixPath
from typing import Final

import msgspec
from msgspec import Struct

from ci_doctor.compat import rules
from ci_doctor.compat.breaks import break_fact
from ci_doctor.compat.calls import parameter_list, read_parameters
from ci_doctor.compat.judge import judge
from ci_doctor.compat.releases import Releases, version_choice
from ci_doctor.compat.sources import open_source
from ci_doctor.compat.world import CodeTree
from ci_doctor.decodable import decodable
from ci_doctor.errors import UsageError
from ci_doctor.model.facts.compat import (
    BreakFact,
    DefinitionFact,
    DirectionFact,
    MatrixFacts,
    PairFact,
)
from ci_doctor.model.finding import Evidence, Finding
from ci_doctor.model.outcome import Outcome
from ci_doctor.model.table import Row, Table, row
from ci_doctor.model.verdict import Verdict
from ci_doctor.render.formatting import amount
from ci_doctor.system.files.writing import write_atomically
from ci_doctor.version import tool_version

_Definition = ast.FunctionDef | ast.AsyncFunctionDef


def named_definition(source: str | bytes, qualified: str) -> tuple[int, str] | None:
    """Line and parameters of `Class.method` or `function`; None if the source does not define it."""
    try:
        body: Sequence[ast.stmt] = ast.parse(source).body
    except (SyntaxError, ValueError, RecursionError):
        return None
    definition: ast.stmt | None = None
    for word in qualified.split("."):
        definition = next((each for each in body if _is_named(each, word)), None)
        body = getattr(definition, "body", [])
    if not isinstance(definition, _Definition):
        return None
    return definition.lineno, parameter_list(tuple(read_parameters(definition.args)))


def _is_named(statement: ast.stmt, name: str) -> bool:
    return isinstance(statement, ast.ClassDef | _Definition) and statement.name == name


class Operand(Struct, frozen=True, kw_only=True):
    """What was named, and the versions that it means."""

    text: str
    trees: tuple[CodeTree, ...]


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
    """Whether places of a direction could be judged, and all imports that the modules begin with."""
    is_open = any(each.open_imports for each in pair.directions)
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
        if fact.before is not None:
            text = f"before: {fact.before.text}"
            evidence.append(Evidence(file=fact.before.file, line=fact.before.line, excerpt=text))
        if fact.changed_by is not None:
            evidence.append(Evidence(excerpt=f"changed by: {fact.changed_by}"))
        evidence.append(Evidence(excerpt=f"in {', '.join(names)}"))
        caller = direction.caller.partition(" ")[0]
        summary = f"{caller}: {fact.file}:{fact.line}: {fact.sentence}"
        rule = by_id[fact.rule]
        findings.append(rule.finding(summary, evidence=tuple(evidence), remedy=rule.remedy))
    return findings


def with_versions(pairs: Sequence[PairFact], operands: Sequence[Operand]) -> tuple[PairFact, ...]:
    """The same pairs; a break that an older version of the callee did not have names the version that brought it."""
    history = _VersionHistory(pairs, operands)
    return tuple(
        msgspec.structs.replace(pair, directions=tuple(map(history.dated, pair.directions)))
        for pair in pairs
    )


class _VersionHistory:
    """The versions of each package, oldest first, and what was judged of each pair."""

    def __init__(self, pairs: Sequence[PairFact], operands: Sequence[Operand]) -> None:
        self._directions = {
            (each.caller, each.callee): each for pair in pairs for each in pair.directions
        }
        self._versions = {tree.label: each.trees for each in operands for tree in each.trees}

    def dated(self, direction: DirectionFact) -> DirectionFact:
        """The same direction, with what is known of the callee's older versions."""
        older = self._older(direction.callee)
        breaks = tuple(self._dated(direction, each, older) for each in direction.breaks)
        return msgspec.structs.replace(direction, breaks=breaks)

    def _older(self, label: str) -> list[CodeTree]:
        """The versions before this one, newest first."""
        trees = self._versions[label]
        position = next(at for at, tree in enumerate(trees) if tree.label == label)
        return list(reversed(trees[:position]))

    def _dated(
        self, direction: DirectionFact, broken: BreakFact, older: Sequence[CodeTree]
    ) -> BreakFact:
        first = direction.callee
        for tree in older:
            judged = self._directions.get((direction.caller, tree.label))
            if judged is None or not judged.resolved:
                return broken  # nobody knows how it was
            if not any(_is_same(each, broken) for each in judged.breaks):
                return msgspec.structs.replace(
                    broken,
                    before=_definition(tree, broken),
                    changed_by=f"{first}; {tree.label} does not break here",
                )
            first = tree.label
        return broken


def _is_same(one: BreakFact, other: BreakFact) -> bool:
    """Whether the same line breaks for the same name: its definition may have moved in between."""
    return (one.rule, one.file, one.line, one.symbol) == (
        other.rule,
        other.file,
        other.line,
        other.symbol,
    )


def _definition(tree: CodeTree, broken: BreakFact) -> DefinitionFact | None:
    """The definition of a call in another version, if it stands in the same file there."""
    now = broken.now
    if broken.rule != rules.CALL.id or now is None or now.file not in tree.names:
        return None
    name = _below_module(now.file, broken.symbol)
    try:
        definition = named_definition(tree.read(now.file), name)
    except OSError:
        return None
    if definition is None:
        return None
    return DefinitionFact(file=now.file, line=definition[0], text=f"{name}({definition[1]})")


def _below_module(file: str, symbol: str) -> str:
    """`A.run` of `lib.api.A.run`, which stands in `src/lib/api.py`."""
    path = PurePosixPath(file).with_suffix("").parts
    module = path[:-1] if path[-1] == "__init__" else path
    words = symbol.split(".")
    for start in range(len(module)):
        part = list(module[start:])
        if words[: len(part)] == part:
            return ".".join(words[len(part) :])
    return symbol


_MOST_PAIRS: Final = 400
Tell = Callable[[str], None]


class MatrixRun:
    """Judges pairs of versions, in both directions; each result is kept in the cache."""

    def __init__(
        self, releases: Releases, cache: Path, python: tuple[int, int], tell: Tell
    ) -> None:
        self._releases = releases
        self._cache = cache
        self._python = python
        self._tell = tell

    def operand(self, text: str) -> Operand:
        """The versions that a specification means, or the one local source.

        Raises UsageError if there is none, InfraError if no index answers.
        """
        if Path(text).exists() or "@" in text:
            return Operand(text=text, trees=(open_source(text),))
        choice = version_choice(text)
        self._tell(f"looking for {text}")
        chosen = choice.chosen(self._releases.versions(choice.name))
        if not chosen:
            raise UsageError(
                f"no version of {choice.name} is {text}",
                hint=f"see `pip index versions {choice.name}`",
            )
        trees = []
        for version in chosen:
            self._tell(f"reading {choice.name} {version}")
            trees.append(self._releases.tree(choice.name, version))
        return Operand(text=text, trees=tuple(trees))

    def pairs(self, operands: Sequence[Operand]) -> Iterator[PairFact]:
        """The first operand with each of the others, version by version."""
        first, *others = operands
        count = len(first.trees) * sum(len(each.trees) for each in others)
        if count > _MOST_PAIRS:
            raise UsageError(
                f"{count} pairs are more than {_MOST_PAIRS}", hint="name fewer versions"
            )
        for other in others:
            for one, two in product(first.trees, other.trees):
                self._tell(f"{one.label} and {two.label}")
                yield PairFact(
                    first=one.label,
                    second=two.label,
                    directions=(self._direction(one, two), self._direction(two, one)),
                )

    def _direction(self, caller: CodeTree, callee: CodeTree) -> DirectionFact:
        kept = self._kept(caller, callee)
        if kept is not None and kept.is_file():
            try:
                return msgspec.json.decode(kept.read_bytes(), type=decodable(DirectionFact))
            except msgspec.DecodeError:
                pass  # it is written again
        judged = self._judge(caller, callee)
        if kept is not None:
            write_atomically(kept, msgspec.json.encode(judged))
        return judged

    def _judge(self, caller: CodeTree, callee: CodeTree) -> DirectionFact:
        judged = judge(caller, [callee], python=self._python)
        gc.collect()  # the scopes of a pair are circles of hundreds of megabytes
        errors = [break_fact(each) for each in judged.breaks if each.is_error]
        return DirectionFact(
            caller=caller.label,
            callee=callee.label,
            resolved=judged.resolved,
            open_imports=len(judged.open_imports),
            unread=len(judged.unread),
            breaks=tuple(errors),
        )

    def _kept(self, caller: CodeTree, callee: CodeTree) -> Path | None:
        """The file of a result; None if a source may change under the same name."""
        if caller.digest is None or callee.digest is None:
            return None
        parts = (caller.digest, callee.digest, str(self._python), tool_version())
        key = hashlib.sha256("\n".join(parts).encode()).hexdigest()
        return self._cache / "pairs" / f"{key}.json"
