# SPDX-License-Identifier: Apache-2.0
"""Pure. What stands first in every form: one word, one symbol, one tone; and how an ending is called."""

import re
from enum import StrEnum
from typing import NamedTuple
from urllib.parse import quote, urlsplit

from ci_doctor.model.finding import Finding, Severity
from ci_doctor.model.outcome import About, Report
from ci_doctor.model.verdict import CANCELLED, MISSING, NO_VERDICT, SOFT_FAILED, Verdict
from ci_doctor.render.formatting import printable


class Tone(StrEnum):
    """How urgent a report is, in the words of `buildkite-agent annotate --style`."""

    SUCCESS = "success"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class Headline(NamedTuple):
    """`✗ REGRESSION` in pieces: `word`, `symbol`, `tone`.

    name: the same in a sentence. meaning: a clause for who sees the name for the first time. fill: the
    colour and pattern of its bars, in build.css.
    """

    word: str
    symbol: str
    tone: Tone
    fill: str
    name: str
    meaning: str = ""

    @property
    def sentence(self) -> str:
        """`Infrastructure: the cause lies outside the change`."""
        name = self.name.capitalize()
        return f"{name}: {self.meaning}" if self.meaning else name


TIMED_OUT = "timed out"
# The one wording of every ending: of a verdict, and of a job of a build beside them.
_HEADLINES: dict[str, Headline] = {
    Verdict.PASS: Headline("PASS", "✓", Tone.SUCCESS, "pass", "passed"),
    Verdict.FLAKY: Headline(
        "FLAKY", "~", Tone.WARNING, "flaky", "flaky",
        "the baseline differs from itself, and the change adds nothing",
    ),
    Verdict.REGRESSION: Headline(
        "REGRESSION", "✗", Tone.ERROR, "failed", "regression",
        "the change is at fault, a baseline proves it",
    ),
    Verdict.FAILED: Headline("FAILED", "✗", Tone.ERROR, "failed", "failed"),
    Verdict.NONDETERMINISTIC: Headline(
        "NONDETERMINISTIC", "≠", Tone.WARNING, "flaky", "nondeterministic",
        "the environment differs from itself",
    ),
    Verdict.INFRA: Headline(
        "INFRA", "!", Tone.WARNING, "infra", "infrastructure", "the cause lies outside the change",
    ),
    Verdict.INCONCLUSIVE: Headline(
        "INCONCLUSIVE", "?", Tone.ERROR, "unknown", "inconclusive",
        "the evidence is not enough for a verdict",
    ),
    Verdict.VOID: Headline(
        "VOID", "∅", Tone.ERROR, "unknown", "void", "nothing is proven, there is no evidence",
    ),
    NO_VERDICT: Headline(
        "ERROR", "✗", Tone.ERROR, "failed", "no verdict",
        "the job ended before anything was judged",
    ),
    MISSING: Headline("MISSING", "○", Tone.ERROR, "missing", "missing"),
    CANCELLED: Headline(
        "CANCELLED", "–", Tone.WARNING, "stopped", "cancelled",
        "the job was stopped before its end",
    ),
    SOFT_FAILED: Headline("SOFT-FAILED", "✗", Tone.WARNING, "soft", "soft-failed"),
    TIMED_OUT: Headline(
        "TIMED OUT", "✗", Tone.ERROR, "stopped", TIMED_OUT, "the job reached its time limit",
    ),
}  # fmt: skip


def headline(report: Report) -> Headline | None:
    """The first words of `report`; None if nothing was judged and nothing went wrong."""
    if report.verdict is not None:
        return _HEADLINES[report.verdict]
    if report.error is not None:
        return _HEADLINES[NO_VERDICT]
    return None


def job_headline(verdict: str) -> Headline:
    """The first words about a job of a build: `verdict` is a verdict, or a word beside them.

    Any other word is shown as it is, and is no success.
    """
    unknown = Headline(verdict.upper(), "?", Tone.ERROR, "unknown", verdict)
    return _HEADLINES.get(verdict, unknown)


def tone(report: Report) -> Tone:
    """How urgent `report` is."""
    head = headline(report)
    return Tone.INFO if head is None else head.tone


_SYMBOLS = {Severity.ERROR: "✗", Severity.WARNING: "!", Severity.NOTE: "·"}


def symbol(severity: Severity) -> str:
    """The mark before a finding."""
    return _SYMBOLS[severity]


def errors(report: Report) -> tuple[Finding, ...]:
    """The findings of severity error, in the report's order."""
    return tuple(each for each in report.findings if each.severity is Severity.ERROR)


def worst_first(report: Report) -> list[Finding]:
    """All findings: errors, warnings, notes, and in the report's order among equals."""
    # The enum is declared from the worst on.
    order = list(Severity)
    return sorted(report.findings, key=lambda finding: order.index(finding.severity))


_COMMIT = re.compile(r"[0-9a-f]{7,64}")
_SHOWN = 12  # characters of a commit
# Between a repository's address and a commit or branch: (commit, branch), by words of the host.
_PATHS = {
    "gitlab": ("/-/commit/", "/-/tree/"),
    "bitbucket": ("/commits/", "/branch/"),
}
_USUAL = ("/commit/", "/tree/")  # GitHub, Gitea, Forgejo


class Link(NamedTuple):
    """What is shown, and where it leads; None if no address is known, or none that is safe."""

    name: str
    text: str
    address: str | None


def links(about: About) -> tuple[Link, ...]:
    """The build, the commit and the branch, as far as they are known."""
    all_links = []
    if about.build is not None:
        pipeline = f"{about.pipeline} " if about.pipeline else ""
        all_links.append(Link("build", f"{pipeline}#{about.build}", safe_address(about.build_url)))
    repository = safe_address(about.repository)
    commit_path, branch_path = _paths(repository)
    if about.commit:
        address = None
        if repository and _COMMIT.fullmatch(about.commit):
            address = f"{repository}{commit_path}{about.commit}"
        all_links.append(Link("commit", about.commit[:_SHOWN], address))
    if about.branch:
        address = None
        if repository:
            address = f"{repository}{branch_path}{quote(printable(about.branch))}"
        all_links.append(Link("branch", about.branch, address))
    return tuple(all_links)


def _paths(repository: str | None) -> tuple[str, str]:
    host = urlsplit(repository or "").hostname or ""
    for word, paths in _PATHS.items():
        if word in host:
            return paths
    return _USUAL


def safe_address(address: str | None) -> str | None:
    """`address` if a browser may follow it: http or https, a host, and no character that acts."""
    if address is None or re.fullmatch(r"[\x21-\x7e]+", address) is None:
        return None
    if any(character in address for character in "\"'<>`\\()[]{}|^"):
        return None
    try:
        parts = urlsplit(address)
    except ValueError:
        return None
    if parts.scheme not in {"http", "https"} or not parts.hostname or parts.username:
        return None
    return address.rstrip("/")
