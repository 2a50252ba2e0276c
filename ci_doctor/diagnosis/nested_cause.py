# SPDX-License-Identifier: Apache-2.0
"""Reads the lines below an exception: the innermost of its causes explains the others.

Java prints `Caused by:`, .NET `--->`, Node `[cause]:`, Rust's anyhow a list below `Caused by:`.
Python's chains have tracebacks of their own (`exception_chain`).
"""

import re
from collections.abc import Iterable, Sequence
from typing import Final

from msgspec import structs

from ci_doctor.diagnosis.candidate import Candidate
from ci_doctor.diagnosis.lines.clean_line import CleanLine, clean_line
from ci_doctor.diagnosis.log_rule import Role
from ci_doctor.diagnosis.reading.log_text import LogText, TextLine
from ci_doctor.model.cause import FailureClass

# A stack is printed for each cause; a deep one has hundreds of frames.
_MOST_LINES: Final = 400
# What a rule says that knows no more than that a program or a test failed.
_ANY_CLASS: Final = frozenset({None, FailureClass.CODE_BUG, FailureClass.TEST_ASSERTION})
_CAUSE: Final = re.compile(r"^\s*(?:Caused by: |-{3,}> |\[cause\]: )\(?(?P<message>\S.*)")
# What stands between an exception and its causes: frames, their ends, the fields of a Node error.
_BETWEEN: Final = re.compile(
    r"^\s+at |^\s*\.{3} \d+ (?:more|common)|^\s*-{3} End of |^\s*Suppressed: |^\s*\[errors\]: "
    r"|^\s*[{}\]]+,?$|^\s+\w+: \S.*,?$|^\s*$|^Stack backtrace:|^\s+\d+: "
)
_LIST: Final = re.compile(r"^Caused by:$")
_ITEM: Final = re.compile(r"^ {4,}(?:\d+: )?(?P<message>\S.*)")


def innermost(candidate: Candidate, candidates: Iterable[Candidate], log: LogText) -> Candidate:
    """`candidate`, or the innermost cause that `log` prints below it; candidates: of all logs.

    A line whose rule knows of which kind the failure is stays: it says more than a system's errno.
    """
    if candidate.rule.class_ not in _ANY_CLASS:
        return candidate
    lines = log.after(candidate.line, _MOST_LINES)[1:]
    found = _innermost(lines)
    if found is None:
        return candidate
    line, clean = found
    for each in candidates:
        # A rule that knows the inner message says more than the one of the outer.
        is_there = each.log == candidate.log and each.line.offset == line.offset
        if is_there and each.rule.role is not Role.SYMPTOM:
            return each
    return structs.replace(
        candidate,
        line=line,
        clean=clean,
        fields={},
        lines_after=candidate.lines_after - (line.number - candidate.line.number),
    )


def _innermost(lines: Sequence[TextLine]) -> tuple[TextLine, CleanLine] | None:
    """The last cause in `lines`, which follow an exception; None without one."""
    found = None
    is_list = False
    for line in lines:
        clean = clean_line(line.content)
        text = clean.message
        is_list = is_list or _LIST.match(text) is not None
        match = (_ITEM if is_list else _CAUSE).match(text)
        if match is not None:
            found = line, structs.replace(clean, message=match["message"])
        elif not (_LIST.match(text) or _BETWEEN.match(text)) or (is_list and found is not None):
            break
    return found
