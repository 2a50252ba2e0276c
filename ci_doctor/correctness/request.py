# SPDX-License-Identifier: Apache-2.0
"""What an experiment needs to be told. Pure."""

from msgspec import Struct

from ci_doctor.config.loading import Config
from ci_doctor.correctness.settings import CorrectnessSettings


class ExperimentRequest(Struct, frozen=True, kw_only=True):
    """An experiment to make.

    `config` holds the services that the arms name. Relative paths in `settings` are relative to the
    working directory. `only` restricts the requests to these ids. `resume` continues the run in the
    report directory. `argv` are the words of a command line that does the same, for commands to
    paste; `began` is the monotonic time from which the budget counts, by default the call.
    """

    settings: CorrectnessSettings
    config: Config = Config(path=None, tables={})
    only: tuple[str, ...] = ()
    resume: bool = False
    argv: tuple[str, ...] = ("correctness",)
    began: float | None = None
