# SPDX-License-Identifier: Apache-2.0
"""Pure. A line of a log as a reader sees it: without escapes, stamps of CI systems, and names of its process."""

import re
from functools import cache
from typing import Final

from msgspec import Struct, structs

from ci_doctor.system.secrets.private_keys import first_words

# The columns of `gh run view --log`: job, step, then the line.
_COLUMNS: Final = re.compile(r"[^\t]{1,80}\t[^\t]{1,80}\t(?=\ufeff?\d{4}-\d\d-\d\dT)")
# GitHub, GitLab (with a stream `00O` after it), Jenkins' timestamper, a task of Taskcluster.
_ISO_TIME: Final = re.compile(
    r"\ufeff?(?:\[task(?:cluster)?(?::\w+)? )?\[?"
    r"(?P<time>\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d))\]?"
    r"(?: \d\d[OE]\+?)?(?: |$)"
)
# AppVeyor's `[00:01:23] `, TeamCity's `[12:30:01]W:	 [Step 1/3] `, Jenkins' elapsed `00:01:23.456  `.
_CLOCK: Final = re.compile(
    r"\[(?P<time>\d\d:\d\d:\d\d)\](?:[WEFi ]?:\t? ?(?:\[[^\]]{1,60}\] ?)?)? ?"
    r"|(?P<elapsed>\d\d:\d\d:\d\d(?:\.\d{1,3})?)  ?(?! )"
)
# Mozilla's mozharness: `21:47:57     INFO -  `.
_MOZHARNESS: Final = re.compile(
    r"(?P<time>\d\d:\d\d:\d\d) +(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL|FATAL) - {0,2}"
)
# A step of `docker buildx build --progress=plain`: `#12 4.512 `.
_BUILDKIT: Final = re.compile(r"#\d{1,4} \d{1,6}\.\d{1,3} ")
# GitHub's, below another system's stamp: a job that prints the log of another one.
_GITHUB_TIME: Final = re.compile(r"\ufeff?\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{7}Z ")
_STAMPS: Final = (_COLUMNS, _ISO_TIME, _GITHUB_TIME, _MOZHARNESS, _CLOCK, _BUILDKIT)


def without_stamps(text: str) -> tuple[str, str | None]:
    """The line `text` without what its CI system put before it, and the first time in that."""
    time = None
    for stamp in _STAMPS:
        match = stamp.match(text)
        if match is not None:
            groups = match.groupdict()
            time = time or groups.get("time") or groups.get("elapsed")
            text = text[match.end() :]
    return text, time


_MOST_PREFIXES: Final = 6
# Longer than any name of a machine or a service with what follows it.
_LONGEST_NAME: Final = 120
_LEVEL: Final = r"(?P<level>TRACE|DEBUG|INFO|NOTICE|WARN(?:ING)?|ERROR|CRITICAL|FATAL)"
_DATE: Final = r"\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?"
_TIME: Final = rf"(?P<time>{_DATE})"
_PLACE: Final = r"(?P<place>[\w./<>-]+:\d+)"

# By what a line begins with, so that few of them are tried.
_PARENTHESIS: Final = (
    # vLLM and Ray: `(EngineCore_DP0 pid=7)`, `(RayWorkerWrapper pid=7, ip=10.0.0.1)`, `(pid=7)`.
    r"(?P<writer>\((?:[A-Za-z_][\w.<>:-]*[ ,:]+)?(?:\w+=[^\s,)]+(?:, ?| |(?=\))))+\)) ?",
    # Ray: `(raylet)`, `(raylet, ip=10.0.0.1)`, `(autoscaler +1m2s)`.
    r"(?P<writer>\((?:raylet|gcs_server|autoscaler)(?:,? [^)]{1,60})?\)) ?",
)
_BRACKET_LETTER: Final = (
    # torchrun: `[rank3]:`, `[default3]:`; kubectl: `[pod/server-0/vllm] `.
    r"(?P<writer>\[(?:rank|default)\d+\]:|\[pod/[^\]\s]{1,120}\]) ?",
    # The C++ of torch: `[E128 03:24:44.123456789 ProcessGroupNCCL.cpp:629] `.
    rf"\[(?P<level>[IWEFC])(?:\d{{3,4}} (?P<time>\d\d:\d\d:\d\d(?:\.\d+)?)(?: \d+)?)? {_PLACE}\] ?",
)
_BRACKET_DATE: Final = (
    # SGLang: `[2026-01-28 15:59:42 DP0 TP3] `.
    rf"\[{_TIME}(?P<writer>(?: (?:DP|TP|PP|EP|ATTN|MOE|CP)\w{{1,6}})+)\] ?",
    # The C++ of Ray: `[2026-01-28 15:59:42,187 E 7 7] logging.cc:484: `.
    rf"\[{_TIME} (?P<level>[DIWEFC]) \d+ \d+\] (?:\([\w-]+\) )?(?:{_PLACE}: ?)?",
    # gunicorn: `[2026-01-28 15:59:42 +0000] [7] [ERROR] `.
    rf"\[{_TIME} [+-]\d{{4}}\] \[\d+\] \[{_LEVEL}\] ?",
    # DeepSpeed: `[2026-01-28 15:59:42,045] [ERROR] [launch.py:315:main] `, and each field in
    # brackets as loggers are often set up: `[2026-01-28 15:59:42,820] [ERROR] [MainThread] [x] >>> `.
    rf"\[{_TIME}\] ?\[{_LEVEL} *\] ?(?:\[[^\]]{{1,80}}\] ?){{0,3}}(?:>>> ?|: )?",
    # LMCache: `[2026-01-28 15:59:42,123] LMCache ERROR: `.
    rf"\[{_TIME}\] (?:[\w.]+ )?{_LEVEL}: ?",
    rf"\[{_TIME}\] ?",
)
_BRACKET_OTHER: Final = (
    # dynamo's number of a compilation, after torch's own prefix: `[14/1] `.
    r"\[\d+/\d+(?:_\d+)?\] ?",
    # The kernel's seconds: `[12345.678901] `.
    r"\[ *\d{1,8}\.\d{6}\] ?",
)
_DATE_FIRST: Final = (
    # loguru: `2026-01-28 15:59:42.123 | ERROR    | server.app:run:12 - `.
    rf"{_TIME} *\| *{_LEVEL} *\| *(?P<place>[\w.<>:-]+) - ?",
    # Ray: `2026-01-28 15:59:42,676 ERROR worker.py:405 -- `.
    rf"{_TIME} {_LEVEL} {_PLACE} -- ?",
    # logging's usual formats: `2026-01-28 15:59:42,123 - name - ERROR - `, and the level first.
    rf"{_TIME} - (?:[\w.<>-]+ - ){{1,3}}{_LEVEL} - ?",
    rf"{_TIME} - {_LEVEL} - (?:[\w.<>:-]+ - )?",
    # Rust's tracing and others: `2026-01-28T15:59:42.123456Z ERROR router::worker: `.
    rf"{_TIME} +\[?{_LEVEL}\]?:? +(?:\[?(?P<place>[\w.<>/-]+(?:::?[\w.<>]+)+)\]?:? )?",
    # TensorFlow and XLA: `2026-01-28 15:59:42.123456: E external/x/y.cc:123] `.
    rf"{_TIME}: (?P<level>[IWEF]) {_PLACE}\] ?",
)
_CAPITALS: Final = (
    # vLLM: `ERROR 01-28 15:59:42 [core.py:935] `; before 0.8 without the left bracket.
    rf"{_LEVEL} (?P<time>\d\d-\d\d \d\d:\d\d:\d\d(?:[.,]\d+)?) \[?{_PLACE}\]? ?",
    rf"{_LEVEL} \[{_PLACE}\] ?",
    # A cloud's log viewer: `ERROR 2026-01-28T15:59:42.209110975Z `.
    rf"{_LEVEL} {_TIME} ",
    # uvicorn: `ERROR:    `; logging's default: `ERROR:name:`.
    r"(?P<level>WARNING):  ",
    rf"{_LEVEL}:(?:     ?|(?P<place>[\w.]+):)",
    # pytest's captured log: `ERROR    vllm:core.py:12 `.
    rf"{_LEVEL} +(?P<place>[\w.]+:[\w.]+\.py:\d+) ",
)
# glog, absl, klog and torch's Python: `E0317 07:53:56.045000 2265 torch/_guards.py:283] `.
_LETTER_DIGIT: Final = (
    rf"(?P<level>[IWEFC])\d{{3,4}} (?P<time>\d\d:\d\d:\d\d(?:\.\d+)?) +(?:\d+ )?{_PLACE}\] ?",
)
# NCCL: `host:301:305 [0] NCCL INFO `, and `host:301:305 [0] misc/nvmlwrap.cc:187 NCCL WARN `, of
# which the last words stay.
_NCCL: Final = (
    r"(?P<writer>[\w.-]+:\d+:\d+) \[-?\d+\] NCCL (?P<level>INFO|TRACE) ",
    r"(?P<writer>[\w.-]+:\d+:\d+) \[-?\d+\] (?:[\w./]+:\d+ )?(?=NCCL WARN)",
)
# The system's log: `Jan 28 15:59:42 host kernel: `.
_MONTH: Final = (r"(?P<time>[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d) [\w.-]+ [\w./-]+(?:\[\d+\])?: ?",)
# docker compose: `vllm-1  | `.
_SERVICE: Final = (r"(?P<writer>[A-Za-z][\w.-]{0,39}) +\| ?",)
# tqdm leaves its bar on the line on which something else is printed next.
_BAR: Final = r"[^|\n]{0,120}\d{1,3}%\|[^|\n]{0,300}\| *[\d.]+[^\[\n]{0,20}\[[^\]\n]{0,120}\]"


class CleanLine(Struct, frozen=True, kw_only=True):
    """One line without escapes.

    text: without the stamp of the CI system. message: without all prefixes of writers and loggers
    too, with its indentation. writer: the prefixes that tell processes apart, joined; None without
    one. level: the logger's word. time: as it stands in the line. place: where in the program the
    logger was called.
    """

    text: str
    message: str
    writer: str | None = None
    level: str | None = None
    time: str | None = None
    place: str | None = None

    @property
    def texts(self) -> tuple[str, ...]:
        """What a rule's regex is tried on."""
        if self.text == self.message:
            return (self.text,)
        return (self.message, self.text)


def without_prefixes(line: str) -> CleanLine:
    """`line`, which has no escape sequences and no stamp, taken apart."""
    message = line
    writers: list[str] = []
    fields: dict[str, str] = {}
    for _ in range(_MOST_PREFIXES):
        match = _prefix(message)
        if match is None:
            break
        message = message[match.end() :]
        groups = {name: value for name, value in match.groupdict().items() if value is not None}
        if "writer" in groups:
            writers.append(groups.pop("writer").strip())
        fields = groups | fields
    return CleanLine(
        text=line,
        message=message,
        writer=" ".join(writers) or None,
        level=_LEVEL_OF_LETTER.get(fields.get("level", ""), fields.get("level")),
        time=fields.get("time"),
        place=fields.get("place"),
    )


_LEVEL_OF_LETTER: Final = {
    "D": "DEBUG",
    "I": "INFO",
    "W": "WARNING",
    "E": "ERROR",
    "F": "FATAL",
    "C": "CRITICAL",
}


def _prefix(text: str) -> re.Match[str] | None:
    """The prefix with which `text` begins."""
    if text[:1].isspace() or not text:
        return None
    for pattern in _patterns(text):
        match = _compiled(pattern).match(text)
        if match is not None:
            return match
    return _compiled(_BAR).match(text) if "%|" in text else None


def _patterns(text: str) -> tuple[str, ...]:
    """The prefixes that `text` may have, by its first characters."""
    first, second = text[0], text[1:2]
    if first == "(":
        return _PARENTHESIS
    if first == "[" and second.isalpha():
        return _BRACKET_LETTER
    if first == "[":
        return _BRACKET_DATE if text[5:6] and text[5:6] in "-/" else _BRACKET_OTHER
    if first.isdigit():
        return _DATE_FIRST if text[4:5] in "-/" else ()
    named = _of_name(text)
    # The name of a service or of a machine may have capitals too.
    if text[:2].isupper() and second.isalpha():
        return (*_CAPITALS, *named)
    return (*_LETTER_DIGIT, *named) if second.isdigit() and first in _LEVEL_OF_LETTER else named


def _of_name(text: str) -> tuple[str, ...]:
    """The prefixes that begin with a name, of which most lines hold no sign."""
    start = text[:_LONGEST_NAME]
    if " NCCL " in start:
        return _NCCL
    if "|" in start:
        return _SERVICE
    return _MONTH if text[3:4] == " " and text[9:10] == ":" else ()


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    # When it is needed first: most logs hold two or three of these forms.
    return re.compile(pattern)


# A sentence longer than this is data; a regex need not read it.
LONGEST_TEXT: Final = 2000
# CSI and OSC sequences (ECMA-48), the Buildkite agent's `\x1b_bk;t=…\x07` (an APC), lone controls;
# `nl`, which archives of Travis' macOS logs hold where a line began with a carriage return.
_ESCAPES: Final = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"
    r"|\x1b[\]_P^X][^\x07\x1b]*(?:\x07|\x1b\\)"
    r"|^nl(?=\W|$)|\x1b[()][0-9A-Z]|\x1b[@-Z\\-_]|[\x00-\x08\x0b-\x1f\x7f]"
)


def clean_line(raw: bytes) -> CleanLine:
    """The words of the line `raw`, whose newline is gone; at most 2,000 characters of them."""
    # A progress bar overwrites its own line: what was on screen last is what counts.
    shown = raw.rstrip(b"\r").rpartition(b"\r")[2]
    plain = _ESCAPES.sub("", shown[: 4 * LONGEST_TEXT].decode(errors="replace"))
    plain, time = without_stamps(plain)
    clean = without_prefixes(first_words(plain, LONGEST_TEXT).rstrip())
    return structs.replace(clean, time=time) if time else clean
