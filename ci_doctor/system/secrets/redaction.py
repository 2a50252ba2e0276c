# SPDX-License-Identifier: Apache-2.0
"""Acts on files: takes secrets out of texts, command lines, reports and logs before others see them."""

import os
import re
import stat
import tempfile
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum
from itertools import islice
from pathlib import Path
from typing import IO, Any

from msgspec import Struct
from msgspec.structs import asdict, replace

from ci_doctor.errors import UsageError
from ci_doctor.model.outcome import Case, Report, Row
from ci_doctor.system.secrets.patterns import (
    LONGEST_TOKEN,
    assignment,
    hide_places,
    may_be_secret,
    may_hold_token,
    may_name_secret,
    name_pattern,
    secret_values,
    token_spans,
)
from ci_doctor.system.secrets.spans import (
    COMMON,
    PLACEHOLDER,
    Fragments,
    Span,
    has_colour_in_word,
    in_place_of,
    merged,
    through_colours,
    to_bytes,
    without,
    written_forms,
)

_BATCH = 100


def batches_of_cases(cases: Sequence[Case]) -> Iterator[Sequence[Case]]:
    """`cases` in their order, a hundred at a time."""
    for start in range(0, len(cases), _BATCH):
        yield cases[start : start + _BATCH]


def may_hold_secret(cases: Sequence[Case], forms: Iterable[bytes]) -> bool:
    """Whether something in `cases` could have to go; never false if it has to.

    `forms` are the known secrets as they may be written. A line of the joined text is a text of a
    case: if no line holds the beginning of a secret, no case does.
    """
    if any(case.attempts for case in cases):
        return True
    text = "\n".join(f"{case.group}\n{case.name}\n{case.message}\n{case.detail}" for case in cases)
    if "\x1b" in text or "://" in text or may_name_secret(text):
        return True
    content = to_bytes(text)
    return may_hold_token(content) or any(form in content for form in forms)


_COLOUR = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")  # ECMA-48 CSI
# `HF_TOKEN of vllm`: a variable inside a label; a plain word such as `token` is none.
_VARIABLE = re.compile(r"\b[A-Z][A-Z0-9]*_[A-Z0-9_]+\b")

# Types of values that hold no text.
_WITHOUT_TEXT = frozenset({type(None), bool, int, float})


class Redactor:
    """Holds the values of some secrets, and the names under which others would stand.

    A secret's value becomes `[redacted]` wherever it stands, in whatever form. The same happens
    to any value beside a name that means a secret: `HF_TOKEN=…`, `--api-key …`,
    `Authorization: …`, `https://user:…@host`; and to what has the form of a token: `ghp_…`.
    """

    def __init__(self, secrets: Iterable[str], *, names: Iterable[str] = ()) -> None:
        """`secrets` are values, `names` more name patterns with `*` and `?`.

        Values under six bytes are hidden beside their names only.
        """
        forms: set[bytes] = set()
        for secret in secrets:
            forms.update(written_forms(secret))
        # Longest first, so that `longest` is at hand; then by value, so that runs repeat.
        self._forms = sorted(forms, key=lambda form: (-len(form), form))
        self._fragments = Fragments(self._forms)
        globs = tuple(sorted(names))
        pattern = name_pattern(globs)
        self._more_names = bool(globs)
        self._name = re.compile(pattern, re.IGNORECASE)
        self._assignment = assignment(pattern)

    @classmethod
    def from_environment(cls, environ: Mapping[str, str], *extra: Mapping[str, str]) -> "Redactor":
        """Take the secrets from `environ` and `extra` (a service's own variables), by their names.

        BUILDKITE_REDACTED_VARS in `environ` adds patterns, comma-separated, to the built-in ones.
        """
        globs = []
        for word in environ.get("BUILDKITE_REDACTED_VARS", "").split(","):
            glob = word.strip()
            # A bare `*` would hide PATH and HOME, and with them everything.
            if glob.strip("*?"):
                globs.append(glob)
        name = re.compile(name_pattern(tuple(sorted(globs))), re.IGNORECASE)
        secrets: list[str] = []
        for mapping in (environ, *extra):
            secrets += secret_values(mapping, name)
        return cls(secrets, names=globs)

    @property
    def longest(self) -> int:
        """Bytes of the longest secret that `spans` can find."""
        longest_form = len(self._forms[0]) if self._forms else 0
        return max(longest_form, LONGEST_TOKEN)

    def text(self, text: str) -> str:
        """Return `text` without secrets. The time is linear in the length of `text`."""
        hidden = self._hidden(text)
        if "\x1b" not in hidden:
            return hidden
        # A colour in the middle of a secret hid it, and will not be there when it is shown.
        plain = _COLOUR.sub("", hidden)
        again = self._hidden(plain)
        return hidden if again == plain else again

    def argv(self, argv: Sequence[str]) -> tuple[str, ...]:
        """Return a command line without secrets, also if option and value are separate words."""
        words: list[str] = []
        after_secret_option = False
        for word, hidden in zip(argv, self.lines(argv), strict=True):
            is_option = word.startswith("--")
            words.append(PLACEHOLDER if after_secret_option and not is_option else hidden)
            after_secret_option = is_option and self._is_secret_name(word[2:])
        return tuple(words)

    def lines(self, lines: Sequence[str]) -> tuple[str, ...]:
        """Return neighbouring lines without secrets, those that stand on several of them too."""
        joined = "\n".join(lines)
        hidden = self.text(joined)
        if hidden == joined:
            return tuple(lines)
        # As many as there were: a secret leaves its line ends.
        rest = iter(hidden.split("\n"))
        return tuple("\n".join(islice(rest, line.count("\n") + 1)) for line in lines)

    def report(self, report: Report) -> Report:
        """Return `report` without secrets in its strings, names and values of `facts` included."""
        changed: Report = self.value(replace(report, cases=()))
        # The schema is no text: a secret that is a part of it would leave a report nobody reads.
        return replace(changed, schema=report.schema, cases=self._cases(report.cases))

    def _cases(self, cases: Sequence[Case]) -> tuple[Case, ...]:
        """Cases of a suite, of which there may be a hundred thousand, looked through by the batch."""
        hidden: list[Case] = []
        for batch in batches_of_cases(cases):
            if self._more_names or may_hold_secret(batch, self._forms):
                hidden += [self.value(case) for case in batch]
            else:
                hidden += batch
        return tuple(hidden)

    def value(self, value: Any) -> Any:
        """Return a JSON value or a tree of structs without secrets in any of its strings."""
        match value:
            case str() if not isinstance(value, Enum):
                return self.text(value)
            case Row():
                return self._row(value)
            case Struct():
                return self._struct(value)
            case dict():
                return self._mapping(value)
            case tuple() | list():
                return type(value)(self._items(value))
            case _:
                return value

    def _struct(self, value: Struct) -> Struct:
        changed = {}
        for name, field in asdict(value).items():
            # By far the most of them: a report has a case for each test.
            if type(field) in _WITHOUT_TEXT or field == ():
                continue
            new = self.value(field)
            if new is not field:
                changed[name] = new
        return replace(value, **changed) if changed else value

    def without_values(self, text: str) -> str:
        """Return `text` without the values of known secrets, and without tokens of known forms.

        A value that only stands beside a secret's name stays.
        """
        content = to_bytes(text)
        spans = self.spans(content)
        if not spans:
            return text
        return without(content, spans).decode("utf-8", "surrogatepass")

    def _hidden(self, text: str) -> str:
        hidden = self.without_values(text)
        return hide_places(hidden, self._assignment, more_names=self._more_names)

    def spans(self, content: bytes) -> list[Span]:
        """Where secrets stand in `content` (start, stop), overlapping ones too, by their starts."""
        spans = self._known(content)
        if has_colour_in_word(content):
            spans += through_colours(content, self._known)
        spans += token_spans(content)
        return sorted(spans)

    def _known(self, content: bytes) -> list[Span]:
        spans: list[Span] = []
        for form in self._forms:
            start = content.find(form)
            while start >= 0:
                spans.append((start, start + len(form)))
                # Not from its end: a secret may overlap itself, and no piece of it may stay.
                start = content.find(form, start + 1)
        spans += self._fragments.spans(content)
        return spans

    def _is_secret_name(self, name: str) -> bool:
        return self._name.fullmatch(name) is not None

    def _items(self, items: Sequence[Any]) -> Sequence[Any]:
        if not all(type(item) is str for item in items):
            return [self.value(item) for item in items]
        # A list of strings in `facts` may be a command line, or the lines of a log.
        return self.argv(items)

    def _row(self, row: Row) -> Row:
        """A row of a table; a label that is a secret's name hides the texts beside it."""
        cells = []
        # A label may be a secret's name, or hold one that is written as a variable.
        names = (row.label.strip(" $`'\":-"), *_VARIABLE.findall(row.label))
        is_secret = any(map(self._is_secret_name, names))
        for cell in row.cells:
            hidden = self.value(cell)
            if is_secret and isinstance(cell.value, str) and cell.value.lower() not in COMMON:
                hidden = replace(cell, value=PLACEHOLDER)
            cells.append(hidden)
        return Row(label=self.text(row.label), cells=tuple(cells))

    def _mapping(self, mapping: dict[Any, Any]) -> dict[Any, Any]:
        changed = {}
        for key, field in mapping.items():
            is_hidden = isinstance(key, str) and isinstance(field, str) and self._hides(key, field)
            changed[self.value(key)] = PLACEHOLDER if is_hidden else self.value(field)
        # `{"name": "HF_TOKEN", "value": …}`, as an action and an exported variable are written.
        name = mapping.get("name")
        value = mapping.get("value")
        if isinstance(name, str) and isinstance(value, str) and self._hides(name, value):
            changed["value"] = PLACEHOLDER
        return changed

    def _hides(self, name: str, value: str) -> bool:
        """Whether the variable or field `name` has a secret for its value."""
        return bool(value) and (self._is_secret_name(name) or may_be_secret(name, value))


# --- logs, before anything uploads them ---


_CHUNK_BYTES = 1 << 20


def redact_files(paths: Iterable[Path], redactor: Redactor) -> tuple[str, ...]:
    """Take secrets out of each of `paths` that exists; return a warning for each one removed.

    A file that cannot be redacted is removed: no log is better than one with a secret in it.
    """
    warnings = []
    for path in paths:
        try:
            if path.exists():
                redact_file(path, redactor)
        except UsageError as error:
            path.unlink(missing_ok=True)
            warnings.append(f"removed {path}: {error.message}")
    return tuple(warnings)


def redact_file(path: Path, redactor: Redactor) -> bool:
    """Rewrite the file at `path` without the values of secrets. False if it holds none.

    Memory stays bounded for a file of any size. The new content replaces the old at once, with
    the same mode. Raises UsageError if it is not a regular file or cannot be rewritten.
    """
    try:
        # Not followed: behind a link may be a file of somebody else.
        if not stat.S_ISREG(path.lstat().st_mode):
            raise UsageError(
                f"cannot take secrets out of {path}: not a regular file",
                hint="give the log file itself",
            )
        with path.open("rb") as source:
            # A flat array of numbers: a log may hold its secret a million times.
            edges = array("Q")
            for span in merged(_spans_in(source, redactor)):
                edges.extend(span)
            if edges:
                _rewrite(path, source, edges)
    except OSError as error:
        raise UsageError(
            f"cannot take secrets out of {path}: {error.strerror or error}",
            hint="remove the file before anything uploads it",
        ) from error
    return bool(edges)


def _spans_in(source: IO[bytes], redactor: Redactor) -> Iterator[Span]:
    """As `Redactor.spans`, of a whole file.

    Each buffer holds as much of what is before and after it as the longest secret would need: the
    first line of a key tells what the others are.
    """
    reach = redactor.longest
    buffer = b""
    base = 0
    done = 0
    while chunk := source.read(_CHUNK_BYTES):
        buffer += chunk
        border = max(done, base + len(buffer) - reach)
        for start, stop in redactor.spans(buffer):
            if done <= base + start < border:
                yield base + start, base + stop
        done = border
        unneeded = max(0, border - reach - base)
        buffer = buffer[unneeded:]
        base += unneeded
    for start, stop in redactor.spans(buffer):
        if base + start >= done:
            yield base + start, base + stop


def _rewrite(path: Path, source: IO[bytes], edges: Sequence[int]) -> None:
    """Replace the file at `path` by `source` with the placeholder at each span.

    `edges` are start and stop of each span, one after another.
    """
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as target:
            source.seek(0)
            for start, stop in zip(edges[::2], edges[1::2], strict=True):
                _copy(source, target, start - source.tell())
                _write_mark(source, target, stop - start)
            _copy(source, target, os.fstat(source.fileno()).st_size - source.tell())
            target.flush()
            os.fsync(target.fileno())
        temporary.chmod(stat.S_IMODE(path.stat().st_mode))
        temporary.replace(path)
    except BaseException:  # also a signal: a copy of the log must not stay under another name
        temporary.unlink(missing_ok=True)
        raise


def _write_mark(source: IO[bytes], target: IO[bytes], count: int) -> None:
    """Pass `count` bytes of `source`, and write what stands in place of them."""
    is_first = True
    while count > 0:
        chunk = source.read(min(count, _CHUNK_BYTES))
        if not chunk:
            return
        mark = in_place_of(chunk)
        # The mark of the line that goes on is there already.
        target.write(mark if is_first else mark.removeprefix(in_place_of(b"")))
        is_first = False
        count -= len(chunk)


def _copy(source: IO[bytes], target: IO[bytes], count: int) -> None:
    while count > 0:
        chunk = source.read(min(count, _CHUNK_BYTES))
        if not chunk:
            return
        target.write(chunk)
        count -= len(chunk)
