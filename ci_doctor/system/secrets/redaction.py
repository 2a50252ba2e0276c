# SPDX-License-Identifier: Apache-2.0
"""Acts on files (`Redactor.file` only): takes secrets out of texts, command lines, reports and logs before others see them."""

import os
import re
import stat
import tempfile
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import IO, Any

from msgspec import Struct
from msgspec.structs import asdict, replace

from ci_doctor.errors import UsageError
from ci_doctor.model.report import Report
from ci_doctor.system.secrets import patterns
from ci_doctor.system.secrets.patterns import PLACEHOLDER

_CHUNK = 1 << 20


class Redactor:
    """Knows some secrets, and the names under which others would stand.

    A secret's value becomes `[redacted]` wherever it stands, in whatever form; what stands beside a name that means a
    secret (`HF_TOKEN=…`, `--api-key …`, `Authorization: …`, `https://user:…@host`) does so too, known or not.
    """

    def __init__(self, secrets: Iterable[str], *, names: Iterable[str] = ()) -> None:
        """`secrets` are values, `names` more name patterns with `*` and `?`. Values under six bytes hide by name only."""
        known = {form for secret in secrets for form in patterns.forms(secret)}
        self._forms = sorted(known, key=lambda form: (-len(form), form))
        globs = tuple(sorted(names))
        pattern = patterns.name_pattern(globs)
        self._more_names = bool(globs)
        self._name = re.compile(pattern, re.IGNORECASE)
        self._assignment = patterns.assignment(pattern)

    @classmethod
    def from_environment(cls, environ: Mapping[str, str], *extra: Mapping[str, str]) -> "Redactor":
        """Take the secrets from `environ` and from `extra` mappings (a service's own variables), by the names of variables.

        BUILDKITE_REDACTED_VARS in `environ` adds patterns, comma-separated, to the built-in ones.
        """
        globs = [glob.strip() for glob in environ.get("BUILDKITE_REDACTED_VARS", "").split(",")]
        # A bare `*` would hide PATH and HOME, and with them everything.
        globs = [glob for glob in globs if glob.strip("*?")]
        name = re.compile(patterns.name_pattern(tuple(sorted(globs))), re.IGNORECASE)
        secrets = [
            value for mapping in (environ, *extra) for value in patterns.values(mapping, name)
        ]
        return cls(secrets, names=globs)

    def text(self, text: str) -> str:
        """`text` without secrets. Its time is linear in the length of `text`."""
        return patterns.hide_places(
            self.without_values(text), self._assignment, more_names=self._more_names
        )

    def argv(self, argv: Sequence[str]) -> tuple[str, ...]:
        """A command line without secrets, also where option and value are words of their own."""
        words: list[str] = []
        after_secret_option = False
        for word in argv:
            hidden = after_secret_option and not word.startswith("--")
            words.append(PLACEHOLDER if hidden else self.text(word))
            after_secret_option = (
                word.startswith("--") and self._name.fullmatch(word[2:]) is not None
            )
        return tuple(words)

    def report(self, report: Report) -> Report:
        """`report` without secrets in any of its strings, names and values of `facts` included."""
        changed: Report = self.value(report)
        return replace(changed, schema=report.schema)

    def file(self, path: Path) -> bool:
        """Rewrite the file at `path` without the values of secrets; False, and untouched, where there are none.

        Memory stays bounded however large it is; the new content replaces the old at once, with the same mode. Raises
        UsageError where it is not a regular file or cannot be rewritten.
        """
        if not self._forms:
            return False
        try:
            if not stat.S_ISREG(path.lstat().st_mode):
                raise UsageError(
                    f"cannot take secrets out of {path}: not a regular file",
                    hint="give the log file itself",
                )
            with path.open("rb") as source:
                spans = array(
                    "Q", (edge for span in _merged(self._spans_in(source)) for edge in span)
                )
                if spans:
                    _rewrite(path, source, spans)
        except OSError as error:
            raise UsageError(
                f"cannot take secrets out of {path}: {error.strerror or error}",
                hint="remove the file before anything uploads it",
            ) from error
        return bool(spans)

    def value(self, value: Any) -> Any:
        """A JSON value or a tree of structs without secrets in any of its strings; what is no text stays as it is."""
        match value:
            case str() if not isinstance(value, Enum):
                return self.text(value)
            case Struct():
                return replace(
                    value, **{name: self.value(field) for name, field in asdict(value).items()}
                )
            case dict():
                return {self.value(key): self._named(key, field) for key, field in value.items()}
            case tuple() | list() if all(type(item) is str for item in value):
                return type(value)(self.argv(value))  # in `facts` too a command line may lie
            case tuple() | list():
                return type(value)(self.value(item) for item in value)
            case _:
                return value

    def _named(self, name: Any, value: Any) -> Any:
        if (
            isinstance(name, str)
            and isinstance(value, str)
            and value
            and self._name.fullmatch(name)
        ):
            return PLACEHOLDER
        return self.value(value)

    def without_values(self, text: str) -> str:
        """`text` without the values of known secrets; what merely stands beside a secret's name stays."""
        content = text.encode("utf-8", "surrogatepass")
        pieces, end = [], 0
        for start, stop in _merged(iter(self._spans(content))):
            pieces += [content[end:start], PLACEHOLDER.encode()]
            end = stop
        return (
            b"".join([*pieces, content[end:]]).decode("utf-8", "surrogatepass") if pieces else text
        )

    def _spans(self, content: bytes) -> list[tuple[int, int]]:
        """Where secrets stand in `content`, overlapping ones too, by their starts."""
        spans = []
        for form in self._forms:
            start = content.find(form)
            while start >= 0:
                spans.append((start, start + len(form)))
                start = content.find(form, start + 1)
        return sorted(spans)

    def _spans_in(self, source: IO[bytes]) -> Iterator[tuple[int, int]]:
        """As `_spans`, of a whole file: each buffer begins with what a secret over the border would need."""
        overlap = len(self._forms[0]) - 1
        buffer, base = b"", 0
        while chunk := source.read(_CHUNK):
            buffer += chunk
            keep = min(overlap, len(buffer))
            border = len(buffer) - keep
            yield from (
                (base + start, base + stop) for start, stop in self._spans(buffer) if start < border
            )
            buffer, base = buffer[border:], base + border
        yield from ((base + start, base + stop) for start, stop in self._spans(buffer))


def _merged(spans: Iterator[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Overlapping spans as one; `spans` come by their starts."""
    current = next(spans, None)
    if current is None:
        return
    for start, stop in spans:
        if start < current[1]:
            current = (current[0], max(current[1], stop))
        else:
            yield current
            current = (start, stop)
    yield current


def _rewrite(path: Path, source: IO[bytes], spans: Sequence[int]) -> None:
    """Replace the file at `path` by `source` with the placeholder at each of `spans` (start, stop, start, stop …)."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as target:
            source.seek(0)
            for start, stop in zip(spans[::2], spans[1::2], strict=True):
                _copy(source, target, start - source.tell())
                target.write(PLACEHOLDER.encode())
                source.seek(stop)
            _copy(source, target, os.fstat(source.fileno()).st_size - source.tell())
            target.flush()
            os.fsync(target.fileno())
        Path(temporary).chmod(stat.S_IMODE(path.stat().st_mode))
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _copy(source: IO[bytes], target: IO[bytes], count: int) -> None:
    while count > 0 and (chunk := source.read(min(count, _CHUNK))):
        target.write(chunk)
        count -= len(chunk)
