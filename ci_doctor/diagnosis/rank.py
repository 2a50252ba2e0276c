# SPDX-License-Identifier: Apache-2.0
"""Pure. Orders candidates: the earliest strong cause first, symptoms after all others; and how sure the first is."""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct, structs

from ci_doctor.decodable import decodable
from ci_doctor.diagnosis.log_rules import LogRule, Role
from ci_doctor.diagnosis.log_text import CleanLine, LogText, TextLine, clean_line
from ci_doctor.diagnosis.tracebacks import TOLERATED_LEVELS, ExceptionStanding
from ci_doctor.model.cause import normal_text


class Sign(StrEnum):
    """Why a line is unlikely to be the end of its script.

    next-step: the CI system shows another command below it. next-command: the shell's own trace
    does, which a script may print after a failure too. other-work: another program begins below
    it, or ends well. tolerated: its script says that it tries again, or does without.
    nothing-to-remove: a clean-up did not find what it removes. clean-up: its own command is a
    clean-up, or may fail.
    """

    NEXT_STEP = "next-step"
    NEXT_COMMAND = "next-command"
    OTHER_WORK = "other-work"
    TOLERATED = "tolerated"
    NOTHING_TO_REMOVE = "nothing-to-remove"
    CLEAN_UP = "clean-up"


class Candidate(Struct, frozen=True, kw_only=True):
    """A line named by a rule.

    log: the index of its log. in_failed_step: it stands in a step of the job that ended with a
    failure; None if no step failed. in_passed_step: it stands in a step that ended well, or in a
    job that did. ends_traceback: it is the exception of a traceback that is not explained by
    another one of its chain, and that its program did not tolerate. standing: the same in full,
    None for lines that are no exceptions. repeats: how many lines its rule matches in this log.
    last_repeat: the number of the last of them.
    at_s: seconds of its clock, on one scale for all logs; None if nothing tells. in_passed_run:
    it stands in a run of tests that passed. log_ended_well: as by `log_story.ended_well`.
    lines_after: how many lines its log has after it. log_sounds_well: the last lines of its log
    hold words of success and none of failure. quiet_lines: how many lines at the end of its log,
    and after it, speak of no failure. last_run_failed: as by `log_story.last_run_failed`.
    lines_in_step: how many lines follow it in its step, or in its log without a step. signs: that
    its script went on, as far as `examined` has looked.
    in_good_run: whether a line like it stands in the log of a good run; None without such a log.
    points, reasons: what `rank` gives it, and why, in words.
    """

    log: int
    line: TextLine
    clean: CleanLine
    rule: LogRule
    fields: dict[str, str]
    in_failed_step: bool | None = None
    in_passed_step: bool = False
    ends_traceback: bool = False
    standing: ExceptionStanding | None = None
    repeats: int = 1
    last_repeat: int = 0
    at_s: float | None = None
    in_passed_run: bool = False
    log_ended_well: bool = False
    lines_after: int = 0
    log_sounds_well: bool = False
    quiet_lines: int = 0
    last_run_failed: bool = False
    in_good_run: bool | None = None
    lines_in_step: int = 0
    signs: frozenset[Sign] = frozenset()
    points: int = 0
    reasons: tuple[str, ...] = ()


# Points for where a candidate stands.
_IN_FAILED_STEP = 25
_OUTSIDE_FAILED_STEP = -40
_IN_PASSED_RUN = -45
# A step that ends well did not fail by what stands in it, however bad that looks.
_IN_PASSED_STEP = -80
_IN_GOOD_RUN = -70
# A program that logs a line as a warning goes on.
_TOLERATED_LEVEL = -30
# Points of an exception at the end of a traceback.
_STANDING = {
    ExceptionStanding.FATAL: 20,
    ExceptionStanding.CAUSE: 15,
    ExceptionStanding.ANSWERED: 0,
    ExceptionStanding.CONSEQUENCE: -45,
    ExceptionStanding.TOLERATED: -40,
}
# Candidates that differ by less are equally strong: what follows from a cause is often said in
# stronger words than the cause itself.
_NEARLY = 10

# What a script went on from did not end the job. A sign may be wrong: a diff looks like a trace.
_SIGNS = {
    Sign.NEXT_STEP: -80,
    Sign.NEXT_COMMAND: -25,
    Sign.OTHER_WORK: -10,
    Sign.TOLERATED: -20,
    Sign.NOTHING_TO_REMOVE: -30,
    Sign.CLEAN_UP: -15,
}
# A command that lacks a file, a package or the network says so and ends. If more follows its last
# words, it did without, or tried again. A script may go on, and its step fail in spite of that.
_WENT_ON = -30
_MUCH_LINES = 15
_MUCH_LINES_OF_LOG = 300
_NEEDS = frozenset({"infra", "packages", "import", "scm-version", "lint"})


def rank(candidates: Iterable[Candidate]) -> list[Candidate]:
    """The candidates with their points, most points first; those nearly as strong as the first come by time.

    Within a log the order of its lines is the order of time. Logs come in the order of their first
    such line, and logs without times after those with.
    """
    listed = list(candidates)
    # A linter says the same many times: the last line of each step and rule counts for all.
    last = {_words(each): each for each in sorted(listed, key=lambda each: each.line.offset)}
    ranked = [_ranked(each, last[_words(each)]) for each in listed]
    near = nearly_strongest(ranked)
    begins: dict[int, float] = {}
    for candidate in near:
        at_s = math.inf if candidate.at_s is None else candidate.at_s
        begins[candidate.log] = min(at_s, begins.get(candidate.log, math.inf))
    near.sort(key=lambda each: (begins[each.log], each.log, each.line.offset))
    chosen = {id(each) for each in near}
    others = [each for each in ranked if id(each) not in chosen]
    others.sort(key=lambda each: (-each.points, each.log, each.line.offset))
    return [*near, *others]


def nearly_strongest(ranked: Iterable[Candidate]) -> list[Candidate]:
    """Those of `ranked` that are as strong as the strongest, or nearly."""
    listed = list(ranked)
    if not listed:
        return []
    strongest = max(each.points for each in listed)
    return [each for each in listed if each.points >= strongest - _NEARLY]


def _words(candidate: Candidate) -> tuple[int, int, str]:
    """The log, the last line of the step, and the rule of `candidate`."""
    return candidate.log, candidate.line.number + candidate.lines_in_step, candidate.rule.id


def _ranked(candidate: Candidate, last: Candidate) -> Candidate:
    points = candidate.rule.points
    reasons = [f"rule {candidate.rule.id}"]
    if candidate.in_failed_step:
        points += _IN_FAILED_STEP
        reasons.append("in a step that failed")
    elif candidate.in_passed_step:
        points += _IN_PASSED_STEP
        reasons.append("in a step that ended well")
    elif candidate.in_failed_step is False:
        points += _OUTSIDE_FAILED_STEP
    # What its own program shows about it: by a traceback, or by the level of a logger.
    tolerated = _TOLERATED_LEVEL if candidate.clean.level in TOLERATED_LEVELS else 0
    points += tolerated if candidate.standing is None else _STANDING[candidate.standing]
    went_on = _points_of_what_follows(candidate, last)
    points += went_on
    points += _IN_PASSED_RUN * candidate.in_passed_run
    points += _IN_GOOD_RUN * bool(candidate.in_good_run)
    said = {
        "its script went on": went_on != 0,
        "ends a traceback": candidate.ends_traceback,
        "not in the good run": candidate.in_good_run is False,
    }
    reasons += [words for words, holds in said.items() if holds]
    return structs.replace(candidate, points=points, reasons=tuple(reasons))


def _points_of_what_follows(candidate: Candidate, last: Candidate) -> int:
    """Points for what comes after it; `last` is the last one of its rule in its step."""
    signs = candidate.signs
    is_need = candidate.rule.family in _NEEDS
    # Below a test that failed stand others, which are skipped, or try again by design.
    if candidate.rule.role is Role.FAILURE and not is_need:
        signs -= {Sign.TOLERATED}
    points = sum(_SIGNS[sign] for sign in signs)
    if is_need and (last.lines_in_step > _MUCH_LINES or last.lines_after > _MUCH_LINES_OF_LOG):
        points += _WENT_ON
    return points


class Calibration(Struct, frozen=True, kw_only=True):
    """The content of `calibration.json`.

    least: below this confidence nothing is called a cause. coefficients: by feature.
    """

    least: float
    coefficients: dict[str, float]


@cache
def calibration() -> Calibration:
    """The calibration that ships with ci-doctor."""
    file = Path(__file__).with_name("calibration.json")
    return msgspec.json.decode(file.read_bytes(), type=decodable(Calibration))


# Candidates within so many lines of each other point at the same place.
_SAME_PLACE_LINES = 20
_MANY_LINES_AFTER = 100
_MANY_RIVALS = 5
_MANY_QUIET_LINES = 10
# Signs by which a script or a clean-up itself says that a failure does not matter.
_GOT_OVER = frozenset({Sign.TOLERATED, Sign.NOTHING_TO_REMOVE, Sign.CLEAN_UP})


# The shell's own last words, and what a job says of its end.
_AT_THE_VERY_END: Final = 10


def features(ranked: Sequence[Candidate]) -> dict[str, float]:
    """What the confidence rests on, by name; `ranked` is not empty.

    points: of the first candidate, divided by 100. lead: how many more it has than the best one at
    another place, divided by 100, at most 1. lines_after: how many lines follow, divided by 100, at
    most 1. lines_after_unmarked: the same if no step is marked as failed, else 0. lines_in_step: the
    same to the end of its step. rivals: how many candidates at other places are nearly as strong,
    divided by 5, at most 1. quiet_end: how many lines at the end of a log without a failed step speak
    of no failure, divided by 10, at most 1. The others are 0 or 1.
    """
    candidate = ranked[0]
    step = candidate.in_failed_step
    # A line that only speaks of an error, in words that any program may use.
    is_weak = candidate.rule.role is Role.ERROR and not candidate.ends_traceback
    lines_after = min(1.0, candidate.lines_after / _MANY_LINES_AFTER)
    # Behind the last line of its rule.
    further_lines = candidate.lines_after - (candidate.last_repeat - candidate.line.number)
    quiet_end = min(1.0, candidate.quiet_lines / _MANY_QUIET_LINES) if step is None else 0.0
    return {
        "constant": 1.0,
        "points": candidate.points / 100,
        "lead": _lead(ranked),
        "rivals": _rivals(ranked),
        "cause": float(candidate.rule.role is Role.CAUSE),
        "failure": float(candidate.rule.role is Role.FAILURE),
        "symptom": float(candidate.rule.role is Role.SYMPTOM),
        "ends_traceback": float(candidate.ends_traceback),
        "in_failed_step": float(step is True),
        "no_step_failed": float(step is None),
        # Said many times and got over; not one by which the log ends.
        "repeated": float(candidate.repeats > 10 and further_lines > _AT_THE_VERY_END),
        "weak_unmarked": float(is_weak and step is None),
        "lines_after": lines_after,
        # A program that went on and on after an error has recovered from it.
        "lines_after_unmarked": lines_after if step is None else 0.0,
        "lines_in_step": min(1.0, candidate.lines_in_step / _MANY_LINES_AFTER),
        "next_step": float(Sign.NEXT_STEP in candidate.signs),
        "next_command": float(Sign.NEXT_COMMAND in candidate.signs),
        "other_work": float(Sign.OTHER_WORK in candidate.signs),
        "got_over": float(not candidate.signs.isdisjoint(_GOT_OVER)),
        "in_passed_run": float(candidate.in_passed_run),
        "log_ended_well": float(candidate.log_ended_well),
        "last_run_failed": float(candidate.last_run_failed),
        "quiet_end": quiet_end,
        "last_line_quiet": float(quiet_end > 0),
        "log_sounds_well": float(candidate.log_sounds_well),
        "tolerated": float(candidate.standing is ExceptionStanding.TOLERATED),
    }


def _lead(ranked: Sequence[Candidate]) -> float:
    first = ranked[0]
    for other in ranked[1:]:
        if not _is_same_place(first, other):
            return min(1.0, (first.points - other.points) / 100)
    return 1.0


def _rivals(ranked: Sequence[Candidate]) -> float:
    """How many others than the first are nearly as strong, and stand elsewhere."""
    near = nearly_strongest(ranked)
    rivals = sum(not _is_same_place(ranked[0], other) for other in near)
    return min(1.0, rivals / _MANY_RIVALS)


def _is_same_place(one: Candidate, other: Candidate) -> bool:
    if one.log != other.log:
        return False
    distance = abs(one.line.number - other.line.number)
    return distance <= _SAME_PLACE_LINES


def probability(values: Mapping[str, float], coefficients: Mapping[str, float]) -> float:
    """The logistic function of the sum of `values` by their `coefficients`, 0 to 1."""
    total = 0.0
    for name, value in values.items():
        total += value * coefficients.get(name, 0.0)
    return 1 / (1 + math.exp(-total))


# How many lines after a line, and before it, are looked at.
LINES_AFTER: Final = 150
LINES_BEFORE: Final = 4
# What a program or a script says of a failure that it gets over stands right below it.
_NEAR: Final = 3


# A section of Buildkite, and what `shown_text` makes look like one.
_STEP: Final = re.compile(r"~~~ \S")
# GitLab's and Buildkite's prompt. Without its colour it may be anything: R prints a list like that.
_RAW_PROMPT: Final = re.compile(rb"\x1b\[(?:32;1|90)m\$(?:\x1b\[0m)? \S")
# A group that a command of Buildkite opens. Elsewhere a diff and Go's tests have such lines.
_GROUP: Final = re.compile(r"(?:---|\+\+\+) (?!FAIL|PASS|SKIP|[ab]/)\S")
_EMOJI_GROUP: Final = re.compile(r"(?:---|\+\+\+) :[\w+-]+:")
# What a script does once it has failed may have a group too.
_LAST_GROUP: Final = re.compile(
    r"(?i)\b(?:clean|tear|upload|artifact|logs?\b|stop|shut|post|collect|dump|summary|finish|exit)"
)
# A trace of `set -x`, a step of Jenkins.
_COMMAND: Final = re.compile(r"\++ (?=[\w./$(\"'\[-])(?P<words>.+)|\[Pipeline\] (?:sh|bat)$")
_PROMPT: Final = re.compile(r"(?:~~~ )?(?:\++|\$) (?P<words>.+)")
_DIFF: Final = ("-", "@@")
# The Buildkite agent's stamp, and how far into a line a prompt may begin.
_BUILDKITE: Final = b"\x1b_bk;t="
_STAMP_BYTES: Final = 80
# These follow a failure as well: the script ends, tidies up, or tells what has happened.
_AT_THE_END: Final = re.compile(
    r"(?:sudo )?(?:exit|return|set|trap|true|false|:|\[+|test|echo|printf|date|wait|cd|popd|cat|ls"
    r"|local|rm|rmdir|p?kill|killall|umount|cp|mv|tar|gzip|curl|df|ps|free|sleep|chown|chmod|find"
    r"|tail|head|\w+=\S*$|buildkite-agent|docker (?:rm|rmi|stop|kill|logs|ps|inspect|volume"
    r"|network|system)|docker[- ]compose (?:down|logs|rm|stop|ps)"
    r"|(?:kubectl|helm|oc) (?:delete|describe|logs|get|uninstall))(?=\s|$|['\"])"
)
# A function that a shell calls at its exit: what it runs says nothing of the lines above it.
_AT_EXIT: Final = re.compile(r"\w*(?:clean_?up|epilogue|tear_?down|on_?exit|trap)\w*(?:\s|$)")
_CLEANS_UP: Final = re.compile(
    r"(?:sudo )?(?:rm|rmdir|p?kill|killall|umount|docker (?:rm|rmi|stop|kill|volume rm|network rm)"
    r"|docker[- ]compose (?:down|rm|stop)|(?:kubectl|helm|oc) (?:delete|uninstall))\s"
    r"|.*\|\| *(?:true|:|echo|exit 0)\b"
)
_OTHER_WORK: Final = re.compile(
    r"=+ test session starts =+|collected \d+ items?|Collecting \S|Requirement already satisfied"
    r"|Successfully \w|Cloning into |HEAD is now at |Already up to date|Switched to a? ?(?:new )?branch"
    r"|From (?:https?|git|ssh):|Reading package lists|(?:Get|Hit|Ign):\d+ http|Setting up \S+ \("
    r"|[\w.-]+: Pulling from |Status: (?:Downloaded|Image is up to date)|Digest: sha256"
    r"|#\d+ (?:DONE|CACHED|naming to)|Sending build context|added \d+ packages|go: downloading "
    r"|(?:up to date|audited \d+ packages) in |yarn (?:run|install) v|> \S+@\S+ \w|\[INFO\] Scanning for"
    r"|=* ?\d+ passed(?:,(?! \d+ (?:failed|error))| in )|OK$|ok  ?\t|# fail 0$|PASS$"
    r"|INFO: +Application startup complete|(?:pod|deployment|namespace|service)[\w.]*/\S+ \w+$"
    r"|.{0,60}\b(?:is|are) (?:ready|healthy|available|up to date|complete)\b|\{\"status\": ?\"ok"
)
_TOLERATED: Final = re.compile(
    r"\b(?:retry(?:ing)?|retries|retried|try(?:ing)? again|attempt #?[2-9]\b|attempt #?\d+ of \d"
    r"|ignor(?:ed|ing)|skip(?:ped|ping)|fall(?:ing|s)? ?back|fallback|allowed to fail|not required"
    r"|optional|(?:continu|proceed)ing|going on|carrying on|doing without|without (?:it|a|the)\b"
    r"|non-fatal|not fatal|as expected|anyway)",
    re.IGNORECASE,
)
_SAYS_SO: Final = re.compile(
    r"\b(?:retrying|will retry|try(?:ing)? again in|will be retried|optional|ignor(?:ed|ing)"
    r"|non-fatal|fall(?:ing|s)? back)\b",
    re.IGNORECASE,
)
_NOTHING_TO_REMOVE: Final = re.compile(
    r"No such (?:container|image|volume|network|process|object)\b|\bno such (?:volume|network)\b"
    r"|network \S+ not found|: not mounted|cannot remove |failed to remove |[Rr]elease: not found"
    r"|from server \(NotFound\)|remote \S+ already exists|branch '\S+' not found|no process found"
    r"|kill: .{0,60}(?:No such process|usage:)"
)


def signs_of(message: str, before: Sequence[str], after: Sequence[str]) -> frozenset[Sign]:
    """The signs for a line with the words `message`.

    before: the texts of the lines above it, the nearest one last. after: of those below it, to the
    end of its step. A group of Buildkite has the prefix of `shown_text`.
    """
    signs = set()
    if any(_STEP.match(text) for text in after):
        signs.add(Sign.NEXT_STEP)
    if _has_next_command(after):
        signs.add(Sign.NEXT_COMMAND)
    if any(_OTHER_WORK.match(text) for text in after):
        signs.add(Sign.OTHER_WORK)
    if _SAYS_SO.search(message) or any(_TOLERATED.search(text) for text in after[:_NEAR]):
        signs.add(Sign.TOLERATED)
    if _NOTHING_TO_REMOVE.search(message):
        signs.add(Sign.NOTHING_TO_REMOVE)
    # The nearest command above.
    prompts = [match for text in before if (match := _PROMPT.match(text)) is not None]
    if prompts and _CLEANS_UP.match(prompts[-1]["words"]) is not None:
        signs.add(Sign.CLEAN_UP)
    return frozenset(signs)


def shown_text(raw: bytes, text: str) -> str:
    """`text`, which is that of the line `raw`, in the form of a section if it shows a next command.

    Such a line is a prompt of the CI system, or a group that a command of Buildkite opens.
    """
    if _RAW_PROMPT.search(raw[:_STAMP_BYTES]) is not None:
        return f"~~~ {text}"
    group = _GROUP if raw.startswith(_BUILDKITE) else _EMOJI_GROUP
    if group.match(text) is None or _LAST_GROUP.search(text) is not None:
        return text
    return f"~~~ {text}"


def _has_next_command(lines: Sequence[str]) -> bool:
    """Whether a trace in `lines` shows another command, before the shell begins to end."""
    for index, text in enumerate(lines):
        match = _COMMAND.match(text)
        if match is None:
            continue
        words = match["words"]
        if words is None:
            return True
        if _AT_EXIT.match(words) is not None:
            return False
        beside = lines[max(0, index - 1) : index + 2]
        is_diff = any(each.startswith(_DIFF) for each in beside)
        if not is_diff and _AT_THE_END.match(words) is None:
            return True
    return False


# A log of a big job has thousands of candidates, and reading around each takes time.
_MOST: Final = 30


def examined(candidates: Sequence[Candidate], logs: Sequence[LogText]) -> list[Candidate]:
    """The `candidates` by rank, of which those that may be first have their signs."""
    pending = list(candidates)
    done: list[Candidate] = []
    reader = _Surroundings(logs)
    ranked = rank(pending)
    # A sign only takes points away. So the first ones are certain once all of them have been read.
    while len(done) < _MOST:
        known = {_key(each) for each in done}
        near = nearly_strongest(ranked)
        unread = [each for each in near if _key(each) not in known][: _MOST - len(done)]
        if not unread:
            break
        chosen = {_key(each) for each in unread}
        pending = [each for each in pending if _key(each) not in chosen]
        done += [reader.with_signs(each) for each in unread]
        ranked = rank([*done, *pending])
    # The last of several lines of the same words says how the retries ended: one that a retry did
    # not cure was not tolerated after all.
    last = {_said(each): each for each in sorted(done, key=lambda each: each.line.offset)}
    for index, each in enumerate(done):
        if Sign.TOLERATED not in last[_said(each)].signs:
            done[index] = structs.replace(each, signs=each.signs - {Sign.TOLERATED})
    return rank([*done, *pending])


def _key(candidate: Candidate) -> tuple[int, int, str]:
    return candidate.log, candidate.line.offset, candidate.rule.id


def has_gone_on(candidate: Candidate, logs: Sequence[LogText]) -> bool:
    """Whether anything around `candidate` shows that its script went on after it."""
    return bool(candidate.signs or _Surroundings(logs).with_signs(candidate).signs)


def _said(candidate: Candidate) -> tuple[int, str, str]:
    return candidate.log, candidate.rule.id, normal_text(candidate.clean.message)


class _Surroundings:
    """The texts of lines, each of which is cleaned once."""

    def __init__(self, logs: Sequence[LogText]) -> None:
        self._logs = logs
        self._texts: dict[tuple[int, int], str] = {}

    def with_signs(self, candidate: Candidate) -> Candidate:
        log = self._logs[candidate.log]
        below = min(LINES_AFTER, candidate.lines_in_step)
        before = [self._text(candidate, line) for line in log.before(candidate.line, LINES_BEFORE)]
        after = [self._text(candidate, line) for line in log.after(candidate.line, below)[1:]]
        signs = signs_of(candidate.clean.message, before, after)
        return structs.replace(candidate, signs=signs)

    def _text(self, candidate: Candidate, line: TextLine) -> str:
        key = (candidate.log, line.offset)
        text = self._texts.get(key)
        if text is None:
            text = shown_text(line.content, clean_line(line.content).text)
            self._texts[key] = text
        return text


class LogTime(Struct, frozen=True, kw_only=True):
    """A time as a line has it.

    seconds: since 1970 in UTC if `has_zone`, else as if the line's local time were UTC. has_date:
    the line names a day; without one the day is that of 1970-01-01. has_year: it names the year;
    without one it is 1972, which has a 29 February.
    """

    seconds: float
    has_zone: bool
    has_date: bool = True
    has_year: bool = True


_YEAR_WITHOUT_ONE: Final = 1972
_MONTHS: Final = {
    name: number
    for number, name in enumerate(
        ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"), 1
    )
}
_CLOCK = r"(?P<H>\d\d):(?P<M>\d\d):(?P<S>\d\d)(?:[.,](?P<f>\d{1,9}))?"
_ZONE = r"(?: ?(?P<zone>Z|[+-]\d\d:?\d\d))?"


# The Buildkite agent's milliseconds; `2026-11-22T14:04:08.123Z`, `2026/11/22 14:04:08`; Apache's and
# nginx's `22/Nov/2026:14:04:08 +0000`; vLLM's `01-28 15:59:42`, glog's `I0128 15:59:42.123`;
# `Nov 22 14:04:08`; `14:04:08` or `[14:04:08]`.
_FORMATS: Final = tuple(
    re.compile(pattern)
    for pattern in (
        r"_bk;t=(?P<ms>\d{13})",
        rf"(?<!\d)(?P<y>20\d\d)[-/](?P<m>\d\d)[-/](?P<d>\d\d)[T _]{_CLOCK}{_ZONE}",
        rf"(?<!\d)(?P<d>\d\d)/(?P<mon>[A-Z][a-z]{{2}})/(?P<y>20\d\d)[: ]{_CLOCK}{_ZONE}",
        rf"(?<![\d-])(?P<m>\d\d)-(?P<d>\d\d) {_CLOCK}",
        rf"(?:^|\s|\[)[IWEF](?P<m>\d\d)(?P<d>\d\d) {_CLOCK}",
        rf"^(?P<mon>[A-Z][a-z]{{2}}) +(?P<d>\d\d?) {_CLOCK}",
        rf"^[\[(]?{_CLOCK}(?=[\])\s,]|$)",
    )
)
# A stamp stands at the start; a time in the middle of a sentence is something else's.
_STAMP_CHARACTERS: Final = 120


def log_time(line: str) -> LogTime | None:
    """The time in the first 120 characters of `line`; None if there is none."""
    start = line[:_STAMP_CHARACTERS]
    for match in filter(None, (pattern.search(start) for pattern in _FORMATS)):
        try:
            return _time(match.groupdict())
        except (ValueError, KeyError):  # a 31st of February, a month called Foo
            continue
    return None


def _time(groups: dict[str, str | None]) -> LogTime:
    parts = {name: value for name, value in groups.items() if value is not None}
    if "ms" in parts:
        return LogTime(seconds=int(parts["ms"]) / 1000, has_zone=True)
    has_date = "d" in parts
    month = _MONTHS[parts["mon"]] if "mon" in parts else int(parts.get("m", 1))
    zone = datetime.strptime(parts["zone"], "%z").tzinfo if "zone" in parts else None
    when = datetime(
        int(parts.get("y", _YEAR_WITHOUT_ONE if has_date else 1970)),
        month,
        int(parts.get("d", 1)),
        int(parts["H"]),
        int(parts["M"]),
        int(parts["S"]),
        tzinfo=zone or UTC,
    )
    return LogTime(
        seconds=when.timestamp() + float(f"0.{parts.get('f', 0)}"),
        has_zone=zone is not None,
        has_date=has_date,
        has_year="y" in parts,
    )


_DAY_S: Final = 86_400.0
# Time zones differ by multiples of a quarter of an hour (tz database).
_QUARTER_S: Final = 900.0


def common_scale(logs: Sequence[Sequence[LogTime | None]]) -> list[list[float | None]]:
    """The times of each log in seconds on one scale.

    Each item of `logs` is one log: the times of some of its lines, in the order of the lines, of
    which the last is that of its end. What a log does not name is taken from the log that names
    most: the year, the day, the zone. The logs of a job end at about the same time, so the zone of
    a log without one is the offset by quarters of an hour that brings the ends nearest.
    """
    lasts = [next((time for time in reversed(times) if time is not None), None) for times in logs]
    known = [last for last in lasts if last is not None]
    # The last time of the log that names most.
    reference = max(
        known, key=lambda time: (time.has_year, time.has_date, time.has_zone), default=None
    )
    return [_on_scale(times, last, reference) for times, last in zip(logs, lasts, strict=True)]


def _on_scale(
    times: Sequence[LogTime | None], last: LogTime | None, reference: LogTime | None
) -> list[float | None]:
    """The seconds of a log that ends at `last`."""
    if last is None or reference is None:
        return [None] * len(times)
    seconds = last.seconds
    if not last.has_date:
        # The day that brings both ends nearest.
        seconds += round((reference.seconds - seconds) / _DAY_S) * _DAY_S
    elif not last.has_year and reference.has_year:
        seconds = _in_year(seconds, reference.seconds)
    if last.has_zone != reference.has_zone:
        seconds += round((reference.seconds - seconds) / _QUARTER_S) * _QUARTER_S
    shift = seconds - last.seconds
    return [None if time is None else time.seconds + shift for time in times]


def _in_year(seconds: float, reference: float) -> float:
    """The same day and time in the year of `reference`."""
    year = datetime.fromtimestamp(reference, UTC).year
    day = datetime.fromtimestamp(seconds, UTC)
    try:
        return day.replace(year=year).timestamp()
    except ValueError:  # a 29 February
        return day.replace(year=year, month=3, day=1).timestamp()


# Lines before a candidate that may hold its time: a traceback's lines often have none.
_LOOKED_BACK = 80
_END_LINES = 40


def with_times(candidates: Sequence[Candidate], logs: Sequence[LogText]) -> list[Candidate]:
    """`candidates` with their times on one scale, where their lines or earlier ones have any."""
    times: list[list[LogTime | None]] = []
    for index, log in enumerate(logs):
        own = [
            _last_time([each.line]) or _last_time(log.before(each.line, _LOOKED_BACK))
            for each in candidates
            if each.log == index
        ]
        times.append([*own, _last_time(log.tail(_END_LINES))])
    scale = [iter(each) for each in common_scale(times)]
    return [msgspec.structs.replace(each, at_s=next(scale[each.log])) for each in candidates]


def _last_time(lines: Sequence[TextLine]) -> LogTime | None:
    starts = (line.content[:400].decode(errors="replace") for line in reversed(lines))
    return next((time for start in starts if (time := log_time(start)) is not None), None)
