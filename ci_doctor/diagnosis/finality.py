# SPDX-License-Identifier: Apache-2.0
"""Reads the lines around a cause: whether the job ended by it, and what of it lies outside the change.

Both ask for proof. What cannot be read, or is not known to follow from the cause, leaves doubt.
"""

import re
from collections.abc import Container, Iterable, Sequence
from typing import Final

from msgspec import Struct

from ci_doctor.diagnosis.aftermath import (
    can_end,
    follows_only,
    is_judged,
    is_logged,
    is_of_same_fault,
    is_tolerated,
    is_tried_again,
    was_before,
)
from ci_doctor.diagnosis.candidate import Candidate
from ci_doctor.diagnosis.known_hosts import known_hosts
from ci_doctor.diagnosis.lines.clean_line import clean_line
from ci_doctor.diagnosis.log_story import LogStory
from ci_doctor.diagnosis.outside import OF_NETWORK, KnownHosts, lies_outside
from ci_doctor.diagnosis.reading.log_text import LogText, TextLine
from ci_doctor.diagnosis.standing import ExceptionStanding
from ci_doctor.diagnosis.steps import JobStep
from ci_doctor.diagnosis.surroundings import has_gone_on
from ci_doctor.model.cause import OF_CHANGE, FailureClass

# After its last failure a job prints how it tidies up.
_MOST_LINES_AFTER: Final = 150
_LINES_OF_TRACEBACK: Final = 80
# The tracebacks of a chain are printed one below the other.
_LINES_OF_CHAIN: Final = 300
_LINES_AROUND: Final = 12
# Lines that stand in one message with the line of a client: its other lines, and the command itself.
_MESSAGE: Final = re.compile(
    r"(?:\+|\$) \S|Looking in (?:indexes|links)|Collecting |(?:WARNING: )?Retrying \(|ERROR: "
    r"|npm (?:ERR!|error)|(?:E|Err|Ign|W):|\s+\S|(?:Caused by|caused by)|[├╰└│×╭]|(?:error|fatal): "
    r"|svn: |\* |[<>{}] |info Visit \S+/cli/(?:add|install)|GnuTLS: |OpenSSL: |https?://\S+:$|Loaded CA |--\d{4}-|Reading (?:package|state) |Building dependency |Resolving |Connecting to |HTTP request sent|ssh: |remote: |Cloning into "
)
# Where a CI system goes on after the command has failed.
_AFTER_COMMAND: Final = re.compile(
    r"Running after_script|Executing \"after_script\"|Uploading artifacts for failed job"
    r"|(?:~~~ )?(?:Running .{1,80} (?:post-command|pre-exit) hook|Uploading artifacts)"
    r"|Post job cleanup|Cleaning up (?:project directory|orphan)"
)
_ASKED: Final = re.compile(
    r"\b(?:curl|wget|Downloading|Fetching|download_url\w*|requesting (?:HEAD|GET))\b.{0,200}\bhttps?://"
)
_CHAINED: Final = re.compile(
    r"During handling of the above exception|The above exception was the direct cause"
)
_OF_TRANSFER: Final = re.compile(
    r"shell: |##\[endgroup\]|[\s%\d:.kMG|-]*(?:Total|Dload|curl: .*)?$|Warning: Problem"
)
# What a tool lacks to tidy up, such as a container to remove, ends nothing.
_LACKS: Final = frozenset(
    {FailureClass.CONFIGURATION, FailureClass.MISSING_DEPENDENCY, FailureClass.SCM_VERSION}
)
# These clients end with a status of their own; a script that ends with another one got over it.
_CURL: Final = re.compile(r"^[\d\s:.kMG-]*curl: \((\d+)\)")
_OWN_STATUSES: Final = (
    (
        re.compile(r"(?:fatal|ssh|kex_exchange_identification): |error: RPC failed"),
        frozenset({128, 255}),
    ),
    (re.compile(r"(?:E|Err(?::\d+)?): ?"), frozenset({100})),
    (
        re.compile(r"\d{4}-\d\d-\d\d \S+ ERROR [45]\d\d|HTTP request sent|wget: "),
        frozenset({4, 5, 8}),
    ),
    (re.compile(r"rsync: "), frozenset({5, 10, 12, 30, 35})),
)
# An exception that nobody catches ends Python so.
_OF_PYTHON: Final = frozenset({1})
# A script may end with 1 for its client, and says so.
_HANDED_ON: Final = re.compile(
    r"(?i)\b(?:error|failed|failure|unable|could ?n[o']t|cannot|giv(?:e|ing|en) up|gave up|fatal)\b"
)
# make(1) ends with 2 whatever its command ended with.
_OF_MAKE: Final = 2
_CONVERTED: Final = re.compile(
    r"(?:exit(?:ed)?(?: with)?(?: exit)? ?(?:code|status):?|Error|returned)[ :]+(?P<status>\d+)\b"
)


class Ending(Struct, frozen=True, kw_only=True):
    """is_final: the job ended by the candidate. is_outside: it proves a cause outside the change.

    blocker: the strongest other candidate by which the job may have ended.
    """

    is_final: bool
    is_outside: bool
    blocker: Candidate | None = None


def ending_of(
    ranked: Sequence[Candidate],
    stories: Sequence[LogStory],
    logs: Sequence[LogText],
    status: int | None = None,
) -> Ending:
    """What the logs tell of the first of `ranked`, the strongest candidates of all `stories`.

    status: of the command, if that is known.
    """
    known = known_hosts()
    log, story = logs[ranked[0].log], stories[ranked[0].log]
    step = _failed_step(story.steps)
    end = _end_of_command(ranked[0], step, log)
    own = [each for each in ranked if each.log != ranked[0].log or each.line.number <= end]
    first = _last_of_series(ranked[0], story.candidates, end)
    history = _texts(log.before(first.line, _LINES_OF_CHAIN))
    before = history[-_LINES_OF_TRACEBACK:]
    most = min(_MOST_LINES_AFTER + 1, max(0, end - first.line.number))
    after = _texts(log.after(first.line, most)[1:])
    above, below = _of_message(before[::-1]), _of_message(after)
    begin, asked = _asked_above(first, history)
    around = (*above, *below, *_chain_of(first, story.candidates), *asked)
    chain = range(first.line.number - len(history) + begin, first.line.number)
    message = range(first.line.number - len(above), first.line.number + len(below) + 1)
    others = [each for each in own if each.line != first.line]
    unlike = [each for each in others if not _is_of_chain(each, first, chain)]
    blocker = next((each for each in unlike if _blocks(each, first, message, logs)), None)
    proven = {each.line.number for each in others if _is_proven(each, first, known)}
    has_failed_test = any(each.has_failed_test for each in stories)
    is_last = step is None or step.holds(first.line.number)
    ends = is_last and _ends(first, before, after, story.explained | proven)
    return Ending(
        is_final=ends
        and blocker is None
        and not has_failed_test
        and not _has_another_status(first, step, after, status),
        is_outside=lies_outside(first.rule, first.clean.text, around, known),
        blocker=blocker,
    )


def _failed_step(steps: Sequence[JobStep]) -> JobStep | None:
    """The last step that failed; what stands in an earlier one is not what the job ended by."""
    failed = [step for step in steps if step.failed and step.has_last_words]
    return failed[-1] if failed else None


def _end_of_command(first: Candidate, step: JobStep | None, log: LogText) -> int:
    """The number of the last line that the failed command itself printed."""
    end = first.line.number + first.lines_after
    if step is not None and step.holds(first.line.number):
        end = step.end.number - 1
    for line in log.after(first.line, min(_MOST_LINES_AFTER, end - first.line.number))[1:]:
        if _AFTER_COMMAND.match(clean_line(line.content).message) is not None:
            return line.number - 1
    return end


def _blocks(
    candidate: Candidate, first: Candidate, message: Container[int], logs: Sequence[LogText]
) -> bool:
    """Whether the job may have ended by `candidate` in place of `first`."""
    if is_of_same_fault(candidate, first, message) or not can_end(candidate, known_hosts()):
        return False
    if not was_before(candidate, first):
        return True
    # What a test or a program of the change says may be kept as a status until the end.
    if candidate.rule.class_ in OF_CHANGE:
        return True
    is_lack = candidate.standing is None and candidate.rule.class_ in _LACKS
    return not (is_lack or has_gone_on(candidate, logs))


def _last_of_series(first: Candidate, candidates: Sequence[Candidate], end: int) -> Candidate:
    """The last line like `first` up to `end`: a client that tries again repeats what it says."""
    is_series = first.rule.class_ in {*OF_NETWORK, FailureClass.AGENT_LOST}
    if not is_series or first.standing is not None:
        return first
    like = [
        each for each in candidates if each.rule.id == first.rule.id and each.line.number <= end
    ]
    return max((first, *like), key=lambda each: each.line.number)


def _chain_of(first: Candidate, ranked: Sequence[Candidate]) -> list[str]:
    """The other exceptions of the traceback of `first`: those around it name the host."""
    if first.standing is None:
        return []
    chain = []
    for each in ranked:
        distance = each.line.number - first.line.number
        is_near = each.log == first.log and 0 < abs(distance) <= _MOST_LINES_AFTER
        if is_near and each.standing is ExceptionStanding.CONSEQUENCE:
            chain.append(each.clean.text)
    return chain


def _is_of_chain(candidate: Candidate, first: Candidate, chain: Container[int]) -> bool:
    """Whether `candidate` tells of the network within the `chain` of exceptions that ends with `first`."""
    if candidate.log != first.log or not {candidate.rule.class_, first.rule.class_} <= OF_NETWORK:
        return False
    return first.standing is not None and candidate.line.number in chain


def _asked_above(first: Candidate, before: Sequence[str]) -> tuple[int, list[str]]:
    """Where the message begins, and the lines above that tell what was asked for, or of the same fault.

    curl and urllib name no host.
    """
    start = len(before)
    linked: list[str] = []
    if first.standing is not None:
        start, linked = _linked(before, _start_of_chain(before))
    for line in reversed(before[max(0, start - _LINES_AROUND) : start]):
        text = clean_line(line.encode()).message
        if _ASKED.search(text) is not None:
            return start, [text, *linked]
        # Another line may be that of another command, which has asked another host.
        if text and _OF_TRANSFER.match(text) is None:
            break
    return start, linked


def _start_of_chain(before: Sequence[str]) -> int:
    """The index of the first header of the tracebacks that the lines `before` an exception end with."""
    headers = [index for index, line in enumerate(before) if "Traceback (most recent" in line]
    start = headers.pop() if headers else 0
    while headers and any(map(_CHAINED.search, before[max(0, start - 3) : start])):
        start = headers.pop()
    return start


def _linked(before: Sequence[str], start: int) -> tuple[int, list[str]]:
    """Exceptions without a traceback that a chain begins with, above `start`; where they begin."""
    texts: list[str] = []
    while any(map(_CHAINED.search, before[max(0, start - 3) : start])):
        index = start
        while index and (not before[index - 1].strip() or _CHAINED.search(before[index - 1])):
            index -= 1
        start = index
        while start and before[start - 1].strip() and index - start < _LINES_AROUND:
            start -= 1
        if start == index:
            break
        texts += [clean_line(line.encode()).message for line in before[start:index]]
    return start, texts


def _is_proven(candidate: Candidate, first: Candidate, known: KnownHosts) -> bool:
    """Whether a line of the same log tells of the same outage, or of another one."""
    if candidate.log != first.log or candidate is first:
        return False
    return lies_outside(candidate.rule, candidate.clean.text, (), known)


def _texts(lines: Iterable[TextLine]) -> list[str]:
    return [line.content.decode(errors="replace") for line in lines]


def _words(lines: Sequence[str]) -> str:
    return "".join(clean_line(line.encode()).message for line in lines)


def _of_message(lines: Sequence[str]) -> list[str]:
    """Those of the `lines` next to a line that belong to the same message, cleaned."""
    kept = []
    for line in lines[:_LINES_AROUND]:
        text = clean_line(line.encode()).message
        if text and _MESSAGE.match(text) is None:
            break
        kept.append(text)
    return kept


def _ends(
    first: Candidate, before: Sequence[str], after: Sequence[str], explained: Container[int]
) -> bool:
    """Whether nothing but what follows from `first` stands `after` it in its command."""
    if is_tolerated(first) or is_judged(before):
        return False
    if first.standing is ExceptionStanding.CAUSE and is_logged(before):
        return False
    above, below = _words(before[-1:]), _words(after[:1])
    if len(after) >= _MOST_LINES_AFTER or is_tried_again(above, first.clean.text, below):
        return False
    return follows_only(first, after, explained)


def _has_another_status(
    first: Candidate, step: JobStep | None, following: Sequence[str], status: int | None
) -> bool:
    """Whether the command ended with another status than the client that `first` is a line of."""
    own = _own_statuses(first.clean.message) or _own_statuses(first.clean.text)
    if first.standing is ExceptionStanding.CAUSE:
        own = _OF_PYTHON
    is_known = status is not None
    if step is not None and step.status is not None:
        status = step.status
    if not own or status is None or status in own or status == _OF_MAKE:
        return False
    converted = {int(match["status"]) for line in following for match in _CONVERTED.finditer(line)}
    if own & converted:
        return False
    if status != 1 or _CURL.match(first.clean.message) is not None:
        return True
    texts = [clean_line(line.encode()).message for line in following]
    handed_on = any(_HANDED_ON.search(text) and not _own_statuses(text) for text in texts)
    return is_known and not handed_on


def _own_statuses(message: str) -> frozenset[int]:
    """With which statuses the client ends that prints `message`; empty if nobody knows."""
    curl = _CURL.match(message)
    if curl is not None:
        return frozenset({int(curl[1])})
    for words, statuses in _OWN_STATUSES:
        if words.match(message) is not None:
            return statuses
    return frozenset()
