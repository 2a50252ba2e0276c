# SPDX-License-Identifier: Apache-2.0
"""Acts on a thread: loads what a report needs while the work goes on, so that it comes at once."""

import contextlib
import threading
from collections.abc import Callable


class WarmUp:
    """Begin when something has been started; wait before the report is made."""

    def __init__(self, load: Callable[[], None] | None = None) -> None:
        """`load` imports what the room's own part of the report needs."""
        self._load = load
        self._thread: threading.Thread | None = None

    def begin(self) -> None:
        """Start to load; further calls do nothing."""
        if self._thread is None:
            # A daemon: a command that is interrupted does not wait for imports.
            self._thread = threading.Thread(target=self._run, name="ci-doctor-warm-up", daemon=True)
            with contextlib.suppress(RuntimeError):  # no more threads on this machine
                self._thread.start()

    def wait(self) -> None:
        """Wait until all is loaded, if it was begun."""
        if self._thread is not None and self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        # What fails here fails again where it is needed, and is reported there.
        with contextlib.suppress(Exception):
            if self._load is not None:
                self._load()
            _render_once()


def _render_once() -> None:
    """Render a report with every kind of part, to load the modules and compile their patterns."""
    import ci_doctor.session.about
    import ci_doctor.session.delivery
    import ci_doctor.session.making
    import ci_doctor.session.step_summary  # noqa: F401
    from ci_doctor.model.finding import Evidence, Finding, Severity
    from ci_doctor.model.outcome import Attachment, Attempt, Case, CaseOutcome
    from ci_doctor.model.report import Report
    from ci_doctor.model.verdict import Verdict
    from ci_doctor.render import RENDERERS
    from ci_doctor.system.secrets.redaction import Redactor
    from ci_doctor.version import tool_version

    evidence = Evidence(
        file="logs/warm-1.log", line=1, end_line=2, excerpt="  a line\n> \x1b[1mits\x1b[0m root"
    )
    finding = Finding(
        rule="warm/up",
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
        verdict=Verdict.FAILED,
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
    for renderer in RENDERERS:
        if renderer.is_for(report):
            renderer.render(report)
