# SPDX-License-Identifier: Apache-2.0
"""Pure. Where secrets stand that are known by their form: tokens, private keys, signed addresses.

Tokens are known by their beginning, as the two lists beside this file have it; credentials by what
stands around them, in logs too. Every repetition is bounded: a log may be hostile.
"""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import msgspec
from msgspec import Struct

from ci_doctor.decodable import decodable
from ci_doctor.system.secrets.private_keys import LONGEST_KEY, key_spans, may_hold_key
from ci_doctor.system.secrets.spans import Span


class TokenFormat(Struct, frozen=True):
    """A kind of token.

    `heads` are the letters and digits that it begins with, up to its first other character, or
    `HEAD_LETTERS` of them if a random part follows at once. `pattern` matches the whole.
    """

    id: str
    heads: tuple[str, ...]
    pattern: str


HEAD_LETTERS = 4


class _FormatList(Struct):
    formats: tuple[TokenFormat, ...]


@cache
def token_formats() -> dict[bytes, tuple[TokenFormat, ...]]:
    """All formats by their heads: of issuers by their own pages, and of a maintained scanner.

    benchmarks/secret_formats.py makes gitleaks.json (gitleaks, MIT).
    """
    formats: dict[bytes, tuple[TokenFormat, ...]] = {}
    for name in ("issuers.json", "gitleaks.json"):
        content = Path(__file__).with_name(name).read_bytes()
        for each in msgspec.json.decode(content, type=decodable(_FormatList)).formats:
            for head in each.heads:
                key = head.encode()
                formats[key] = (*formats.get(key, ()), each)
    return formats


_RANDOM = rb"(?=[A-Za-z._~+/=-]{0,200}[0-9])[A-Za-z0-9._~+/-]{16,8192}={0,2}"
# Between a header's name and its value: as sent, as JSON, and as Python shows a dict and a pair.
_BETWEEN = rb"""\\?['"]?\s{0,4}[:=,]\s{0,4}(?:b(?=\\?['"]))?\\?['"]?"""
# RFC 6750 and RFC 7617. `Bearer token required` is a sentence: a credential holds a digit.
_BEARER = re.compile(rb"\b(?i:bearer)(?:\s|%20){1,4}['\"]?(?P<secret>" + _RANDOM + rb")")
_AUTHORIZATION = re.compile(
    rb"(?i:authorization)" + _BETWEEN + rb"(?:\w{1,16}\s{1,4})?(?P<secret>" + _RANDOM + rb")"
)
# RFC 6265; the name of the first cookie stays.
_COOKIE = re.compile(
    rb"\b(?i:(?:set-)?cookie)" + _BETWEEN
    + rb"""[\w.-]{1,128}=(?P<secret>[^\r\n'"\\]{8,4096})"""
)  # fmt: skip
_USER_AND_PASSWORD = re.compile(
    rb"""://[^\s/'\":@]{0,256}:(?P<secret>[^\s/?#'"\\]{1,1024})@[\w\[]"""
)
# https://learn.microsoft.com/azure/storage/common/storage-configure-connection-string
_AZURE_KEY = re.compile(rb"\b(?:Account|SharedAccess)Key=(?P<secret>[A-Za-z0-9+/%]{20,512}={0,2})")
# The form of gitleaks' rule for Azure AD's client secrets.
_AZURE_SECRET = re.compile(
    rb"(?<![\w~.-])(?P<secret>[A-Za-z0-9_~.]{3}\dQ~[A-Za-z0-9_~.-]{31,34})(?![\w~-])"
)
# ~/.docker/config.json: base64 of user and password.
_DOCKER = re.compile(
    rb"""\\?"auth\\?"\s{0,4}:\s{0,4}\\?"(?P<secret>[A-Za-z0-9+/]{12,4096}={0,2})\\?\""""
)
# No further than the next curl: each character of a hostile log is read for one of them.
_CURL = re.compile(
    # The words of a command line may stand each on a line of its own.
    rb"""\bcurl(?:\s(?:(?!curl\s)[^\n]){0,512}?(?<=\s)|\n(?:(?!curl\n)[^\n]{1,256}\n){0,16}?)"""
    rb"""(?:-u|-U|--user|--proxy-user)[ =\n]?['"]?"""
    rb"""[^\s:'"]{1,128}:(?P<secret>(?!\$)[^\s'"]{1,512})"""
)
_NETRC = re.compile(
    rb"\bmachine\s{1,8}\S{1,256}\s{1,8}login\s{1,8}\S{1,256}\s{1,8}password\s{1,8}"
    rb"(?P<secret>\S{1,512})"
)
# A password as an option of a client. `docker run -p 80:80` is none, and `redis-cli -p` names a port.
_CLIENT = re.compile(
    rb"""\b(?:redis-cli\s{1,8}(?:[^\s]{1,64}\s{1,8}){0,8}?(?:-a|--pass)|(?:sshpass|(?:docker|podman|nerdctl|buildah|skopeo|oras|crane|helm|registry)\s{1,8}login|az\s{1,8}login"""
    rb"""|mysql(?:dump|admin)?|mariadb|mongosh?|twine\s{1,8}upload|htpasswd)\s{1,8}"""
    rb"""(?:[^\s]{1,64}\s{1,8}){0,8}?(?:-p|-a|--password|--pass))(?:=|\s{1,8}|(?=[^\s-]))['"]?"""
    rb"""(?P<secret>(?![$-])[^\s'"]{4,512})"""
)
# RFC 7517: the private members of a key. OpenSSL's text of one: bytes in hexadecimal.
_MEMBERS = (b"d", b"p", b"q", b"dp", b"dq", b"qi", b"k")
_JWK = re.compile(
    rb"""\\?"(?:d|p|q|dp|dq|qi|k)\\?"\s{0,4}:\s{0,4}\\?"(?P<secret>[A-Za-z0-9_-]{20,1400})\\?\""""
)
_OPENSSL = re.compile(
    rb"\b(?:priv|privateExponent|prime1|prime2|exponent1|exponent2|coefficient):"
    rb"(?P<secret>(?:\s{1,16}[0-9a-f]{2}(?::[0-9a-f]{2}){0,31}:?){1,80})"
)
# Base64 of `-----BEGIN` and the four kinds of private keys, as in a kubeconfig.
_PEM_IN_BASE64 = re.compile(
    rb"LS0tLS1CRUdJTi(?:BSU0EgUFJJVk|BQUklWQVRFIE|BFQyBQUklWQV|BPUEVOU1NIIF)"
    rb"[A-Za-z0-9+/_-]{0,16384}={0,2}"
)
# A piece of text that is in whatever the pattern matches, and the pattern: to look for the piece
# first is what keeps a log without credentials cheap.
CREDENTIALS = (
    (b"earer", _BEARER),
    (b"BEARER", _BEARER),
    (b"uthorization", _AUTHORIZATION),
    (b"AUTHORIZATION", _AUTHORIZATION),
    (b"ookie", _COOKIE),
    (b"COOKIE", _COOKIE),
    (b"://", _USER_AND_PASSWORD),
    (b"Key=", _AZURE_KEY),
    (b"Q~", _AZURE_SECRET),
    (b'"auth', _DOCKER),
    (b"curl", _CURL),
    (b"machine", _NETRC),
    (b"sshpass", _CLIENT),
    (b"login", _CLIENT),
    (b"mysql", _CLIENT),
    (b"mariadb", _CLIENT),
    (b"mongo", _CLIENT),
    (b"redis-cli", _CLIENT),
    (b"twine", _CLIENT),
    (b"htpasswd", _CLIENT),
    *((b'"' + member + mark, _JWK) for member in _MEMBERS for mark in (b'"', b'\\"')),
    (b"priv:", _OPENSSL),
    (b"privateExponent:", _OPENSSL),
    (b"prime1:", _OPENSSL),
    (b"exponent1:", _OPENSSL),
    (b"coefficient:", _OPENSSL),
    (b"LS0tLS1CRUdJTi", _PEM_IN_BASE64),
)


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
