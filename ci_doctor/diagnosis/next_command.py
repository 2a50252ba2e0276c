# SPDX-License-Identifier: Apache-2.0
"""Pure. The command of ours that investigates a cause, with what its line names filled in."""

import re
from collections.abc import Mapping

_FIELD = re.compile(r"\{(\w+)\}")
# A log is anybody's text, and a reader pastes the command: no character that acts in a shell.
_HARMLESS = re.compile(r"[\w.][\w.:/+-]*", re.ASCII)


def next_command(template: str | None, fields: Mapping[str, str]) -> str | None:
    """`template` with each `{name}` replaced by the capture of that name.

    None if there is no template, or if a capture is missing or might act in a shell.
    """
    if template is None:
        return None
    for name in _FIELD.findall(template):
        if _HARMLESS.fullmatch(fields.get(name, "")) is None:
            return None
    return _FIELD.sub(lambda match: fields[match[1]], template)
