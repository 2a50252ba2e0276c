# SPDX-License-Identifier: Apache-2.0
"""Pure. Which interpreter of one snapshot stands for which of another."""

from ci_doctor.drift.snapshot import InterpreterSnapshot, Snapshot

InterpreterPair = tuple[InterpreterSnapshot, InterpreterSnapshot]


def interpreter_pairs(before: Snapshot, after: Snapshot) -> list[InterpreterPair]:
    """The interpreters that stand for each other: those of one path, then the rest in their order."""
    by_path = {each.python: each for each in before.interpreters}
    pairs = [(by_path[each.python], each) for each in after.interpreters if each.python in by_path]
    paired = {new.python for _, new in pairs}
    old_rest = [each for each in before.interpreters if each.python not in paired]
    new_rest = [each for each in after.interpreters if each.python not in paired]
    pairs += zip(old_rest, new_rest, strict=False)
    return pairs
