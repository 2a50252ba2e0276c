# SPDX-License-Identifier: Apache-2.0
"""Reads logs whose command is known to have failed: its exit status outweighs how they sound."""

from collections.abc import Sequence
from typing import Final

from msgspec import structs

from ci_doctor.diagnosis.candidate import Candidate
from ci_doctor.diagnosis.exit_status import judged
from ci_doctor.diagnosis.last_output import LAST_LINES, LAST_OUTPUT, last_output
from ci_doctor.diagnosis.last_words import sounds_like_success
from ci_doctor.diagnosis.lines.clean_line import clean_line
from ci_doctor.diagnosis.log_rule import Role
from ci_doctor.diagnosis.log_story import LogStory
from ci_doctor.diagnosis.reading.log_text import LogText
from ci_doctor.diagnosis.standing import TOLERATED_LEVELS
from ci_doctor.model.cause import Cause

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
    plain = [_without_good_end(story) for story in stories]
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


def _without_good_end(story: LogStory) -> LogStory:
    candidates = [
        structs.replace(each, log_ended_well=False, log_sounds_well=False)
        for each in story.candidates
    ]
    return structs.replace(story, candidates=tuple(candidates), has_ended_well=False)


def _as_failed_step(story: LogStory) -> LogStory:
    """`story`, in which what no step that ended well has is the step that failed."""
    outside = [each for each in story.candidates if not each.in_passed_step]
    # A program may have printed that all went well: the status knows better.
    has_no_other = not outside
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
