# SPDX-License-Identifier: Apache-2.0
"""`ci-doctor import-race`."""

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ci_doctor.commands.delivery import claim, deliver
from ci_doctor.commands.import_race_probe import probe
from ci_doctor.commands.options import config_option, output_options
from ci_doctor.errors import UsageError

if TYPE_CHECKING:
    from ci_doctor.commands.invocation import Invocation


@click.command(
    "import-race",
    context_settings={"allow_interspersed_args": False},
    epilog="`ci-doctor import-race probe MODULE[:ATTR]` asks of one module whether its import can be lost in this way.",
)
@click.option(
    "--confirm",
    is_flag=True,
    help="Run CMD again for each hazard, with a delay to make it fire.",
)
@click.option(
    "--timeout", metavar="S", help="End a command that does not end by itself. [default: none]"
)
@click.option(
    "--candidates",
    type=click.IntRange(min=1),
    default=10,
    show_default=True,
    help="How many hazards --confirm tries, the worst first.",
)
@click.option(
    "--timeline",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write the imports by thread to this file, for Perfetto. "
    "[default: imports.json in --report-dir, or here]",
)
@config_option
@output_options
@click.argument(
    "words",
    nargs=-1,
    required=True,
    type=click.UNPROCESSED,
    metavar="[probe MODULE[:ATTR]] | -- CMD…",
)
@click.pass_context
def import_race(
    context: click.Context,
    /,
    *,
    words: tuple[str, ...],
    confirm: bool,
    timeout: str | None,
    candidates: int,
    timeline: Path | None,
    config_path: Path | None,
    as_json: bool,
    report_dir: Path | None,  # noqa: ARG001 - invocation.report_directory knows it
) -> int:
    """Run CMD, record its imports across threads, and report possible races.

    Reports races even if nothing went wrong. Follows all Python processes of CMD, except if they
    ignore PYTHONPATH. Exit codes: 0 no race, 1 a race fired (in this run, or with --confirm in a
    run with a delay), 86 races are possible and none fired, or nothing is known.
    """
    invocation: Invocation = context.obj
    if words != invocation.argv[len(invocation.own_argv) + 1 :]:
        if words[0] == "probe":
            name, names = "ci-doctor import-race probe", context.help_option_names
            with probe.make_context(
                name, list(words[1:]), obj=invocation, help_option_names=names
            ) as inner:
                return int(probe.invoke(inner) or 0)
        # Without it a reader could not tell whose option `--json` is.
        line = shlex.join(["ci-doctor", *invocation.argv[: -len(words)], "--", *words])
        raise UsageError("`--` is missing before the command", hint=f"write: {line}")
    directory = invocation.report_directory
    # Before anything else, so that no report of an earlier attempt outlives this one, however it ends.
    claim(directory)

    from ci_doctor.commands.import_race_output import Job, perform, refused
    from ci_doctor.config import loading as config
    from ci_doctor.config.exit_codes import read_exit_codes
    from ci_doctor.imports.investigate import Plan
    from ci_doctor.services.launch.client import problem

    codes, _ = read_exit_codes(config.load(config_path, Path.cwd()), os.environ)
    if found := problem(words[0], os.environ, Path.cwd()):
        return deliver(refused(invocation, *found), as_json=as_json, directory=directory)
    plan = Plan(
        command=words,
        environ=dict(os.environ),
        output=2 if as_json else 1,
        timeout_s=None if timeout is None else config.seconds_above_zero(timeout, "--timeout"),
        confirming=confirm,
        candidates=candidates,
    )
    job = Job(plan=plan, codes=codes, directory=directory, timeline=timeline, as_json=as_json)
    return perform(job, invocation)
