# SPDX-License-Identifier: Apache-2.0
"""Pure. Rules about processes, about counts of results, and about the text of a script itself."""

import re
from collections.abc import Iterator
from typing import Final

from ci_doctor.lint.lint_rule import LintRule, Place, Violation, excerpt_of, word_set
from ci_doctor.lint.shell.shell_program import ShellProgram, script, violation
from ci_doctor.lint.source_files import ShellSource
from ci_doctor.model.outcome import Rule, Severity
from ci_doctor.syntax.shell_nodes import NodeKind, ShellNode

BROAD_KILL: Final = LintRule(
    rule=Rule(
        id="shell/broad-kill",
        severity=Severity.NOTE,
        meaning="A kill by name ends each process that matches, those of another job on the same machine as well.",
        remedy="Keep the process id when the process is started (`pid=$!`), and kill that one, or its group.",
    ),
    bad=(
        script('pkill -f "vllm serve"\n'),
        script("killall -9 python3\n"),
        script("kill -9 $(pgrep -f vllm)\n"),
        script("pgrep -f vllm | xargs kill\n"),
        script('ps aux | grep vllm | awk "{print \\$2}" | xargs -r kill -9\n'),
        script("fuser -k 8000/tcp\n"),
        script("sudo pkill -9 ray || true\n"),
        script("kill `lsof -t -i:8000`\n"),
    ),
    good=(
        script('kill "$pid"\n'),
        script("pkill -P $$\n"),
        script("pkill -F server.pid\n"),
        script('kill -- -"$pid"\n'),
        script("pgrep -f vllm\n"),
    ),
)

_LISTS: Final = re.compile(r"\b(?:pgrep|pidof|lsof|fuser|ps)\b")


def broad_kill(program: ShellProgram) -> Iterator[Violation]:
    """pkill, killall, fuser -k, and kill with ids that a search by name gives."""
    for node in program.commands:
        what = _broad(program, node)
        if what:
            yield violation(
                program,
                BROAD_KILL,
                node,
                f"`{what}` also ends processes that this script did not start",
            )


def _broad(program: ShellProgram, node: ShellNode) -> str:
    words = program.words(node)
    if words.name == "pkill":
        own = words.has("-P", "--parent", "-F", "--pidfile", "-s", "-g", "-0")
        return "" if own else "pkill"
    if words.name == "killall":
        return "" if words.has("-0") else "killall"
    if words.name == "fuser":
        return "fuser -k" if "k" in words.flags() else ""
    if words.name == "kill":
        match = _LISTS.search(" ".join(words.arguments))
        return f"kill $({match[0]} …)" if match and not words.has("-0") else ""
    parent = node.parent
    if words.name == "xargs" and parent is not None and parent.kind is NodeKind.PIPELINE:
        kills = any(re.search(r"\bkill\b", each) for each in words.arguments)
        match = _LISTS.search(program.of_node(parent))
        return f"{match[0]} … | xargs kill" if kills and match else ""
    return ""


SYNTAX: Final = LintRule(
    rule=Rule(
        id="shell/syntax",
        severity=Severity.ERROR,
        meaning="Bash cannot read the script. It fails when it comes to this line, or before it runs at all.",
        remedy="Repair the line: `bash -n FILE` says the same.",
    ),
    bad=(
        script("if true; then\n  echo a\n"),
        script("IMAGE=<IMAGE_NAME>:<TAG>\n"),
        script("for i in 1 2; do\n  echo $i\n"),
        script("f() {\n  echo a\n"),
    ),
    good=(
        script("if true; then\n  echo a\nfi\n"),
        script('IMAGE="${1:?image}"\n'),
        script("shopt -s extglob\nrm -- !(keep)\n"),
    ),
)


def syntax_violation(source: ShellSource, line: int, complaint: str) -> Violation:
    """Bash's own words about `line` of the source's text."""
    texts = source.text.split("\n")
    own = min(max(line, 1), len(texts))
    lines = source.lines
    number = own
    if lines is not None:
        number = lines[min(own, len(lines)) - 1] if lines else 1
    return Violation(
        rule=SYNTAX,
        place=Place(file=source.file, line=number, end_line=number),
        summary=f"bash cannot read this: {complaint}",
        excerpt=excerpt_of(texts[own - 1]),
    )


# Handlers of a failure behind a command in the background.


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
        if _falls_back(program, inner) or re.search(
            rf"\$\{{{named[1]}:-0\}}", program.text[node.end : node.end + 2000]
        ):
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
    (BROAD_KILL, broad_kill),
    (COUNT_DEFAULTS_TO_ZERO, count_defaults_to_zero),
    (COUNT_DOUBLED, count_doubled),
)
