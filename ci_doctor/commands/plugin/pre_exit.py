# SPDX-License-Identifier: Apache-2.0
"""`ci-doctor plugin pre-exit`: the job's record is written, and its reports are published."""

import os

import click

from ci_doctor.commands.plugin.harmless import harmlessly, say

# The agent gives a cancelled job 10 s to end, and its last hooks a part of that.
_CANCELLED_S = 8.0
# Below the 120 s after which hooks/pre-exit ends us.
_LIMIT_S = 110.0


@click.command("pre-exit")
def pre_exit() -> int:
    """Publish this job's reports. Always exits with 0, to leave the job's status unchanged."""
    is_cancelled = os.environ.get("BUILDKITE_JOB_CANCELLED") == "true"
    limit = _CANCELLED_S if is_cancelled else _LIMIT_S
    for line in harmlessly(_publish, limit, "not everything is published") or []:
        say(line.removeprefix("ci-doctor: "))
    return 0


def _publish() -> list[str]:
    """Publish, and return a line for each thing that did not work."""
    from ci_doctor.buildkite.hook_record import keep_published, was_published
    from ci_doctor.buildkite.plugin import options_and_problem, report_root
    from ci_doctor.commands.plugin.finished_record import kept_record
    from ci_doctor.session.written import publish_all, read_reports

    # What is wrong with the options is in the report that pre-command made.
    options, _ = options_and_problem(os.environ)
    root = report_root(options, os.environ)
    problems: list[str] = []
    reports = read_reports((root,), problems)
    directories = [directory for directory, _ in reports]
    if was_published(root, directories, annotated=options.annotate):
        return []
    record = kept_record(root, reports, problems)
    # Without a report, too: a retry takes back what its earlier attempt has published.
    failed = publish_all(reports, annotate=options.annotate, at_end=True, record=record, root=root)
    if not failed:
        keep_published(root, directories, annotated=options.annotate)
    return problems + failed
