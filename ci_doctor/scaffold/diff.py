# SPDX-License-Identifier: Apache-2.0
"""Pure. Proposed files as a unified diff, as `git apply` takes it."""

from collections.abc import Sequence
from typing import Final

from ci_doctor.scaffold.proposing.proposed_file import ProposedFile

_REQUESTS: Final = 4


def whole_diff(files: Sequence[ProposedFile]) -> str:
    """Every line of every file."""
    return "".join(_new_file(file, file.text.splitlines(keepends=True)) for file in files)


def short_diff(files: Sequence[ProposedFile], lines: int, width: int) -> str:
    """For a person: long files up to `lines` lines, long lines up to `width`; what is made is named."""
    parts = []
    for file in files:
        text = file.text.splitlines()
        # Requests are long lines of one kind.
        most = 0 if file.is_made else lines
        if file.path.endswith(".jsonl"):
            most = _REQUESTS
        shown = [_cut(line, width) for line in text[:most]]
        part = _new_file(file, [f"{line}\n" for line in shown], count=len(text))
        if len(text) > most:
            part += f"  … {len(text) - most:,} more lines\n"
        parts.append(part)
    return "\n".join(parts)


def _new_file(file: ProposedFile, lines: Sequence[str], count: int | None = None) -> str:
    """The diff of a file that does not exist yet."""
    count = len(lines) if count is None else count
    head = f"diff --git a/{file.path} b/{file.path}\nnew file mode 100644\n"
    names = f"--- /dev/null\n+++ b/{file.path}\n@@ -0,0 +1,{count} @@\n"
    return head + names + "".join(f"+{line}" for line in lines)


def _cut(line: str, width: int) -> str:
    return line if len(line) < width else f"{line[: width - 2]}…"
