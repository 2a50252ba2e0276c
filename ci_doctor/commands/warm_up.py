# SPDX-License-Identifier: Apache-2.0
"""Loads what a report needs while services start, so that a death is told without delay. Acts on a thread."""

import contextlib
import threading

from ci_doctor.services.outcome import EventKind, ServiceEvent


class WarmUp:
    """Give it the events of a group: it loads at the first start. Wait for it before the report."""

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None

    def __call__(self, event: ServiceEvent) -> None:
        """Start loading at the first start."""
        if event.kind is EventKind.STARTED:
            self.begin()

    def begin(self) -> None:
        """Start loading, once."""
        if self._thread is None:
            self._thread = threading.Thread(target=_load, name="ci-doctor-warm-up", daemon=True)
            with contextlib.suppress(RuntimeError):  # no more threads on this machine
                self._thread.start()

    def wait(self) -> None:
        """Until all is loaded."""
        if self._thread is not None and self._thread.ident is not None:
            self._thread.join()


def _load() -> None:
    """Render a report of every kind of part once: this loads the modules and compiles their patterns."""
    import ci_doctor.services.launch.report  # noqa: F401 - loaded is all it must be
    from ci_doctor.model.finding import Evidence, Finding, Severity
    from ci_doctor.model.outcome import Attachment, Attempt, Case, CaseOutcome
    from ci_doctor.model.report import Report
    from ci_doctor.model.verdict import Verdict
    from ci_doctor.render import json, junit, markdown, text
    from ci_doctor.system.secrets.redaction import Redactor
    from ci_doctor.version import tool_version

    evidence = Evidence(
        file="logs/warm-1.log", line=1, end_line=2, excerpt="  a line\n> \x1b[1mits\x1b[0m root"
    )
    finding = Finding(
        rule="services/died",
        severity=Severity.ERROR,
        summary="warm died",
        evidence=(evidence,),
        remedy="see `less warm`",
    )
    report = Report(
        tool_version=tool_version(),
        command="launch",
        argv=("launch", "--", "warm"),
        started_at="2026-01-01T00:00:00.000Z",
        duration_s=0.0,
        verdict=Verdict.REGRESSION,
        exit_code=1,
        summary="warm",
        reproduce="ci-doctor launch",
        findings=(finding,),
        facts={"services": {"warm": {"pid": 1}}},
        cases=(Case(group="services", name="warm", outcome=CaseOutcome.FAILED, message="died"),),
        attempts=(Attempt(name="warm", outcome="died", ok=False, duration_s=0.0, log="warm"),),
        attachments=(Attachment(path="warm", title="warm"),),
    )
    report = Redactor(()).report(report)
    for render in (json.render, junit.render, markdown.render, text.render):
        render(report)
