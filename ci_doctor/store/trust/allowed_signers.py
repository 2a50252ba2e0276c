# SPDX-License-Identifier: Apache-2.0
"""Reads an allowed_signers file, as ssh-keygen(1) describes it ("ALLOWED SIGNERS").

ci@example.com namespaces="ci-doctor-cache",valid-before="20271231" ssh-ed25519 AAAA… a comment
"""

import base64
import binascii
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Self

import msgspec

from ci_doctor.errors import UsageError
from ci_doctor.store.trust.ssh_patterns import matches

_MOST_BYTES: Final = 1024 * 1024
_KEY_TYPE: Final = re.compile(r"(?:sk-)?(?:ssh|ecdsa)-[a-z0-9@.-]+", re.ASCII)
# principals, which may stand in quotes, and the rest
_PRINCIPALS: Final = re.compile(r'(?:"(?P<quoted>[^"]*)"|(?P<plain>[^\s"]+))\s+(?P<rest>.+)')
# name, or name="value" with \" for a quote within it
_OPTION: Final = re.compile(r'(?P<name>[a-z-]+)(?:="(?P<value>(?:[^"\\]|\\.)*)")?(?:,|(?=\s)|$)')
_TIMES: Final = {8: "%Y%m%d", 12: "%Y%m%d%H%M", 14: "%Y%m%d%H%M%S"}


class AllowedSigner(msgspec.Struct, frozen=True, kw_only=True):
    """One line: whose key it is, for which namespaces, and from when until when (ms, or None)."""

    principals: str
    key_type: str
    public_key: bytes
    namespaces: str | None = None
    valid_after_ms: int | None = None
    valid_before_ms: int | None = None

    def may_sign(self, namespace: str) -> bool:
        """Whether the line allows `namespace`."""
        return self.namespaces is None or matches(namespace, self.namespaces)

    def is_valid_at(self, at_ms: int) -> bool:
        """Whether the key is valid at that time."""
        if self.valid_after_ms is not None and at_ms < self.valid_after_ms:
            return False
        return self.valid_before_ms is None or at_ms <= self.valid_before_ms


class AllowedSigners(msgspec.Struct, frozen=True, kw_only=True):
    """The lines of an allowed_signers file; `source` names it."""

    source: str
    signers: tuple[AllowedSigner, ...]

    @classmethod
    def read(cls, path: Path) -> Self:
        """The lines of the file `path`. Raises UsageError, with the line that cannot be read."""
        try:
            with path.open("rb") as file:
                content = file.read(_MOST_BYTES)
        except OSError as error:
            raise UsageError(
                f"cannot read the allowed signers {path}: {error.strerror}",
                hint="name a file with lines such as `ci@example.com ssh-ed25519 AAAA…`",
            ) from error
        return cls.parse(content.decode(errors="replace"), str(path))

    @classmethod
    def parse(cls, text: str, source: str) -> Self:
        """The lines of `text`. Raises UsageError, with the line that cannot be read."""
        return cls(source=source, signers=tuple(_lines(text, source)))

    def with_key(self, public_key: bytes) -> tuple[AllowedSigner, ...]:
        """The lines with this key (a key blob)."""
        return tuple(signer for signer in self.signers if signer.public_key == public_key)


def _lines(text: str, source: str) -> Iterator[AllowedSigner]:
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        if not stripped or stripped.startswith("#"):
            continue
        try:
            yield _signer(stripped)
        except ValueError as error:
            raise UsageError(
                f"{source}:{number}: {error}", hint="ssh-keygen(1) describes this file"
            ) from error


def _signer(line: str) -> AllowedSigner:
    match = _PRINCIPALS.fullmatch(line)
    if match is None:
        raise ValueError("principals and a key are expected")
    options, rest = _options(match["rest"])
    fields = rest.split()
    if len(fields) < 2 or _KEY_TYPE.fullmatch(fields[0]) is None:
        raise ValueError("no key follows the principals and options")
    try:
        public_key = base64.b64decode(fields[1], validate=True)
    except binascii.Error as error:
        raise ValueError("the key is no base64") from error
    return AllowedSigner(
        principals=match["quoted"] or match["plain"],
        key_type=fields[0],
        public_key=public_key,
        namespaces=options.get("namespaces"),
        valid_after_ms=_moment(options.get("valid-after")),
        valid_before_ms=_moment(options.get("valid-before")),
    )


def _options(text: str) -> tuple[dict[str, str], str]:
    """The options at the beginning of `text`, and what follows them. Raises ValueError."""
    if _KEY_TYPE.fullmatch(text.split(maxsplit=1)[0]):
        return {}, text
    options: dict[str, str] = {}
    position = 0
    while position < len(text) and not text[position].isspace():
        match = _OPTION.match(text, position)
        if match is None:
            raise ValueError('options have the form name="value", with commas between them')
        name, value = match["name"], match["value"]
        if name == "cert-authority":
            raise ValueError("cert-authority is not supported: name the keys themselves")
        if name not in {"namespaces", "valid-after", "valid-before"} or value is None:
            raise ValueError(f"the option {name} is not known in this form")
        if name in options:
            raise ValueError(f"the option {name} stands there twice")
        options[name] = re.sub(r"\\(.)", r"\1", value)
        position = match.end()
    return options, text[position:].strip()


def _moment(text: str | None) -> int | None:
    """`YYYYMMDD[HHMM[SS]][Z]` in ms since the epoch; in local time without the Z."""
    if text is None:
        return None
    digits = text.removesuffix("Z")
    form = _TIMES.get(len(digits))
    if form is None or not (digits.isascii() and digits.isdigit()):
        raise ValueError(f"{text} is no time: YYYYMMDD[HHMM[SS]][Z]")
    moment = datetime.strptime(digits, form)  # noqa: DTZ007 - local time, unless it ends with Z
    if digits != text:
        moment = moment.replace(tzinfo=UTC)
    return int(moment.timestamp() * 1000)
