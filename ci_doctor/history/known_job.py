# SPDX-License-Identifier: Apache-2.0
"""Pure. What is known of a job whose evidence does not say it."""

from collections.abc import Sequence
from typing import Any, Final

from msgspec.structs import replace

from ci_doctor.errors import UsageError
from ci_doctor.history.evidence import JobEvidence
from ci_doctor.history.reading.own_report import job_of
from ci_doctor.model.about import About
from ci_doctor.model.words import did_you_mean

_MOST_DIGITS: Final = 18  # of an integer of the databases
_FIELDS: Final = {
    "pipeline": "pipeline",
    "build": "build",
    "step": "step",
    "label": "label",
    "job": "key",
    "commit": "commit",
    "branch": "branch",
    "agent": "agent",
    "queue": "queue",
}


def known_job(words: Sequence[str], about: About, label: str | None = None) -> JobEvidence:
    """The words of `--about`; without any, the Buildkite job of `about`, with the label of its step.

    Outside a job nothing is known: the commit of the folder in which somebody ingests downloaded
    files is not theirs. Raises UsageError for a word that is no KEY=VALUE.
    """
    if not words:
        return replace(job_of(about), label=label) if about.job is not None else JobEvidence()
    values: dict[str, Any] = {}
    for word in words:
        name, separator, value = word.partition("=")
        if not separator or not value:
            raise UsageError(f"--about {word}: it is no KEY=VALUE", hint="such as commit=4fe1a2b")
        if name not in _FIELDS:
            raise UsageError(
                f"--about: nothing of a job is called `{name}`", hint=did_you_mean(name, _FIELDS)
            )
        values[_FIELDS[name]] = _number(value) if name == "build" else value
    return replace(JobEvidence(), **values)


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise UsageError(f"--about build={text}: it is no number", hint="such as build=812")
    if len(text) > _MOST_DIGITS:
        raise UsageError(f"--about build={text}: it is too large", hint="such as build=812")
    return int(text)
