# SPDX-License-Identifier: Apache-2.0
"""Pure. What a cause is about whose own line does not say it: a test, a place in a program."""

import re
from collections.abc import Sequence
from typing import Final

# pytest's line above the report of a failed test: `____ test_a[fp8] ____`.
_PYTEST_HEADER: Final = re.compile(r"^_{3,} (?P<test>\S.{0,200}?) _{3,}$")
# unittest's line above a traceback: `FAIL: test_a (tests.test_b.C.test_a)`.
_UNITTEST_HEADER: Final = re.compile(r"^(?:FAIL|ERROR): (?P<test>\w+ \([\w.]+\))")
# googletest's line before what a test prints: `[ RUN      ] Suite.Test`.
_GOOGLETEST_HEADER: Final = re.compile(r"^\[ RUN      \] (?P<test>\S+)")
_FRAME: Final = re.compile(
    r'^ *\|? *File "(?:.*[\\/])?(?P<file>[^"\\/]+)", line \d+, in (?P<function>.+)'
)
_ASSERTION: Final = re.compile(r"^(?:E +)?(?:assert |AssertionError|Failed: )|:\d+: Failure$")
# An exception without words of its own.
_BARE: Final = re.compile(r"^(?:[\w.]+\.)?[A-Z]\w*(?:: \W*\d*\W*)?$")


def subject_of(message: str, before: Sequence[str]) -> str:
    """The test whose assertion `message` is, or the function that raised an exception without words.

    before: the messages of the lines above it, in order. Empty if the message tells enough, or
    if they do not tell.
    """
    if _ASSERTION.search(message) is not None:
        return _last_test(before) or _last_frame(before)
    if _BARE.match(message) is not None:
        return _last_frame(before)
    return ""


def _last_test(before: Sequence[str]) -> str:
    for text in reversed(before):
        for header in (_PYTEST_HEADER, _UNITTEST_HEADER, _GOOGLETEST_HEADER):
            match = header.match(text)
            if match is not None:
                return match["test"]
    return ""


def _last_frame(before: Sequence[str]) -> str:
    for text in reversed(before):
        match = _FRAME.match(text)
        if match is not None:
            return f"{match['file']} {match['function']}"
    return ""
