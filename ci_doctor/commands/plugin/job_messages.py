# SPDX-License-Identifier: Apache-2.0
"""Acts on the network: the messages about a job that ends, as [notify] says."""

import os
from collections.abc import Sequence
from pathlib import Path

from ci_doctor.buildkite.job_end import JobEnd
from ci_doctor.buildkite.plugin import PluginOptions
from ci_doctor.commands.notification import configured_notify, send, told_lines
from ci_doctor.errors import CiDoctorError
from ci_doctor.model.job_record import JobRecord
from ci_doctor.model.report import Report
from ci_doctor.notify.notice import step_notice
from ci_doctor.notify.settings import MOST_SECONDS

# Of the 8 s that the hooks of a job have that timed out, publishing may have taken 6.
_TIMED_OUT_S = 1.5


def send_messages(
    options: PluginOptions, reports: Sequence[Report], record: JobRecord | None
) -> list[str]:
    """Send what is known of this job; a line for each message that was sent or has failed."""
    end = JobEnd.from_environ(os.environ)
    # Who cancelled the job knows that it ended.
    if end.is_cancelled and not end.is_timed_out:
        return []
    if not reports and record is None:
        return []
    config = Path(options.config) if options.config is not None else None
    try:
        configured = configured_notify(config)
    except CiDoctorError as error:
        return [f"{error.message}; no message is sent"]
    notice = step_notice(reports, configured.place, record)
    most_s = _TIMED_OUT_S if end.is_timed_out else MOST_SECONDS
    return list(told_lines(send(notice, configured, most_s=most_s)))
