# SPDX-License-Identifier: Apache-2.0
"""Acts on files: samples, one request's answer in one pass of one start, a JSON line each, and their outputs."""

import contextlib
import gzip
import json
import os
import re
import shutil
import tempfile
import weakref
import zlib
from collections.abc import Iterator, Mapping
from io import FileIO
from pathlib import Path
from typing import IO, Any, Self

import msgspec
from msgspec import Struct

from ci_doctor.decodable import decodable
from ci_doctor.errors import InfraError, UsageError
from ci_doctor.load.answer_items import NotAnAnswerError
from ci_doctor.load.canonical import digest, encode
from ci_doctor.system.files.access import make_directory
from ci_doctor.system.secrets.redaction import Redactor
from ci_doctor.system.secrets.spans import PLACEHOLDER

# The pass of a control: it belongs to none, and is never compared.
NO_PASS = 0
# As SampleWriter writes a control. A request of a user may have any id, but its passes count from 1.
_CONTROL = re.compile(
    rb'\{"arm": "(?:baseline|candidate)", "start": [1-9][0-9]{0,8}, "pass": 0, "id": "control:'
)
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """One answer. Exactly one of `error` and `output` is set.

    `start` and `pass_` (`pass` in JSON) count from 1; pass 0 is a control, a request with a changed
    prompt (its `meta` holds the `body`). `status` is HTTP's. `digest` is the SHA-256
    of the canonical `output`, `words_digest` that of its words alone, and `tokens_digest` that of
    its words and tokens (see `level_digests`): all of the output before secrets were removed.
    `prompt_facts` holds what the server reports of the prompt (`model`, `prompt_tokens`), and
    `meta` what is left out of the comparison.
    """

    arm: str
    start: int
    pass_: int = msgspec.field(name="pass")
    id: str
    status: int | None = None
    error: str | None = None
    output: dict[str, Any] | None = None
    digest: str | None = None
    words_digest: str | None = None
    tokens_digest: str | None = None
    prompt_facts: dict[str, Any] = {}
    empty: bool = False
    meta: dict[str, Any] = {}


class SamplePosition(Struct, frozen=True, kw_only=True):
    """The place of a line in its file, in bytes; its newline is included."""

    offset: int
    length: int


class EvidenceFile:
    """A file to which each line goes whole and at once.

    With `append`, lines follow those that `resume` left in the file; else the file is new.
    """

    def __init__(self, path: Path, *, append: bool = False) -> None:
        self.path = path
        # "wb" truncates: a line of an earlier attempt must never be read as one of this.
        self._mode = "ab" if append else "wb"
        self._file: FileIO | None = None

    def __enter__(self) -> Self:
        try:
            make_directory(self.path.parent)
            self._file = FileIO(self.path, self._mode)
        except OSError as error:
            raise UsageError(
                f"cannot write {self.path}: {error.strerror}",
                hint="choose another directory with --report-dir",
            ) from error
        return self

    def __exit__(self, *_: object) -> None:
        # Some file systems report a full disk only now; `append_line` has reported it then too.
        with contextlib.suppress(OSError):
            if self._file is not None:
                self._file.close()

    def append_line(self, content: bytes) -> SamplePosition:
        """Append one line, and return its place. Raises InfraError if the disk refuses it.

        Then none of the line is left.
        """
        assert self._file is not None  # noqa: S101 - used outside `with` is a programming error
        try:
            end = self._file.seek(0, os.SEEK_END)
            append_whole(self._file, content, end)
        except OSError as error:
            raise InfraError(
                f"cannot write {self.path}: {error.strerror}", hint="free some disk space"
            ) from error
        return SamplePosition(offset=end, length=len(content))


class SampleWriter(EvidenceFile):
    """Writes samples without the values of secrets."""

    def __init__(self, path: Path, redactor: Redactor, *, append: bool = False) -> None:
        super().__init__(path, append=append)
        self._redactor = redactor

    def write(self, sample: Sample) -> SamplePosition:
        """Append one line, and return its place, as `append_line`."""
        # ASCII, because a model may produce a lone surrogate.
        line = json.dumps(msgspec.to_builtins(sample))
        # Only values, and no keys: an answer may hold a key `token`, and its value is evidence.
        if self._redactor.without_values(line) != line:
            # String by string, because a number may hold the same digits.
            line = _STRING.sub(lambda match: self._redactor.without_values(match[0]), line)
        return self.append_line(line.encode("ascii") + b"\n")


def append_whole(file: FileIO, content: bytes, end: int) -> None:
    """Append `content` to a file of `end` bytes, or nothing of it. Raises OSError."""
    rest = memoryview(content)
    try:
        while rest:
            # A disk that is nearly full takes a part and reports no error.
            written = file.write(rest) or 0
            rest = rest[written:]
    except OSError:
        with contextlib.suppress(OSError):
            file.truncate(end)
        raise


def read_line(line: bytes) -> Sample:
    """The sample of one whole line. Raises ValueError if it holds none."""
    if not line.endswith(b"\n"):
        raise ValueError("the line is torn")
    try:
        # json, because msgspec's own decoder refuses a lone surrogate.
        return msgspec.convert(json.loads(line), decodable(Sample))
    except (msgspec.ValidationError, RecursionError) as error:
        raise ValueError(str(error)) from error


def is_valid(sample: Sample) -> bool:
    """Whether the digest of a sample is that of its output. An error is valid as it is. Pure.

    A redacted output has another digest than the one written beside it, and is valid too. An answer
    without a digest is not, nor one with prompt facts that are no JSON.
    """
    if sample.output is None:
        return sample.error is not None
    if sample.digest is None:
        return False
    try:
        encode(sample.prompt_facts)  # they are compared by their digests
        own = digest(sample.output)
    except NotAnAnswerError:
        return False
    return own == sample.digest or PLACEHOLDER in str(sample.output)


def is_control(line: bytes) -> bool:
    """Whether a line of a samples file is the answer to a control. Pure."""
    return _CONTROL.match(line) is not None


def read_lines(path: Path) -> Iterator[tuple[SamplePosition, bytes]]:
    """Every line of a samples file with its place. Raises OSError.

    Each line has its newline, except for a torn last one.
    """
    offset = 0
    with path.open("rb") as file:
        for line in file:
            yield SamplePosition(offset=offset, length=len(line)), line
            offset += len(line)


_CHUNK = 1 << 20


class Outputs(Mapping[str, dict[str, Any]]):
    """Canonical outputs by their digest; some 200 bytes of memory for each, whatever its size.

    A lookup reads and decodes one line. It raises InfraError if that is no longer possible. The
    offsets in a file whose name ends in `.gz` are those of its content. The first lookup there
    unpacks it into a file without a name, in the directory `scratch` (None: the system's).
    """

    def __init__(self, scratch: Path | None = None) -> None:
        self._scratch = scratch
        self._unpacked: dict[Path, IO[bytes]] = {}
        # Not as bytes: these are the very objects that the starts hold.
        self._places: dict[str, tuple[Path, int, int]] = {}

    def note(self, digest: str, path: Path, place: SamplePosition) -> None:
        """The sample at `place` of `path` has the output of `digest`. The first place counts."""
        self._places.setdefault(digest, (path, place.offset, place.length))

    def __getitem__(self, digest: str) -> dict[str, Any]:
        path, offset, length = self._places[digest]
        try:
            sample = read_line(self._read(path, offset, length))
        except (OSError, EOFError, zlib.error, ValueError) as error:
            raise _unreadable(path, digest, str(error)) from error
        # Somebody may have rewritten the file under us.
        if sample.output is None or sample.digest != digest:
            raise _unreadable(path, digest, "another sample stands there")
        return sample.output

    def _read(self, path: Path, offset: int, length: int) -> bytes:
        if path.suffix != ".gz":
            with path.open("rb") as file:
                return _piece(file, offset, length)
        # gzip has no index: each lookup would unpack all that stands before the line.
        if path not in self._unpacked:
            self._unpacked[path] = unpacked = _unpack(path, self._scratch)
            weakref.finalize(self, unpacked.close)
        return _piece(self._unpacked[path], offset, length)

    def __contains__(self, digest: object) -> bool:
        return digest in self._places

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


def _piece(file: IO[bytes], offset: int, length: int) -> bytes:
    file.seek(offset)
    return file.read(length)


def _unpack(path: Path, scratch: Path | None) -> IO[bytes]:
    # Without a name: nothing of it stays behind when this process is killed.
    unpacked = tempfile.TemporaryFile(dir=scratch)  # noqa: SIM115 - it lives as long as `Outputs`
    try:
        with gzip.open(path) as packed:
            shutil.copyfileobj(packed, unpacked, _CHUNK)
    except BaseException:  # a signal too
        unpacked.close()
        raise
    return unpacked


def _unreadable(path: Path, digest: str, why: str) -> InfraError:
    return InfraError(
        f"an answer can no longer be read from {path} (digest {digest[:12]}): {why}",
        hint="leave the report directory alone while ci-doctor runs, then run it again",
    )
