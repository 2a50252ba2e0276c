# SPDX-License-Identifier: Apache-2.0
"""Reads two packages: `compat`, from a request to an outcome."""

from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec import Struct

from ci_doctor.compat.breaks import Judged, finding, other_findings
from ci_doctor.compat.judge import judge
from ci_doctor.compat.sources import open_source
from ci_doctor.compat.world import CodeTree
from ci_doctor.errors import UsageError
from ci_doctor.model.facts.compat import CodeTreeFact, CompatFacts
from ci_doctor.model.outcome import Outcome
from ci_doctor.model.table import Table, row
from ci_doctor.model.verdict import Verdict
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
    from ci_doctor.compat.matrix import MatrixRun, matrix_outcome
    from ci_doctor.compat.releases import Releases, cache_directory

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

    A pass needs a place that was judged, and no import at the top of a module that nobody can judge.
    """
    if judged.errors:
        return Verdict.FAILED
    is_judged = judged.total and not judged.open_imports
    return Verdict.PASS if is_judged else Verdict.INCONCLUSIVE


def _summary(caller: CodeTree, callees: Sequence[CodeTree], judged: Judged) -> str:
    names = f"{_name(caller)} calls {', '.join(map(_name, callees))}"
    errors = judged.errors
    others = len(judged.breaks) - errors
    if not judged.total and not errors:
        return f"{names}: no place could be judged"
    # Rounded down: 100 % is said of all.
    judged_text = f"{amount(judged.total, 'place')} judged ({int(100 * judged.share)} %)"
    if judged.open_imports and not judged.breaks:
        opened = amount(len(judged.open_imports), "import")
        return f"{names}: {judged_text}, none breaks, but {opened} cannot be judged"
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
