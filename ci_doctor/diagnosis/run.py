# SPDX-License-Identifier: Apache-2.0
"""Reads the logs that a person names, and makes an outcome of what they say."""

from collections.abc import Callable
from pathlib import Path

from msgspec import Struct, structs

from ci_doctor.diagnosis.diagnosis import Diagnosis, diagnose, load_rules
from ci_doctor.diagnosis.reading.expand import expand
from ci_doctor.diagnosis.reading.log_text import LogText
from ci_doctor.render.formatting import percent


class DiagnoseRequest(Struct, frozen=True, kw_only=True):
    """logs: names of those of the failed job. baseline: of a good run. rules: a repository's own.

    status: as of `diagnosis_of`.
    """

    logs: tuple[str, ...]
    baseline: tuple[str, ...] = ()
    rules: tuple[Path, ...] = ()
    status: int | None = None


def run(request: DiagnoseRequest, tell: Callable[[str], None] = lambda _: None) -> Diagnosis:
    """The diagnosis that `request` asks for; `tell` gets how far each log is read.

    Raises ConfigError if a rules file has a mistake.
    """
    rules = load_rules(request.rules)
    logs = expand(request.logs)
    good = expand(request.baseline)
    damaged: dict[str, str] = {}

    def on_open(log: LogText) -> None:
        _watch(log, tell)
        if log.problem:
            damaged[log.name] = log.problem

    diagnosis = diagnose(logs.names, rules, good.names, on_open, request.status)
    missing = {**logs.unreadable, **good.unreadable, **diagnosis.unreadable}
    in_part = {**logs.limited, **good.limited, **damaged}
    return structs.replace(diagnosis, unreadable=missing, in_part=in_part)


def _watch(log: LogText, tell: Callable[[str], None]) -> None:
    def on_read(count: int) -> None:
        share = round(count / log.size, 2)
        tell(f"reading {log.name}, {percent(share)}")

    log.on_read = on_read
