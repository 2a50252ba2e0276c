# SPDX-License-Identifier: Apache-2.0
"""Pure. A cause that appears in a log that is followed -> text, or one line of JSON."""

import msgspec
from msgspec import structs

from ci_doctor.model.cause import Cause
from ci_doctor.render.layout import clip, wrap
from ci_doctor.render.safe_text import one_line, printable

_WIDTH = 80
_MESSAGE_CELLS = 240


def named_cause_json(cause: Cause) -> str:
    """`cause` as one line of JSON with a newline."""
    try:
        encoded = msgspec.json.encode(cause)
    except UnicodeEncodeError:  # the name of a file that is not UTF-8
        file = cause.place.file.encode(errors="replace").decode()
        place = structs.replace(cause.place, file=file)
        encoded = msgspec.json.encode(structs.replace(cause, place=place))
    return encoded.decode() + "\n"


def named_cause_text(cause: Cause) -> str:
    """Place, class and message of `cause`, and what to do; nothing in it acts on a terminal."""
    place = _safe(cause.place.where)
    lines = [f"{place}  {cause.title}"]
    message = clip(_safe(cause.place.message), _MESSAGE_CELLS)
    lines += wrap(message, _WIDTH, first="  ", rest="  ", breakable=True)
    lines += wrap(_safe(cause.remedy), _WIDTH, first="  try: ", rest="       ")
    if cause.next_command:
        lines.append(f"  {_safe(cause.next_command)}")
    return "\n".join(lines) + "\n\n"


def _safe(text: str) -> str:
    return one_line(printable(text))
