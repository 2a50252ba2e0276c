# SPDX-License-Identifier: Apache-2.0
"""Recognises the line of an exception at the end of a Python traceback. Pure."""

import re
from keyword import iskeyword
from typing import Final

# `ImportError: no libcudart`, `KeyboardInterrupt`, `app.make.<locals>.OwnError: ...`,
# `ray.exceptions.RayTaskError(ValueError): ...`; one without a message may keep its colon.
_EXCEPTION: Final = re.compile(r"(?P<name>[A-Za-z_][\w.<>]*)(?:\([\w.]+\))?(?::(?: |$)| *$)")
# vLLM's API server ends with such a line; the traceback that it points to stands earlier.
_POINTER: Final = re.compile(
    r"(?:see|check) (?:the )?(?:root cause|stack trace|logs?|errors?)(?: \w+)? \(?(?:above|for)\b"
    # torch prints the original traceback below: `KeyError: Caught KeyError in DataLoader worker process 0.`
    r"|: Caught \w+ in (?:DataLoader worker process|pin memory thread|replica) ?",
    re.IGNORECASE,
)
# Other words with which a line begins that look like a class.
_WORDS: Final = frozenset(
    {"DEBUG", "INFO", "NOTICE", "WARN", "WARNING", "ERROR", "CRITICAL", "FATAL", "Note", "Warning"}
)
_USUAL_NAME: Final = re.compile(
    r"(?:Error|Exception|Warning|Interrupt|Exit|Iteration|Timeout|TimedOut|Failed|Failure|Died|Dead"
    r"|Unavailable|NotFound|Empty|Full|Abort\w*|Again|OutOf\w+|Closed|Refused|error|Invalid\w+)$"
)


def exception_name(text: str, column: int = 0) -> str | None:
    """The name of the exception's class if `text` is such a line from `column` on."""
    match = _EXCEPTION.match(text, column)
    if match is None:
        return None
    name = match["name"]
    # Names of classes begin with a capital letter; `socket.timeout` and its like have a module.
    if name in _WORDS or iskeyword(name) or ("." not in name and not name[0].isupper()):
        return None
    return name


def is_exception(text: str, column: int, *, is_certain: bool) -> bool:
    """Whether `text` is, from `column` on, the exception of a traceback that has begun.

    Where that is not certain (frames without a header), its class must have one of the usual names.
    """
    name = exception_name(text, column)
    if name is None:
        return False
    return is_certain or _USUAL_NAME.search(name) is not None


def is_pointer(text: str) -> bool:
    """Whether the exception in `text` only says that another one, printed earlier, is the cause."""
    return _POINTER.search(text) is not None
