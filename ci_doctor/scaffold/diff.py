# SPDX-License-Identifier: Apache-2.0
"""Pure. Proposed files as a unified diff, as `git apply` takes it."""

import re
from collections.abc import Sequence
from typing import Final

from ci_doctor.model.shortened import shortened
from ci_doctor.scaffold.proposing.proposed_file import ProposedFile

_REQUESTS: Final = 4
# Bytes that are not UTF-8, too: Python reads them as lone surrogates.
_ODD: Final = re.compile(r'["\\\x00-\x1f\x7f\udc80-\udcff]')


def whole_diff(files: Sequence[ProposedFile]) -> str:
    """Every line of every file."""
    return "".join(_new_file(file, [f"{line}\n" for line in _lines(file.text)]) for file in files)


def short_diff(files: Sequence[ProposedFile], lines: int, width: int) -> str:
    """For a person: long files up to `lines` lines, long lines up to `width`; what is made is named."""
    parts = []
    for file in files:
        text = _lines(file.text)
        # Requests are long lines of one kind.
        most = 0 if file.is_made else lines
        if file.path.endswith(".jsonl"):
            most = _REQUESTS
        shown = [shortened(line, width - 1) for line in text[:most]]
        part = _new_file(file, [f"{line}\n" for line in shown], count=len(text))
        if len(text) > most:
            part += f"  … {len(text) - most:,} more lines\n"
        parts.append(part)
    return "\n".join(parts)


def _new_file(file: ProposedFile, lines: Sequence[str], count: int | None = None) -> str:
    """The diff of a file that does not exist yet."""
    count = len(lines) if count is None else count
    old, new = _quoted(f"a/{file.path}"), _quoted(f"b/{file.path}")
    head = f"diff --git {old} {new}\nnew file mode 100644\n"
    # The tab ends a name with spaces, as git writes it.
    end = "\t" if " " in new else ""
    names = f"--- /dev/null\n+++ {new}{end}\n@@ -0,0 +1,{count} @@\n"
    return head + names + "".join(f"+{line}" for line in lines)


def _lines(text: str) -> list[str]:
    """The lines as git counts them: `splitlines` knows further ends, such as U+2028."""
    return text.removesuffix("\n").split("\n") if text else []


def _quoted(name: str) -> str:
    """A name as git writes it (core.quotePath in git-config(1)): one of odd bytes as a C string."""
    if not _ODD.search(name):
        return name
    written = []
    for byte in name.encode("utf-8", "surrogateescape"):
        character = chr(byte)
        if character in '"\\':
            character = f"\\{character}"
        elif not 0x20 <= byte < 0x7F:
            character = f"\\{byte:03o}"
        written.append(character)
    return f'"{"".join(written)}"'
