# SPDX-License-Identifier: Apache-2.0
"""The options of `ci-doctor correctness`."""

from typing import Any

import click

from ci_doctor.commands import completion_values as values
from ci_doctor.commands.documented import TIME, VERDICT, option
from ci_doctor.correctness.settings import AnswerLevel, Caches, OnInconclusive, Policy

_COMPARED = "What is compared"
_REQUESTS = "Requests"
_STARTS = "How many starts"


_OPTIONS = (
    option(
        "--baseline",
        group=_COMPARED,
        metavar="CMD",
        help="Command of the baseline; {port} becomes a free port.",
    ),
    option("--candidate", group=_COMPARED, metavar="CMD", help="Command of the candidate."),
    option(
        "--requests",
        group=_REQUESTS,
        metavar="FILE",
        shell_complete=values.files,
        help="File of requests, as JSON lines.",
    ),
    option(
        "--retries",
        group=_STARTS,
        type=click.IntRange(min=1),
        help="Starts of each arm before chance is asked to explain a difference. [default: 3]",
    ),
    option(
        "--max-starts",
        group=_STARTS,
        type=click.IntRange(min=1),
        help="Starts of both arms after which the run ends undecided; 10 at least. [default: 16]",
    ),
    option(
        "--min-candidate-starts",
        group=_STARTS,
        type=click.IntRange(min=1),
        help="Candidate starts before a pass; more starts find rarer faults. [default: 1]",
    ),
    option(
        "--min-baseline-starts",
        group=_STARTS,
        type=click.IntRange(min=1),
        help="Baseline starts before a pass; three find a rare mode made permanent. [default: 1]",
    ),
    option(
        "--alpha",
        group=VERDICT,
        type=float,
        help="Accepted probability of a false regression, over all looks. [default: 0.025]",
    ),
    option(
        "--seed",
        group=_STARTS,
        type=click.IntRange(min=0),
        help="Seed of the random order of the arms. [default: drawn, and kept in the report]",
    ),
    option(
        "--policy",
        group=VERDICT,
        type=click.Choice([each.value for each in Policy]),
        help="`any`: one agreeing pair of starts is a pass; the report states the risk. [default: control]",
    ),
    option(
        "--compare",
        group=VERDICT,
        type=click.Choice([each.value for each in AnswerLevel]),
        help="What must be the same. Each level includes those before it. [default: numbers]",
    ),
    option(
        "--limit",
        group=VERDICT,
        metavar="LIMIT",
        help="How far numbers may lie apart: '0.01 nat' or '4 ulp'. [default: not at all]",
    ),
    option(
        "--on-inconclusive",
        group=VERDICT,
        type=click.Choice([each.value for each in OnInconclusive]),
        help="`pass`: a run that decides nothing ends with 0. [default: fail]",
    ),
    option(
        "--env",
        "variables",
        group=_COMPARED,
        multiple=True,
        metavar="ARM:NAME=VALUE",
        help="A variable for one arm. Repeatable.",
    ),
    option(
        "--ready",
        group=_COMPARED,
        metavar="PATH|URL",
        help="Path or URL answering 200 once the server is ready. [default: /health]",
    ),
    option(
        "--concurrency",
        group=_REQUESTS,
        type=click.IntRange(min=1),
        help="Requests in flight at once. [default: 40]",
    ),
    option(
        "--passes",
        group=_REQUESTS,
        type=click.IntRange(min=1),
        help="How often each start gets every request. [default: 2]",
    ),
    option(
        "--reset",
        group=_REQUESTS,
        metavar="PATH",
        help="Send a POST to this path between two passes, such as /reset_prefix_cache.",
    ),
    option(
        "--caches",
        group=_COMPARED,
        type=click.Choice([each.value for each in Caches]),
        help="Compile caches of each start. [default: fresh]",
    ),
    option(
        "--devices",
        group=_STARTS,
        metavar="LIST",
        help="Devices on which two starts run at once: 0,1 or 0+1,2+3 or auto. [default: none]",
    ),
    option(
        "--localise/--no-localise",
        group=VERDICT,
        default=None,
        help="After a difference, find the smallest condition that shows it. [default: localise]",
    ),
    option(
        "--start-timeout",
        group=TIME,
        metavar="S",
        help="Time for a server to become ready. [default: 600s]",
    ),
    option(
        "--request-timeout",
        group=TIME,
        metavar="S",
        help="Time for a request to be answered. [default: 120s]",
    ),
    option(
        "--budget",
        group=TIME,
        metavar="S",
        help="Wall clock for the whole run, report included. [default: the step's timeout, or 25m]",
    ),
    option(
        "--archive",
        group=_STARTS,
        metavar="DIR|URL",
        shell_complete=values.directories,
        help="Keep baseline starts of trusted builds here, and use the matching ones.",
    ),
    option(
        "--resume",
        group=_STARTS,
        metavar="DIR",
        shell_complete=values.directories,
        help="Continue the unfinished run in this report directory.",
    ),
    option(
        "--only",
        group=_REQUESTS,
        multiple=True,
        metavar="ID",
        help="Send only the request with this id. Repeatable.",
    ),
    option(
        "--fail-on-flaky",
        group=VERDICT,
        is_flag=True,
        default=None,
        help="Exit with 7 instead of 0 if the verdict is flaky.",
    ),
)


def experiment_options(function: Any) -> Any:
    """What an experiment can be told on the command line; an absent flag is None."""
    for each in reversed(_OPTIONS):
        function = each(function)
    return function
