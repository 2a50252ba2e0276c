# SPDX-License-Identifier: Apache-2.0
"""Reads the lines around a cause and after it: whether the job ended by it, and what lies outside the change.

The rank of a line says little of when it was written: a server may log a full disk, do without its
cache, and die an hour later of a mistake in the change. A retry for the disk would hide that. So
each line after a cause must be known to follow from it; one line of other words leaves doubt.
What cannot be read leaves doubt too.
"""

import re
from collections.abc import Container, Iterable, Sequence
from typing import Final

from msgspec import Struct

from ci_doctor.diagnosis.log_rules import Role
from ci_doctor.diagnosis.log_story import JobStep, LogStory
from ci_doctor.diagnosis.log_text import CleanLine, LogText, TextLine, clean_line
from ci_doctor.diagnosis.outside import (
    OF_NETWORK,
    KnownHosts,
    known_hosts,
    lies_outside,
    retry_policy,
)
from ci_doctor.diagnosis.rank import Candidate, has_gone_on
from ci_doctor.diagnosis.tracebacks import TOLERATED_LEVELS, ExceptionStanding, is_logged
from ci_doctor.model.cause import OF_CHANGE, FailureClass, RetryPolicy

# A program that ends by an exception says little more; so many lines of its stop are shown too.
_LAST_LINES: Final = 15
# A client says in so many lines what it gives up, and what it lacks now.
_LINES_OF_MESSAGE: Final = 2
_HEADER: Final = "Traceback (most recent call last):"
_OF_GPU: Final = frozenset({FailureClass.CUDA_ERROR, FailureClass.RENDEZVOUS})
# How the driver and its libraries complain: a word such as `device` may be the change's.
_GPU: Final = re.compile(
    r"(?i:\bCUDA(?: driver| runtime)? error\b|\bNCCL (?:error|WARN)\b|\bECC error\b|unspecified launch failure"
    r"|fallen off the bus|GPU is lost)|\bNVRM: |\bcudaError|\bCU(?:BLAS|DNN|SOLVER|SPARSE)_STATUS_|\bNVML\b"
)
_GOT_OVER: Final = frozenset({ExceptionStanding.TOLERATED, ExceptionStanding.ANSWERED})
_ENDING: Final = frozenset({ExceptionStanding.FATAL, ExceptionStanding.CAUSE})
_WARNING: Final = re.compile(r"(?i)^(?:\[?warn(?:ing)?\b|npm warn|W: |\S{1,40}: warning: )")
_NOTICE: Final = re.compile(
    r"(?i)\b(?:will (?:re-?)?try|re-?try(?:ing)?\b.{0,40}\b(?:in|after|again)\b|trying again"
    r"|try(?:ing)? again in|next (?:retry|attempt)|(?:retries|tries|attempts?) (?:left|remaining)"
    r"|backing off|(?:attempt|retry|retries|try)[ #:]*\d+|retrying|spurious network error)"
)
_NUMBERED: Final = re.compile(
    r"(?i)\b(?:attempt|retry|retries|try)[ #:(]*(?P<now>\d+) ?(?:/|of|out of) ?(?P<most>\d+)"
)
_GIVEN_UP: Final = re.compile(
    r"(?i)total=0\b|\b(?:0|no)(?: more)? (?:retries|tries|attempts)\b|giv(?:e|ing|en) up|gave up"
    r"|(?:last|final) (?:attempt|try|retry)\b|max(?:imum)? (?:number of )?(?:retries|attempts)"
    r"|(?:retries|attempts) exhausted|out of (?:retries|attempts)"
    r"|after (?:all |\d+ )(?:retries|retry|attempts?|tries|try)\b"
)
# What a client, a tool that drives it, and the frame of a CI system print after a failure.
_FOLLOWS: Final = re.compile(
    r"(?:npm|yarn|pnpm) (?:ERR!|error|notice|http)|(?:npm|yarn|pnpm|bun)(?:\.\w+)? ?(?:v\d|$)"
    r"|(?:E|Err|Ign|Hit|Get)(?::\d+)?[: ] ?\S|(?:Reading (?:package|state)|Building dependency|Fetched \d)"
    r"|\[notice\]|hint: |note: This (?:error|is an issue)|ERROR: (?:Could not (?:find|install)|No matching"
    r"|failed to (?:solve|build|pull)|Job failed|Service '|process \")"
    r"|fatal: (?:the remote|early|index-pack|fetch-pack|clone of|[Cc]ould not read|unable to|protocol)"
    r"|(?:error|remote): (?:RPC failed|\d+ bytes|failed to (?:fetch|download|get|query|load source))"
    r"|Please make sure you have the correct access|and the repository exists"
    r"|Connection (?:closed|reset) by |Connection timed out during|</?[a-z]+>|body:$|\s*cause: |-- Had to |-- Configuring incomplete|See also |wrapper script does not|\[Pipeline\] (?://|End)|Finished: (?:FAILURE|ABORTED)|Caused: |java\.\S+Exception"
    r"|Check the log at |: \(|Probable Causes:"
    r"|\s+- the (?:server|hostname|address)|You can also run your |\d+\+\d+ records (?:in|out)|\d+ bytes .{0,40}copied"
    r"|.{0,300}[Cc]heck your (?:internet )?connection|Connection to \S+ closed|rsync error: |\[end of output\]"
    r"|note: This error originates|For more information(?: check)?: http|error: subprocess-exited-with"
    r"|(?:error: )?[×x] .{0,120}did not run successfully|(?:\d\. )?(?:Make sure the|Then try again)"
    r"|(?:g?make|ninja|cmake|nox|tox|just|task)(?:\[\d+\])?: |compilation terminated"
    r"|(?:tar|gzip|cp|mv|rsync|dd|cat|unzip|tee|ld|collect2|cc1plus|cc1|as|install)(?:\([^)]*\))?: "
    r"|(?:See 'docker|Dockerfile:\d+|-{4,}|#\d+ |>>> | ?> \[|failed to (?:solve|register|pull))"
    r"|(?:Caused by|caused by)\b|[├╰└│×╭─▶➤ ]*[├╰└│×╭▶➤]|\.\.\. \d+ more|\s+at \S"
    r"|\s+(?:errno|code|syscall|hostname|address|port|type|host|cause)\b[:=]|[\[\]{}(),;]+$"
    r"|Node\.js v\d|(?:During handling of the above|The above exception was the direct)"
    r"|.{0,200}?(?:exit(?:ed)?(?: with)?(?: exit)? ?(?:code|status)|non-zero (?:exit )?(?:code|status)"
    r"|CalledProcessError|Process completed with|The command exited|user command error)"
    r"|Error: Download fail|Check(?:out)? your internet connection|Elapsed: \d|(?:A remote|An) (?:server|HTTP) error occurred"
    r"|\^\^\^ \+\+\+|\+ exit \d|(?:exit|quit|abort)(?:ing|ed)?\b|Terminated\b|logout$"
    r"|(?i:.{0,80}\b(?:failed|unable|could ?n[o']t|cannot|can't)(?: to| be)? "
    r"(?:install|download|fetch|pull|clone|reach|extract|unpack|write|copy)(?:ed|d)?\b)"
    r"|(?i:.{0,40}\b(?:install(?:ation)?|download|fetch|pull|clone|checkout)\b.{0,40} failed\b)"
)
# A program's own verdict, in words that no rule knows.
_JUDGED: Final = re.compile(
    r"(?i)\b(?:accuracy|score|throughput|recall|f1|hit rate)\b.{0,80}\b(?:below|less than|lower than|under)\b"
    r"|\b(?:latency|perplexity|loss|error rate|p9\d)\b.{0,80}\b(?:above|more than|higher than|exceed|over)\b"
    r"|\bmismatch|\bdo(?:es)? not match\b|\bdiffers? from\b|\bregression\b|\bis (?:wrong|too (?:low|high|slow))\b"
)
_EXPECTED: Final = re.compile(r"(?i)\b(?:assert\w*|expect(?:ed|s)?|differ\w*)\b")
_LEAST_INDENTATION: Final = 2
_STOPS: Final = re.compile(
    r"(?i)\b(?:shut(?:ting)? ?down|stopp(?:ing|ed)|exiting|terminat(?:ing|ed)|clos(?:ing|ed)|cleanup)\b"
)


def is_tolerated(candidate: Candidate) -> bool:
    """Whether its own program shows that it goes on after `candidate`.

    So it does after a warning, after an exception that it gets over, and in a step or a run of
    tests that passed.
    """
    has_passed = candidate.in_passed_step or candidate.in_passed_run
    if has_passed or candidate.standing in _GOT_OVER:
        return True
    if candidate.standing is ExceptionStanding.FATAL:
        return False
    is_warning = _WARNING.match(candidate.clean.message) is not None
    return is_warning or candidate.clean.level in TOLERATED_LEVELS


def is_tried_again(above: str, line: str, below: str) -> bool:
    """Whether a try that ended with `line` was not the last one, by it and the lines next to it."""
    for text in (line, below):
        if _GIVEN_UP.search(text) is not None:
            return False
    numbered = [_NUMBERED.search(text) for text in (above, line, below)]
    tries = [(int(each["now"]), int(each["most"])) for each in numbered if each is not None]
    if tries:
        return all(now < most for now, most in tries)
    # What is announced above is the try that ended here.
    return any(_NOTICE.search(text) is not None for text in (line, below))


def _is_logged(before: Sequence[str]) -> bool:
    """Whether a logger printed the traceback whose lines end `before`."""
    cleaned = [clean_line(line.encode()) for line in before]
    headers = [index for index, clean in enumerate(cleaned) if _HEADER in clean.message]
    return bool(headers) and is_logged(cleaned, headers[-1])


def follows_only(first: Candidate, following: Sequence[str], explained: Container[int]) -> bool:
    """Whether all of `following`, the lines after `first`, are known to follow from it.

    explained: numbers of lines that a rule knows as a consequence or a mark of the CI system.
    """
    others = 0
    in_traceback = False
    # Where the words of a client are wrapped, or explained, the lines below are indented.
    above: str | None = first.clean.message
    for number, line in enumerate(following, first.line.number + 1):
        clean = clean_line(line.encode())
        message = clean.message
        if not any(letter.isalnum() for letter in message):
            continue
        if _HEADER in message:
            in_traceback = True
            continue
        if in_traceback:
            # The exception ends it: that of another failure is a candidate of its own.
            in_traceback = message.startswith(" ")
            continue
        # A client lists its reasons below a line that ends so: `Caused by:`. A verdict is its own.
        depths = [len(text) - len(text.lstrip()) for text in (above or "", message)]
        is_own = above is None or _JUDGED.search(message) or _EXPECTED.search(message)
        if not is_own and depths[1] >= depths[0] + _LEAST_INDENTATION:
            continue
        if number in explained or _is_consequence(first, clean):
            above = message if message.rstrip().endswith(":") else None
            continue
        above = None
        others += 1
        if first.standing is not ExceptionStanding.FATAL or others > _LAST_LINES:
            return False
    return True


def _is_consequence(first: Candidate, line: CleanLine) -> bool:
    message = line.message
    # A tool indents all that another one has written.
    if first.clean.message.startswith(" "):
        message = message.lstrip()
    if _FOLLOWS.match(message) or _GIVEN_UP.search(message):
        return True
    if line.level in TOLERATED_LEVELS and _STOPS.search(message):
        return True
    return first.rule.class_ is FailureClass.GPU_HARDWARE and _GPU.search(message) is not None


def went_on(first: Candidate, candidates: Sequence[Candidate], lines: Sequence[str]) -> bool:
    """Whether more than 15 lines follow `first`, without tracebacks and what a rule names.

    lines: all of its log. Of an exception by which its program says that it ends, False: what
    follows is its stop.
    """
    if first.standing is ExceptionStanding.FATAL:
        return False
    named = {each.line.number for each in candidates}
    count = 0
    for number, line in enumerate(lines[first.line.number :], first.line.number + 1):
        # Most lines of a traceback have no prefix: cheaper than to clean them.
        if number in named or not line or line.startswith("  "):
            continue
        message = clean_line(line.encode()).message
        count += bool(message) and not message.startswith(("  ", _HEADER))
        if count > _LAST_LINES:
            return True
    return False


def can_end(candidate: Candidate, known: KnownHosts) -> bool:
    """Whether `candidate` can have ended its program by something that no other run cures."""
    rule = candidate.rule
    text = candidate.clean.text
    if is_tolerated(candidate):
        return False
    # A reset connection beside the outage that explains it.
    is_proven = lies_outside(rule, text, (), known)
    if is_proven and retry_policy(rule.class_, text) is RetryPolicy.YES:
        return False
    if candidate.standing is not None:
        return candidate.standing in _ENDING and rule.role is not Role.SYMPTOM
    return rule.role in {Role.CAUSE, Role.FAILURE}


def is_of_same_fault(candidate: Candidate, first: Candidate, message: Container[int]) -> bool:
    """Whether `candidate` is another line of the message of `first`, or follows from its fault.

    message: the numbers of the lines around `first` that one client may have written.
    """
    # Every later call of CUDA fails on a lost GPU.
    if first.rule.class_ is FailureClass.GPU_HARDWARE and not was_before(candidate, first):
        return candidate.rule.class_ in _OF_GPU or _GPU.search(candidate.clean.text) is not None
    if candidate.log != first.log:
        return False
    one, other = candidate.clean.message, first.clean.message
    # The tool that called the client says that it has no download.
    is_of_network = {first.rule.class_, candidate.rule.class_} <= OF_NETWORK
    if is_of_network and not was_before(candidate, first) and _FOLLOWS.match(one):
        return True
    if candidate.line.number not in message:
        return False
    # A client repeats its name in each line, or indents what explains the first one.
    is_part = one.split()[:1] == other.split()[:1] or " " in {one[:1], other[:1]}
    is_near = 0 < candidate.line.number - first.line.number <= _LINES_OF_MESSAGE
    return is_part or (is_near and _FOLLOWS.match(one) is not None)


def was_before(candidate: Candidate, first: Candidate) -> bool:
    """Whether its script met `candidate` on its way to `first`."""
    return candidate.log == first.log and candidate.line.number < first.line.number


# The innermost of a chain in one line ends it: `InductorError: OSError: [Errno 28] …`.
_EXCEPTION: Final = re.compile(r"\b[\w.]*(?:Error|Exception): (?=\S)")
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
    # The last step that failed; what stands in an earlier one is not what the job ended by.
    failed = [step for step in story.steps if step.failed and step.has_last_words]
    step = failed[-1] if failed else None
    end = _end_of_command(ranked[0], step, log)
    first = _last_of_series(ranked[0], story.candidates, end)
    # The lines above and below, and those of them that one message may have with `first`.
    history = _texts(log.before(first.line, _LINES_OF_CHAIN))
    before = history[-_LINES_OF_TRACEBACK:]
    most = min(_MOST_LINES_AFTER + 1, max(0, end - first.line.number))
    after = _texts(log.after(first.line, most)[1:])
    above, below = _of_message(before[::-1]), _of_message(after)
    message = range(first.line.number - len(above), first.line.number + len(below) + 1)
    begin, asked = _asked_above(first, history)
    around = (*above, *below, *_chain_of(first, story.candidates), *asked)
    # Exceptions of the network within the chain that ends with `first` are of one fault.
    chain = range(first.line.number - len(history) + begin, first.line.number)
    others = [
        each
        for each in ranked
        if each.line != first.line and (each.log != first.log or each.line.number <= end)
    ]
    unlike = [
        each
        for each in others
        if each.log != first.log
        or first.standing is None
        or each.line.number not in chain
        or not {each.rule.class_, first.rule.class_} <= OF_NETWORK
    ]
    blocker = next((each for each in unlike if _blocks(each, first, message, logs)), None)
    last, until, rest = _raised_anew(first, story.candidates, end), before, after
    if last is not first:
        until = _texts(log.before(last.line, _LINES_OF_TRACEBACK))
        most = min(_MOST_LINES_AFTER + 1, max(0, end - last.line.number))
        rest = _texts(log.after(last.line, most)[1:])
    # Other lines of the log that tell of the same outage, or of another one.
    proven = {
        each.line.number
        for each in others
        if each.log == first.log and lies_outside(each.rule, each.clean.text, (), known)
    }
    is_last = step is None or step.holds(first.line.number)
    is_final = (
        is_last
        and blocker is None
        and not any(each.has_failed_test for each in stories)
        and _ends(last, until, rest, story.explained | proven)
        and not _has_another_status(first, step, after, status)
    )
    is_outside = lies_outside(first.rule, first.clean.text, around, known)
    return Ending(is_final=is_final, is_outside=is_outside, blocker=blocker)


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


def _raised_anew(first: Candidate, candidates: Sequence[Candidate], end: int) -> Candidate:
    """The last exception up to `end` that quotes the one of `first`: so each process of a server ends by the one below.

    `first` itself if its program did not end by it, or nobody quotes it.
    """
    named = list(_EXCEPTION.finditer(first.clean.message))
    if first.standing is not ExceptionStanding.FATAL or not named:
        return first
    words = first.clean.message[named[-1].start() :]
    quoting = [
        each
        for each in candidates
        if first.line.number < each.line.number <= end
        and each.standing in {*_ENDING, ExceptionStanding.CONSEQUENCE}
        and words in each.clean.message
    ]
    return max((first, *quoting), key=lambda each: each.line.number)


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


def _asked_above(first: Candidate, before: Sequence[str]) -> tuple[int, list[str]]:
    """Where the message begins, and the lines above that tell what was asked for, or of the same fault.

    curl and urllib name no host.
    """
    start = len(before)
    linked: list[str] = []
    if first.standing is not None:
        # The first header of the tracebacks that the lines end with.
        headers = [index for index, line in enumerate(before) if "Traceback (most recent" in line]
        start = headers.pop() if headers else 0
        while headers and any(map(_CHAINED.search, before[max(0, start - 3) : start])):
            start = headers.pop()
        start, linked = _linked(before, start)
    for line in reversed(before[max(0, start - _LINES_AROUND) : start]):
        text = clean_line(line.encode()).message
        if _ASKED.search(text) is not None:
            return start, [text, *linked]
        # Another line may be that of another command, which has asked another host.
        if text and _OF_TRANSFER.match(text) is None:
            break
    return start, linked


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


def _texts(lines: Iterable[TextLine]) -> list[str]:
    return [line.content.decode(errors="replace") for line in lines]


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
    # A program of the job may say before a cause that a figure or a result is wrong.
    if is_tolerated(first):
        return False
    texts = [clean_line(line.encode()).message for line in before]
    if any(map(_JUDGED.search, texts)):
        return False
    if first.standing is ExceptionStanding.CAUSE and _is_logged(before):
        return False
    above = texts[-1] if texts else ""
    below = clean_line(after[0].encode()).message if after else ""
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
    matching = (statuses for words, statuses in _OWN_STATUSES if words.match(message) is not None)
    return next(matching, frozenset())
