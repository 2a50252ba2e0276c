# SPDX-License-Identifier: Apache-2.0
"""The command that makes a condition again. Pure."""

from collections.abc import Sequence

from ci_doctor.correctness.command_line import command_line
from ci_doctor.correctness.localise.conditions import ReducedCondition
from ci_doctor.correctness.localise.localisation import Localisation


def smallest_command(
    localisation: Localisation, condition: ReducedCondition, argv: Sequence[str], run: str
) -> str:
    """The command line of a whole run under `condition`, whose verdict rests on its own starts.

    `argv` are the words behind `ci-doctor` of this run, `run` its report directory, which the
    command leaves alone.
    """
    more: list[str] = []
    without: list[str] = []
    if localisation.requests_file is not None:
        more += ["--requests", f"{run}/{localisation.requests_file}"]
        without.append("--only")
    elif condition.request is not None:
        more += ["--only", condition.request]
    more += ["--concurrency", str(condition.concurrency), "--passes", str(condition.passes)]
    more += ["--report-dir", f"{run}-smallest", "--no-localise"]
    return command_line(argv, more, without)
