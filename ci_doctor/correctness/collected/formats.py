# SPDX-License-Identifier: Apache-2.0
"""The formats of collected samples, and how one is told from another. Pure."""

import json
import re
from enum import StrEnum

from ci_doctor.errors import UsageError
from ci_doctor.load.protocols import of_answer
from ci_doctor.model.suggestion import did_you_mean

# The keys under which a row names its request. The first key that is there counts. `doc_id` is
# lm-eval's.
ID_KEYS = ("id", "request_id", "custom_id", "prompt_id", "doc_id", "index", "idx")
# The keys under which a row holds the generated text. `resps` is lm-eval's, `generated_text` is
# vLLM's, `output` SGLang's and many others'.
TEXT_KEYS = (
    "generated_text",
    "output_text",
    "output",
    "text",
    "completion",
    "response",
    "generation",
    "answer",
    "resps",
)
_BLOCK = re.compile(rb"(?=[^\s:]*[-_0-9])[^\s:]+:\r?\n?")


class SampleFormat(StrEnum):
    """The name is what `--format` takes."""

    OURS = "ours"
    LMCACHE = "lmcache"
    RESPONSES = "responses"
    BATCH = "batch"
    ROWS = "rows"

    @property
    def words(self) -> str:
        """For a report."""
        return _WORDS[self]

    @property
    def is_api(self) -> bool:
        """Whether it holds whole answers of an API, which compare across such formats."""
        return self in {SampleFormat.OURS, SampleFormat.RESPONSES, SampleFormat.BATCH}

    @property
    def has_random_ids(self) -> bool:
        """Whether the server names the answers, so that two runs may have no id in common."""
        return self in {SampleFormat.RESPONSES, SampleFormat.ROWS}


_WORDS = {
    SampleFormat.OURS: "samples of ci-doctor",
    SampleFormat.LMCACHE: "LMCache's text format",
    SampleFormat.RESPONSES: "response objects",
    SampleFormat.BATCH: "OpenAI batch output",
    SampleFormat.ROWS: "rows of generated text",
}


def named(word: str) -> SampleFormat:
    """The format of that name. Raises UsageError, with the nearest name."""
    if word in set(SampleFormat):
        return SampleFormat(word)
    names = [str(each) for each in SampleFormat]
    raise UsageError(
        f"there is no format `{word}`",
        hint=did_you_mean(word, names) or f"known formats: {', '.join(names)}",
    )


def recognise(line: bytes) -> SampleFormat | None:
    """The format of a file, by one of its lines; None if the line does not show it."""
    if _BLOCK.fullmatch(line):
        return SampleFormat.LMCACHE
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return _of_object(value) if isinstance(value, dict) else None


def _of_object(value: dict[str, object]) -> SampleFormat | None:
    # From the most particular to the most general: a batch line holds a response, and a row may
    # hold any key.
    if {"arm", "start", "pass", "id"} <= value.keys():
        return SampleFormat.OURS
    if "custom_id" in value and not value.keys().isdisjoint({"response", "error"}):
        return SampleFormat.BATCH
    if _is_response(value):
        return SampleFormat.RESPONSES
    if not value.keys().isdisjoint(TEXT_KEYS):
        return SampleFormat.ROWS
    # A failed answer holds nothing but its error, whatever the format of the others.
    if value.keys() == {"error"} or of_answer(value) is not None:
        return SampleFormat.RESPONSES
    return None


def _is_response(value: dict[str, object]) -> bool:
    """Whether an object is an answer of an API, whatever texts it holds."""
    if "choices" in value or value.get("object") == "error":
        return True
    # The answers of OpenAI and vLLM name their type. A row may hold `scores` beside its text.
    return "object" in value and of_answer(value) is not None
