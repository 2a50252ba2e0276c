# SPDX-License-Identifier: Apache-2.0
"""Acts on files and streams: what a report is about, its exit code; it is made, completed, written to its directory, printed."""

import contextlib
import os
import re
import shlex
import shutil
import stat
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TextIO, assert_never
from urllib.parse import urlsplit

from msgspec import Struct, to_builtins
from msgspec.structs import replace

from ci_doctor.errors import CiDoctorError, UsageError
from ci_doctor.git import head, origin
from ci_doctor.machine.gpus import proc_gpus
from ci_doctor.model.exit_code import ExitCode
from ci_doctor.model.outcome import (
    EXIT_CODES,
    About,
    Attachment,
    ErrorKind,
    Failure,
    Finding,
    Outcome,
    Report,
    Rule,
    Severity,
    Table,
    Verdict,
    concluded,
    text_table,
)
from ci_doctor.render import PAGE_FILE, RENDERERS, REPORT_FILE, Renderer
from ci_doctor.session.invocation import Invocation
from ci_doctor.system import clock
from ci_doctor.system.files.access import read_regular, write_atomically
from ci_doctor.version import tool_version


class ExitPolicy(Struct, frozen=True, kw_only=True):
    """What a repository and a command line make of verdicts.

    `codes` are the repository's own by verdict; a missing one is ci-doctor's. `let_through` are
    verdicts that end with 0. `unjudged_as`: the verdict whose code ends a command that judges
    nothing, on request; None for 0.
    """

    codes: Mapping[str, int] = {}
    fail_on_flaky: bool = False
    let_through: frozenset[Verdict] = frozenset()
    unjudged_as: Verdict | None = None


def exit_code(outcome: Outcome, policy: ExitPolicy) -> int:
    """The exit code of a command that ends with `outcome`.

    The status of a command that the user gave comes first, unless it is 0. Then the verdict decides,
    and without one the error. Nothing judged and no error is 0, if the policy says nothing else.
    """
    if outcome.command_status:
        return outcome.command_status
    if outcome.verdict is not None:
        return _of_verdict(outcome.verdict, policy)
    if outcome.error is not None:
        return int(_of_error(outcome.error.kind))
    if policy.unjudged_as is not None:
        return _of_verdict(policy.unjudged_as, policy)
    return int(ExitCode.PASS)


def _of_verdict(verdict: Verdict, policy: ExitPolicy) -> int:
    passes = verdict is Verdict.PASS or verdict in policy.let_through
    is_tolerated = verdict is Verdict.FLAKY and not policy.fail_on_flaky
    if passes or is_tolerated:
        return int(ExitCode.PASS)
    default = int(EXIT_CODES[verdict])
    return policy.codes.get(verdict.value, default)


def _of_error(kind: ErrorKind | None) -> ExitCode:
    match kind:
        case ErrorKind.USAGE:
            return ExitCode.USAGE
        # An error of no kind is one that nobody foresaw.
        case ErrorKind.BUG | None:
            return ExitCode.BUG
        case ErrorKind.PREPARATION:
            return ExitCode.FAILURE
        case ErrorKind.INFRA:
            return ExitCode.INFRA
        case ErrorKind.SIGINT:
            return ExitCode.SIGINT
        # These have no exit code of their own; all ask for an end as SIGTERM does.
        case ErrorKind.SIGTERM | ErrorKind.SIGHUP | ErrorKind.SIGQUIT:
            return ExitCode.SIGTERM
        case _ as never:
            assert_never(never)


# --- what a report is about ---


# git@host:path, the short form of ssh (git-fetch(1), "Git URLs").
_SHORT_SSH = re.compile(
    r"(?:[\w.-]+@)?(?P<host>[A-Za-z0-9][\w.-]*\.[A-Za-z]{2,}):(?!/)(?P<path>\S+)"
)
_HOST = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]*(?::\d{1,5})?")
_PATH = re.compile(r"[\w.~+-]+(?:/[\w.~+-]+)+")


def web_address(remote: str) -> str | None:
    """`https://host/owner/name` for a remote by https, http, ssh or git; None for any other.

    User names, passwords and the port of ssh are left out.
    """
    short = _SHORT_SSH.fullmatch(remote)
    if short is not None:
        return _address("https", short["host"], short["path"])
    try:
        parts = urlsplit(remote)
        host = parts.hostname or ""
        port = parts.port
    except ValueError:
        return None
    if parts.scheme in {"ssh", "git", "git+ssh"}:
        return _address("https", host, parts.path)
    if parts.scheme in {"http", "https"}:
        place = host if port is None else f"{host}:{port}"
        return _address(parts.scheme, place, parts.path)
    return None


def _address(scheme: str, host: str, path: str) -> str | None:
    name = path.strip("/").removesuffix(".git")
    if _HOST.fullmatch(host) is None or _PATH.fullmatch(name) is None:
        return None
    return f"{scheme}://{host}/{name}"


def read_about(environ: Mapping[str, str], directory: Path) -> About:
    """The build, the job, the commit of `directory` and the GPUs. What is unknown is left out."""
    commit, branch = _commit_and_branch(environ, directory)

    return About(
        pipeline=environ.get("BUILDKITE_PIPELINE_SLUG") or None,
        build=_number(environ, "BUILDKITE_BUILD_NUMBER"),
        build_url=environ.get("BUILDKITE_BUILD_URL") or None,
        job=environ.get("BUILDKITE_JOB_ID") or None,
        step=environ.get("BUILDKITE_STEP_KEY") or None,
        parallel_index=_number(environ, "BUILDKITE_PARALLEL_JOB"),
        attempt=_number(environ, "BUILDKITE_RETRY_COUNT"),
        commit=commit,
        branch=branch,
        repository=_repository(environ, directory),
        agent=environ.get("BUILDKITE_AGENT_NAME") or None,
        queue=environ.get("BUILDKITE_AGENT_META_DATA_QUEUE") or None,
        gpus=tuple(gpu.name for gpu in proc_gpus()),
    )


def _commit_and_branch(
    environ: Mapping[str, str], directory: Path
) -> tuple[str | None, str | None]:
    commit = environ.get("BUILDKITE_COMMIT", "")
    branch = environ.get("BUILDKITE_BRANCH", "")
    # The variable holds "HEAD" if a build was made without a commit of its own.
    if commit in {"", "HEAD"}:
        checkout = head(directory)
        if checkout is None:
            return None, branch or None
        commit = checkout.commit
        # The build's branch comes first: the agent checks out a commit, on no branch.
        branch = branch or checkout.branch or ""
    return commit or None, branch or None


def _repository(environ: Mapping[str, str], directory: Path) -> str | None:
    remote = environ.get("BUILDKITE_REPO") or origin(directory)
    if not remote:
        return None
    return web_address(remote)


def _number(environ: Mapping[str, str], name: str) -> int | None:
    value = environ.get(name, "")
    # isdigit() alone takes characters that int() refuses, such as a superscript two.
    if value.isascii() and value.isdigit():
        return int(value)
    return None


def working_directory() -> Path:
    """The working directory; the root if it has been deleted under us: the report must come."""
    try:
        return Path.cwd()
    except FileNotFoundError:
        return Path("/")


# --- a report: made, completed, written to its directory, printed ---


def make_report(
    outcome: Outcome,
    more_findings: tuple[Finding, ...],
    invocation: Invocation,
    *,
    about: About,
    policy: ExitPolicy | None,
) -> Report:
    """The report of `outcome` now, with `more_findings` behind its own."""
    # Here, once for all rooms: no report passes with an error among its findings.
    findings = (*outcome.findings, *more_findings)
    verdict, summary = concluded(outcome.verdict, outcome.summary, findings)
    outcome = replace(outcome, verdict=verdict, summary=summary, findings=findings)
    duration_s = clock.now() - invocation.started
    command_line = shlex.join(["ci-doctor", *invocation.argv])
    return Report(
        tool_version=tool_version(),
        command=invocation.command,
        argv=invocation.argv,
        started_at=invocation.started_at,
        duration_s=round(duration_s, 3),
        about=about,
        verdict=outcome.verdict,
        error=outcome.error,
        exit_code=exit_code(outcome, policy or ExitPolicy()),
        summary=outcome.summary,
        reproduce=outcome.reproduce or command_line,
        findings=outcome.findings,
        tables=outcome.tables,
        facts=to_builtins(outcome.facts),
        cases=outcome.cases,
        attempts=outcome.attempts,
        attachments=outcome.attachments,
    )


NOT_DELIVERED = Rule(
    id="report/not-delivered",
    severity=Severity.WARNING,
    meaning=(
        "The report could not be written or printed whole. A failure keeps its verdict and its "
        "exit code. Anything else becomes `infra`, because nobody could check it later."
    ),
    remedy=(
        "Free some space, or name a directory that this user can write with `--report-dir`. Keep "
        "the reader of stdout alive until the command has ended."
    ),
)

RULES = (NOT_DELIVERED,)


_HINT = "free some space, or name a directory that this user can write with --report-dir"
_READER_HINT = "read stdout to its end, or leave it out and read report.json"


def undelivered(
    report: Report, problems: tuple[str, ...], policy: ExitPolicy, *, reader_code: int | None = None
) -> Report:
    """`report` with `problems`, sentences on what could not be written or printed.

    What the files, the terminal and the status of the process say must be one. So a report that
    would end with 0 becomes `infra`; any other keeps its verdict and its code. `reader_code` is the
    exit code in place of infra's if the reader of stdout left; None if nobody did.
    """
    first, *others = problems
    message = f"{first}, and {len(others)} more" if others else first
    finding = NOT_DELIVERED.finding(message)
    findings = (*report.findings, finding)
    if report.exit_code:
        return replace(report, findings=findings)
    hint = _HINT
    infra = Outcome(verdict=Verdict.INFRA, summary=message)
    code = exit_code(infra, policy)
    if reader_code is not None:
        hint = _READER_HINT
        code = reader_code
    former = None
    if report.verdict is not None:
        # A verdict that nobody can check is worth knowing all the same.
        former = f"the verdict was {report.verdict}, before the report could not be delivered"
    error = Failure(message=message, hint=hint, detail=former, kind=ErrorKind.INFRA)
    return replace(report, verdict=Verdict.INFRA, exit_code=code, error=error, findings=findings)


class Addition(Struct, frozen=True, kw_only=True):
    """Tables and a file for a report: its attachment, and its `content`.

    `text` is for a command that prints its own text. `about` is what the report is about, if that has been
    read already.
    """

    tables: tuple[Table, ...] = ()
    file: Attachment | None = None
    content: bytes = b""
    text: str = ""
    about: About | None = None

    def to(self, outcome: Outcome) -> Outcome:
        """`outcome` with what is added, behind its own."""
        files = () if self.file is None else (self.file,)
        return replace(
            outcome,
            tables=(*outcome.tables, *self.tables),
            attachments=(*outcome.attachments, *files),
        )


NOTHING = Addition()


def added(
    add: Callable[[Outcome], Addition],
    outcome: Outcome,
    findings: tuple[Finding, ...],
    directory: Path,
) -> Addition:
    """What `add` makes of the outcome as it will be reported, with its files written.

    `findings` come on top of the outcome's. Raises nothing: what goes wrong is a line of a table.
    """
    verdict, _ = concluded(outcome.verdict, outcome.summary, (*outcome.findings, *findings))
    try:
        addition = add(replace(outcome, verdict=verdict))
        return _with_file(addition, directory)
    # An addition must not take the report away.
    except Exception as error:  # noqa: BLE001
        return not_added(f"{type(error).__name__}: {error}")


def remove_files(directory: Path, names: Iterable[str]) -> None:
    """Remove an earlier run's files of these names, if that is possible."""
    for name in names:
        with contextlib.suppress(OSError):
            (directory / name).unlink(missing_ok=True)


def _with_file(addition: Addition, directory: Path) -> Addition:
    """`addition` with its file written, or why there is none."""
    if addition.file is None:
        return addition
    try:
        write_atomically(directory / addition.file.path, addition.content, is_durable=False)
    except (UsageError, OSError) as error:
        problem = not_added(str(error))
        return replace(addition, file=None, tables=(*addition.tables, *problem.tables))
    return addition


def not_added(reason: str) -> Addition:
    """A line that tells why something is missing."""
    return Addition(tables=(text_table("Not added to this report", (f"unknown: {reason}",)),))


def write(
    report: Report, directory: Path, junit: str | None = None, *, again: bool = False
) -> tuple[str, ...]:
    """Write the file of each renderer that has something to show; `junit` is a `JunitForm`.

    Returns a sentence for each one that could not be written. `again`: what lies in its place says otherwise by
    now, and is removed: no file at all is better.
    """
    # All of them first: a bug in one form must not leave the others behind, as if all were well.
    texts = {
        renderer.file: rendered(report, renderer, junit)
        for renderer in RENDERERS
        if renderer.file is not None and renderer.is_for(report)
    }
    problems = []
    for name, text in texts.items():
        try:
            write_atomically(directory / name, text.encode(), is_durable=False)
        except (CiDoctorError, OSError) as error:
            is_ours = isinstance(error, CiDoctorError)
            reason = getattr(error, "strerror", None) or error
            # One of ours is a whole sentence.
            problems.append(str(error) if is_ours else f"cannot write {directory / name}: {reason}")
            # A directory in its place stays; it says nothing.
            with contextlib.suppress(OSError):
                if again:
                    (directory / name).unlink(missing_ok=True)
    return tuple(problems)


def page_in(directory: Path) -> Path | None:
    """The written report that a reader opens first: the page, else the JSON; None without any."""
    pages = (directory / name for name in (PAGE_FILE, REPORT_FILE))
    return next((each for each in pages if each.is_file()), None)


def rendered(report: Report, renderer: Renderer, junit: str | None) -> str:
    """`report` by `renderer`; `junit` is the `JunitForm` if that one makes it."""
    if renderer.name != "junit":
        return renderer.render(report)
    from ci_doctor.render.junit import JunitForm, render

    return render(report, form=JunitForm(junit or JunitForm.VERDICT))


def text_for(
    report: Report, stream: TextIO, page: str | None = None, *, is_preparation: bool = False
) -> str:
    """The report as text, in the width and the colours of `stream`; it lies at `page`.

    is_preparation: of one that passed a sentence is enough.
    """
    from ci_doctor.render import text

    render = text.render_preparation if is_preparation else text.render
    # A file and a pipe have no width.
    if not stream.isatty():
        return render(report, width=80, colour=False, page=page)
    terminal = shutil.get_terminal_size((80, 24))
    # Longer lines are hard to read, however wide the terminal is.
    width = min(terminal.columns, 120)
    colour = _may_colour(os.environ)
    return render(report, width=width, colour=colour, has_edge=True, page=page)


def _may_colour(environ: Mapping[str, str]) -> bool:
    """Whether a terminal with these variables may be sent colours."""
    # https://no-color.org: set to anything but the empty string.
    if environ.get("NO_COLOR"):
        return False
    # "dumb" knows no escape sequences (terminfo); without TERM nothing is known.
    return environ.get("TERM", "dumb") not in {"", "dumb"}


def write_data(stream: TextIO | None, text: str) -> None:
    """What programs read, as UTF-8 whatever the encoding of `stream`; None is a closed one."""
    if stream is None:
        return
    binary = getattr(stream, "buffer", None)
    # What was written as text comes first: it lies in a buffer above the binary one.
    stream.flush()
    if binary is None:  # a stream in memory
        stream.write(text)
    else:
        binary.write(text.encode())
    stream.flush()


VARIABLE = "GITHUB_STEP_SUMMARY"
# Of one step; the upload of a larger file is aborted, and nothing of it is shown.
# https://docs.github.com/actions/reference/workflow-commands-for-github-actions#step-isolation-and-limits
LIMIT_BYTES = 1024 * 1024
_REPORT_BYTES = 64 * 1024


def append_summary(report: Report, environ: Mapping[str, str]) -> None:
    """Append the Markdown of `report`, which has no secrets any more, to the step's summary.

    Nothing if there is none, if the report is of no interest, or if there is no room for it. A
    failure changes nothing: the report stands in the log, too.
    """
    path = environ.get(VARIABLE)
    if not path or environ.get("GITHUB_ACTIONS") != "true":
        return
    from ci_doctor.render.ci_frame import is_of_interest

    if is_of_interest(report):
        # A bug in this form must not take the report away, which has been printed.
        with contextlib.suppress(Exception):
            _append(report, path)


def _append(report: Report, path: str) -> None:
    from ci_doctor.render import markdown

    # Not blocking: opening a pipe that nobody reads would wait for ever.
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        status = os.fstat(descriptor)
        room = min(_REPORT_BYTES, LIMIT_BYTES - status.st_size - 2)
        if not stat.S_ISREG(status.st_mode) or room < markdown.SMALLEST:
            return
        # No link: `artifact://` is Buildkite's.
        text = markdown.render(report, max_bytes=room, artifacts=None)
        # An empty line before it: what stands there may be a paragraph or a table.
        os.write(descriptor, f"\n{text}\n".encode())
    finally:
        os.close(descriptor)


def read_reports(
    directories: Sequence[Path], broken: list[str] | None = None
) -> list[tuple[Path, Report]]:
    """Every report.json at or below `directories`, oldest first, each with its directory; no secrets.

    Raises UsageError for one that cannot be read, or appends a line to `broken` if that is given.
    """
    from ci_doctor.render import json
    from ci_doctor.system.secrets.redaction import Redactor

    redactor = Redactor.from_environment(os.environ)
    reports: list[tuple[Path, Report]] = []
    # By its real place: two names of one folder are one.
    files = {
        os.path.realpath(each): each
        for top in directories
        for each in ([top] if top.name == REPORT_FILE and top.is_file() else top.rglob(REPORT_FILE))
    }
    for path in sorted(files.values()):
        try:
            text = read_regular(path).decode()
            # Once more: an older version, or somebody else, may have written it.
            report = redactor.report(json.parse(text))
        except (UsageError, OSError, UnicodeDecodeError) as error:
            if broken is None:
                raise UsageError(
                    f"{path}: {error}", hint="name the --report-dir of a command that ended"
                ) from error
            broken.append(f"ci-doctor: {path} is not published: {error}")
        else:
            reports.append((path.parent, report))
    # RFC 3339 in UTC: the order of the texts is that of the times.
    return sorted(reports, key=lambda each: each[1].started_at)
