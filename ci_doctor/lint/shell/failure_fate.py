# SPDX-License-Identifier: Apache-2.0
"""Pure. What becomes of the failure of a command: it decides the script, or something hides it."""

from __future__ import annotations

import bisect
import re
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from ci_doctor.lint.lint_rule import word_set
from ci_doctor.lint.shell.checking_commands import is_check, is_filter, is_quiet
from ci_doctor.syntax.shell_nodes import NodeKind, ShellNode

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ci_doctor.lint.shell.shell_program import ShellProgram

STATUS: Final = re.compile(r"\$\?|\$\{\?\}")
_PIPE_STATUS: Final = re.compile(r"PIPESTATUS|pipestatus")
_DIES: Final = re.compile(r"(?i)die|fail|err|abort|panic|fatal|exit|bail|quit|report_and|finish")
# Programs that tell somebody; their own status is no judgement.
_NOTIFIERS: Final = word_set(
    "buildkite-agent curl wget docker podman kubectl aws gsutil gh dmesg journalctl mail sendmail "
    "slack notify-send ss netstat lsof"
)
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
    }
)
_DEEPEST_CALLS: Final = 30  # functions that call each other
_LEAVES: Final = frozenset({"exit", "return", "break", "continue"})
_BRANCHES: Final = (NodeKind.ELIF, NodeKind.ELSE)


class Loss(StrEnum):
    """How a failure is hidden."""

    IGNORED = "ignored"
    SWALLOWED = "swallowed"
    BRANCH = "branch"
    UNREAD = "unread"
    PIPE = "pipe"
    LOOP = "loop"
    BACKGROUND = "background"
    WAIT = "wait"
    WORDS = "words"


class Fate(Struct, frozen=True, kw_only=True):
    """loss: None if the failure decides something, or nobody knows. by: what hides it.

    returned: the function whose status it becomes. exempt: errexit is on and does not hold here, by
    the operator or condition around.
    """

    loss: Loss | None = None
    by: ShellNode | None = None
    returned: ShellNode | None = None
    exempt: ShellNode | None = None


KEPT: Final = Fate()


class BranchEffect(StrEnum):
    """What a branch makes of a failure that led there."""

    NOTHING = "nothing"  # the status is 0 after it
    FAILS = "fails"  # its own status is a failure
    DECIDES = "decides"  # it ends the script, sets what is read later, or is unknown


class FailureFates:
    """Answers for the commands of one program."""

    def __init__(self, program: ShellProgram) -> None:
        self._program = program
        self._reads: dict[str, list[ShellNode]] | None = None
        self._ids: dict[str, list[int]] | None = None
        self._waits_elsewhere = bool(_WAITS_ELSEWHERE.search(program.text))
        self._depth = 0
        self._decided: dict[str, bool] = {}
        self._returns: dict[str, ShellNode | None] = {}

    # Commands that check, and functions that return what such a command returns.

    def checks(self) -> Iterator[tuple[ShellNode, ShellNode]]:
        """Each command whose failure matters, with the check that it stands for: itself, or one in a function it calls."""
        has_background = False
        waits = []
        for node in self._program.commands:
            check = self.check_of(node)
            if check is not None:
                has_background = has_background or any(
                    each.background for each in (node, *node.ancestors())
                )
                yield node, check
            elif node.word == "wait" and self._program.words(node).arguments:
                waits.append(node)
        if has_background:
            for node in waits:
                if self._waits_for_check(node):
                    yield node, node

    def _waits_for_check(self, wait: ShellNode) -> bool:
        """Whether a `wait` may wait for a check: not if its variable holds the id of something else."""
        names = re.findall(r"\$\{?(\w+)", self._program.of_node(wait))
        if len(names) != 1:
            return True
        if self._ids is None:
            self._ids = {}
            for match in _PROCESS_ID.finditer(self._program.text):
                self._ids.setdefault(match[1], []).append(match.start())
        starts = self._ids.get(names[0], [])[:20]
        return not starts or any(self._starts_check(start) for start in starts)

    def _starts_check(self, offset: int) -> bool:
        """Whether the statement before the one at `offset` puts a check into the background."""
        node = self._program.innermost(offset)
        if node is None or not (before := node.preceding(1)):
            return True
        inside = [before[0], *before[0].own()]
        return any(
            each.kind is NodeKind.COMMAND and self.check_of(each) is not None for each in inside
        )

    def check_of(self, node: ShellNode) -> ShellNode | None:
        """The check whose failure is the failure of `node`; None if it checks nothing."""
        if is_check(self._program, node):
            return node
        return self._returned_check(node.word) if node.word in self._program.functions else None

    def _returned_check(self, name: str) -> ShellNode | None:
        """The check in function `name` whose failure the function returns."""
        if name in self._returns:
            return self._returns[name]
        if self._depth > _DEEPEST_CALLS:
            return None
        self._depth += 1
        self._returns[name] = None  # a function that calls itself
        function = self._program.functions[name]
        for node in function.own():
            if node.kind is not NodeKind.COMMAND or not node.word:
                continue
            check = self.check_of(node)
            if check is not None and self.fate(node).returned is function:
                self._returns[name] = check
                break
        self._depth -= 1
        return self._returns[name]

    # The way of a failure up the tree.

    def fate(self, node: ShellNode) -> Fate:  # noqa: C901, PLR0911, PLR0912 - one branch for each case
        """What becomes of a failure of `node`."""
        current, exempt = node, False
        for parent in node.ancestors():
            if current.background:
                return self._in_background(current)
            if current.kind is NodeKind.NEGATION:
                return KEPT
            if current.is_condition:
                return self._in_condition(current, parent)
            if (
                parent.kind is NodeKind.NEGATION
                and parent.is_condition
                and parent.parent is not None
            ):
                return self._in_condition(parent, parent.parent)
            if parent.kind is NodeKind.AND_OR:
                answer = self._in_list(current, parent)
                if answer is not None:
                    return answer
                # The last part of `a || (echo; exit 1)` fails after `a` has.
                rest = parent.operators[parent.children.index(current) :]
                exempt = exempt or (parent.children[-1] is not current and "||" not in rest)
            elif parent.kind is NodeKind.PIPELINE:
                answer = self._in_pipe(current, parent)
                if answer is not None:
                    return answer
            elif parent.kind is NodeKind.FUNCTION:
                return Fate(returned=parent)
            elif parent.kind in _SEQUENCES:
                answer = self._in_sequence(current, exempt=exempt)
                if answer is not None:
                    return answer
                if parent.kind in (NodeKind.SUBSHELL, NodeKind.SUBSTITUTION):
                    exempt = False
            elif parent.kind is NodeKind.LOOP:
                # Whether a loop has several rounds, of which the last one's
                # status is that of the loop.
                return (
                    Fate(loss=Loss.LOOP, by=parent)
                    if (parent.word in ("for", "select", "while", "until"))
                    else KEPT
                )
            elif parent.kind is NodeKind.COMMAND:
                said = (
                    self._program.words(parent).name in ("echo", "printf")
                    or self._program.text[current.start] in "<>"
                )
                return (
                    Fate(loss=Loss.WORDS, by=parent)
                    if said and current.kind is NodeKind.SUBSTITUTION
                    else KEPT
                )
            elif parent.kind not in (NodeKind.ASSIGNMENT, NodeKind.CASE):
                return KEPT
            current = parent
        return self._in_background(current) if current.background else KEPT

    def _in_sequence(self, current: ShellNode, *, exempt: bool) -> Fate | None:
        """The fate among statements; None if the failure is that of `parent`."""
        after = _next(current)
        program = self._program
        held = None if program.traps_errors else program.errexit.at(current)
        off = program.exempt_by(current)
        if held is None:
            return KEPT
        if held and not exempt and off is None:
            subshell = current.enclosing(NodeKind.SUBSHELL, NodeKind.SUBSTITUTION)
            if subshell is None or subshell.kind is NodeKind.FUNCTION:
                return KEPT
            return self.fate(subshell)
        if after is None or after.kind in _BRANCHES:
            return None
        read = self._read_by(after)
        if read is not None:
            return read
        return Fate(loss=Loss.IGNORED, by=after, exempt=off if held else None)

    def _in_list(self, current: ShellNode, parent: ShellNode) -> Fate | None:
        """`a && b || c`: what runs when `current` fails; None if the failure is that of the whole."""
        place = parent.children.index(current)
        rest = parent.operators[place:]
        if "||" not in rest:
            leaves = any(each.word in _LEAVES for each in parent.children[place + 1 :])
            if leaves and _next(parent) is not None:
                effect = self._without_branch(parent.children[place + 1 :], parent)
                return (
                    KEPT
                    if effect is not BranchEffect.NOTHING
                    else Fate(loss=Loss.BRANCH, by=parent)
                )
            return None
        handler = place + rest.index("||") + 1
        effect = self.effect(parent.children[handler : handler + 1])
        if parent.children[handler].word == "continue" and not self._is_retry(parent):
            effect = BranchEffect.NOTHING
        if effect is BranchEffect.DECIDES:
            return KEPT
        if effect is BranchEffect.FAILS:
            return None
        return Fate(loss=Loss.SWALLOWED, by=parent.children[handler])

    def _is_retry(self, statement: ShellNode) -> bool:
        """Whether a success leaves the loop or sets what is read behind `… || continue`."""
        rest = _following(statement)
        leaves = any(each.word in _LEAVES for one in rest for each in (one, *one.own()))
        return leaves or self._sets_what_is_read(rest)

    def _in_pipe(self, current: ShellNode, parent: ShellNode) -> Fate | None:
        if parent.children[-1] is current or self._program.pipefail.at(parent) is not False:
            return None
        after = _next(parent)
        if after is not None and _PIPE_STATUS.search(self._program.of_node(after)[:2000]):
            return KEPT
        whole: ShellNode | None = parent.parent
        if whole is not None and _PIPE_STATUS.search(
            self._program.text, parent.end, min(whole.end, parent.end + 300)
        ):
            return KEPT
        last = parent.children[-1]
        if not is_filter(self._program, last):
            return KEPT
        return Fate(loss=Loss.PIPE, by=last)

    def _in_condition(self, current: ShellNode, parent: ShellNode) -> Fate:
        after = _next(current)
        if after is not None and after.is_condition:
            return Fate(loss=Loss.IGNORED, by=after)
        if parent.kind not in (NodeKind.IF, NodeKind.ELIF):
            return KEPT
        is_negated = current.kind is NodeKind.NEGATION
        then = [
            each for each in parent.children if not each.is_condition and each.kind not in _BRANCHES
        ]
        outer = parent if parent.kind is NodeKind.IF else parent.parent
        branches = (
            [each for each in outer.children if each.kind in _BRANCHES] if outer is not None else []
        )
        if parent.kind is NodeKind.ELIF:
            branches = [each for each in branches if each.start > parent.start]
        if is_negated:
            effect = self.effect(then, first_status_lost=True)
        elif branches and branches[0].kind is NodeKind.ELIF:
            return KEPT
        elif branches:
            effect = self.effect(branches[0].children)
        else:
            effect = self._without_branch(then, outer or parent)
        if effect is not BranchEffect.NOTHING:
            return KEPT
        return Fate(loss=Loss.BRANCH, by=outer or parent)

    def _without_branch(self, then: list[ShellNode], statement: ShellNode) -> BranchEffect:
        """`if check; then …; fi`: a failure goes on behind `fi`, which may be the way that it is handled."""
        if self._sets_what_is_read(then):
            return BranchEffect.DECIDES
        leaves = any(each.word in _LEAVES for one in then for each in (one, *one.own()))
        if not leaves:
            return BranchEffect.NOTHING
        rest: list[ShellNode] = []
        node: ShellNode | None = statement
        while node is not None and node.kind is not NodeKind.FUNCTION:
            following = _following(node)
            rest += following
            node = node.parent
        return (
            BranchEffect.DECIDES
            if self.effect(rest) is not BranchEffect.NOTHING
            else BranchEffect.NOTHING
        )

    def _in_background(self, current: ShellNode) -> Fate:
        waits = self._program.by_name.get("wait", [])
        named = any(self._program.words(each).arguments for each in waits)
        if named or self._waits_elsewhere:
            return KEPT
        place = bisect.bisect_right(waits, current.start, key=lambda each: each.start)
        bare = waits[place] if place < len(waits) else None
        return Fate(loss=Loss.BACKGROUND, by=bare or current)

    # Who reads a status, and what for.

    def _read_by(self, after: ShellNode) -> Fate | None:
        """What the next statement makes of `$?`; None if it does not read it, or only prints it."""
        program = self._program
        text = program.of_node(after)[:4000]
        if after.kind in (NodeKind.COMMAND, NodeKind.DECLARATION) and re.fullmatch(
            r"(?:return|exit)\s*", text
        ):
            return KEPT
        head = text
        if after.kind in (NodeKind.IF, NodeKind.CASE, NodeKind.LOOP):
            conditions = [each for each in after.children if each.is_condition]
            head = (
                program.text[after.start : conditions[-1].end]
                if conditions
                else text.partition("\n")[0]
            )
        if not STATUS.search(head) and not _PIPE_STATUS.search(head):
            return None
        if after.kind is NodeKind.COMMAND and program.words(after).name in (
            "echo",
            "printf",
            "log",
            "info",
        ):
            return None
        if after.kind is NodeKind.AND_OR and not STATUS.search(program.of_node(after.children[0])):
            return None
        return self._status_fate(after, head)

    def _status_fate(self, after: ShellNode, head: str) -> Fate:
        named = re.match(
            r"(?:(?:local|declare|export|readonly|typeset)\s+(?:-\w+\s+)*)?(\w+)=[\"']?\$\{?\?\}?[\"']?\s*$",
            head,
        )
        if named and after.kind in (NodeKind.ASSIGNMENT, NodeKind.DECLARATION):
            return KEPT if self._is_kept(named[1], after) else Fate(loss=Loss.UNREAD, by=after)
        asks_failure = bool(_ASKS_FAILURE.search(head))
        asks_success = bool(_ASKS_SUCCESS.search(head))
        if after.kind is NodeKind.IF and asks_failure != asks_success:
            then = [
                each
                for each in after.children
                if not each.is_condition and each.kind not in _BRANCHES
            ]
            branches = [each for each in after.children if each.kind in _BRANCHES]
            if asks_failure:
                effect = self.effect(then, first_status_lost=True)
            elif branches:
                effect = (
                    self.effect(branches[0].children)
                    if branches[0].kind is NodeKind.ELSE
                    else BranchEffect.DECIDES
                )
            else:
                effect = self._without_branch(then, after)
            return KEPT if effect is not BranchEffect.NOTHING else Fate(loss=Loss.BRANCH, by=after)
        if (
            after.kind is NodeKind.AND_OR
            and asks_failure
            and not asks_success
            and after.operators[:1] == ["&&"]
        ):
            effect = self.effect(after.children[1:2], first_status_lost=True)
            return KEPT if effect is not BranchEffect.NOTHING else Fate(loss=Loss.BRANCH, by=after)
        if (
            after.kind is NodeKind.AND_OR
            and asks_success
            and not asks_failure
            and after.children[0].kind is NodeKind.TEST
        ):
            return self.fate(after.children[0])
        return KEPT

    def effect(  # noqa: C901 - one branch for each case
        self, statements: Sequence[ShellNode], *, first_status_lost: bool = False
    ) -> BranchEffect:
        """What `statements`, which run after a failure, make of it.

        first_status_lost: `$?` is 0 before the first of them, as after `if !`.
        """
        program = self._program
        status_lost = first_status_lost
        last = BranchEffect.NOTHING
        for node in statements:
            if node.kind is NodeKind.HERE_DOCUMENT:
                continue
            last = BranchEffect.NOTHING
            if node.kind in (NodeKind.GROUP, NodeKind.SUBSHELL):
                inner = self.effect(node.children, first_status_lost=status_lost)
                leaves = inner is BranchEffect.DECIDES and node.kind is NodeKind.SUBSHELL
                if leaves and not self._sets_what_is_read([node]):
                    last = BranchEffect.FAILS
                elif inner is not BranchEffect.NOTHING:
                    last = inner
                if last is BranchEffect.DECIDES:
                    return last
            elif node.kind in (NodeKind.ASSIGNMENT, NodeKind.DECLARATION):
                if self._sets_what_is_read([node]):
                    return BranchEffect.DECIDES
            elif node.kind is NodeKind.COMMAND:
                answer = self._command_effect(node, status_lost=status_lost)
                if answer is BranchEffect.DECIDES or node.word in ("exit", "return"):
                    return answer
                last = answer
            elif not is_quiet(program, node) or self._leaves_or_sets(node):
                return BranchEffect.DECIDES
            status_lost = True
        return last

    def _command_effect(self, node: ShellNode, *, status_lost: bool) -> BranchEffect:  # noqa: PLR0911 - one branch for each case
        words = self._program.words(node)
        if words.name in ("exit", "return"):
            status = words.arguments[0] if words.arguments else "$?"
            if STATUS.fullmatch(status):
                return BranchEffect.NOTHING if status_lost else BranchEffect.DECIDES
            return BranchEffect.NOTHING if status == "0" else BranchEffect.DECIDES
        if words.name == "false":
            return BranchEffect.FAILS
        if words.name in ("break", "continue", "kill", "exec", "eval", "source", ".") and (
            words.name != "kill" or "$$" in words.arguments
        ):
            return BranchEffect.DECIDES
        function = self._program.definition(words.name)
        if function is not None:
            owner, body = function
            leaves = any(each.word in ("exit", "return", "false", "exec") for each in body.own())
            assigns = any(each.kind is NodeKind.ASSIGNMENT for each in body.own())
            quiet = all(is_quiet(owner, each) for each in body.children)
            return BranchEffect.DECIDES if leaves or assigns or not quiet else BranchEffect.NOTHING
        if is_quiet(self._program, node) and not _DIES.search(words.name):
            return BranchEffect.NOTHING
        if words.name in _NOTIFIERS and not is_check(self._program, node):
            return BranchEffect.NOTHING
        return BranchEffect.DECIDES

    def _leaves_or_sets(self, node: ShellNode) -> bool:
        inside = [node, *node.own()]
        return any(
            each.word in ("exit", "return", "break", "continue", "false", "exec") for each in inside
        ) or (self._sets_what_is_read(inside))

    def _sets_what_is_read(self, statements: Sequence[ShellNode]) -> bool:
        """Whether one of them sets a variable that something decides by."""
        for one in statements:
            for each in (one, *one.own()):
                if each.kind in (
                    NodeKind.ASSIGNMENT,
                    NodeKind.DECLARATION,
                    NodeKind.TEST,
                ) or each.word in ("let", "read"):
                    text = self._program.of_node(each)[:2000]
                    names = re.findall(
                        r"\b([A-Za-z_]\w{0,99})(?:\[[^\]]{0,99}\])?\s*(?:[-+*|]?=|\+\+|--)", text
                    )
                    names += re.findall(r"(?:\+\+|--)([A-Za-z_]\w{0,99})", text)
                    if any(self.is_decided_by(name) for name in names):
                        return True
                if (
                    each.kind is NodeKind.COMMAND
                    and each.redirections
                    and each.word in ("echo", "printf", "touch", "date", "tee")
                ):
                    return True  # a file that something may read
                if each.word in ("touch", "tee", "mkdir"):
                    return True
        return False

    def is_decided_by(self, name: str) -> bool:
        """Whether anything but a message reads variable `name`."""
        if self._reads is None:
            self._reads = {}
            for match in _READ.finditer(self._program.text):
                read = match[1] or match[2]
                node = self._program.innermost(match.start())
                if node is not None:
                    known = self._reads.setdefault(read, [])
                    if not known or known[-1] is not node:
                        known.append(node)
        if name.isupper() and re.search(rf"\bexport\b[^\n]*\b{name}\b", self._program.text):
            return True
        if name not in self._decided:
            # The last reads first: a script ends with `exit $rc`.
            reads = reversed(self._reads.get(name, []))
            self._decided[name] = any(self._decides(each, name) for each in reads)
        return self._decided[name]

    def _decides(self, node: ShellNode, name: str) -> bool:
        program = self._program
        for each in (node, *node.ancestors()):
            if each.kind is NodeKind.COMMAND and each.word:
                words = program.words(each)
                if (
                    words.name in ("echo", "printf", "log", "info")
                    and not each.redirections
                    and each.parent is not None
                ):
                    return each.parent.kind is NodeKind.PIPELINE
                return True
            if each.kind in (NodeKind.ASSIGNMENT, NodeKind.DECLARATION):
                own = re.match(r"(?:\w+\s+)?(\w+)\+?=", program.of_node(each))
                return own is None or own[1] != name
            if each.kind is NodeKind.TEST:
                return self._test_decides(each)
        return True

    def _test_decides(self, test: ShellNode) -> bool:
        """Whether a test of a variable leads to more than a message."""
        statement = test
        for parent in test.ancestors():
            if statement.is_condition or parent.kind not in (NodeKind.AND_OR, NodeKind.NEGATION):
                break
            statement = parent
        if statement.is_condition and statement.parent is not None:
            statement = statement.parent
        if statement.kind is NodeKind.TEST:
            return True
        inside = [each for each in statement.own() if each.kind is not NodeKind.TEST]
        is_last = _next(statement) is None and statement.kind is NodeKind.AND_OR
        return is_last or any(
            each.word in ("exit", "return", "break", "continue", "false")
            or not is_quiet(self._program, each)
            or each.kind is NodeKind.ASSIGNMENT
            for each in inside
        )

    def _is_kept(self, name: str, assignment: ShellNode) -> bool:
        """Whether the status in variable `name` is read before the variable gets another one."""
        program = self._program
        pattern = re.compile(
            rf"\$\{{?{re.escape(name)}\b|\(\([^)]*\b{re.escape(name)}\b|\b{re.escape(name)}\+?="
        )
        for each in assignment.following(40):
            text = program.of_node(each)
            match = pattern.search(text)
            if match is None:
                continue
            if each.kind is NodeKind.ASSIGNMENT and re.fullmatch(
                rf"{re.escape(name)}=(?:[\"']?\$\{{?\?\}}?[\"']?|\d+)", text
            ):
                return False
            if each.kind is NodeKind.COMMAND and program.words(each).name in (
                "echo",
                "printf",
                "log",
                "info",
            ):
                continue
            break
        return self.is_decided_by(name)


_PROCESS_ID: Final = re.compile(r"\b(\w+)=[\"']?\$\{?!")
_WAITS_ELSEWHERE: Final = re.compile(r"wait_for|wait_all|\bfg\b|coproc")
_READ: Final = re.compile(
    r"\$\{?[!#]?([A-Za-z_]\w*)|(?<=[(\s+|&!<>=*-])([A-Za-z_]\w*)(?=\s*(?:[-+|&<>=!)*/]|$))"
)
_ASKS_FAILURE: Final = re.compile(
    r"(?:\$\?|\$\{\?\})[\"']?\s*(?:-ne|-gt|!=|>)\s*[\"']?0|\(\(\s*\$\?\s*\)\)|-ne\s*[\"']?\$\?"
)
_ASKS_SUCCESS: Final = re.compile(
    r"(?:\$\?|\$\{\?\})[\"']?\s*(?:-eq|==|=)\s*[\"']?0|-eq\s*[\"']?\$\?"
)


def _next(node: ShellNode) -> ShellNode | None:
    """The statement after it, without here-documents."""
    after = node.next_statement()
    while after is not None and after.kind in (NodeKind.HERE_DOCUMENT, NodeKind.FUNCTION):
        after = after.next_statement()
    return after


def _following(node: ShellNode) -> list[ShellNode]:
    return [
        each
        for each in node.following(20)
        if each.kind
        not in (*_BRANCHES, NodeKind.HERE_DOCUMENT, NodeKind.FUNCTION, NodeKind.CASE_ITEM)
        and not each.is_condition
    ]


def fates_of(program: ShellProgram) -> FailureFates:
    """The answers for `program`, made once."""
    return program.once(FailureFates)
