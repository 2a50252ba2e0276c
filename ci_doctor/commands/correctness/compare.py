# SPDX-License-Identifier: Apache-2.0
"""`ci-doctor correctness compare`."""

import math
import os
from pathlib import Path

import click

from ci_doctor.commands import completion_values as values
from ci_doctor.commands.documented import VERDICT, command, option
from ci_doctor.commands.options import config_option, output_options, pass_session
from ci_doctor.correctness.settings import AnswerLevel, read_comparison
from ci_doctor.errors import UsageError
from ci_doctor.session.session import Session


@command(
    "compare",
    examples={
        "ci-doctor correctness compare baseline.jsonl candidate.jsonl": "Compare one start of each.",
        "ci-doctor correctness compare main/ change/ --compare tokens": "Compare directories in which each file is one start.",
    },
    exits={
        0: "pass or flaky",
        1: "regression",
        7: "flaky, with --fail-on-flaky",
        85: "nondeterministic",
        86: "undecided, as if one start a side differs",
    },
)
@click.argument("baseline", metavar="A", shell_complete=values.files)
@click.argument("candidate", metavar="B", shell_complete=values.files)
@option(
    "--format",
    "form",
    group="Samples",
    metavar="NAME",
    help="ours, lmcache, responses, batch or rows. [default: by content]",
)
@option(
    "--alpha",
    group=VERDICT,
    type=click.FloatRange(min=0, max=1, min_open=True, max_open=True),
    default=0.025,
    show_default=True,
    help="Accepted probability of a false regression.",
)
@option(
    "--compare",
    "level",
    group=VERDICT,
    type=click.Choice([each.value for each in AnswerLevel]),
    default=AnswerLevel.NUMBERS.value,
    show_default=True,
    help="What must be the same. Each level includes those before it.",
)
@option(
    "--limit",
    group=VERDICT,
    metavar="LIMIT",
    help="How far numbers may lie apart: '0.01 nat' or '4 ulp'. [default: not at all]",
)
@option(
    "--exchangeable",
    group=VERDICT,
    is_flag=True,
    help="Assert that the order of the starts plays no part: nothing drifts with time.",
)
@option("--fail-on-flaky", group=VERDICT, is_flag=True, help="Exit with 7 instead of 0 if flaky.")
@config_option
@output_options
@pass_session
def compare(
    session: Session,
    /,
    *,
    baseline: str,
    candidate: str,
    form: str | None,
    alpha: float,
    level: str,
    limit: str | None,
    exchangeable: bool,
    fail_on_flaky: bool,
    config_path: Path | None,
) -> int:
    """Compare samples that another program collected: A is the baseline's, B the candidate's.

    Each is a file, or a directory in which every *.jsonl or *.txt is one start.
    """
    from ci_doctor.config.exit_codes import read_exit_codes
    from ci_doctor.config.loading import load_config
    from ci_doctor.correctness.collected.compare import CompareRequest
    from ci_doctor.correctness.collected.compare import compare as compared
    from ci_doctor.session.exit_policy import ExitPolicy

    # click compares it with both ends of the range, and NaN is beyond neither.
    if math.isnan(alpha):
        raise UsageError("invalid value for '--alpha': nan is not in the range 0<x<1")
    comparison = read_comparison(AnswerLevel(level), limit)
    session.claim()
    codes, _ = read_exit_codes(load_config(config_path, Path.cwd()), os.environ)
    session.policy = ExitPolicy(codes=codes, fail_on_flaky=fail_on_flaky)
    request = CompareRequest(
        baseline=baseline,
        candidate=candidate,
        form=form,
        alpha=alpha,
        exchangeable=exchangeable,
        comparison=comparison,
    )
    return session.finish(compared(request), on_stdout=True)
