# SPDX-License-Identifier: Apache-2.0
"""`ci-doctor correctness`, and the commands below it."""

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from ci_doctor.commands.documented import (
    PATH,
    TIME,
    VERDICT,
    F,
    Group,
    config_option,
    dry_run_option,
    load_configuration,
    option,
    output_options,
    pass_session,
    run_output_options,
)
from ci_doctor.correctness.settings import (
    BUILDKITE,
    AnswerLevel,
    Caches,
    OnInconclusive,
    Policy,
    read_comparison,
)
from ci_doctor.errors import UsageError
from ci_doctor.session.session import Session

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
        type=PATH,
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
        help="Starts of both arms after which the run ends undecided; 9 at least. [default: 16]",
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
        "--fan-out",
        group=_STARTS,
        is_flag=False,
        flag_value=BUILDKITE,
        metavar="[WHERE]",
        help="Make starts in jobs of this Buildkite build, or with local:N so many at once here. [default: none]",
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
        type=PATH,
        help="Keep baseline starts of trusted builds here, and use the matching ones.",
    ),
    option(
        "--resume",
        group=_STARTS,
        metavar="DIR",
        type=PATH,
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


def _some_options(*names: str) -> Callable[[F], F]:
    """Those options of an experiment that have these names."""

    def put(function: F) -> F:
        for each in reversed(_OPTIONS):
            # click keeps what it declares in this attribute of a function.
            (parameter,) = each(lambda: None).__click_params__
            if parameter.name in names:
                function = each(function)
        return function

    return put


@click.group(
    "correctness",
    section="correctness",
    examples={
        "ci-doctor correctness --baseline 'vllm serve MODEL --port {port}' --candidate 'vllm serve MODEL --port {port} --enable-prefix-caching' --requests prompts.jsonl": "Compare two servers without a configuration file.",
        "ci-doctor correctness --retries 3 --budget 25m --report-dir report": "The same with the servers of ci-doctor.toml, within 25 minutes.",
    },
    exits={
        0: "pass or flaky",
        1: "regression; or failed: an arm failed in every start, and nothing proves a cause outside the change",
        2: "the command line, a file or the command of a server is wrong",
        7: "flaky, with --fail-on-flaky",
        75: "infra: the cause lies outside the change",
        85: "nondeterministic",
        86: "undecided, or no evidence",
    },
    cls=Group,
    invoke_without_command=True,
)
@experiment_options
@option(
    "--check-requests",
    group=_REQUESTS,
    is_flag=True,
    help="Start the baseline alone, and measure how many answers one other word changes.",
)
@config_option
@dry_run_option
@run_output_options
@pass_session
@click.pass_context
def correctness(context: click.Context, session: Session, /, **options: Any) -> int:
    """Start a baseline and a candidate server, send both the same requests, and judge.

    If the first two starts give the same answers, byte for byte, the result is a pass. If not, both
    servers are started again. An exact test over the starts then separates a regression from a
    flaky environment.
    """
    if context.invoked_subcommand:
        return 0
    # Here, because the commands below need none of it.
    from ci_doctor.commands.correctness_experiment import run_experiment

    return run_experiment(session, **options)


@correctness.command(
    "replay",
    examples={
        "ci-doctor correctness replay --run ci-doctor-report --request r17": "Show what every start answered to one request.",
        "ci-doctor correctness replay --run ci-doctor-report --request r17 --starts A1,B1": "Compare two starts.",
    },
)
@option(
    "--run",
    "run_directory",
    metavar="DIR",
    required=True,
    type=PATH,
    help="The report directory of a run.",
)
@option("--request", metavar="ID", required=True, help="The request to show.")
@option(
    "--starts",
    metavar="A1,B1",
    help="Two starts, or one to compare its passes. [default: the pair that shows most]",
)
@output_options
@pass_session
def replay(session: Session, run_directory: str, request: str, starts: str | None) -> int:
    """Show one request of a run: what every start answered, and where two of the answers diverge.

    It starts no server. The exit code is 0, whatever the answers are.
    """
    from ci_doctor.correctness.report.replay import ReplayRequest
    from ci_doctor.correctness.report.replay import replay as shown
    from ci_doctor.model.facts.correctness import ReplayFacts

    run = Path(run_directory)
    named = session.named_directory
    if named is not None and named.resolve() == run.resolve():
        # First of all: the report of this very error would overwrite the run's.
        session.protect()
        raise UsageError(
            "the run's own report would be overwritten", hint="name another --report-dir"
        )
    outcome = shown(ReplayRequest(run=run, request=request, starts=_names(starts)))

    session.claim()
    if isinstance(outcome.facts, ReplayFacts) and outcome.facts.unreadable_lines:
        lines = f"{outcome.facts.unreadable_lines} lines of the samples"
        click.echo(f"warning: {lines} cannot be read, and are left out", err=True)
    return session.finish(outcome, on_stdout=True)


def _names(starts: str | None) -> tuple[str, ...]:
    if starts is None:
        return ()
    names = tuple(map(str.strip, starts.split(",")))
    # An empty text splits into one empty name.
    if not starts or not 1 <= len(names) <= 2:
        raise UsageError(
            f"--starts {starts}: two starts can be compared", hint="such as --starts A1,B1"
        )
    return names


@correctness.command(
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
@click.argument("baseline", metavar="A", type=PATH)
@click.argument("candidate", metavar="B", type=PATH)
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
    from ci_doctor.correctness.collected.compare import CompareRequest
    from ci_doctor.correctness.collected.compare import compare as compared

    # click compares it with both ends of the range, and NaN is beyond neither.
    if math.isnan(alpha):
        raise UsageError("invalid value for '--alpha': nan is not in the range 0<x<1")
    comparison = read_comparison(AnswerLevel(level), limit)
    session.claim()
    load_configuration(session, config_path, fail_on_flaky=fail_on_flaky)
    request = CompareRequest(
        baseline=baseline,
        candidate=candidate,
        form=form,
        alpha=alpha,
        exchangeable=exchangeable,
        comparison=comparison,
    )
    return session.finish(compared(request), on_stdout=True)


_SEARCHED = (
    "requests", "ready", "concurrency", "passes", "reset", "compare", "limit",
    "start_timeout", "request_timeout", "resume", "only", "devices", "fan_out",
)  # fmt: skip
_SEARCH_EXITS = {
    0: "found",
    2: "the command line, a file or the command of a server is wrong",
    75: "infra: the cause lies outside the change, or an end cannot be built",
    86: "the ends do not differ, or no answer is probable enough",
}


def _search_options(most: int) -> Callable[[F], F]:
    def put(function: F) -> F:
        put_on: Sequence[Callable[[Any], Any]] = (
            option(
                "--build",
                group=_COMPARED,
                metavar="CMD",
                help="Command that builds what is started. A build that fails is skipped.",
            ),
            option(
                "--max-starts",
                "most",
                group=_STARTS,
                type=click.IntRange(min=8),
                default=most,
                show_default=True,
                help="Starts after which the search ends undecided.",
            ),
            option(
                "--confidence",
                group=VERDICT,
                type=click.FloatRange(min=0.5, max=1, min_open=True, max_open=True),
                default=0.9,
                show_default=True,
                help="The least probability at which an answer is given.",
            ),
            option(
                "--budget",
                group=TIME,
                metavar="S",
                help="Wall clock for the whole search; --resume goes on. [default: the step's timeout]",
            ),
            _some_options(*_SEARCHED),
            config_option,
            run_output_options,
            pass_session,
        )
        for each in reversed(put_on):
            function = each(function)
        return function

    return put


@correctness.command(
    "localise",
    examples={
        "ci-doctor correctness localise --max-starts 60": "Which variable or flag of the candidate in ci-doctor.toml makes its answers differ?",
        "ci-doctor correctness localise --baseline-pins old.txt --candidate-pins new.txt --build './install.sh {pins} {build}'": "Which version does?",
    },
    exits=_SEARCH_EXITS,
)
@_some_options("baseline", "candidate", "variables")
@option(
    "--baseline-pins",
    group=_COMPARED,
    metavar="FILE",
    type=PATH,
    help="Pinned packages of the baseline, one requirement a line.",
)
@option(
    "--candidate-pins",
    group=_COMPARED,
    metavar="FILE",
    type=PATH,
    help="Pinned packages of the candidate.",
)
@_search_options(60)
def localise(session: Session, /, **options: Any) -> int:
    """Find which settings of the candidate make its answers differ, by starts with some of them.

    Settings are variables, flags with their values, and pinned packages. Each start gets some of the
    candidate's. Chance is accounted for, and both ends are compared first.
    """
    from ci_doctor.commands.correctness_search import run_localise

    return run_localise(session, **options)


@correctness.command(
    "bisect",
    examples={
        "ci-doctor correctness bisect v0.9.0..HEAD --command './serve.sh {port}' --build ./build.sh": "Which commit has changed the answers?",
    },
    exits=_SEARCH_EXITS,
)
@click.argument("commits", metavar="GOOD..BAD")
@option(
    "--command",
    "server",
    group=_COMPARED,
    metavar="CMD",
    help="Command that starts the server of a checkout; 125 skips it. [default: the candidate]",
)
@_search_options(40)
def bisect(session: Session, /, **options: Any) -> int:
    """Find the first commit whose answers differ from those of GOOD, where starts may be flaky.

    Each commit is built and started in a worktree of its own. Both ends are compared first. The result
    is a commit with its probability.
    """
    from ci_doctor.commands.correctness_search import run_bisect

    return run_bisect(session, **options)
