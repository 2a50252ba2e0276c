# SPDX-License-Identifier: Apache-2.0
"""Pure. What CI systems put before each line: a time, the names of job and step, a level."""

import re
from typing import Final

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
        if match is None:
            continue
        groups = match.groupdict()
        time = time or groups.get("time") or groups.get("elapsed")
        text = text[match.end() :]
    return text, time
