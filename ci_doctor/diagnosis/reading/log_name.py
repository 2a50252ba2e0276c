# SPDX-License-Identifier: Apache-2.0
"""Pure. Which names look like a log's."""

import re
from typing import Final

# `server.log`, `server.log.1`, `build-2026-11-22.log.gz`, `0_build.txt`, `stderr`, `consoleText`.
_LOG_NAME: Final = re.compile(
    r"(?:.*\.(?:log|out|err|txt|stdout|stderr)(?:[.-]\d[\d.-]*)?"
    r"|log|output|stdout|stderr|console\w*)"
    r"(?:\.(?:gz|xz|bz2|zst))?",
    re.IGNORECASE,
)


def is_log_name(path: str) -> bool:
    """Whether the last part of `path` looks like the name of a log; hidden files do not."""
    name = path.rpartition("/")[2]
    return not name.startswith(".") and _LOG_NAME.fullmatch(name) is not None
