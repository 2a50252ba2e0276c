# SPDX-License-Identifier: Apache-2.0
"""Pure. What a log holds after a cause: whether its program ended by it, or went on.

The rank of a line says little of when it was written: a server may log a full disk, do without its
cache, and die an hour later of a mistake in the change. A retry for the disk would hide that. So
each line after a cause must be known to follow from it; one line of other words leaves doubt.
"""

import re
from collections.abc import Container, Iterable, Sequence
from typing import Final

from ci_doctor.diagnosis.candidate import Candidate
from ci_doctor.diagnosis.exit_status import retry_policy
from ci_doctor.diagnosis.lines.clean_line import CleanLine, clean_line
from ci_doctor.diagnosis.log_rule import Role
from ci_doctor.diagnosis.outside import OF_NETWORK, KnownHosts, lies_outside
from ci_doctor.diagnosis.standing import TOLERATED_LEVELS, ExceptionStanding
from ci_doctor.model.cause import FailureClass, RetryPolicy

# A program that ends by an exception says little more; so many lines of its stop are shown too.
_LAST_LINES: Final = 15
# A client says in so many lines what it gives up, and what it lacks now.
_LINES_OF_MESSAGE: Final = 2
_OF_WORK: Final = frozenset({"TRACE", "DEBUG", "INFO", "NOTICE"})
_HEADER: Final = "Traceback (most recent call last):"
_OF_GPU: Final = frozenset({FailureClass.CUDA_ERROR, FailureClass.RENDEZVOUS})
_GPU: Final = re.compile(r"(?i)\b(?:cuda|gpu|nccl|nvml|device|engine ?core|worker)")
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
    if candidate.in_passed_step or candidate.in_passed_run:
        return True
    if candidate.standing in {ExceptionStanding.TOLERATED, ExceptionStanding.ANSWERED}:
        return True
    if candidate.standing is ExceptionStanding.FATAL:
        return False
    if candidate.clean.level in TOLERATED_LEVELS:
        return True
    return _WARNING.match(candidate.clean.message) is not None


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


def is_logged(before: Sequence[str]) -> bool:
    """Whether a logger printed the traceback whose lines end `before`, with a line above it."""
    for index in reversed(range(len(before))):
        clean = clean_line(before[index].encode())
        if _HEADER in clean.message:
            above = clean_line(before[index - 1].encode()) if index else None
            # What is printed with an exception has a higher level than the work before it.
            is_record = above is not None and above.level not in {None, *_OF_WORK}
            return clean.level is not None or is_record
    return False


def is_judged(before: Iterable[str]) -> bool:
    """Whether a program of the job says in the lines `before` a cause that a figure or a result is wrong."""
    return any(_JUDGED.search(clean_line(line.encode()).message) for line in before)


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
        # A client lists its reasons below a line that ends so: `Caused by:`.
        if above is not None and _is_below(above, message):
            continue
        if number in explained or _is_consequence(first, clean):
            above = message if message.rstrip().endswith(":") else None
            continue
        above = None
        others += 1
        if first.standing is not ExceptionStanding.FATAL or others > _LAST_LINES:
            return False
    return True


def _is_below(above: str, message: str) -> bool:
    """Whether `message` is indented more than the line `above`, and no verdict of its own."""
    if _JUDGED.search(message) or _EXPECTED.search(message):
        return False
    return _indentation(message) >= _indentation(above) + _LEAST_INDENTATION


def _indentation(text: str) -> int:
    return len(text) - len(text.lstrip())


def _is_consequence(first: Candidate, line: CleanLine) -> bool:
    message = line.message
    # A tool indents all that another one has written.
    if first.clean.message.startswith(" "):
        message = message.lstrip()
    if _FOLLOWS.match(message) or _GIVEN_UP.search(message):
        return True
    if line.level in TOLERATED_LEVELS and _STOPS.search(message):
        return True
    # Whatever runs on a lost GPU complains in words of its own.
    return first.rule.class_ is FailureClass.GPU_HARDWARE and _JUDGED.search(message) is None


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
        if number in named or not _is_ordinary(line):
            continue
        count += 1
        if count > _LAST_LINES:
            return True
    return False


def _is_ordinary(line: str) -> bool:
    """Whether `line` has words, and is no part of a traceback."""
    # Most lines of a traceback have no prefix: cheaper than to clean them.
    if not line or line.startswith("  "):
        return False
    message = clean_line(line.encode()).message
    return bool(message) and not message.startswith(("  ", _HEADER))


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
    return is_part or _is_next(candidate, first)


def was_before(candidate: Candidate, first: Candidate) -> bool:
    """Whether its script met `candidate` on its way to `first`."""
    return candidate.log == first.log and candidate.line.number < first.line.number


def _is_next(candidate: Candidate, first: Candidate) -> bool:
    distance = candidate.line.number - first.line.number
    is_near = 0 < distance <= _LINES_OF_MESSAGE
    return is_near and _FOLLOWS.match(candidate.clean.message) is not None
