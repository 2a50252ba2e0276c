# SPDX-License-Identifier: Apache-2.0
"""Reads the logs that a person names, and makes an outcome of what they say."""

from collections.abc import Callable
from pathlib import Path

from msgspec import Struct, structs

from ci_doctor.diagnosis.cause import Diagnosis
from ci_doctor.diagnosis.diagnosis import diagnose, load_rules
from ci_doctor.diagnosis.reading.expand import expand


class DiagnoseRequest(Struct, frozen=True, kw_only=True):
    """logs: names of those of the failed job. baseline: of a good run. rules: a repository's own."""

    logs: tuple[str, ...]
    baseline: tuple[str, ...] = ()
    rules: tuple[Path, ...] = ()


def run(request: DiagnoseRequest, tell: Callable[[str], None] = lambda _: None) -> Diagnosis:
    """The diagnosis that `request` asks for; `tell` gets each step before it begins.

    Raises ConfigError if a rules file has a mistake.
    """
    rules = load_rules(request.rules)
    logs = expand(request.logs)
    good = expand(request.baseline)
    tell("reading " + ", ".join(logs.names))
    diagnosis = diagnose(logs.names, rules, good.names)
    missing = {**logs.unreadable, **good.unreadable, **diagnosis.unreadable}
    limited = {**logs.limited, **good.limited}
    return structs.replace(diagnosis, unreadable={**missing, **limited})
