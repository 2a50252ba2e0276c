# SPDX-License-Identifier: Apache-2.0
"""The command that makes a trial again. Pure."""

from collections.abc import Sequence

from ci_doctor.correctness.command_line import command_line
from ci_doctor.correctness.localise.localisation import Localisation
from ci_doctor.correctness.localise.request_file import is_of_one
from ci_doctor.correctness.localise.trials import Trial


def smallest_command(
    localisation: Localisation, trial: Trial, argv: Sequence[str], run: str
) -> str:
    """The command line of a whole run under the condition of a trial, whose verdict is its own.

    `argv` are the words behind `ci-doctor` of this run, `run` its report directory, which the
    command leaves alone.
    """
    more: list[str] = []
    without: list[str] = []
    passes = len(trial.blocks) if trial.at_once > 1 else 1
    if localisation.requests_file is not None:
        more += ["--requests", f"{run}/{localisation.requests_file}"]
        without.append("--only")
    elif is_of_one(trial, localisation.subject):
        more += ["--only", trial.names[0]]
        passes = len(trial.blocks)
    more += ["--concurrency", str(trial.at_once), "--passes", str(passes)]
    more += ["--report-dir", f"{run}-smallest", "--no-localise"]
    return command_line(argv, more, without)
