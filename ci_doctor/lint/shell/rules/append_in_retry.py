# SPDX-License-Identifier: Apache-2.0
"""Pure. Retries whose output is appended to one file."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from ci_doctor.lint.lint_rule import LintRule
from ci_doctor.lint.shell.shell_node import NodeKind
from ci_doctor.lint.shell.shell_violation import script, violation
from ci_doctor.lint.shell.wait_loops import without_comments
from ci_doctor.model.finding import Severity
from ci_doctor.model.rule import Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ci_doctor.lint.shell.shell_node import ShellNode
    from ci_doctor.lint.shell.shell_program import ShellProgram
    from ci_doctor.lint.violation import Violation

RULE: Final = LintRule(
    rule=Rule(
        id="shell/append-in-retry",
        severity=Severity.WARNING,
        meaning="Each attempt appends to the same file. What reads the file afterwards sees the output of the attempts that failed too.",
        remedy="Write each attempt to a file of its own, or truncate the file when an attempt begins.",
    ),
    bad=(
        script(
            "for attempt in 1 2 3; do\n  python3 bench.py >> out.txt && break\ndone\ngrep throughput out.txt\n"
        ),
        script(
            "until pytest tests 2>&1 | tee -a test.log; do\n  sleep 5\ndone\ngrep passed test.log\n"
        ),
        script(
            'n=0\nwhile [ $n -lt 3 ]; do\n  if ./run.sh >> "$LOG" 2>&1; then break; fi\n  n=$((n+1))\ndone\ntail -1 "$LOG"\n'
        ),
        script(
            "for retry in $(seq 3); do\n  ./eval.sh | tee --append result.txt\n  if [ $? -eq 0 ]; then break; fi\ndone\ncat result.txt\n"
        ),
        script(
            "for i in 1 2 3; do\n  ./run &>> out.log && break\n  sleep 1\ndone\ngrep -c error out.log\n"
        ),
    ),
    good=(
        script(
            "for attempt in 1 2 3; do\n  python3 bench.py > out.txt && break\ndone\ngrep x out.txt\n"
        ),
        script(
            'for attempt in 1 2 3; do\n  python3 bench.py >> "out-$attempt.txt" && break\ndone\n'
        ),
        script(
            "for attempt in 1 2 3; do\n  rm -f out.txt\n  python3 bench.py >> out.txt && break\ndone\ngrep x out.txt\n"
        ),
        script(
            "for model in a b; do\n  python3 bench.py $model >> out.txt\ndone\ngrep x out.txt\n"
        ),
        script(
            'for attempt in 1 2 3; do\n  echo "attempt $attempt" >> out.txt\n  run && break\ndone\ncat out.txt\n'
        ),
    ),
)

_APPENDS: Final = re.compile(r"(?:&>>|(?<!2)>>)\s*(\S+)")
_MESSAGES: Final = frozenset({"echo", "printf", "date", "log"})


def check(program: ShellProgram) -> Iterator[Violation]:
    """Loops that end by a success, whose body appends to a file that is read later."""
    for loop in program.of(NodeKind.LOOP):
        if loop.end - loop.start > 8000 or not loop.children:
            continue
        text = without_comments(program.of_node(loop))
        if ">>" not in text and "tee" not in text:
            continue
        if not _is_retry(program, loop, text):
            continue
        for node in loop.own():
            target = _appended(program, node)
            if target is not None and _is_shared(program, loop, text, target):
                yield violation(
                    program, RULE, node, f"Each attempt appends to {target}, which is read later"
                )


def _is_retry(program: ShellProgram, loop: ShellNode, text: str) -> bool:
    conditions = " ".join(program.of_node(each) for each in loop.children if each.is_condition)
    if loop.word in ("while", "until") and _appends(conditions):
        return True
    return bool(
        re.search(r"&&\s*(?:\{[^}]*)?break\b|then\s+(?:[^\n]*\n\s*){0,3}break\b", text)
    ) and not re.search(r"\bread\s+-?\w", conditions)


def _appends(text: str) -> bool:
    return ">>" in text or bool(re.search(r"\btee\s+(?:-a|--append)\b", text))


def _appended(program: ShellProgram, node: ShellNode) -> str | None:
    if node.kind is not NodeKind.COMMAND or not node.word:
        return None
    words = program.words(node)
    if words.name == "tee" and (words.has("--append") or "a" in words.flags()):
        files = [each for each in words.arguments if not each.startswith("-")]
        source = (
            node.parent.children[0]
            if node.parent is not None and node.parent.kind is NodeKind.PIPELINE
            else None
        )
        is_message = source is not None and source.word in _MESSAGES
        return files[0] if files and not is_message else None
    match = _APPENDS.search(program.redirections(node))
    if match is None or words.name in _MESSAGES:
        return None
    return match[1].strip("\"'")


def _is_shared(program: ShellProgram, loop: ShellNode, text: str, target: str) -> bool:
    """Whether the file is the same in each round, is kept, and is read by a command after the loop."""
    if target.startswith(("/dev/", "$GITHUB_", "${GITHUB_", "&")) or re.search(r"\$\(|`", target):
        return False
    changing = set(re.findall(r"\b(\w+)=", text)) | set(re.findall(r"\b(?:for|read)\s+(\w+)", text))
    if any(re.search(rf"\$\{{?{name}\b", target) for name in changing):
        return False
    quoted = re.escape(target)
    if re.search(rf"(?:rm\s[^\n]*|[^>]>\s*|truncate\s[^\n]*)[\"']?{quoted}", text):
        return False
    later = program.text[loop.end :]
    return bool(
        re.search(rf"\b(?:grep|cat|tail|head|awk|sed|python3?|jq|wc|cut)\b[^\n]*{quoted}", later)
    )
