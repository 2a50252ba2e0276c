# SPDX-License-Identifier: Apache-2.0
"""`ci-doctor compat`."""

import sys
from pathlib import Path

import click

from ci_doctor.commands.documented import command, option, output_options, pass_session
from ci_doctor.session.session import Session


@command(
    "compat",
    examples={
        "ci-doctor compat . vllm": "Check this checkout against the installed vLLM.",
        "ci-doctor compat lmcache/ vllm@v0.9.0": "Check a directory against a revision of a clone.",
        "ci-doctor compat --matrix 'lmcache==0.3.*' 'vllm==0.1[01].*'": "Judge all pairs of published versions.",
    },
    exits={
        0: "no place surely breaks",
        1: "a call, an import, an attribute or an override breaks",
        86: "nothing could be judged",
    },
)
@click.argument("caller")
@click.argument("callees", nargs=-1, required=True, metavar="CALLEE…")
@option(
    "--matrix",
    group="What is compared",
    is_flag=True,
    help="Judge all pairs of published versions, in both directions. Each argument is then a specification such "
    "as 'vllm==0.1[89].*', or a local source.",
)
@option(
    "--python",
    "python",
    group="What is compared",
    type=click.Path(path_type=Path, exists=True),
    metavar="PY",
    help="Look for installed packages beside this interpreter. It is not started.",
)
@option(
    "--python-version",
    group="What is compared",
    metavar="X.Y",
    help="Decide `sys.version_info` guards for this Python. [default: the one that runs ci-doctor]",
)
@output_options
@pass_session
def compat(
    session: Session,
    caller: str,
    callees: tuple[str, ...],
    matrix: bool,
    python: Path | None,
    python_version: str | None,
) -> int:
    """Check that the code of CALLER still calls CALLEE correctly.

    Each is a directory, PATH@REVISION, a wheel, an sdist, or the name of an installed package. The
    source is read and nothing of it runs. With --matrix, pip downloads the wheels of the
    versions.
    """
    from ci_doctor.commands.teller import Teller
    from ci_doctor.compat.outcome import CompatRequest, check, check_matrix, version_pair

    session.claim()
    request = CompatRequest(
        caller=caller,
        callees=callees,
        python=python,
        python_version=version_pair(python_version) or sys.version_info[:2],
    )
    with Teller(group="ci-doctor compat: steps") as tell:
        outcome = (check_matrix if matrix else check)(request, tell=tell)
    return session.finish(outcome, on_stdout=outcome.error is None)
