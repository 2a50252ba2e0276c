# SPDX-License-Identifier: Apache-2.0
"""Pure. From ranked candidates to the cause, what follows from it, and what else there is."""

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from msgspec import structs

from ci_doctor.diagnosis.log_rules import LAST_OUTPUT, LOGGED_EXCEPTION, LogRule, Role
from ci_doctor.diagnosis.log_story import LAST_LINES, LogStory, last_output, sounds_like_success
from ci_doctor.diagnosis.log_text import CleanLine, LogText, TextLine, clean_line
from ci_doctor.diagnosis.outside import judged, retry_policy
from ci_doctor.diagnosis.rank import Calibration, Candidate, features, probability
from ci_doctor.diagnosis.rules import rule_of
from ci_doctor.diagnosis.tracebacks import TOLERATED_LEVELS, ExceptionStanding
from ci_doctor.model.cause import Cause, FailureClass, LogLine, fingerprint, normal_text, title_of

_FIELD = re.compile(r"\{(\w+)\}")
# A log is anybody's text, and a reader pastes the command: no character that acts in a shell.
_HARMLESS = re.compile(r"[\w.][\w.:/+-]*", re.ASCII)


def next_command(template: str | None, fields: Mapping[str, str]) -> str | None:
    """`template` with each `{name}` replaced by the capture of that name.

    None if there is no template, or if a capture is missing or might act in a shell.
    """
    if template is None:
        return None
    for name in _FIELD.findall(template):
        if _HARMLESS.fullmatch(fields.get(name, "")) is None:
            return None
    return _FIELD.sub(lambda match: fields[match[1]], template)


# pytest's line above the report of a failed test: `____ test_a[fp8] ____`.
_PYTEST_HEADER: Final = re.compile(r"^_{3,} (?P<test>\S.{0,200}?) _{3,}$")
# unittest's line above a traceback: `FAIL: test_a (tests.test_b.C.test_a)`.
_UNITTEST_HEADER: Final = re.compile(r"^(?:FAIL|ERROR): (?P<test>\w+ \([\w.]+\))")
# googletest's line before what a test prints: `[ RUN      ] Suite.Test`.
_GOOGLETEST_HEADER: Final = re.compile(r"^\[ RUN      \] (?P<test>\S+)")
_FRAME: Final = re.compile(
    r'^ *\|? *File "(?:.*[\\/])?(?P<file>[^"\\/]+)", line \d+, in (?P<function>.+)'
)
_ASSERTION: Final = re.compile(r"^(?:E +)?(?:assert |AssertionError|Failed: )|:\d+: Failure$")
# An exception without words of its own.
_BARE: Final = re.compile(r"^(?:[\w.]+\.)?[A-Z]\w*(?:: \W*\d*\W*)?$")


def subject_of(message: str, before: Sequence[str]) -> str:
    """The test whose assertion `message` is, or the function that raised an exception without words.

    before: the messages of the lines above it, in order. Empty if the message tells enough, or
    if they do not tell.
    """
    is_assertion = _ASSERTION.search(message) is not None
    if not is_assertion and _BARE.match(message) is None:
        return ""
    headers = (_PYTEST_HEADER, _UNITTEST_HEADER, _GOOGLETEST_HEADER) if is_assertion else ()
    for text in reversed(before):
        for match in filter(None, (header.match(text) for header in headers)):
            return match["test"]
    for frame in filter(None, map(_FRAME.match, reversed(before))):
        return f"{frame['file']} {frame['function']}"
    return ""


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

    A line whose rule knows of which kind the failure is stays: it says more than a system's errno. Of a
    header that counts what is wrong, the first of that is named.
    """
    found = _first_of_list(candidate, log)
    is_list = found is not None
    if found is None and candidate.rule.class_ in _ANY_CLASS:
        found = _innermost(log.after(candidate.line, _MOST_LINES)[1:])
    if found is None:
        return candidate
    line, clean = found
    inner = structs.replace(
        candidate,
        line=line,
        clean=clean,
        fields={},
        lines_after=candidate.lines_after - (line.number - candidate.line.number),
    )
    for each in candidates:
        # A rule that knows the inner message says more than the one of the outer.
        is_there = each.log == candidate.log and each.line.offset == line.offset
        if is_there and each.rule.role is not Role.SYMPTOM and each.rule.id != LAST_OUTPUT.id:
            # What became of the exception is known by its header.
            return structs.replace(inner, rule=each.rule, fields=each.fields) if is_list else each
    return inner


# pydantic, versions 1 and 2: `field`, then `  Input should be … [type=literal_error, input_value=…`.
_COUNTED: Final = re.compile(r"\b\d+ validation errors? for (?P<about>\S+)")
_FIELD_NAME: Final = re.compile(r"^[ |]*(?P<field>[\w.\[\]-]+(?: -> [\w.\[\]-]+)*)$")
_GIVEN: Final = re.compile(
    r"input_value=(?P<value>.{1,60}), input_type=(?:str|int|float|bool|NoneType)\]$"
)
_WRONG: Final = re.compile(r"^[ |]* {2}(?P<message>\S.*?)(?: [\[(]type=[\w.]+[,;)\]].*)?$")
# PyTorch: a tab, then the parameter.
_STATE: Final = re.compile(r"Error\(s\) in loading state_dict for \w+:$")
_PARAMETER: Final = re.compile(r"^[ |]*\t(?P<message>\S.*)")
# C++ names the type, and the words below it.
_THROWN: Final = re.compile(r"terminate called after throwing an instance of '")
_WHAT: Final = re.compile(r"^ *what\(\): +(?P<message>\S.*)")
_LINES_OF_LIST: Final = 3


def _first_of_list(candidate: Candidate, log: LogText) -> tuple[TextLine, CleanLine] | None:
    """What stands below a header that only counts mistakes; None if it is none, or nothing is there."""
    message = candidate.clean.message
    for header, item in ((_COUNTED, _WRONG), (_STATE, _PARAMETER), (_THROWN, _WHAT)):
        counted = header.search(message)
        if counted is None:
            continue
        place = ""
        for line in log.after(candidate.line, _LINES_OF_LIST)[1:]:
            clean = clean_line(line.content)
            match = item.match(clean.message)
            if clean.writer != candidate.clean.writer:
                continue
            if match is not None:
                given = _GIVEN.search(clean.message) if place else None
                value = f"={given['value']}: " if given else ": " * bool(place)
                return line, structs.replace(clean, message=place + value + match["message"])
            # What is wrong says little without what it is wrong of.
            field = _FIELD_NAME.match(clean.message) if header is _COUNTED else None
            place = f"{counted['about']}.{field['field']}" if field else ""
    return None


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


_MOST = 5
# Of one rule in one log, so that few lines need a time.
_MOST_OF_RULE = 3
_WAITED: Final = frozenset({FailureClass.TIMEOUT, FailureClass.STALLED})
_WITHOUT_SAYING = frozenset({ExceptionStanding.TOLERATED, ExceptionStanding.ANSWERED})


def possible_consequences(cause: Candidate, others: Iterable[Candidate]) -> list[Candidate]:
    """Those of `others` that follow from `cause` if they were written after it.

    In the log of the cause they are those below it. In other logs time tells, see `consequences`.
    """
    counts: dict[tuple[int, str], int] = {}
    possible = []
    for each in sorted(others, key=_position):
        is_above = each.log == cause.log and each.line.offset <= cause.line.offset
        if is_above or not _is_symptom(each, cause):
            continue
        key = (each.log, each.rule.id)
        counts[key] = counts.get(key, 0) + 1
        if counts[key] <= _MOST_OF_RULE:
            possible.append(each)
    return possible


def consequences(cause: Candidate, timed: Sequence[Candidate]) -> list[Candidate]:
    """The first of `timed` that were not written before `cause`, one a rule, from cause to symptom.

    timed: possible consequences with their times, where there are any.
    """
    # What its own log says without a time comes right after it.
    unknown = math.inf if cause.at_s is None else cause.at_s
    later = []
    for each in timed:
        is_own = each.log == cause.log
        at_s = (unknown if is_own else math.inf) if each.at_s is None else each.at_s
        if is_own or cause.at_s is None or at_s >= cause.at_s:
            later.append((at_s, not is_own, *_position(each), each))
    listed: dict[str, Candidate] = {}
    for *_, each in sorted(later, key=lambda each: each[:4]):
        listed.setdefault(each.rule.id, each)
    return list(listed.values())[:_MOST]


def _is_symptom(candidate: Candidate, cause: Candidate) -> bool:
    if candidate.rule.role is Role.SYMPTOM:
        return True
    has_waited = candidate.rule.class_ in _WAITED and candidate.log != cause.log
    return has_waited and candidate.standing not in _WITHOUT_SAYING


def _position(candidate: Candidate) -> tuple[int, int]:
    return candidate.log, candidate.line.offset


_OTHERS = 5


def without_repetitions(ranked: Sequence[Candidate]) -> list[Candidate]:
    """`ranked` without those that say the same as the first.

    A copy of a log, or another start of the same service, shows no other place to look at.
    """
    if not ranked:
        return []
    first = ranked[0]
    text = normal_text(first.clean.message)
    others = [
        each
        for each in ranked[1:]
        if each.rule.id != first.rule.id or normal_text(each.clean.message) != text
    ]
    return [first, *others]


def named_cause(
    ranked: Sequence[Candidate],
    names: Sequence[str],
    calibration: Calibration,
    subject: Callable[[Candidate], str] = lambda _: "",
) -> Cause | None:
    """The first of `ranked` as the cause; None if nothing is sure enough.

    names: of the logs. subject: what a candidate is about if its line does not say so. How the job
    ended is not looked at: `is_outside` and `is_final` are False.
    """
    # What stands in a step that ended well is no cause, however sure its words are.
    if not ranked or ranked[0].in_passed_step:
        return None
    sure = probability(features(ranked), calibration.coefficients)
    if sure < calibration.least:
        return None
    first = ranked[0]
    if first.rule.id == LOGGED_EXCEPTION.id:
        sure = min(sure, _MOST_OF_LOGGED)
    cause = cause_of_line(
        first.rule, first.clean, first.fields, place_of(first, names), subject(first)
    )
    return structs.replace(cause, confidence=sure, reasons=first.reasons, fields=first.fields)


def cause_of_line(
    rule: LogRule, clean: CleanLine, fields: Mapping[str, str], place: LogLine, subject: str = ""
) -> Cause:
    """The cause that `rule` names by the line `clean` at `place`, in which it captures `fields`.

    subject: what the line is about if it does not say so itself.
    """
    return Cause(
        fingerprint=fingerprint(rule.id, fields, clean.message, subject),
        title=title_of(rule.class_),
        place=place,
        rule=rule.id,
        class_=rule.class_,
        retry=rule.retry or retry_policy(rule.class_, clean.text),
        explanation=rule.explanation,
        remedy=rule.remedy or rule_of(rule.class_).remedy or "",
        next_command=next_command(rule.next_command, fields),
    )


def other_candidates(ranked: Sequence[Candidate], names: Sequence[str]) -> tuple[LogLine, ...]:
    """The next candidates of other rules, no symptoms, one a rule."""
    others: dict[str, Candidate] = {}
    for each in ranked[1:]:
        rule = each.rule
        if rule.role is not Role.SYMPTOM and rule.id != ranked[0].rule.id:
            others.setdefault(rule.id, each)
    return tuple(place_of(each, names) for each in list(others.values())[:_OTHERS])


def place_of(candidate: Candidate, names: Sequence[str]) -> LogLine:
    """Where it stands; `names` are those of the logs."""
    clean = candidate.clean
    return LogLine(
        file=names[candidate.log],
        line=candidate.line.number,
        text=clean.text,
        message=clean.message or clean.text,
    )


# By the rule of succession (Laplace): of six labelled logs in which it ranks first, it is the cause in six.
_MOST_OF_LOGGED: Final = 7 / 8
# A status alone says that the command failed. Whether its last words say why, nobody has measured.
_MOST_OF_LAST_WORDS: Final = 0.4
_LAST_WORDS: Final = structs.replace(LAST_OUTPUT, class_=None)
# timeout(1) ends so, and 128+N is the signal N: such a command had no time for last words.
_TIMED_OUT: Final = 124
_SIGNALS: Final = 128


def failed_stories(
    stories: Sequence[LogStory], logs: Sequence[LogText], status: int
) -> list[LogStory]:
    """`stories` of `logs`, of which `status`, not 0, says that their job failed.

    It is to them as the mark of a failed step: if no log has one, all that stands behind the last
    step that ended well is the failed step. The last words count if nothing else looks like a cause.
    """
    plain = [
        structs.replace(
            story,
            has_ended_well=False,
            candidates=tuple(
                structs.replace(each, log_ended_well=False, log_sounds_well=False)
                for each in story.candidates
            ),
        )
        for story in stories
    ]
    if any(step.failed for story in stories for step in story.steps):
        return plain
    failed = [_as_failed_step(story) for story in plain]
    if not 0 < status < _SIGNALS or status == _TIMED_OUT:
        return failed
    if len(logs) > 1 and any(story.candidates for story in failed):
        return failed
    return [
        _with_last_words(story, log, index)
        for index, (story, log) in enumerate(zip(failed, logs, strict=True))
    ]


def as_sure_as_the_logs(cause: Cause | None, plain: Cause | None) -> Cause | None:
    """`cause`, which the status has helped to name; `plain` is what the logs name without it.

    Last words are no more than one possibility. Where the logs name another cause, none is final.
    """
    if cause is None:
        return None
    is_final = cause.is_final and (plain is None or plain.place == cause.place)
    confidence = cause.confidence or 0.0
    if cause.rule == _LAST_WORDS.id and cause.class_ is None:
        confidence = min(confidence, _MOST_OF_LAST_WORDS)
    cause = structs.replace(cause, confidence=confidence)
    return judged(cause, is_outside=cause.is_outside, is_final=is_final)


def _as_failed_step(story: LogStory) -> LogStory:
    """`story`, in which what no step that ended well has is the step that failed."""
    # A program may have printed that all went well: the status knows better.
    has_no_other = all(each.in_passed_step for each in story.candidates)
    candidates = []
    for each in story.candidates:
        in_failed = has_no_other or not each.in_passed_step
        candidates.append(
            structs.replace(each, in_failed_step=in_failed, in_passed_step=not in_failed)
        )
    return structs.replace(story, candidates=tuple(candidates))


def _with_last_words(story: LogStory, log: LogText, index: int) -> LogStory:
    lines = log.tail(LAST_LINES)
    calm = {each.offset for each in lines if clean_line(each.content).level in TOLERATED_LEVELS}
    symptoms = {each.line.offset for each in story.candidates if each.rule.role is Role.SYMPTOM}
    found = last_output(lines, calm | symptoms)
    if found is None:
        return story
    line, clean = found
    is_known = any(each.line.offset == line.offset for each in story.candidates)
    if is_known or sounds_like_success([clean.message]):
        return story
    candidate = Candidate(
        log=index, line=line, clean=clean, rule=_LAST_WORDS, fields={}, in_failed_step=True
    )
    return structs.replace(story, candidates=(*story.candidates, candidate))
