# SPDX-License-Identifier: Apache-2.0
"""Pure. The prefixes that programs and their loggers put before a line of a log.

A line can have several: `vllm-1  | (Worker_TP0 pid=7) ERROR 01-28 15:59:42 [core.py:9] `. They are
removed one after the other. The prefixes of CI systems are none of them.
"""

import re
from functools import cache
from typing import Final

from msgspec import Struct

_MOST_PREFIXES: Final = 6
_LEVEL: Final = r"(?P<level>TRACE|DEBUG|INFO|NOTICE|WARN(?:ING)?|ERROR|CRITICAL|FATAL)"
_DATE: Final = r"\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?"
_TIME: Final = rf"(?P<time>{_DATE})"
_PLACE: Final = r"(?P<place>[\w./<>-]+:\d+)"

# By the first character of a line, so that few of them are tried.
_AFTER_PARENTHESIS: Final = (
    # vLLM and Ray: `(EngineCore_DP0 pid=7)`, `(RayWorkerWrapper pid=7, ip=10.0.0.1)`, `(pid=7)`.
    r"(?P<writer>\((?:[A-Za-z_][\w.<>:-]*[ ,:]+)?(?:\w+=[^\s,)]+(?:, ?| |(?=\))))+\)) ?",
    # Ray: `(raylet)`, `(raylet, ip=10.0.0.1)`, `(autoscaler +1m2s)`.
    r"(?P<writer>\((?:raylet|gcs_server|autoscaler)(?:,? [^)]{1,60})?\)) ?",
)
_AFTER_BRACKET: Final = (
    # torchrun: `[rank3]:`, `[default3]:`; kubectl: `[pod/server-0/vllm] `.
    r"(?P<writer>\[(?:rank|default)\d+\]:|\[pod/[^\]\s]{1,120}\]) ?",
    # The C++ of torch: `[E128 03:24:44.123456789 ProcessGroupNCCL.cpp:629] `.
    rf"\[(?P<level>[IWEFC])(?:\d{{3,4}} (?P<time>\d\d:\d\d:\d\d(?:\.\d+)?)(?: \d+)?)? {_PLACE}\] ?",
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
    # dynamo's number of a compilation, after torch's own prefix: `[14/1] `.
    r"\[\d+/\d+(?:_\d+)?\] ?",
    # The kernel's seconds: `[12345.678901] `.
    r"\[ *\d{1,8}\.\d{6}\] ?",
)
_AFTER_DIGIT: Final = (
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
_AFTER_LETTER: Final = (
    # vLLM: `ERROR 01-28 15:59:42 [core.py:935] `, before 0.8 without the brackets' left one.
    rf"{_LEVEL} (?P<time>\d\d-\d\d \d\d:\d\d:\d\d(?:[.,]\d+)?) (?:\[{_PLACE}\]|{_PLACE.replace('<place>', '<place_>')}\]?) ?",
    rf"{_LEVEL} \[{_PLACE}\] ?",
    # A cloud's log viewer: `ERROR 2026-01-28T15:59:42.209110975Z `.
    rf"{_LEVEL} {_TIME} ",
    # glog, absl, klog and torch's Python: `E0317 07:53:56.045000 2265 torch/_guards.py:283] `.
    rf"(?P<level>[IWEFC])\d{{3,4}} (?P<time>\d\d:\d\d:\d\d(?:\.\d+)?) +(?:\d+ )?{_PLACE}\] ?",
    # uvicorn: `ERROR:    `; logging's default: `ERROR:name:`.
    r"(?P<level>WARNING):  ",
    rf"{_LEVEL}:(?:     ?|(?P<place>[\w.]+):)",
    # pytest's captured log: `ERROR    vllm:core.py:12 `.
    rf"{_LEVEL} +(?P<place>[\w.]+:[\w.]+\.py:\d+) ",
    # NCCL: `host:301:305 [0] NCCL INFO `, and `host:301:305 [0] misc/nvmlwrap.cc:187 NCCL WARN `; its own words stay.
    r"(?P<writer>[\w.-]+:\d+:\d+) \[-?\d+\] (?:[\w./]+:\d+ )?(?=NCCL WARN)",
    r"(?P<writer>[\w.-]+:\d+:\d+) \[-?\d+\] NCCL (?P<level>INFO|TRACE) ",
    # The system's log: `Jan 28 15:59:42 host kernel: `.
    r"(?P<time>[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d) [\w.-]+ [\w./-]+(?:\[\d+\])?: ?",
    # docker compose: `vllm-1  | `.
    r"(?P<writer>[A-Za-z][\w.-]{0,39}) +\| ?",
)
# tqdm leaves its bar on the line on which something else is printed next.
_BAR: Final = r"[^|\n]{0,120}\d{1,3}%\|[^|\n]{0,300}\| *[\d.]+[^\[\n]{0,20}\[[^\]\n]{0,120}\]"


class Prefixed(Struct, frozen=True):
    """A line taken apart: `message` is what stands after all prefixes, with its indentation.

    writer: the prefixes that tell processes apart, joined; None without one. level: the logger's
    word or letter. time: as it stands in the line. place: where the program logged it.
    """

    message: str
    writer: str | None = None
    level: str | None = None
    time: str | None = None
    place: str | None = None


def without_prefixes(line: str) -> Prefixed:
    """`line`, which has no escape sequences, taken apart."""
    message = line
    writers: list[str] = []
    fields: dict[str, str] = {}
    for _ in range(_MOST_PREFIXES):
        match = _prefix(message)
        if match is None:
            break
        message = message[match.end() :]
        for name, value in match.groupdict().items():
            if value is None:
                continue
            if name == "writer":
                writers.append(value.strip())
            else:
                fields.setdefault(name.rstrip("_"), value)
    return Prefixed(
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
_BY_FIRST: Final = {"(": _AFTER_PARENTHESIS, "[": _AFTER_BRACKET}


def _prefix(text: str) -> re.Match[str] | None:
    """The prefix with which `text` begins."""
    first = text[:1]
    if first.isspace() or not first:
        return None
    patterns = _BY_FIRST.get(first)
    if patterns is None:
        patterns = _AFTER_DIGIT if first.isdigit() else _AFTER_LETTER
    for pattern in patterns:
        match = _compiled(pattern).match(text)
        if match is not None:
            return match
    if "%|" in text:
        return _compiled(_BAR).match(text)
    return None


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    # When it is needed first: most logs hold two or three of these forms.
    return re.compile(pattern)
