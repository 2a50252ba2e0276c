# SPDX-License-Identifier: Apache-2.0
"""Pure. How long the commands of a step may take by their own limits: `timeout`, retry loops, pytest."""

import math
import re
from collections.abc import Iterator
from itertools import islice

from msgspec import Struct

from ci_doctor.model.parse_duration import parse_duration

_TIMEOUT = re.compile(
    r"(?<![\w./$-])g?timeout(?:\s+(?:-[ks]\s+\S+|--?[a-z-]+(?:=\S+)?))*\s+(\d+(?:\.\d+)?)([smhd]?)(?=\s+\S)"
)
_SLEEP = re.compile(r"(?<![\w.-])sleep\s+(\d+(?:\.\d+)?)([smhd]?)(?![\w.$])")
_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_FOR_IN = re.compile(r"\bfor\s+(\w+)\s+in\s+([^;\n]*?)\s*(?:;|\n)\s*do\b")
_FOR_C = re.compile(r"\bfor\s*\(\(\s*(\w+)\s*=\s*(\d+)\s*;\s*\w+\s*(<=?)\s*(\d+)\s*;")
_WHILE = re.compile(
    r"\b(?:while|until)\s+\[\[?\s+\"?\$\{?(\w+)\}?\"?\s+-(lt|le|ge|gt)\s+(\d+)\s+\]\]?"
)
_RANGE = re.compile(r"\{(\d+)\.\.(\d+)\}")
_SEQ = re.compile(r"\$\(seq\s+(?:(\d+)\s+)?(\d+)\)|`seq\s+(?:(\d+)\s+)?(\d+)`")
_WORD = re.compile(r"(?:^|(?<=[\s;&|(]))(do|done)(?=[\s;&|)]|$)")
_ATTEMPT = re.compile(r"tr(?:y|ies)|attempt|retr", re.IGNORECASE)
_RERUNS = re.compile(r"--reruns[= ](\d+)")
_TEST_LIMIT = re.compile(r"--timeout[= ](\d+(?:\.\d+)?)(?![\w.])")
_QUOTED_OUTPUT = re.compile(r"\s*(?:echo|printf|#)")
_MOST_PASSES = 100_000
# The end of each is looked for, so a script of nothing but beginnings would take long.
_MOST_LOOPS = 100


class InnerTime(Struct, frozen=True, kw_only=True):
    """What one construct may take. seconds: in the worst case. line: 0-based, in the script."""

    seconds: float
    words: str
    line: int


def inner_times(script: str) -> list[InnerTime]:
    """The constructs of a script that bound themselves, in the order of its lines."""
    times = [*_loops(script), *_single(script), *_reruns(script)]
    return sorted(times, key=lambda each: each.line)


def _single(script: str) -> Iterator[InnerTime]:
    for number, line in enumerate(script.split("\n")):
        if len(line) > 5000 or _QUOTED_OUTPUT.match(line):
            continue
        for match in _TIMEOUT.finditer(line):
            yield InnerTime(seconds=_seconds(match), words=f"`{match.group()}`", line=number)


def _seconds(match: re.Match[str]) -> float:
    return float(match[1]) * _UNITS[match[2]]


def _loops(script: str) -> Iterator[InnerTime]:
    if "timeout" not in script or "done" not in script:
        return
    for name, passes, start in islice(_heads(script), _MOST_LOOPS):
        body = _body(script, start)
        if body is None or not (2 <= passes <= _MOST_PASSES):
            continue
        limits = [_seconds(match) for match in _TIMEOUT.finditer(body)]
        retries = _ATTEMPT.search(name) or re.search(r"\b(?:break|exit 0|return 0)\b", body)
        if not limits or not retries:
            continue
        pauses = sum(_seconds(match) for match in _SLEEP.finditer(body))
        each = sum(limits) + pauses
        yield InnerTime(
            seconds=passes * each,
            words=f"{passes} tries of up to {minutes(each)}",
            line=script.count("\n", 0, start),
        )


def _heads(script: str) -> Iterator[tuple[str, int, int]]:
    """The loops with a known number of passes: the variable, the passes, where the head ends."""
    for match in _FOR_IN.finditer(script):
        passes = _count(match[2])
        if passes is not None:
            yield match[1], passes, match.end()
    for match in _FOR_C.finditer(script):
        yield match[1], int(match[4]) - int(match[2]) + (match[3] == "<="), match.end()
    for match in _WHILE.finditer(script):
        first = re.search(rf"(?m)^\s*(?:local\s+)?{match[1]}=(\d+)\b", script[: match.start()])
        begin = int(first[1]) if first else 0
        inclusive = match[2] in ("le", "gt")
        yield match[1], int(match[3]) - begin + inclusive, match.end()


def _count(items: str) -> int | None:
    sequence = _SEQ.fullmatch(items.strip())
    if sequence:
        first, last = sequence[1] or sequence[3] or "1", sequence[2] or sequence[4]
        return int(last) - int(first) + 1
    span = _RANGE.fullmatch(items.strip())
    if span:
        return abs(int(span[2]) - int(span[1])) + 1
    words = items.split()
    return len(words) if words and all(word.isdigit() for word in words) else None


def _body(script: str, start: int) -> str | None:
    """The text up to the `done` of a loop whose head ends at `start`; the head may hold its `do`."""
    depth = 1 if script[:start].endswith("do") else 0
    for match in _WORD.finditer(script, start):
        depth += 1 if match[1] == "do" else -1
        if depth == 0:
            return script[start : match.start()]
    return None


def _reruns(script: str) -> Iterator[InnerTime]:
    """pytest-rerunfailures runs one test again, and pytest-timeout ends each run of it."""
    for number, line in enumerate(script.split("\n")):
        reruns, limit = _RERUNS.search(line), _TEST_LIMIT.search(line)
        if reruns and limit and "pytest" in line and len(line) <= 5000:
            runs = int(reruns[1]) + 1
            seconds = float(limit[1])
            words = f"{runs} runs of one test of up to {minutes(seconds)}"
            yield InnerTime(seconds=runs * seconds, words=words, line=number)


def minutes(seconds: float) -> str:
    """Seconds as minutes, for a sentence."""
    amount = seconds / 60
    text = f"{amount:.0f}" if math.isclose(amount, round(amount)) else f"{amount:.1f}"
    return f"{text} min"


def duration(text: str) -> float | None:
    """Seconds of a duration as our own options take it; None if it is none."""
    try:
        return parse_duration(text)
    except ValueError:
        return None
