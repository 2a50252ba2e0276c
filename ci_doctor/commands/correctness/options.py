# SPDX-License-Identifier: Apache-2.0
"""The options of `ci-doctor correctness`."""

from typing import Any

import click

from ci_doctor.commands import completion_values as values
from ci_doctor.correctness.comparison import AnswerLevel
from ci_doctor.correctness.settings import Caches, OnInconclusive, Policy

_OPTIONS = (
    click.option(
        "--baseline", metavar="CMD", help="Command of the baseline; {port} becomes a free port."
    ),
    click.option("--candidate", metavar="CMD", help="Command of the candidate."),
    click.option(
        "--requests", metavar="FILE", shell_complete=values.files, help="JSONL, one request a line."
    ),
    click.option(
        "--retries",
        type=click.IntRange(min=1),
        help="Candidate starts at the first look for noise. [default: 3]",
    ),
    click.option(
        "--max-starts",
        type=click.IntRange(min=1),
        help="Starts of both arms after which the run ends undecided; 10 at least. [default: 16]",
    ),
    click.option(
        "--min-candidate-starts",
        type=click.IntRange(min=1),
        help="Candidate starts before a pass; more starts find rarer faults. [default: 1]",
    ),
    click.option(
        "--min-baseline-starts",
        type=click.IntRange(min=1),
        help="Baseline starts before a pass; three find a rare mode made permanent. [default: 1]",
    ),
    click.option(
        "--alpha",
        type=float,
        help="Accepted probability of a false regression, over all looks. [default: 0.025]",
    ),
    click.option(
        "--seed",
        type=click.IntRange(min=0),
        help="Seed of the random order of the arms. [default: drawn, and kept in the report]",
    ),
    click.option(
        "--policy",
        type=click.Choice([each.value for each in Policy]),
        help="`any`: one agreeing pair of starts is enough; prints the risk. [default: control]",
    ),
    click.option(
        "--compare",
        type=click.Choice([each.value for each in AnswerLevel]),
        help="What must be the same; each holds those before it. [default: numbers]",
    ),
    click.option(
        "--limit",
        metavar="LIMIT",
        help="How far numbers may lie apart: '0.01 nat' or '4 ulp'. [default: not at all]",
    ),
    click.option(
        "--on-inconclusive",
        type=click.Choice([each.value for each in OnInconclusive]),
        help="`pass`: exit 0. [default: fail]",
    ),
    click.option(
        "--env",
        "variables",
        multiple=True,
        metavar="ARM:NAME=VALUE",
        help="A variable for one arm. Repeatable.",
    ),
    click.option(
        "--ready",
        metavar="PATH|URL",
        help="Path or URL answering 200 once the server is ready. [default: /health]",
    ),
    click.option(
        "--concurrency",
        type=click.IntRange(min=1),
        help="Requests in flight at once. [default: 40]",
    ),
    click.option(
        "--passes",
        type=click.IntRange(min=1),
        help="How often each start gets every request. [default: 2]",
    ),
    click.option(
        "--reset",
        metavar="PATH",
        help="Send a POST to this path between two passes, such as /reset_prefix_cache.",
    ),
    click.option(
        "--caches",
        type=click.Choice([each.value for each in Caches]),
        help="Compile caches of each start. [default: fresh]",
    ),
    click.option(
        "--localise/--no-localise",
        default=None,
        help="After a difference, find the smallest condition that shows it. [default: localise]",
    ),
    click.option(
        "--start-timeout", metavar="S", help="Time for a server to become ready. [default: 600s]"
    ),
    click.option(
        "--request-timeout", metavar="S", help="Time for a request to be answered. [default: 120s]"
    ),
    click.option(
        "--budget",
        metavar="S",
        help="Wall clock for the whole run, report included. [default: the step's timeout, or 25m]",
    ),
    click.option(
        "--archive",
        metavar="DIR|URL",
        shell_complete=values.directories,
        help="Keep baseline starts of trusted builds here, and use the matching ones.",
    ),
    click.option(
        "--resume",
        metavar="DIR",
        shell_complete=values.directories,
        help="Continue the unfinished run in this report directory.",
    ),
    click.option(
        "--only",
        multiple=True,
        metavar="ID",
        help="Send only the request with this id. Repeatable.",
    ),
    click.option(
        "--fail-on-flaky",
        is_flag=True,
        default=None,
        help="Exit with 7 instead of 0 if the verdict is flaky.",
    ),
)


def experiment_options(function: Any) -> Any:
    """What an experiment can be told on the command line; an absent flag is None."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function
