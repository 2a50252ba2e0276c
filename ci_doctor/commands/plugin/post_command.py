# SPDX-License-Identifier: Apache-2.0
"""`ci-doctor plugin post-command`: why the command failed, or what it leaves for the next job."""

import contextlib
import os
import sys

import click

from ci_doctor.buildkite.job import JobEnd
from ci_doctor.commands.options import pass_session
from ci_doctor.commands.plugin.harmless import harmlessly
from ci_doctor.session.session import Session

_LIMIT_S = 45.0
# Of a job that timed out; the agent gives it 10 s in all (`cancel-grace-period`).
_GRACE_S = 5.0
_STAYS = "the command's status stays as it is"
# Below the 300 s after which hooks/post-command ends us.
_CACHES_S = 280.0


@click.command("post-command")
@pass_session
def post_command(session: Session, /) -> int:
    """Explain a failed command: prints the export of its new status, or nothing.

    Of one that succeeded, the caches are judged and saved. Exits with 0.
    """
    end = JobEnd.from_environ(os.environ)
    # Who cancelled the job knows why it ended.
    if end.is_cancelled and not end.is_timed_out:
        return 0
    if not end.command_status:
        from ci_doctor.commands.plugin.job_caches import judge_and_save_caches

        harmlessly(judge_and_save_caches, _CACHES_S, "the caches are not saved")
        return 0
    from ci_doctor.commands.plugin.failed_command import status_of

    limit = _GRACE_S if end.is_timed_out else _LIMIT_S
    status = harmlessly(lambda: status_of(session, end), limit, _STAYS)
    if status is not None:
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.write(f"export BUILDKITE_COMMAND_EXIT_STATUS={status}\n")
            sys.stdout.flush()
    return 0
