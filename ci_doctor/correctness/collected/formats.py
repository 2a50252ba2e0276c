# SPDX-License-Identifier: Apache-2.0
"""The forms in which collected samples come, and how one is told from another. Pure."""

import json
import re
from enum import StrEnum

from ci_doctor.errors import UsageError
from ci_doctor.model.suggestion import did_you_mean

# Where a row names its request, and where it holds what the model said: the first key that is there counts.
# `resps` and `doc_id` are lm-eval's, `generated_text` is vLLM's, `output` SGLang's and many others'.
ID_KEYS = ("id", "request_id", "custom_id", "prompt_id", "doc_id", "index", "idx")
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


class Format(StrEnum):
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
        """Whether it holds whole answers of an API, which then compare with those of another such form."""
        return self in {Format.OURS, Format.RESPONSES, Format.BATCH}

    @property
    def has_random_ids(self) -> bool:
        """Whether the server names the answers, so that two runs may have no id in common."""
        return self in {Format.RESPONSES, Format.ROWS}


_WORDS = {
    Format.OURS: "samples of ci-doctor",
    Format.LMCACHE: "LMCache's text format",
    Format.RESPONSES: "response objects",
    Format.BATCH: "OpenAI batch output",
    Format.ROWS: "rows of generated text",
}


def named(word: str) -> Format:
    """The form that a person names. Raises UsageError, with the nearest name."""
    if word in set(Format):
        return Format(word)
    names = [str(each) for each in Format]
    raise UsageError(
        f"there is no format `{word}`",
        hint=did_you_mean(word, names) or f"known formats: {', '.join(names)}",
    )


def recognise(line: bytes) -> Format | None:
    """The form of a file, by one of its lines; None where the line does not tell."""
    if _BLOCK.fullmatch(line):
        return Format.LMCACHE
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return _of_object(value) if isinstance(value, dict) else None


def _of_object(value: dict[str, object]) -> Format | None:
    if {"arm", "start", "pass", "id"} <= value.keys():
        return Format.OURS
    if "custom_id" in value and ("response" in value or "error" in value):
        return Format.BATCH
    if "choices" in value or value.get("object") == "error":
        return Format.RESPONSES
    if any(key in value for key in TEXT_KEYS):
        return Format.ROWS
    # An answer that failed says only so, in whatever form the others come.
    return Format.RESPONSES if value.keys() == {"error"} else None
