# SPDX-License-Identifier: Apache-2.0
"""Pure. The one place that formats figures and places for people, and makes text of others harmless."""

import math
import re
from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Struct
from msgspec.structs import asdict, replace

from ci_doctor.model.outcome import Cell, Evidence, Report, Unit
from ci_doctor.model.words import shortened

if TYPE_CHECKING:
    from ci_doctor.model.facts.diagnose import LogLines

from enum import StrEnum
from typing import NamedTuple
from urllib.parse import quote, urlsplit

from ci_doctor.model.outcome import (
    CANCELLED,
    MISSING,
    NO_VERDICT,
    SOFT_FAILED,
    About,
    Finding,
    Severity,
    Verdict,
)

# --- text from logs and answers, made harmless for a terminal, a page and an XML parser ---

# ECMA-48 control strings (OSC, DCS, APC, PM, SOS; Buildkite's own timestamps are APC), CSI
# sequences, two-character escapes.
_ESCAPES = re.compile(
    r"(?:\x1b[\]P_^X]|[\x9d\x90\x9f\x9e\x98])[^\x07\x1b\x9c\n]*(?:\x07|\x1b\\|\x9c)?"
    r"|(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?"
    r"|\x1b[ -/]*[0-~]?"
)
_LINE_ENDS = re.compile("\r\n|[\r\v\f\x1c-\x1e\x85\u2028\u2029]")
# What is left of C0 and C1, the bidirectional overrides that reorder a line on screen
# (CVE-2021-42574), lone surrogates, and the two code points that XML 1.0 excludes.
_CONTROLS = re.compile(
    "[\x00-\x08\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]"
)
_Printed = TypeVar("_Printed", bound=Struct)
_AROUND_LINE_END = re.compile(r" *\n\s*")
_SURROGATES = re.compile("[\ud800-\udfff]")
_REPLACEMENT = "\ufffd"


def cleaned(struct: _Printed) -> _Printed:
    """`struct` with every string printable: no escapes, one kind of line end, spaces for tabs."""
    changed: _Printed = _change(struct, printable)
    return changed


def encodable(report: Report) -> Report:
    """`report` with every string encodable as UTF-8.

    Lone surrogates (bytes that were not UTF-8) become U+FFFD.
    """
    changed: Report = _change(report, _encodable_text)
    return changed


def _encodable_text(text: str) -> str:
    return _SURROGATES.sub(_REPLACEMENT, text)


def printable(text: str) -> str:
    r"""`text` with nothing in it that acts: only printable characters and `\n`."""
    # Most texts are, and the test is one pass without a copy.
    if text.isprintable():
        return text
    # Escapes go first: once ESC itself is replaced, the rest of a sequence would stay as text.
    text = _ESCAPES.sub("", text)
    text = _LINE_ENDS.sub("\n", text).expandtabs(4)
    return _CONTROLS.sub(_REPLACEMENT, text)


def one_line(text: str) -> str:
    """`text` (printable) for a place that holds one line; each line end becomes a space."""
    line = text.strip()
    # By far the most of them: a report has a case for each test.
    if "\n" not in line:
        return line
    return _AROUND_LINE_END.sub(" ", line)


def _change(value: Any, change: Callable[[str], str]) -> Any:
    """A tree of structs, mappings and lists, with `change` applied to each string in it."""
    match value:
        # A StrEnum is one of our own words, and a changed one would no longer be its member.
        case str() if not isinstance(value, Enum):
            return change(value)
        case Struct():
            return _change_struct(value, change)
        case dict():
            return _change_mapping(value, change)
        case tuple() | list():
            items = [_change(item, change) for item in value]
            return type(value)(items)
        case _:
            return value


def _change_struct(struct: Struct, change: Callable[[str], str]) -> Struct:
    changed = {}
    for name, field in asdict(struct).items():
        # By far the most of them: a report has a case for each test.
        if field is None or type(field) is float or field == ():
            continue
        new = _change(field, change)
        if new is not field:
            changed[name] = new
    return replace(struct, **changed) if changed else struct


def _change_mapping(mapping: dict[Any, Any], change: Callable[[str], str]) -> dict[Any, Any]:
    changed = {}
    for key, value in mapping.items():
        # Keys too: those of `facts` are names from a log or a requests file.
        name = _change(key, change)
        changed[name] = _change(value, change)
    return changed


def diff_name(name: str) -> str:
    """`name` in a line of a diff, as git writes it (core.quotePath in git-config(1)): an odd one as a text of C."""
    if name.isprintable() and not {'"', "\\"} & set(name):
        # Behind a tab git looks for no name: one with spaces ends there.
        return f"{name}\t" if " " in name else name
    characters = []
    for byte in name.encode("utf-8", "surrogateescape"):
        character = chr(byte)
        is_plain = 0x20 <= byte < 0x7F and character not in {'"', "\\"}
        characters.append(character if is_plain else f"\\{byte:03o}")
    return f'"{"".join(characters)}"'


UNKNOWN = "–"
# Below these, rounding would give the next unit: "1000 ms", "60.0 s", "1000 kB".
_MOST_MS = 0.0995
_MOST_S = 59.95
_MOST_KB = 999_500
_MOST_MB = 999_950_000
_LEAST_MS = 0.0005
# 100 * 0.95 may be 95.00000000000001, which is not rounded up.
_ROUNDING = 1e-9
_LINES_BEFORE = 3
_MOST_WHOLE = 1e15  # a double holds no whole numbers one by one far above this


def duration(seconds: float) -> str:
    """Seconds as `40 ms`, `0.8 s`, `7.3 s`, `3 min 12 s`, `1 h 02 min`."""
    if 0 < seconds < _LEAST_MS:
        return "< 1 ms"
    if 0 < seconds < _MOST_MS:
        return f"{seconds * 1000:.0f} ms"
    if seconds < _MOST_S:
        return f"{seconds:.1f} s"
    # Rounded before it is divided, or 119.7 s would be "1 min 60 s".
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min"


def size(count: int) -> str:
    """Bytes in SI units: `812 B`, `340 kB`, `1.2 MB`, `3.2 GB`."""
    if count < 1000:
        return f"{count} B"
    if count < _MOST_KB:
        return f"{count / 1000:.0f} kB"
    if count < _MOST_MB:
        return f"{count / 1_000_000:.1f} MB"
    return f"{count / 1_000_000_000:.1f} GB"


def percent(share: float) -> str:
    """`45 %` for a share of 0.45; three digits at most."""
    return f"{100 * share:.3g} %"


def whole_percent_up(share: float) -> int:
    """86 for a share of 0.855: a bound that is rounded down would exclude what nothing excludes."""
    # A foreign report may state anything, also what is too large for a whole number.
    return math.ceil(100 * min(max(share, 0.0), 1.0) - _ROUNDING)


def probability(value: float) -> str:
    """`0.0286`: three digits of it."""
    return f"{value:.3g}"


def number(value: float | None) -> str:
    """A plain number: a whole one in full, another with six digits; `–` for an unknown one."""
    if value is None:
        return UNKNOWN
    if isinstance(value, int):
        return str(int(value))
    if value.is_integer() and abs(value) < _MOST_WHOLE:
        return str(int(value))
    return f"{value:.6g}"


def figure(cell: Cell) -> str:
    """The value of a table's cell in words, by its unit; `–` for an unknown one."""
    match cell.value:
        case None:
            return UNKNOWN
        # Before the numbers: a bool is an int.
        case bool():
            return "yes" if cell.value else "no"
        case str():
            return cell.value
        case value:
            forms = {
                Unit.SECONDS: duration,
                Unit.BYTES: lambda count: size(int(count)),
                Unit.SHARE: percent,
            }
            return number(value) if cell.unit is None else forms[cell.unit](value)


def amount(count: int, noun: str) -> str:
    """`1 finding`, `12 findings`."""
    if count == 1:
        return f"{count} {noun}"
    return f"{count} {noun}s"


def part_of(count: int, total: int, noun: str, *, past: bool = False) -> str:
    """`1 of 3 requests is`, `0 of 1 request are`, and `was` or `were` of what is past."""
    singular, plural = ("was", "were") if past else ("is", "are")
    return f"{count} of {amount(total, noun)} {singular if count == 1 else plural}"


def short_line(text: str, most: int) -> str:
    """`text` in one line of at most `most` characters; of a megabyte only the beginning is read."""
    return shortened(one_line(text[: 4 * most]), most)


def listed(names: Sequence[str], most: int = 5) -> str:
    """The first `most` of `names`, and how many more there are: `a, b and 3 more`."""
    shown = ", ".join(names[:most])
    rest = len(names) - most
    return f"{shown} and {rest} more" if rest > 0 else shown


def place(evidence: Evidence) -> str | None:
    """`file`, `file:12` or `file:12-14`; None for a figure without a file."""
    if evidence.file is None:
        return None
    if evidence.line is None:
        return evidence.file
    first = f"{evidence.file}:{evidence.line}"
    end = evidence.end_line
    if end is None or end <= evidence.line:
        return first
    return f"{first}-{end}"


def numbered(excerpt: "LogLines", after: int) -> Iterator[tuple[str, str, str]]:
    """The lines at the cause, three before it and `after` behind: `>` or a blank, the number, the text.

    The numbers have the same width, and the text is one line that keeps its indentation: a traceback is read by it.
    """
    first = max(0, excerpt.marked - _LINES_BEFORE)
    shown = excerpt.messages[first : excerpt.marked + after + 1]
    cells = len(str(excerpt.first_line + first + len(shown) - 1))
    for index, text in enumerate(shown, first):
        mark = ">" if index == excerpt.marked else " "
        yield mark, f"{excerpt.first_line + index:>{cells}}", text.replace("\n", " ")


# --- what stands first in every form: one word, one symbol, one tone; and how an ending is called ---


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
