# SPDX-License-Identifier: Apache-2.0
"""Pure. Rules about counts and files of results."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from ci_doctor.lint.lint_rule import LintRule, word_set
from ci_doctor.lint.shell.shell_program import script, violation
from ci_doctor.lint.shell.waits import without_comments
from ci_doctor.model.finding import Rule, Severity
from ci_doctor.syntax.shell_nodes import NodeKind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ci_doctor.lint.lint_rule import Violation
    from ci_doctor.lint.shell.shell_program import ShellProgram
    from ci_doctor.syntax.shell_nodes import ShellNode

APPEND_IN_RETRY: Final = LintRule(
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


def append_in_retry(program: ShellProgram) -> Iterator[Violation]:
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
                    program,
                    APPEND_IN_RETRY,
                    node,
                    f"Each attempt appends to {target}, which is read later",
                )


def _is_retry(program: ShellProgram, loop: ShellNode, text: str) -> bool:
    conditions = " ".join(program.of_node(each) for each in loop.children if each.is_condition)
    if loop.word in ("while", "until") and (
        ">>" in conditions or bool(re.search(r"\btee\s+(?:-a|--append)\b", conditions))
    ):
        return True
    return bool(
        re.search(r"&&\s*(?:\{[^}]*)?break\b|then\s+(?:[^\n]*\n\s*){0,3}break\b", text)
    ) and not re.search(r"\bread\s+-?\w", conditions)


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


# Counts of failures that are 0 if they cannot be read.

COUNT_DEFAULTS_TO_ZERO: Final = LintRule(
    rule=Rule(
        id="shell/count-defaults-to-zero",
        severity=Severity.WARNING,
        meaning="A number of failures is read from a text, and is 0 if the text does not have it. If the tool crashed before it wrote the number, the check passes.",
        remedy='End with a failure if the number is missing: `n=$(…) || exit 1`, `[ -n "$n" ] || exit 1`.',
    ),
    bad=(
        script(
            'failed=$(grep -oP "\\d+(?= failed)" log || echo 0)\n[ "$failed" -gt 0 ] && exit 1\n'
        ),
        script(
            'FAILURES=$(jq .failed out.json 2>/dev/null || echo "0")\nif [ "$FAILURES" -ne 0 ]; then exit 1; fi\n'
        ),
        script(
            'errors=$(grep -oE "errors: [0-9]+" log | awk \'{print $2}\')\nerrors=${errors:-0}\nif [ "$errors" -gt 0 ]; then exit 1; fi\n'
        ),
        script(
            'mismatches=$(sed -n "s/mismatch: //p" log)\nif [ "${mismatches:-0}" -gt 0 ]; then exit 1; fi\n'
        ),
        script('failed=$(python3 -c "print(n)" || echo 0)\nif (( failed > 0 )); then exit 1; fi\n'),
    ),
    good=(
        script(
            'failed=$(grep -oP "\\d+(?= failed)" log) || exit 1\n[ "$failed" -gt 0 ] && exit 1\n'
        ),
        script('cached=$(jq .cached out.json || echo 0)\necho "$cached"\n'),
        script('failed=0\nfailed=$((failed + 1))\n[ "${failed:-0}" -gt 0 ] && exit 1\n'),
        script('errors=$(grep -c ERROR log || true)\n[ "${errors:-0}" -gt 0 ] && exit 1\n'),
    ),
)

_BAD_THINGS: Final = re.compile(
    r"(?i)fail|err(?:or|s|_|$)|mismatch|missing|crash|lost|broken|bad|differ|diverg|regress"
)
_READS: Final = word_set("grep egrep awk gawk sed jq yq python python3 cut perl xmllint rg")
_PRINTS_ZERO: Final = re.compile(r"""(?:echo|printf)\s+["']?0["']?\s*""")


def count_defaults_to_zero(program: ShellProgram) -> Iterator[Violation]:
    """Assignments of a number that is read from a text, with 0 if that fails."""
    for node in program.of(NodeKind.ASSIGNMENT, NodeKind.DECLARATION):
        text = program.of_node(node)
        named = re.search(r"\b(\w+)=[\"']?(?:\$\(|`)", text)
        if named is None or not _BAD_THINGS.search(named[1]) or not node.children:
            continue
        substitution = node.children[-1]
        if substitution.kind is not NodeKind.SUBSTITUTION or not substitution.children:
            continue
        inner = substitution.children[-1]
        if not _reads_a_text(program, inner) or not _decides(program, named[1]):
            continue
        if _falls_back(program, inner) or _defaults_later(program, node, named[1]):
            yield violation(
                program,
                COUNT_DEFAULTS_TO_ZERO,
                node,
                f"`{named[1]}` is 0, which passes, if the number cannot be read",
            )


def _reads_a_text(program: ShellProgram, node: ShellNode) -> bool:
    commands = [each for each in (node, *node.own()) if each.kind is NodeKind.COMMAND and each.word]
    words = [program.words(each) for each in commands]
    counted = any(
        each.name == "wc" or (each.name == "grep" and ("c" in each.flags() or each.has("--count")))
        for each in words
    )
    return not counted and any(each.name in _READS for each in words)


def _falls_back(program: ShellProgram, node: ShellNode) -> bool:
    return (
        node.kind is NodeKind.AND_OR
        and node.operators[-1:] == ["||"]
        and bool(_PRINTS_ZERO.fullmatch(program.of_node(node.children[-1])))
    )


def _defaults_later(program: ShellProgram, node: ShellNode, name: str) -> bool:
    return bool(re.search(rf"\$\{{{name}:-0\}}", program.text[node.end : node.end + 2000]))


def _decides(program: ShellProgram, name: str) -> bool:
    """Whether a test compares the number."""
    used = rf"\$?\{{?{name}(?::-0)?\}}?[\"']?\s*(?:-(?:gt|ne|eq|ge)|>|!=|==|=)\s*[\"']?[0-9]"
    return bool(re.search(used, program.text))


# `grep -c … || echo 0`, which prints two numbers.

COUNT_DOUBLED: Final = LintRule(
    rule=Rule(
        id="shell/count-doubled",
        severity=Severity.ERROR,
        meaning='`grep -c` prints 0 and fails if nothing matches. With `|| echo 0` the variable holds two lines, "0" and "0", and a later comparison fails with "integer expression expected".',
        remedy="Write `n=$(grep -c …) || n=${n:-0}`: grep prints the 0 itself, and nothing if it cannot read the file.",
    ),
    bad=(
        script('n=$(grep -c FAILED log || echo 0)\n[ "$n" -gt 0 ] && exit 1\n'),
        script('local_count=$(cat log | grep -ci error || echo "0")\n'),
        script("f() {\n  local n=$(grep --count x f || echo 0)\n}\n"),
        script("n=`grep -c x f 2>/dev/null || echo 0`\n"),
        script('if [ "$(grep -cE "a|b" f || printf 0)" -gt 0 ]; then exit 1; fi\n'),
    ),
    good=(
        script("n=$(grep -c FAILED log || true)\n"),
        script("n=$(grep -o x f | head -1 || echo 0)\n"),
        script("grep -c x f || echo 0\n"),
        script("n=$(grep -q x f || echo 0)\n"),
    ),
)

_PRINTS_ANOTHER_ZERO: Final = re.compile(r"""(?:echo|printf)\s+["']?(?:%d\s+)?0(?:\\n)?["']?\s*""")


def count_doubled(program: ShellProgram) -> Iterator[Violation]:
    """And-ors in a command substitution whose left prints a count and whose right prints 0."""
    for node in program.of(NodeKind.AND_OR):
        parent = node.parent
        if parent is None or parent.kind is not NodeKind.SUBSTITUTION or len(node.children) != 2:
            continue
        left, right = node.children
        if node.operators != ["||"] or not _PRINTS_ANOTHER_ZERO.fullmatch(program.of_node(right)):
            continue
        counted = left.children[-1] if left.kind is NodeKind.PIPELINE else left
        if counted.kind is not NodeKind.COMMAND or not _counts(program, counted):
            continue
        if _is_cleaned(program, parent):
            continue
        holder = parent.parent.kind if parent.parent is not None else None
        is_kept = holder is NodeKind.TEST or _is_compared(program, parent)
        yield violation(
            program,
            COUNT_DOUBLED,
            node,
            'This is "0" twice, on two lines, if nothing matches',
            severity=None if is_kept else Severity.WARNING,
        )


def _is_compared(program: ShellProgram, substitution: ShellNode) -> bool:
    """Whether the count goes to a variable that a number is compared with; one that is printed breaks nothing."""
    assignment = substitution.parent
    if assignment is None or assignment.kind not in (NodeKind.ASSIGNMENT, NodeKind.DECLARATION):
        return False
    before = program.text[assignment.start : substitution.start]
    named = re.search(r"\b(\w+)=[\"']?$", before)
    if named is None:
        return False
    name = re.escape(named[1])
    compared = rf"\$\{{?{name}\b[^\n]{{0,4}}\s-(?:gt|ge|lt|le|eq|ne)\s|\(\([^)\n]{{0,99}}\b{name}\b|-(?:gt|ge|lt|le|eq|ne)\s+[\"']?\$\{{?{name}\b"
    return re.search(compared, program.text[substitution.end :]) is not None


def _is_cleaned(program: ShellProgram, substitution: ShellNode) -> bool:
    """Whether the next statement makes one number of it: `n=${n%%[!0-9]*}`."""
    assignment = substitution.parent
    after = assignment.next_statement() if assignment is not None else None
    if assignment is None or after is None:
        return False
    name = program.of_node(assignment).partition("=")[0].split()[-1:]
    text = program.of_node(after)
    return (
        bool(name)
        and re.match(rf"(?:local\s+)?{re.escape(name[0])}=.*\$\{{?{re.escape(name[0])}\b", text)
        is not None
    )


def _counts(program: ShellProgram, node: ShellNode) -> bool:
    words = program.words(node)
    if words.name not in ("grep", "egrep", "fgrep", "zgrep"):
        return False
    # Letters of short options; those after one that takes a value, as in `-ef`, are its
    # value.
    return "c" in "".join(
        re.split(r"[efmABCD]", each[1:])[0]
        for each in words.arguments
        if re.match(r"-[A-Za-z]", each)
    ) or words.has("--count")


RULES: Final = (
    (APPEND_IN_RETRY, append_in_retry),
    (COUNT_DEFAULTS_TO_ZERO, count_defaults_to_zero),
    (COUNT_DOUBLED, count_doubled),
)
