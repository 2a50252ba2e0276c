# SPDX-License-Identifier: Apache-2.0
"""Pure. Rules about the processes of a script, its handlers and its own text."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from ci_doctor.lint.lint_rule import LintRule, Place, Violation, excerpt_of
from ci_doctor.lint.shell.shell_program import script, violation
from ci_doctor.model.finding import Rule, Severity
from ci_doctor.syntax.shell_nodes import NodeKind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ci_doctor.lint.shell.shell_program import ShellProgram
    from ci_doctor.lint.source_files import ShellSource
    from ci_doctor.syntax.shell_nodes import ShellNode

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


# Paths of installed packages with a version of Python in them.

HARD_CODED_SITE_PACKAGES: Final = LintRule(
    rule=Rule(
        id="shell/hard-coded-site-packages",
        severity=Severity.WARNING,
        meaning="The path holds one version of Python. An image with another one does not have it, and the step fails, or changes a file that nothing reads.",
        remedy='Ask the interpreter: `python3 -c "import pkg, os; print(os.path.dirname(pkg.__file__))"`.',
    ),
    bad=(
        script("sed -i s/a/b/ /usr/local/lib/python3.12/dist-packages/vllm/x.py\n"),
        script("export PYTHONPATH=/opt/venv/lib/python3.11/site-packages\n"),
        script('cd "/usr/lib/python3.10/site-packages/vllm" || exit 1\n'),
        script("SITE=/opt/conda/lib/python3.9/site-packages\n"),
        script("cp x.py ${VENV}/lib/python3.12/site-packages/\n"),
    ),
    good=(
        script("# see /usr/lib/python3.10/site-packages\ntrue\n"),
        script('site=$(python3 -c "import site; print(site.getsitepackages()[0])")\n'),
        script('ls "$VENV"/lib/python3.*/site-packages\n'),
        script('cp x "$VENV/lib/python${PYTHON_VERSION}/site-packages/"\n'),
        script('echo "not in /usr/lib/python3.10/site-packages"\n'),
        script('sp="$work/lib/python3.12/site-packages"\nmkdir -p "$sp"\n'),
    ),
)

_PATH: Final = re.compile(r"(?<![^\s\"'=:])[^\s\"'=:]*python3\.\d+/(?:site|dist)-packages")


def hard_coded_site_packages(program: ShellProgram) -> Iterator[Violation]:
    """Commands and assignments that spell such a path out, once for each line."""
    if "-packages" not in program.text:
        return
    lines = set()
    for path in _PATH.finditer(program.text):
        node = program.innermost(path.start())
        if node is None or node.kind is NodeKind.HERE_TEXT or node.word in ("echo", "printf"):
            continue
        if node.kind is NodeKind.TEST or (
            node.parent is not None and node.parent.kind is NodeKind.TEST
        ):
            continue
        if _makes_it(program, node):
            continue
        if _is_comment(program.text, path.start()) or node.kind is NodeKind.PROGRAM:
            continue
        line = program.line(path.start())
        if line not in lines:
            lines.add(line)
            yield violation(
                program,
                HARD_CODED_SITE_PACKAGES,
                node,
                f"`{path[0]}` exists for one version of Python only",
            )


def _makes_it(program: ShellProgram, node: ShellNode) -> bool:
    """Whether the script itself makes the directory: no interpreter has it, or each one may."""
    if node.word == "mkdir":
        return True
    name = re.match(r"(?:(?:local|export|readonly|declare)\s+)?(\w+)=", program.of_node(node))
    made = rf"\bmkdir\b[^\n;&|]*\$\{{?{name[1]}\b" if name else None
    return made is not None and re.search(made, program.text) is not None


def _is_comment(text: str, offset: int) -> bool:
    line = text[text.rfind("\n", 0, offset) + 1 : offset]
    return bool(re.search(r"(?:^|\s)#", line))


# Programs that bash cannot read.

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


RULES: Final = (
    (BROAD_KILL, broad_kill),
    (HARD_CODED_SITE_PACKAGES, hard_coded_site_packages),
)
