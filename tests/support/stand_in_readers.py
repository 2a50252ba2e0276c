# SPDX-License-Identifier: Apache-2.0
"""Pure. Readers of lint with one simple rule each: the core is tested without the real rules."""

import re
from collections.abc import Iterator, Mapping

from ci_doctor.lint.lint_rule import Edit, Example, LintRule, Place, Unreadable, Violation
from ci_doctor.lint.lint_run import Readers, ReadText
from ci_doctor.lint.source_files import CiRole, FileReading, ShellSource
from ci_doctor.model.outcome import Rule, Severity


def _rule(name: str, severity: Severity) -> LintRule:
    rule = Rule(id=name, severity=severity, meaning=f"{name} is wrong.", remedy="Mend it.")
    nothing = ((Example(file="x.sh", text=""),),)
    return LintRule(rule=rule, bad=nothing, good=nothing)


BAD_WORD = _rule("shell/bad-word", Severity.ERROR)
LATE_STEP = _rule("pipeline/late-step", Severity.WARNING)
SLOW_GATE = _rule("gate/slow-gate", Severity.NOTE)
TWO_VALUES = _rule("config/two-values", Severity.ERROR)
RULES = (BAD_WORD, LATE_STEP, SLOW_GATE, TWO_VALUES)
IDS = tuple(rule.id for rule in RULES)


def shell(source: ShellSource, read: ReadText) -> FileReading:
    """Reports `evil` in a script and in the files that it sources; `if` without `fi` is unreadable."""
    violations = list(_bad_words(source.file, source.text, source.lines, source.offset))
    for match in re.finditer(r"^source (\S+)", source.text, re.MULTILINE):
        sourced = read(match[1])
        if sourced is not None:
            function = next(_bad_words(match[1], sourced, None, 0), None)
            if function is not None:
                violations.append(_caller(source, match, function))
    return FileReading(
        role=CiRole.SCRIPT, violations=tuple(violations), unreadable=_half(source.file, source.text)
    )


def _bad_words(
    file: str, text: str, lines: tuple[int, ...] | None, offset: int | None
) -> Iterator[Violation]:
    begin = 0
    for index, content in enumerate(text.split("\n")):
        for match in re.finditer(r"\bevil\b", content):
            line = index + 1 if lines is None else lines[index]
            edits: tuple[Edit, ...] = ()
            if offset is not None:
                start = offset + begin + match.start()
                edits = (Edit(file=file, start=start, end=start + 4, text="good"),)
            yield Violation(
                rule=BAD_WORD,
                place=Place(file=file, line=line, end_line=line),
                summary="an evil word",
                excerpt=content,
                remedy="good",
                edits=edits,
            )
        begin += len(content) + 1


def _caller(source: ShellSource, match: re.Match[str], function: Violation) -> Violation:
    line = source.text.count("\n", 0, match.start()) + 1
    return Violation(
        rule=BAD_WORD,
        place=Place(file=source.file, line=line, end_line=line),
        summary="it sources an evil word",
        excerpt=match[0],
        related=(function.place,),
    )


def _half(file: str, text: str) -> tuple[Unreadable, ...]:
    if len(re.findall(r"\bif\b", text)) == len(re.findall(r"\bfi\b", text)):
        return ()
    line = text.count("\n") + 1
    return (Unreadable(file=file, line=line, reason="an `if` has no `fi`"),)


def pipeline(file: str, text: str) -> FileReading | None:
    """A YAML file with `steps:`; it reports `late`, and hands on each `command:`."""
    if "steps:" not in text:
        return None
    violations = []
    scripts = []
    for number, line in enumerate(text.split("\n"), start=1):
        place = Place(file=file, line=number, end_line=number)
        if "late" in line and not line.startswith("#"):
            late = Violation(rule=LATE_STEP, place=place, summary="a late step", excerpt=line)
            violations.append(late)
        if "command:" in line:
            command = line.partition("command:")[2]
            embedded = f"the command of line {number}"
            script = ShellSource(
                file=file, text=command, lines=(number,), offset=None, embedded=embedded
            )
            scripts.append(script)
    return FileReading(role=CiRole.PIPELINE, violations=tuple(violations), scripts=tuple(scripts))


def python(file: str, text: str) -> FileReading | None:
    """A program below ci/; it reports `slow`."""
    if not file.startswith("ci/"):
        return None
    violations = []
    for number, line in enumerate(text.split("\n"), start=1):
        if "slow" in line:
            place = Place(file=file, line=number, end_line=number)
            violations.append(
                Violation(rule=SLOW_GATE, place=place, summary="a slow gate", excerpt=line)
            )
    return FileReading(role=CiRole.GATE, violations=tuple(violations))


def consistency(files: Mapping[str, str], whole: bool) -> tuple[Violation, ...]:
    """Reports each `VALUE=` that differs from the first one; only if all files are there."""
    violations: list[Violation] = []
    first: tuple[str, Place] | None = None
    for file, text in files.items() if whole else ():
        for number, line in enumerate(text.split("\n"), start=1):
            match = re.match(r"VALUE=(\S+)", line)
            if match is None:
                continue
            place = Place(file=file, line=number, end_line=number)
            first = first or (match[1], place)
            if match[1] != first[0]:
                violations.append(
                    Violation(
                        rule=TWO_VALUES,
                        place=place,
                        summary=f"VALUE is {match[1]} here and {first[0]} elsewhere",
                        excerpt=line,
                        related=(first[1],),
                    )
                )
    return tuple(violations)


READERS = Readers(
    shell=shell,
    pipeline=pipeline,
    python=python,
    consistency=consistency,
    unparsable=lambda file, text, kind: (),
)
