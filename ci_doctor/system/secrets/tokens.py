# SPDX-License-Identifier: Apache-2.0
"""Pure. Where secrets stand that are known by their form: tokens, private keys, signed addresses."""

import re
from collections.abc import Iterator
from functools import cache

from ci_doctor.system.secrets.credentials import CREDENTIALS
from ci_doctor.system.secrets.private_keys import LONGEST_KEY, key_spans, may_hold_key
from ci_doctor.system.secrets.spans import Span
from ci_doctor.system.secrets.token_formats import HEAD_LETTERS, TokenFormat, token_formats

LONGEST_TOKEN = LONGEST_KEY + 1_000  # bytes; nothing is longer than a private key
_SHORTEST = 14
# Letters and digits stay, all else becomes a space: what is left are the runs that tokens begin with.
_RUNS = bytes(byte if chr(byte).isalnum() and byte < 128 else 32 for byte in range(256))
# What may stand right before a token without being a part of it: an escape of JSON and C, of a URL,
# of a terminal (ECMA-48 SGR).
_ESCAPE = re.compile(rb"\\[abfnrtv]|%[0-9A-Fa-f]{2}|\x1b\[[0-9;]*m")
_SLASH = rb"(?:\\?/|%2[Ff])"
# Addresses that are a secret as a whole, or sign what they lead to.
_WEBHOOK = re.compile(
    rb"hooks\.slack(?:-gov)?\.com" + _SLASH + rb"(?:services|workflows|triggers)" + _SLASH
    + rb"(?P<secret>[A-Za-z0-9+/%_\\-]{16,300})"
    rb"|discord(?:app)?\.com" + _SLASH + rb"api" + _SLASH + rb"webhooks" + _SLASH
    + rb"(?P<secret_2>[A-Za-z0-9/%_\\-]{16,300})"
    rb"|webhook\.office\.com" + _SLASH + rb"webhookb2" + _SLASH
    + rb"(?P<secret_3>[A-Za-z0-9@/%_\\-]{16,400})"
)  # fmt: skip
_SIGNATURE = re.compile(
    rb"(?:X-(?:Amz|Goog)-(?:Signature|Security-Token|Credential)|[?&]sig)(?:=|%3[Dd])"
    rb"(?P<secret>[A-Za-z0-9%/+=_-]{16,4096})",
    re.IGNORECASE,
)
_ELSEWHERE = (
    (b"hooks.slack", _WEBHOOK),
    (b"webhook", _WEBHOOK),
    (b"X-Amz-", _SIGNATURE),
    (b"X-Goog-", _SIGNATURE),
    (b"sig=", _SIGNATURE),
    *CREDENTIALS,
)


def token_spans(content: bytes) -> Iterator[Span]:
    """Where tokens stand in `content` (start, stop), in no order; they may overlap.

    The time is linear. Digests, commits, UUIDs and base64 without a known beginning are no tokens.
    """
    if len(content) < _SHORTEST:
        return
    plain = _without_escapes(content)
    for token in _formats_in(plain):
        for match in _compiled(token.pattern).finditer(plain):
            yield match.span()
    for mark, pattern in _ELSEWHERE:
        if mark in content:
            yield from _secrets_of(pattern, content)
    yield from key_spans(content)


def may_hold_token(content: bytes) -> bool:
    """Whether `token_spans` could find something in a line of `content`; far cheaper, and never false if it does."""
    if any(mark in content for mark, _ in _ELSEWHERE) or may_hold_key(content):
        return True
    return bool(_formats_in(_without_escapes(content)))


def _without_escapes(content: bytes) -> bytes:
    if b"\\" in content or b"%" in content or b"\x1b" in content:
        # The same length, so that places stay the same.
        return _ESCAPE.sub(_blank, content)
    return content


def _blank(match: re.Match[bytes]) -> bytes:
    return b" " * len(match[0])


def _formats_in(plain: bytes) -> set[TokenFormat]:
    """The formats whose heads stand somewhere in `plain`: none, in most texts."""
    runs = set(plain.translate(_RUNS).split())
    # A random part may follow the letters of a head at once.
    runs |= {run[:HEAD_LETTERS] for run in runs}
    formats = token_formats()
    return {each for head in formats.keys() & runs for each in formats[head]}


@cache
def _compiled(pattern: str) -> re.Pattern[bytes]:
    # What goes on after a token of a fixed length belongs to it: no piece of it may stay.
    return re.compile(rb"(?<![A-Za-z0-9])(?:" + pattern.encode() + rb")[A-Za-z0-9_-]*")


def _secrets_of(pattern: re.Pattern[bytes], content: bytes) -> Iterator[Span]:
    for match in pattern.finditer(content):
        # The whole, or the group that is the secret part of it.
        yield match.span(match.lastgroup or 0)
