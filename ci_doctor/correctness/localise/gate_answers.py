# SPDX-License-Identifier: Apache-2.0
"""Reads answers where their digests do not tell whether they are the same at the gate's level."""

from collections.abc import Mapping
from typing import Any

from ci_doctor.correctness.comparison import AnswerLevel, Comparison
from ci_doctor.correctness.level_digests import level_digests
from ci_doctor.correctness.near_answers import NearAnswers
from ci_doctor.errors import InfraError

Outputs = Mapping[str, Mapping[str, Any]]


class GateAnswers:
    """Which single answers are the same at the level of the gate, and within its limit."""

    def __init__(self, comparison: Comparison, outputs: Outputs) -> None:
        self._level = comparison.level
        self._outputs = outputs
        self._near = None
        if comparison.limit is not None:
            self._near = NearAnswers(comparison.limit, outputs)

    def key(self, question: str, digest: str) -> str:
        """The same text for answers to `question` that are the same.

        Raises InfraError if an answer can no longer be read.
        """
        try:
            return self._key(question, digest)
        except KeyError as error:
            raise InfraError(f"no output has the digest {digest[:12]}") from error

    def _key(self, question: str, digest: str) -> str:
        if self._near is not None:
            return self._near.outcome(question, digest)
        if self._level is AnswerLevel.NUMBERS:
            return digest
        digests = level_digests(self._outputs[digest], digest)
        return digests.words if self._level is AnswerLevel.WORDS else digests.tokens
