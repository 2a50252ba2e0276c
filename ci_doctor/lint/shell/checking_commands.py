# SPDX-License-Identifier: Apache-2.0
"""Pure. Commands that judge something, how a later command judges what one writes, and who reads a status."""

from __future__ import annotations

import bisect
import re
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from ci_doctor.lint.lint_rule import word_set
from ci_doctor.syntax.shell_nodes import CommandWords, NodeKind, ShellNode

if TYPE_CHECKING:
    from ci_doctor.lint.shell.shell_program import ShellProgram

_STATUS: Final = re.compile(r"\$\?|\$\{\?\}|PIPESTATUS")
_BARE_RETURN: Final = re.compile(r"(?:return|exit)\s*(?:;|$)")
_SEQUENCES: Final = frozenset(
    {
        NodeKind.PROGRAM,
        NodeKind.GROUP,
        NodeKind.SUBSHELL,
        NodeKind.DO,
        NodeKind.IF,
        NodeKind.ELIF,
        NodeKind.ELSE,
        NodeKind.CASE_ITEM,
        NodeKind.SUBSTITUTION,
        NodeKind.FUNCTION,
    }
)
# Their status is that of a part of them.
_WITHOUT_STATUS: Final = frozenset(
    {NodeKind.LOOP, NodeKind.CASE, NodeKind.ASSIGNMENT, NodeKind.NEGATION}
)
_BRANCHES: Final = (NodeKind.ELIF, NodeKind.ELSE)


class StatusUse(StrEnum):
    """What happens to a status.

    READ: a condition, an operator or `$?` reads it, or it is the program's own status. ENDS: errexit
    ends the program. RETURNED: it is the status of the function around it. IGNORED: nobody reads
    it. UNKNOWN: that depends on who calls the function, or on a trap.
    """

    READ = "read"
    ENDS = "ends"
    RETURNED = "returned"
    IGNORED = "ignored"
    LOST_IN_PIPE = "lost-in-pipe"
    UNKNOWN = "unknown"


def use_of(program: ShellProgram, node: ShellNode) -> StatusUse:
    """What happens to the status of `node`, a node of `program`."""
    current = node
    is_negated = False
    for parent in node.ancestors():
        if current.background:
            return StatusUse.IGNORED
        decided = _inside(program, current, parent, is_negated=is_negated)
        if decided is not None:
            return decided
        first = parent.children[0] if parent.kind is NodeKind.PIPELINE else parent
        is_negated = is_negated or first.kind is NodeKind.NEGATION
        current = parent
    return StatusUse.IGNORED if current.background else StatusUse.READ


def _inside(
    program: ShellProgram, current: ShellNode, parent: ShellNode, *, is_negated: bool
) -> StatusUse | None:
    """What `parent` makes of the status of `current`; None if it becomes its own."""
    if current.is_condition:
        after = current.next_statement()
        is_last = after is None or not after.is_condition
        return StatusUse.READ if is_last else StatusUse.IGNORED
    if parent.kind in _SEQUENCES:
        return _in_sequence(program, current, parent, is_negated=is_negated)
    if parent.kind is NodeKind.AND_OR:
        return None if parent.children[-1] is current else StatusUse.READ
    if parent.kind is NodeKind.PIPELINE:
        return _in_pipe(program, current, parent)
    if parent.kind in _WITHOUT_STATUS:
        return None
    # A command substitution among words.
    is_inside = current.kind is NodeKind.SUBSTITUTION or parent.kind is NodeKind.HERE_DOCUMENT
    return StatusUse.IGNORED if is_inside else StatusUse.UNKNOWN


def _in_pipe(program: ShellProgram, current: ShellNode, pipeline: ShellNode) -> StatusUse | None:
    held = program.pipefail.at(pipeline)
    if pipeline.children[-1] is current or held:
        return None
    if held is None:
        return StatusUse.UNKNOWN
    after = pipeline.next_statement()
    is_read = after is not None and "PIPESTATUS" in program.of_node(after)[:2000]
    return StatusUse.READ if is_read else StatusUse.LOST_IN_PIPE


def _in_sequence(
    program: ShellProgram, current: ShellNode, parent: ShellNode, *, is_negated: bool
) -> StatusUse | None:
    after = current.next_statement()
    if after is not None:
        # Whether it reads `$?`, or hands it on by a `return` or `exit` without a status.
        following = program.of_node(after)[:2000]
        if after.kind in (NodeKind.IF, NodeKind.CASE, NodeKind.LOOP):
            following = following.partition("\n")[0]
        if _STATUS.search(following) or _BARE_RETURN.fullmatch(following):
            return StatusUse.READ
    if not is_negated and program.exempt_by(current) is None:
        held = None if program.traps_errors else program.errexit.at(current)
        if held is not False:
            return StatusUse.UNKNOWN if held is None else StatusUse.ENDS
    # The status of a branch is that of the `if` around it, though more branches follow.
    ends_branch = after is None or after.kind in _BRANCHES
    is_if = parent.kind in (NodeKind.IF, NodeKind.ELIF)
    if current.kind in _BRANCHES or (is_if and ends_branch):
        return None
    if after is not None and after.kind is not NodeKind.HERE_DOCUMENT:
        return StatusUse.IGNORED
    outer = parent if parent.kind is NodeKind.FUNCTION else parent.parent
    is_body = outer is not None and outer.kind is NodeKind.FUNCTION
    return StatusUse.RETURNED if is_body else None


# --- commands that judge something, and how a later command judges what one writes ---


# Their failure may be advice.
LINTERS: Final = word_set("flake8 mypy pylint ruff")
_TESTERS: Final = word_set(
    "pytest py.test tox nox ctest bats jest vitest mocha rspec phpunit lm_eval lm-eval gotestsum "
    "ginkgo pytest-xdist unittest nosetests nose2 behave robot locust ci-doctor simple-evals"
)
_CHECKS_OF_OURS: Final = (
    ("correctness",),
    ("lint",),
    ("compat",),
    ("doctor",),
    ("flaky",),
    ("verify",),
    ("run",),
)
# Programs that run another one, which stands among their arguments.
_RUNNERS: Final = word_set(
    "docker podman nerdctl kubectl oc srun mpirun mpiexec torchrun accelerate poetry uv pdm hatch "
    "rye pipenv pipx conda mamba micromamba xvfb-run coverage python python3 bash sh dash numactl "
    "flock retry ssh su singularity apptainer enroot chronic parallel xargs compute-sanitizer "
    "nsys ncu strace valgrind catchsegv script unshare chroot runuser gosu dbus-run-session npx "
    "docker-compose pixi deepspeed ray watch busybox systemd-run cpulimit chrt"
)
_BUILDERS: Final = word_set(
    "make gmake ninja npm yarn pnpm bun cargo go bazel bazelisk gradle gradlew mvn mvnw just task "
    "rake dotnet swift meson cmake"
)
# Filters that succeed whatever came in.
FILTERS: Final = word_set(
    "tee tail head cat sed awk gawk ts sort cut tr uniq column tac fold nl pv less more fmt "
    "unbuffer rev paste expand logger sponge wc strings iconv gzip zstd xz bzip2 perl ansi2txt jq "
    "stdbuf"
)
ASKING: Final = frozenset(
    {"--version", "--help", "-h", "-V", "--collect-only", "--co", "--fixtures", "--markers"}
)
_CHECKED: Final = re.compile(
    r"(?i)(?:^|[_./:-])(?:(?:unit|smoke|run|e2e)?tests?|tester|check(?:s|er)?|verify|verification|validat\w+|compar\w+|eval(?:s|uate|uation)?|bench(?:mark(?:s|ing)?)?"
    r"|gates?|assert\w*|regress\w*|smoke|e2e|accuracy|correctness|scores?|conformance|judge|selftest)(?:[_./:-]|$)"
)
_SCRIPT: Final = re.compile(r"(?i)\.(?:sh|bash|py|pl|rb|js|ts|bats)$")
_SETS_UP: Final = re.compile(
    r"(?i)install|setup|clean|stop|server|serve|launch|start|prepare|download|requirements|upload|report|wait"
)
TALK: Final = word_set(
    "echo printf log info warn warning error_msg say date true : cat tail head ls pwd tput figlet "
    "banner logger sleep env printenv nvidia-smi rocm-smi amd-smi df du free ps top uname "
    "hostname lscpu uptime whoami id set export unset shopt popd pushd ulimit umask local declare "
    "readonly typeset time_elapsed tree wc clear sync nproc"
)
TIDY: Final = word_set(
    "rm rmdir kill pkill killall fuser mv cp chmod chown umount deactivate trap gzip tar zip "
    "touch mkdir ln wait stop cleanup clean_up teardown tear_down clean shutdown disown"
)
_TIDY_NAME: Final = re.compile(
    r"(?i)(?:^|[_-])(?:clean\w*|tear_?down|stop|kill|shut_?down|remove|purge|finish|finali[sz]e)(?:[_-]|$)"
)
_TIDY_PAIRS: Final = re.compile(
    r"(?:docker|podman|nerdctl)(?:[ -]compose)?(?: (?:-\S+|container|image|volume|network|system))* (?:rm|stop|kill|down|logs|ps|prune|cp|rmi|images|inspect)\b"
    r"|kubectl (?:delete|logs|get|describe)\b|ray stop\b|buildkite-agent (?:annotate|artifact|meta-data)\b|git (?:status|log|clean|checkout|reset|stash)\b"
    r"|tmux kill|screen -|ccache |sccache |pip (?:list|freeze)|conda deactivate|helm uninstall|systemctl (?:stop|status)|service \S+ stop|aws s3 (?:cp|rm|sync)|gsutil|gh run|ipcrm"
)
# Programs that build, fetch, start or send something.
WORK: Final = word_set(
    "bash bazel cargo cmake docker git gmake go gradle helm kubectl make mvn ninja npm pip pip3 "
    "pnpm podman poetry python python3 rsync scp sh tar terraform torchrun twine uv yarn"
)
_MAKES: Final = word_set("accelerate ansible-playbook g++ gcc meson nvcc sglang srun vllm")


def is_check(program: ShellProgram, node: ShellNode) -> bool:
    """Whether a simple command decides something: a test runner, or a program that is named as one."""
    if node.kind is not NodeKind.COMMAND or not node.word or node.word in ("wait", "source", "."):
        return False
    words = program.words(node)
    # `command -v pytest` asks if there is one.
    if node.word in ("type", "which", "hash") or _asks_for_command(program, node):
        return False
    if program.definition(words.name) is not None or any(
        each in ASKING for each in words.arguments
    ):
        return False
    return _checks(words, program.text[slice(*node.words[-len(words.arguments) - 1])])


def _asks_for_command(program: ShellProgram, node: ShellNode) -> bool:
    option = program.text[slice(*node.words[1])] if len(node.words) > 1 else ""
    return node.word == "command" and option.startswith("-")


def _checks(words: CommandWords, written: str) -> bool:  # noqa: PLR0911 - one branch for each case
    if words.name in _TESTERS:
        return words.name != "ci-doctor" or words.arguments[:1] in _CHECKS_OF_OURS
    if words.name in LINTERS:
        return _lints((words.name, *words.arguments))
    if words.name in _BUILDERS:
        targets = [each for each in words.arguments if not each.startswith("-") and "=" not in each]
        return any(_CHECKED.search(each) and not _SETS_UP.search(each) for each in targets[:3])
    if words.name in ("bash", "sh", "dash") and any(
        each.startswith("-") and "c" in each for each in words.arguments[:2]
    ):
        # The string is a program of its own; here it is one command.
        return any(_names_check(each) for each in words.arguments[1:3])
    if words.name in _RUNNERS:
        return _runs_check(words)
    if words.name == "vllm":
        return words.arguments[:1] == ("bench",)
    path = written.strip("\"'")
    return ("/" in path or bool(_SCRIPT.search(path))) and _is_checking_file(path)


def _lints(words: tuple[str, ...]) -> bool:
    """`mypy src`, `ruff check`; not `ruff format`."""
    is_linter = words[0] in LINTERS and "--exit-zero" not in words
    return is_linter and (words[0] != "ruff" or words[1:2] == ("check",))


def _names_check(string: str) -> bool:
    return bool(
        re.search(r"(?:^|[\s;&|/])(?:pytest|tox|nox|ctest|bats|lm_eval)\b(?![\w./-]*=)", string)
    )


def _runs_check(words: CommandWords) -> bool:  # noqa: C901, PLR0911 - one branch for each case
    if words.name in (
        "docker",
        "podman",
        "nerdctl",
        "kubectl",
        "uv",
        "poetry",
        "conda",
        "pdm",
    ) and words.arguments[:1] not in (
        ("run",),
        ("exec",),
        ("compose",),
        ("container",),
        ("debug",),
    ):
        return False
    is_module = False
    for index, each in enumerate(words.arguments):
        if each in ("install", "add", "build", "push", "pull"):
            return False
        name = each.rpartition("/")[2]
        if _lints((name, *words.arguments[index + 1 :])):
            return True
        if name in _TESTERS and (index == 0 or not words.arguments[index - 1].startswith("--")):
            return True
        if is_module:
            return bool(_CHECKED.search(each.replace(".", "/"))) and not _SETS_UP.search(each)
        is_module = each == "-m"
        if _SCRIPT.search(each) and not each.startswith("-"):
            return _is_checking_file(each)
        if each == "-c" and words.name.startswith("python"):
            return False
        if each == "-c":
            rest = words.arguments[index + 1 : index + 2]
            return any(_names_check(string) for string in rest)
    return False


def _is_checking_file(path: str) -> bool:
    """`tests/run.sh`, `ci/compare_outputs.py`; not `tests/start_server.py`."""
    name = path.rpartition("/")[2]
    if _SETS_UP.search(name):
        return False
    folder = path.rpartition("/")[0].rpartition("/")[2]
    return bool(_CHECKED.search(name)) or folder in ("tests", "test")


def is_work(program: ShellProgram, node: ShellNode) -> bool:
    """Whether a statement makes what the script is for, such as a build."""
    if node.kind is NodeKind.AND_OR and "||" not in node.operators:
        return not node.background and any(is_work(program, each) for each in node.children)
    if node.kind is not NodeKind.COMMAND or not node.word or node.background:
        return False
    words = program.words(node)
    if is_quiet(program, node) or any(each in ASKING for each in words.arguments):
        return False
    return (
        words.name in WORK | _MAKES
        or node.word.startswith("./")
        or bool(_SCRIPT.search(words.name))
    )


def is_quiet(program: ShellProgram, node: ShellNode) -> bool:
    """Whether a statement only says, shows or tidies something, so that its status means nothing."""
    rest = [node]
    while rest:
        each = rest.pop()
        if each.kind is NodeKind.COMMAND:
            if each.word and not _is_quiet_command(program.words(each)):
                return False
        elif each.kind in _COMPOUNDS:
            rest += each.children
    return True


_COMPOUNDS: Final = frozenset(NodeKind) - {
    NodeKind.COMMAND,
    NodeKind.TEST,
    NodeKind.FUNCTION,
    NodeKind.DECLARATION,
    NodeKind.ASSIGNMENT,
    NodeKind.SUBSTITUTION,
    NodeKind.HERE_DOCUMENT,
}


def _is_quiet_command(words: CommandWords) -> bool:
    return words.name in TALK or words.name in TIDY or words.name == "cd" or is_tidying(words)


def is_tidying(words: CommandWords) -> bool:
    """Whether a command removes or stops something, by its name or its first words."""
    if _TIDY_NAME.search(words.name) and not words.name.startswith("git"):
        return True
    return bool(_TIDY_PAIRS.match(" ".join((words.name, *words.arguments[:5]))))


def always_succeeds(program: ShellProgram, node: ShellNode) -> bool:  # noqa: C901, PLR0911 - one branch for each case
    """Whether the status of a statement is 0 whatever happened: an `echo`, an assignment of a constant, `set -e`."""
    if node.background:
        return True
    if node.kind in (NodeKind.ASSIGNMENT, NodeKind.DECLARATION):
        return not any(each.kind is NodeKind.SUBSTITUTION for each in node.children) or (
            node.kind is NodeKind.DECLARATION and node.word != "unset"
        )
    if node.kind is NodeKind.FUNCTION:
        return True
    if node.kind in (NodeKind.GROUP, NodeKind.SUBSHELL) and node.children:
        return always_succeeds(program, node.children[-1])
    if node.kind is NodeKind.PIPELINE:
        return False
    if node.kind is not NodeKind.COMMAND or not node.word:
        return False
    words = program.words(node)
    if program.definition(words.name) is not None:
        return False
    if words.name == "wait":
        return not words.arguments
    return words.name in (
        "echo",
        "printf",
        "true",
        ":",
        "date",
        "sleep",
        "set",
        "shopt",
        "trap",
        "sync",
    )


def is_filter(program: ShellProgram, node: ShellNode) -> bool:
    """Whether the last command of a pipeline succeeds whatever comes in."""
    if node.kind is not NodeKind.COMMAND or not node.word:
        return False
    words = program.words(node)
    if words.name in ("grep", "egrep", "fgrep", "rg"):
        return "v" in words.flags() and "q" not in words.flags()
    if words.name in ("awk", "gawk", "sed", "perl"):
        return not any(re.search(r"\bexit\b|\bdie\b|\bq\d", each) for each in words.arguments)
    return words.name in FILTERS


# Whether a later command judges what a command writes, and how a sentence calls a command.

_LONGEST: Final = 60
_MOST_READERS: Final = 20
_WORD: Final = re.compile(r"[\w./${}-]+")
_FILE: Final = re.compile(
    r"[\w./${}-]*[\w}]\.(?:xml|json|jsonl|log|txt|csv|out|html|tap|yaml|yml)\b|\$\{?\w*(?:LOG|OUT|REPORT|RESULT|FILE)\w*\}?",
    re.IGNORECASE,
)
_TARGET: Final = re.compile(r"(?:>>?|\btee(?:\s+-a|\s+--append)?)\s*([\w./${}\"'-]+)")
_SHOWS: Final = word_set("cat tail head echo printf less rm cp mv gzip ls tee curl aws touch mkdir")


def named(program: ShellProgram, node: ShellNode) -> str:
    """A command as a sentence calls it: its first line from its name on, of at most 60 characters."""
    start = node.words[0][0] if node.kind is NodeKind.COMMAND and node.words else node.start
    line = program.source.text[start : node.end].partition("\n")[0].removesuffix("\\")
    text = " ".join(line.split())
    return (
        text
        if len(text) <= _LONGEST
        else f"{text[:_LONGEST].rpartition(' ')[0] or text[:_LONGEST]} …"
    )


def is_judged_later(program: ShellProgram, node: ShellNode) -> bool:
    """Whether a later command reads a file that this one writes, and may fail for what is in it."""
    statement = node
    for parent in node.ancestors():
        if parent.kind not in (NodeKind.AND_OR, NodeKind.PIPELINE):
            break
        statement = parent
    text = program.of_node(statement)[:4000]
    files = {each.strip("\"'") for each in (*_FILE.findall(text), *_TARGET.findall(text))}
    files = {each for each in files if len(each) > 2 and not each.startswith(("&", "/dev/"))}
    if not files:
        return False
    places = program.once(_words_of)
    for file in files:
        known = places.get(file, [])
        first = bisect.bisect_left(known, statement.end)
        if any(_judges(program, place) for place in known[first : first + _MOST_READERS]):
            return True
    return False


def _words_of(program: ShellProgram) -> dict[str, list[int]]:
    """Where each word of the text stands that may be a file's name."""
    places: dict[str, list[int]] = {}
    for match in _WORD.finditer(program.text):
        places.setdefault(match[0], []).append(match.start())
    return places


def _judges(program: ShellProgram, place: int) -> bool:
    reader = program.innermost(place)
    while reader is not None and reader.kind not in (NodeKind.COMMAND, NodeKind.TEST):
        reader = reader.parent
    if reader is None:
        return False
    return reader.kind is NodeKind.TEST or not _only_shows(program, reader)


def _only_shows(program: ShellProgram, reader: ShellNode) -> bool:
    words = program.words(reader)
    in_pipe = reader.parent is not None and reader.parent.kind is NodeKind.PIPELINE
    in_words = any(each.kind is NodeKind.SUBSTITUTION for each in reader.ancestors())
    if in_words or (
        in_pipe and reader.parent is not None and reader.parent.children[-1] is not reader
    ):
        return False
    return words.name in _SHOWS or is_quiet(program, reader)
