# SPDX-License-Identifier: Apache-2.0
"""Reads the lines after a candidate for signs that its script went on."""

import re
from collections.abc import Sequence
from typing import Final

from msgspec import structs

from ci_doctor.diagnosis.lines import clean_line
from ci_doctor.diagnosis.log_text import LogText, TextLine
from ci_doctor.diagnosis.rank import Candidate, Sign, nearly_strongest, rank
from ci_doctor.model.cause import normal_text

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
    if _is_of_clean_up(before):
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


def _is_of_clean_up(before: Sequence[str]) -> bool:
    """Whether the nearest command above is one."""
    for text in reversed(before):
        match = _PROMPT.match(text)
        if match is not None:
            return _CLEANS_UP.match(match["words"]) is not None
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
    return rank([*_with_vain_retries(done), *pending])


def _key(candidate: Candidate) -> tuple[int, int, str]:
    return candidate.log, candidate.line.offset, candidate.rule.id


def has_gone_on(candidate: Candidate, logs: Sequence[LogText]) -> bool:
    """Whether anything around `candidate` shows that its script went on after it."""
    return bool(candidate.signs or _Surroundings(logs).with_signs(candidate).signs)


def _with_vain_retries(candidates: Sequence[Candidate]) -> list[Candidate]:
    """`candidates`, of which those that a retry did not cure were not tolerated after all.

    The last of several lines of the same words says how the retries ended.
    """
    last: dict[tuple[int, str, str], Candidate] = {}
    for each in sorted(candidates, key=lambda each: each.line.offset):
        last[_words(each)] = each
    read_again = []
    for each in candidates:
        if Sign.TOLERATED in each.signs and Sign.TOLERATED not in last[_words(each)].signs:
            signs = each.signs - {Sign.TOLERATED}
            read_again.append(structs.replace(each, signs=signs))
        else:
            read_again.append(each)
    return read_again


def _words(candidate: Candidate) -> tuple[int, str, str]:
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
