# SPDX-License-Identifier: Apache-2.0
"""Reads one log for its candidates: hits, the exceptions of tracebacks, the steps they stand in."""

import re
from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from typing import Final

from msgspec import Struct, structs

from ci_doctor.diagnosis.log_rules import LAST_OUTPUT, NAMEABLE, LogRule, Mark, Role, RuleSet
from ci_doctor.diagnosis.log_text import CleanLine, LogText, TextLine, clean_line
from ci_doctor.diagnosis.rank import Candidate
from ci_doctor.diagnosis.scan import Hit, Scan, named_lines, offsets_of, scan, strongest_hits
from ci_doctor.diagnosis.tracebacks import (
    TOLERATED_LEVELS,
    ExceptionStanding,
    exception_lines,
    rule_of_exception,
)
from ci_doctor.model.cause import FailureClass

# In most tools' summaries: `3 passed`, `0 errors`, `done`, `bye`.
_SUCCESS: Final = re.compile(
    r"(?i)\b(?:success(?:ful|fully)?|succeeded|passed|pass|ok|done|completed?|finished|clean"
    r"|up[- ]to[- ]date|no (?:errors?|problems?|issues?|failures?)|bye|shut(?:ting)? ?down"
    r"|(?:errors?|failures?|failed)[:=] *0|0 (?:errors?|failures?|failed|problems?))\b"
)
_NOTHING_FAILED: Final = re.compile(
    r"(?i)\b(?:no|0|zero) (?:errors?|problems?|issues?|failures?|failed)\b"
    r"|\b(?:errors?|failures?|failed|fail)[:= ]+0\b"
)
_FAILURE: Final = re.compile(
    r"(?i)error|fail|exception|traceback|abort|fatal|killed|panic|denied|refused|cannot|can't"
    r"|could ?n[o']t|unable|not found|no such|invalid|undefined|unexpected|exit(?:ed)? (?:code|status"
    r"|with)(?: code| status)?:? [1-9]|timed? ?out|✗|✖|❌"
)
_STOP: Final = re.compile(
    r"(?i)\b(?:shut(?:ting)? ?down|shutdown|(?:stopping|finished|terminating) (?:server|parent|worker|reloader)"
    r"|worker exiting|handling signal|closing (?:connections|sockets))\b"
)
_LINES: Final = 12


def quiet_lines(texts: Sequence[str]) -> int:
    """How many of the last lines with words speak of no failure.

    Those of a server that stops in order do not count: it stops so after a failure as well.
    """
    count = 0
    for text in reversed(texts):
        if not any(letter.isalpha() for letter in text) or _STOP.search(text) is not None:
            continue
        if speaks_of_failure(text):
            break
        count += 1
    return count


def speaks_of_failure(text: str) -> bool:
    """Whether a line has a word of failure, and no count of nothing beside it."""
    return _FAILURE.search(_NOTHING_FAILED.sub("", text)) is not None


def sounds_like_success(texts: Iterable[str]) -> bool:
    """Whether one of the last 12 lines with words speaks of success, and none of a failure."""
    last = [text for text in texts if any(letter.isalpha() for letter in text)][-_LINES:]
    is_success = False
    for text in last:
        if speaks_of_failure(text):
            return False
        if _SUCCESS.search(text) is not None:
            is_success = True
    return is_success


# After its last words about success a job prints a little: clean-up, coverage, a list of skips.
_LINES_OF_END = 60
_MARKS = frozenset({Role.SUCCESS, Role.RUN_PASSED, Role.RUN_FAILED, Role.JOB_END, Role.JOB_PASSED})

# A server that cannot go on says so, and then closes what it has opened.
_LINES_OF_STOP = 15
# A worker that fails is not the last to say so: its engine and the server print tracebacks of their own.
_LINES_OF_ENGINE = 200


def ended_well(
    hits: Sequence[Hit], last_lines: Sequence[TextLine], fatal: AbstractSet[int] = frozenset()
) -> bool:
    """Whether one of the last 60 lines reports success or the job's end, and no step failed.

    hits: of the log, in the order of its lines. last_lines: at least the last line. It is False if
    a run of tests failed after the last success. What `passed_job` gives outweighs failed steps.
    fatal: numbers of the lines of exceptions that ended a program, by its own words.
    """
    last_mark = _last(hits, _MARKS)
    if last_mark is None or not last_lines:
        return False
    if last_mark.line.number <= last_lines[-1].number - _LINES_OF_END:
        return False
    role = last_mark.rule.role
    # A runner passed, and what came after it had the last word.
    is_outdone = role in {Role.SUCCESS, Role.RUN_PASSED} and _ends_in_failure(hits, last_lines)
    if role is Role.RUN_FAILED or is_outdone:
        return False
    # What ends one step may begin the last one, of which nothing tells how it went.
    begin = _last(hits, {Role.BEGIN})
    last_line = last_mark.line.number
    if role is Role.SUCCESS and begin is not None and begin.line.number == last_line:
        return False
    # A line that names a cause right before the stop, at no level at which programs go on.
    near = [hit for hit in hits if last_line - _LINES_OF_STOP <= hit.line.number < last_line]
    has_cause = any(
        hit.rule.role is Role.CAUSE and hit.clean.level not in TOLERATED_LEVELS for hit in near
    )
    # A stop from outside ends engines too, but not by a fatal exception.
    is_engine = any(last_line - _LINES_OF_ENGINE <= number < last_line for number in fatal)
    if Mark.STOP in last_mark.fields and (has_cause or is_engine):
        return False
    return passed_job(hits) is not None or _last(hits, {Role.END}) is None


def _ends_in_failure(hits: Sequence[Hit], last_lines: Sequence[TextLine]) -> bool:
    """Whether the last line with words reports a failure: by a rule, else by its words."""
    last = next((line for line in reversed(last_lines) if line.content.strip()), None)
    if last is None:
        return False
    at_end = [hit for hit in hits if hit.line.number == last.number]
    if not at_end:
        clean = clean_line(last.content)
        return clean.level not in TOLERATED_LEVELS and speaks_of_failure(clean.message)
    return any(hit.rule.role in NAMEABLE for hit in at_end) and not any(
        hit.rule.role is Role.NOISE or hit.clean.level in TOLERATED_LEVELS for hit in at_end
    )


def passed_job(hits: Sequence[Hit]) -> Hit | None:
    """The line by which the CI system reports that the whole job passed; None without one.

    A failed step above that line does not count: a test may print what a failed step looks like.
    With a failed step below it the result is None: a program of the job may print that line too.
    """
    last = _last(hits, {Role.JOB_PASSED, Role.END})
    if last is None or last.rule.role is Role.END:
        return None
    return last


def _last(hits: Sequence[Hit], roles: AbstractSet[Role]) -> Hit | None:
    for hit in reversed(hits):
        if hit.rule.role in roles:
            return hit
    return None


def last_run_failed(hits: Sequence[Hit]) -> bool:
    """Whether the last run of tests in the log, of those that report their result, has failed."""
    last = _last(hits, {Role.RUN_FAILED, Role.RUN_PASSED})
    return last is not None and last.rule.role is Role.RUN_FAILED


# An action that fails prints little after the error that it reports.
_LINES_OF_ERROR = 3
# The family of rules by which tools say that they ended well: a step may fail after that.
_TOOLS = "outcome"
_ENDS = frozenset({Role.END, Role.SUCCESS})


class JobStep(Struct, frozen=True):
    """The lines from `first` to that of `end`, 1-based and inclusive; `end` says how it ended.

    status: of its command, None if `end` does not tell.
    """

    first: int
    end: TextLine
    failed: bool
    has_last_words: bool = False
    status: int | None = None

    def holds(self, line: int) -> bool:
        """Whether the step has this line."""
        return self.first <= line <= self.end.number


def ended_steps(hits: Sequence[Hit]) -> list[JobStep]:
    """The steps whose end is known, in order; none if the log has no such marks.

    A step begins at the last begin mark before its end, or at the last one with the same command
    where the end names its command (programs print begin marks of their own). Without a begin mark
    it begins after the step before it.

    If the job passed (`passed_job`), all of it is one step that ended well. Two named groups of a
    rule say more of an end. `job`: the whole job failed, and counts as a step if none has failed
    before. `annotation`: the step reports an error and goes on. Of a begin, `after` says that the
    commands of the job are over: what stands there did not fail it.
    """
    passed = passed_job(hits)
    if passed is not None:
        return [JobStep(1, passed.line, failed=False)]
    steps: list[JobStep] = []
    begins: list[Hit] = []
    for index, hit in enumerate(hits):
        rule = hit.rule
        if rule.role is Role.BEGIN:
            begins.append(hit)
        if not _ends_a_step(hit, rule, steps) or _step_went_on(hits[index:]):
            continue
        after = [begin for begin in begins if Mark.AFTER in begin.fields]
        own = [begin for begin in begins if Mark.AFTER not in begin.fields]
        begin = _begin_of(hit, own) or (steps[-1].end.number + 1 if steps else 1)
        # Another rule took this line for the end of the step.
        if begin > hit.line.number:
            continue
        failed = rule.role is Role.END
        if after and after[0].line.number > begin:
            # The step, what comes after it, and the line itself: the CI system may name a cause
            # there, such as a machine that is gone.
            steps += [
                JobStep(begin, after[0].line, failed, has_last_words=failed),
                JobStep(after[0].line.number, after[-1].line, failed=False),
                JobStep(hit.line.number, hit.line, failed),
            ]
        else:
            is_over = Mark.ANNOTATION not in hit.fields
            status = hit.fields.get(Mark.STATUS, "")
            steps.append(
                JobStep(
                    begin,
                    hit.line,
                    failed,
                    has_last_words=failed and is_over,
                    status=int(status) if status.isdecimal() else None,
                )
            )
        # What ends one step may begin the next one.
        begins = [begin for begin in begins if begin.line == hit.line]
    return steps


def _ends_a_step(hit: Hit, rule: LogRule, earlier: Sequence[JobStep]) -> bool:
    if rule.role not in _ENDS or rule.family == _TOOLS:
        return False
    if Mark.JOB not in hit.fields:
        return True
    return not any(step.failed for step in earlier)


def _step_went_on(following: Sequence[Hit]) -> bool:
    """Whether the first of `following` is an error that its step reports, and gets over.

    An action that fails says so last. One that tries again has more to say, and the next step
    begins as if nothing had happened.
    """
    hit = following[0]
    if Mark.ANNOTATION not in hit.fields:
        return False
    for mark in following[1:]:
        role = mark.rule.role
        if role is Role.END:
            return False
        if role is Role.BEGIN and mark.line != hit.line:
            return mark.line.number - hit.line.number > _LINES_OF_ERROR
    return False


def _begin_of(end: Hit, begins: Sequence[Hit]) -> int | None:
    """The line at which the step that `end` ends begins; None if no mark tells."""
    command = end.fields.get(Mark.COMMAND)
    earlier = [begin for begin in begins if begin.line != end.line]
    for begin in reversed(earlier):
        if command is not None and begin.fields.get(Mark.COMMAND) == command:
            return begin.line.number
    return earlier[-1].line.number if earlier else None


class PassedRun(Struct, frozen=True, kw_only=True):
    """The lines from `first` to `last`, 1-based and inclusive.

    family: whose hits it takes back; None for all. A run whose begin is not marked vouches for its
    own runner's hits alone: other steps may stand before it.
    """

    first: int
    last: int
    family: str | None


def passed_runs(hits: Sequence[Hit]) -> list[PassedRun]:
    """The runs that passed, from their marks in the order of the log."""
    begun: dict[str, list[Hit]] = defaultdict(list)
    ended: dict[str, int] = defaultdict(int)  # where the last run of the family ended
    passed = []
    for hit in hits:
        rule = hit.rule
        family, last = begun[rule.family], hit.line.number
        if rule.role is Role.RUN_BEGIN:
            family.append(hit)
        elif rule.role is Role.RUN_FAILED:
            del family[-1:]
            ended[rule.family] = last
        elif rule.role is Role.RUN_PASSED:
            # The last begin of the same name; an end without a name ends what has none either.
            same = [index for index, begin in enumerate(family) if begin.fields == hit.fields]
            if same:
                run = PassedRun(first=family[same[-1]].line.number, last=last, family=None)
                del family[same[-1] :]
            elif hit.fields:
                continue  # a test whose begin is not known
            else:
                run = PassedRun(first=ended[rule.family] + 1, last=last, family=rule.family)
            passed.append(run)
            ended[rule.family] = last
    return passed


def outside_of_runs(hits: Sequence[Hit], runs: Sequence[PassedRun]) -> list[Hit]:
    """`hits` without those inside a run that passed and whose begin is marked.

    A test may print what the end of a failed step looks like. The marks of the run itself stay.
    """
    whole = [run for run in runs if run.family is None]
    return [hit for hit in hits if not any(run.first < hit.line.number < run.last for run in whole)]


# A tool that fails says why at its end; what stands further up is rather about something else.
LAST_LINES = 60


# Above it nothing is of this command.
_PROMPT: Final = re.compile(r"(?:~~~ |\$ |\+{1,3} )\S|##\[(?:group|endgroup)\]|shell: \S")


def last_output(
    lines: Sequence[TextLine], skipped: Container[int]
) -> tuple[TextLine, CleanLine] | None:
    """The last of `lines` with words; None if there is none.

    skipped: offsets of lines that only repeat that something failed. A traceback that ends with
    one of them says no more than it.
    """
    has_skipped = False
    for line in reversed(lines):
        if line.offset in skipped:
            has_skipped = True
            continue
        clean = clean_line(line.content)
        # It may stand behind what was printed without a newline.
        is_header = has_skipped and "Traceback (most recent call last)" in clean.message
        if is_header or _PROMPT.match(clean.message) is not None:
            return None
        if has_skipped and clean.message.startswith("  "):
            continue
        if any(letter.isalnum() for letter in clean.message):
            return line, clean
    return None


# Where a log says how it went.
_LAST_LINES = 30
_FRAME: Final = re.compile(r'\s*File ".*", line \d+')
# What lines say of these roles follows from a failure that stands elsewhere.
_EXPLAINED = frozenset({Role.NOISE, Role.SYMPTOM, Role.END, Role.JOB_END, Role.TRACEBACK})


class LogStory(Struct, frozen=True, kw_only=True):
    """What one log tells: the candidates in the order of their lines, and the steps of its job.

    has_ended_well: its end reports success, and no step failed. has_failed_test: a test failed, or
    a run of tests, outside of what passed. explained: numbers of lines that follow from a failure.
    """

    candidates: tuple[Candidate, ...]
    steps: tuple[JobStep, ...]
    has_ended_well: bool = False
    has_failed_test: bool = False
    explained: frozenset[int] = frozenset()


def read_story(log: LogText, index: int, rules: RuleSet) -> LogStory:
    """The story of `log`, which is the `index`-th of its job."""
    scanned = scan(log, rules)
    hits = named_lines(log, scanned.hits, rules)
    result = Scan(hits=hits, counts=scanned.counts)
    runs = passed_runs(hits)
    marks = outside_of_runs(hits, runs)
    last = log.tail(_LAST_LINES)
    last_texts = [clean_line(line.content).message for line in last]
    last_line = last[-1].number if last else 0
    steps = ended_steps(marks)
    named = [*_candidates(log, result, rules), *_last_words(log, result, steps)]
    fatal = {each.line.number for each in named if each.standing is ExceptionStanding.FATAL}
    has_ended_well = ended_well(marks, last, fatal)
    quiet = quiet_lines(last_texts)
    # What is the same for all lines of the log.
    of_log = {
        "log": index,
        "log_ended_well": has_ended_well,
        "log_sounds_well": sounds_like_success(last_texts),
        "last_run_failed": last_run_failed(hits),
    }
    candidates = []
    for each in named:
        number = each.line.number
        own = [step for step in steps if step.holds(number)]
        end = max(number, own[0].end.number - 1) if own else last_line
        has_failed = any(step.failed for step in steps)
        placed = structs.replace(
            each,
            in_failed_step=any(step.failed for step in own) if has_failed else None,
            in_passed_step=any(not step.failed for step in own),
            in_passed_run=in_passed_run(runs, number, each.rule.family),
            quiet_lines=min(quiet, last_line - number),
            lines_after=last_line - number,
            lines_in_step=end - number,
            **of_log,
        )
        candidates.append(placed)
    candidates.sort(key=lambda each: each.line.offset)
    return LogStory(
        candidates=tuple(candidates),
        steps=tuple(steps),
        has_ended_well=has_ended_well,
        has_failed_test=_has_failed_test(hits, steps, runs),
        explained=frozenset(hit.line.number for hit in hits if hit.rule.role in _EXPLAINED),
    )


_OF_PYTHON: Final = frozenset({"python", "import"})
_PYTHON_RUNNERS: Final = frozenset({"pytest", "unittest"})


def in_passed_run(runs: Sequence[PassedRun], line: int, family: str) -> bool:
    """Whether a run that passed takes back a hit of `family` in this line: it was expected.

    A run whose begin is not known takes back what its own family says, and one of Python what Python says: the tests
    ran after that, and passed.
    """
    families = {None, family}
    if family in _OF_PYTHON:
        families |= _PYTHON_RUNNERS
    return any(run.first <= line <= run.last and run.family in families for run in runs)


def _has_failed_test(
    hits: Sequence[Hit], steps: Sequence[JobStep], runs: Sequence[PassedRun]
) -> bool:
    """Whether a runner reports that a test failed, and nothing around it has passed."""
    # A mark of a run may be a word of noise for other tools.
    noise = offsets_of(hits, Role.NOISE) - offsets_of(hits, Role.RUN_FAILED)
    replaced = {(hit.line.offset, identifier) for hit in hits for identifier in hit.rule.instead_of}
    for hit in hits:
        rule = hit.rule
        number = hit.line.number
        is_failure = rule.role is Role.FAILURE and rule.class_ is FailureClass.TEST_ASSERTION
        is_said = hit.line.offset not in noise and (hit.line.offset, rule.id) not in replaced
        # Maven and Gradle end with `BUILD FAILED` for whatever reason.
        is_whole = "BUILD FAIL" not in hit.clean.message
        if not ((rule.role is Role.RUN_FAILED or is_failure) and is_said and is_whole):
            continue
        has_passed = any(step.holds(number) and not step.failed for step in steps)
        if not has_passed and not in_passed_run(runs, number, rule.family):
            return True
    return False


def _candidates(log: LogText, result: Scan, rules: RuleSet) -> Iterator[Candidate]:
    """The lines that a rule matches or at which a traceback ends, without noise."""
    hits = strongest_hits(result.hits)
    points = {offset: hit.rule.points for offset, hit in hits.items()}
    headers = [hit.line for hit in result.hits if hit.rule.role is Role.TRACEBACK]
    exceptions = exception_lines(log, headers, points)
    noise = offsets_of(result.hits, Role.NOISE)
    last_repeats = {hit.rule.id: hit.line.number for hit in result.hits}
    for offset in {*hits, *exceptions} - noise:
        hit = hits.get(offset)
        candidate = None
        if hit is not None and not _is_source(hit, log):
            candidate = Candidate(
                log=0,
                line=hit.line,
                clean=hit.clean,
                rule=hit.rule,
                fields=hit.fields,
                repeats=result.counts[hit.rule.id],
                last_repeat=last_repeats[hit.rule.id],
            )
        exception = exceptions.get(offset)
        if exception is not None:
            rule = rule_of_exception(exception, candidate.rule if candidate else None, rules)
            line, clean = exception.line, exception.clean
            if rule is not None:
                candidate = structs.replace(
                    candidate or Candidate(log=0, line=line, clean=clean, rule=rule, fields={}),
                    rule=rule,
                    standing=exception.standing,
                    ends_traceback=exception.standing.explains,
                )
        if candidate is not None:
            yield candidate


def _is_source(hit: Hit, log: LogText) -> bool:
    """Whether it is a line of source code below a frame of a Python traceback."""
    if not hit.clean.message.startswith("    "):
        return False
    above = [clean_line(line.content).message for line in log.before(hit.line, 1)]
    if not above or _FRAME.match(above[0]) is None:
        return False
    own, others = (len(text) - len(text.lstrip()) for text in (hit.clean.message, above[0]))
    return own > others


def _last_words(log: LogText, result: Scan, steps: Sequence[JobStep]) -> Iterator[Candidate]:
    """What each failed command printed last."""
    skipped = offsets_of(result.hits, Role.NOISE, Role.SYMPTOM, Role.BEGIN, Role.END)
    ends = [log.before(step.end, LAST_LINES) for step in steps if step.has_last_words]
    for lines in ends:
        output = last_output(lines, skipped)
        if output is not None:
            line, clean = output
            yield Candidate(log=0, line=line, clean=clean, rule=LAST_OUTPUT, fields={})
