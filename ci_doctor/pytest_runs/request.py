# SPDX-License-Identifier: Apache-2.0
"""What a person asks of `ci-doctor pytest`. Pure."""

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path

from msgspec import Struct

from ci_doctor.pytest_runs.past import PastReader

# Of tests that fail. 1 alone would call a test that fails half of the time `failed` in every second
# run; each further one doubles the cost of a real failure.
DEFAULT_RERUNS = 2
QUARANTINE_FILE = "ci-doctor-quarantine.toml"


class RerunPlace(StrEnum):
    """Where a test that failed is run again: alone in a new process, or in the process that failed."""

    FRESH = "fresh"
    PROCESS = "process"


class PytestRequest(Struct, frozen=True, kw_only=True):
    """args: for pytest. python: the interpreter, as the user wrote it; None for the default.

    environ: the environment of pytest. reruns: of a test that fails, at most. rerun_s: for all reruns together; None for a time by that of the suite. timeout_s: of one test.
    new_tests: how often a test runs that the base does not have. baseline: a commit of git. on_stderr:
    what pytest writes goes to stderr. rules: a repository's own about log lines. explain_s: how long
    flaky tests may be explained for, None for not at all. past: the history, if there is one.
    """

    args: tuple[str, ...]
    environ: Mapping[str, str]
    directory: Path
    python: str | None = None
    reruns: int = DEFAULT_RERUNS
    rerun_s: float | None = None
    rerun_in: RerunPlace = RerunPlace.FRESH
    timeout_s: float | None = None
    new_tests: int = 1
    baseline: str | None = None
    on_stderr: bool = False
    rules: tuple[Path, ...] = ()
    explain_s: float | None = None
    past: PastReader | None = None
