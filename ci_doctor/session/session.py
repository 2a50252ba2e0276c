# SPDX-License-Identifier: Apache-2.0
"""Acts on files and streams: one run of the command line, up to its report and exit code."""

import os
import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from ci_doctor.session.invocation import Invocation
from ci_doctor.session.printing import PrintedForm, print_report, say

if TYPE_CHECKING:
    from ci_doctor.model.outcome import About, Finding, Outcome, Report
    from ci_doctor.session.delivery import Addition, ExitPolicy
    from ci_doctor.session.report_directory import ReportDirectory
    from ci_doctor.system.secrets.redaction import Redactor


class Session:
    """The life of one command.

    A command claims its report directory before it starts anything, calls a room, and hands the
    room's outcome to `finish`. What goes wrong before that ends at `fail`. Heavy modules load only
    when they are needed: the error boundary makes a session for `--version` too.
    """

    def __init__(self, invocation: Invocation) -> None:
        self.invocation = invocation
        self.as_json = False
        self.form: PrintedForm = "text"  # unless `as_json`
        self.junit: str | None = None  # a JunitForm; None for the usual one
        self.named_directory: Path | None = None
        self.signals: list[signal.Signals] = []  # that arrived while a report was written
        self.has_group = False  # a hook has begun a group of the CI's log
        self.is_preparation = False  # what matters comes after this report
        self.policy: ExitPolicy | None = None
        self._report_directory: ReportDirectory | None = None
        self._may_hold = True
        self._is_protected = False
        self._environments: list[Mapping[str, str]] = []
        self._findings: tuple[Finding, ...] = ()
        self._about: About | None = None
        self._add: Callable[[Outcome], Addition] | None = None
        self._added_files: list[str] = []

    # --- before anything is started ---

    def claim(self, default: Path | None = None, *, clear: bool = True) -> Path | None:
        """Lock the report directory, and remove the reports of an earlier run.

        It is the one of `--report-dir`, else a folder below `$CI_DOCTOR_REPORT_DIR`, else
        `default`; None if there is none of these. `clear=False` leaves what lies there: a run that
        goes on with another needs it. Raises UsageError if the directory cannot be written, or if
        another run is writing to it.
        """
        from ci_doctor.session import report_directory as directories

        # Once: what was refused a moment ago may be free now, and hold another run's report.
        self._may_hold = False
        root = os.environ.get(directories.ROOT_VARIABLE)
        command = self.invocation.command
        if self.named_directory is not None:
            self._report_directory = directories.lock_named(self.named_directory)
        elif root and command.replace("-", "_").isidentifier():  # and no path, if mistyped
            self._report_directory = directories.lock_free_below(Path(root), command)
        elif default is not None:
            self._report_directory = directories.lock_default(default)
        if self._report_directory is not None and clear:
            self._report_directory.clear()
        return self.directory

    def protect(self) -> None:
        """Write no report until `accept`: what lies in the directory belongs to another run."""
        self._is_protected = True

    def accept(self) -> None:
        """Remove the reports of the earlier run: this one goes on with it. Raises UsageError."""
        self._is_protected = False
        if self._report_directory is not None:
            self._report_directory.clear()

    @property
    def directory(self) -> Path | None:
        """The report directory that this run has locked; None if it has none."""
        if self._report_directory is None:
            return None
        return self._report_directory.path

    def hide(self, *environments: Mapping[str, str]) -> None:
        """Take the secrets of these environments, too, out of everything that others see."""
        self._environments += environments

    def observe(self, *findings: "Finding") -> None:
        """Put these findings into the report, behind those of the outcome, however it ends."""
        self._findings = (*self._findings, *findings)

    def complete_with(self, add: "Callable[[Outcome], Addition]", *files: str) -> None:
        """Put what `add` makes of the outcome into the report, if there is a report directory.

        It can change neither verdict nor exit code. `files` are the names of those that it may add:
        an earlier run's are removed now, so that they are not taken for this run's.
        """
        from ci_doctor.session.delivery import remove_files

        self._add = add
        if self.directory is not None and not self._is_protected:
            remove_files(self.directory, files)

    @property
    def about(self) -> "About":
        """The build, the job, the commit and the GPUs. Read once: it starts git."""
        from ci_doctor.session.delivery import read_about, working_directory

        if self._about is None:
            self._about = read_about(os.environ, working_directory())
        return self._about

    def speak_of(self, about: "About | None") -> None:
        """Make the report about that build, not about what runs here; None changes nothing."""
        if about is not None:
            self._about = about

    @property
    def redactor(self) -> "Redactor":
        """What takes secrets out: those of the environment, and those that `hide` was given."""
        from ci_doctor.system.secrets.redaction import Redactor

        return Redactor.from_environment(os.environ, *self._environments)

    # --- at the end ---

    def finish(
        self, outcome: "Outcome", *, on_stdout: bool = False, text: str | None = None
    ) -> int:
        """Write and print the report of `outcome`, and return its exit code.

        The text goes to stderr, or `on_stdout` if it is what the command was called for; with
        `--json` the JSON goes to stdout instead, and with `--sarif` the SARIF. `text` is printed in
        place of the rendered report, by a command that knows more of its layout; secrets are
        removed from it, too. The files, the printed text and the exit code agree: if the report
        cannot be written or printed, all three of them say so (`undelivered`).
        """
        from ci_doctor.session.delivery import append_summary
        from ci_doctor.system.processes.interruption import signals_noted

        with signals_noted() as self.signals:  # the report is short work, and must be whole
            addition = self._addition(outcome)
            outcome = addition.to(outcome)
            if text is not None:
                text += addition.text
            # Before it is written anywhere: a secret may stand in a log line or a command.
            report = self.redactor.report(self._report(outcome))
            written = self._written(report)
            if written is not report:
                text = None  # it knows nothing of what went wrong
            shown = self._shown(written, on_stdout=on_stdout, text=text)
            append_summary(shown, os.environ)
            # Not if anything was raised: the report of that error needs the lock, too.
            if self._report_directory is not None:
                self._report_directory.release()
        return shown.exit_code

    def show(self, outcome: "Outcome") -> None:
        """Print what has come of a preparation, on stderr; the report comes at the end."""
        from ci_doctor.session.delivery import text_for

        report = self.redactor.report(self._report(outcome))
        if sys.stderr is not None:
            say(text_for(report, sys.stderr, is_preparation=True))

    def fail(self, error: BaseException) -> int:
        """Report what ended the command, and return its exit code."""
        from ci_doctor.errors import Terminated
        from ci_doctor.session.failure import outcome_of

        outcome = outcome_of(error, self.invocation.argv)
        if self._report_directory is None:
            self._hold_if_possible()
        # Whoever pressed Ctrl-C knows why, and nothing has come of the command yet.
        is_signal = isinstance(error, KeyboardInterrupt | Terminated)
        return self.finish(outcome, text=f"error: {outcome.summary}\n" if is_signal else None)

    def code_of(self, error: BaseException) -> int:
        """The exit code of a command that ends with `error`."""
        from ci_doctor.session.delivery import ExitPolicy, exit_code
        from ci_doctor.session.failure import outcome_of

        outcome = outcome_of(error, self.invocation.argv)
        return exit_code(outcome, self.policy or ExitPolicy())

    def _hold_if_possible(self) -> None:
        """The error may have come before the claim, or be that very claim's."""
        from ci_doctor.errors import CiDoctorError

        if not self._may_hold or self._is_protected:
            return
        try:
            self.claim()
        except (CiDoctorError, OSError):
            self._report_directory = None

    def _addition(self, outcome: "Outcome") -> "Addition":
        """What a command wants added, with its files written; nothing without a directory."""
        from ci_doctor.session.delivery import NOTHING, added

        directory = self._report_directory
        add = self._add
        if add is None or directory is None or self._is_protected or directory.lost():
            return NOTHING
        # Once: what is added belongs to one report.
        self._add = None
        addition = added(add, outcome, self._findings, directory.path)
        self._added_files = [addition.file.path] if addition.file is not None else []
        self._about = self._about or addition.about
        return addition

    def _report(self, outcome: "Outcome") -> "Report":
        from ci_doctor.session.delivery import make_report

        return make_report(
            outcome, self._findings, self.invocation, about=self.about, policy=self.policy
        )

    def _written(self, report: "Report") -> "Report":
        """`report` as it is in its directory now, if it has one."""
        from ci_doctor.session.delivery import remove_files, write

        directory = self._report_directory
        if directory is None or self._is_protected:
            return report
        problem = directory.lost()
        problems = (problem,) if problem else write(report, directory.path, self.junit)
        if problems and not problem and self._added_files:
            # What was added may have taken the last room of the disk, and the report comes first.
            remove_files(directory.path, self._added_files)
            problems = write(report, directory.path, self.junit)
        if not problems:
            return report
        return self._undelivered(report, problems)

    def _shown(self, report: "Report", *, on_stdout: bool, text: str | None) -> "Report":
        """`report` as it was printed; changed, in its directory too, if that was not possible."""
        stream = sys.stderr
        is_for_stdout = on_stdout or self.as_json or self.form != "text"
        if is_for_stdout:
            stream = sys.stdout
        if stream is None and is_for_stdout:
            return self._unprinted(report, "stdout is closed")
        if stream is None:  # nobody wants to read stderr
            return report
        try:
            form: PrintedForm = "json" if self.as_json else self.form
            page = self._page()
            # A text on stdout is a program's input, and an empty one is to print nothing.
            if text and page is not None and not on_stdout:
                text += f"report: {page}\n"
            safe = self._own_text(report, stream, text, page)
            # A preparation is in the group of what follows.
            has_group = self.has_group or self.is_preparation
            print_report(report, stream, form, safe, page=page, has_group=has_group)
        except BrokenPipeError:
            # A terminal that is gone takes no verdict away. A pipe's reader is owed the whole.
            if stream is not sys.stdout:
                return report
            return self._undelivered(
                report,
                ("the reader of stdout left before the report was printed",),
                reader_code=128 + signal.SIGPIPE,
            )
        except OSError as error:
            return self._unprinted(report, error.strerror or str(error))
        return report

    def _page(self) -> str | None:
        """Where a reader finds this run's report, as it may be shown; None if it is not written."""
        from ci_doctor.render.formatting import printable
        from ci_doctor.session.delivery import page_in

        page = None if self.directory is None or self._is_protected else page_in(self.directory)
        return None if page is None else printable(self.redactor.text(str(page)))

    def _own_text(
        self, report: "Report", stream: TextIO, text: str | None, page: str | None
    ) -> str | None:
        """What is printed in place of the rendered report, without secrets; None for nothing."""
        if text is not None:
            # The report is redacted already, this text is not.
            return self.redactor.without_values(text)
        if not self.is_preparation:
            return None
        from ci_doctor.session.delivery import text_for

        return text_for(report, stream, page, is_preparation=True)

    def _unprinted(self, report: "Report", reason: str) -> "Report":
        problem = f"the report cannot be printed: {reason}"
        changed = self._undelivered(report, (problem,))
        say(f"error: {problem}\n")
        return changed

    def _undelivered(
        self, report: "Report", problems: tuple[str, ...], *, reader_code: int | None = None
    ) -> "Report":
        """`report` with its problems, written in place of what lies in its directory."""
        from ci_doctor.session.delivery import ExitPolicy, undelivered, write

        policy = self.policy or ExitPolicy()
        changed = undelivered(report, problems, policy, reader_code=reader_code)
        directory = self._report_directory
        if directory is not None and not self._is_protected and directory.lost() is None:
            write(changed, directory.path, self.junit, again=True)
        return changed
