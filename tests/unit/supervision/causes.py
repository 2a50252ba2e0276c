# SPDX-License-Identifier: Apache-2.0
"""Causes to test with."""

from typing import Any

from msgspec.structs import replace

from ci_doctor.diagnosis.cause import Cause, LogPlace
from ci_doctor.diagnosis.failure_class import FailureClass


def a_cause(**changes: Any) -> Cause:
    """A cause in line 7 of `command.log`; `changes` are fields of Cause."""
    cause = Cause(
        place=LogPlace(log="command.log", line=7, text="OSError: the line"),
        rule="python/uncaught",
        class_=FailureClass.CODE_BUG,
        confidence=0.914,
        reasons=(),
        is_outside=False,
        fingerprint="f",
        explanation="A program raised an exception.",
        remedy="Read the line.",
        next_command=None,
        fields={},
    )
    return replace(cause, **changes)
