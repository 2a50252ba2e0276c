# SPDX-License-Identifier: Apache-2.0
"""Pure. What names a secret, and the places in a text where the value of one stands."""

import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import msgspec
from msgspec import Struct

from ci_doctor.decodable import decodable
from ci_doctor.system.secrets.private_keys import LONGEST_KEY, key_spans, may_hold_key
from ci_doctor.system.secrets.spans import COMMON, PLACEHOLDER, Span

# The agent's own list, and what it lacks:
# https://buildkite.com/docs/pipelines/configure/managing-log-output#redacted-environment-variables
STEMS = (
    "PASSWORD",
    "PASSWD",
    "PASSPHRASE",
    "SECRET",
    "TOKEN",
    "PRIVATE_KEY",
    "SSH_KEY",
    "ACCESS_KEY",
    "SECRET_KEY",
    "API_KEY",
    "ACCOUNT_KEY",
    "STORAGE_KEY",
    "SUBSCRIPTION_KEY",
    "MASTER_KEY",
    "SIGNING_KEY",
    "ENCRYPTION_KEY",
    "AUTH_KEY",
    "GITHUB_PAT",
    "GITLAB_PAT",
    "GH_PAT",
    "EXT_PAT",
    "MYSQL_PWD",
    "SSHPASS",
    "CONNECTION_STRING",
    "CREDENTIAL",
    "CREDENTIALS",
    "CREDS",
    "PASSCODE",
    "BEARER",
    "JWT",
    "COOKIE",
    "WEBHOOK",
    "WEBHOOK_URL",
    "SAS_URL",
    "DEPLOY_KEY",
    "LICENSE_KEY",
    "WEBHOOK_KEY",
    "DSN",
)
# These end a name also without `_` before them, as in PGPASSWORD.
_JOINED = "PASSWORD|PASSWD|PASSPHRASE"
# As the name of a variable alone, in capitals: beside `tests_pass=12` in a log stands no secret. Of
# the first group any value is one that is no path, no number and no word of settings; of the second
# one that is random.
_WEAK = (
    r"(?-i:[A-Z][A-Z0-9_]{0,120}_(?:(?P<any>PASS|PWD|AUTH|PAT|SAS)"
    r"|(?P<random>KEY|KEYS|TOKENS|SECRETS|CREDS|SESSION|SESSION_ID|COOKIES|SIGNATURE|SALT|OTP|PSK)))"
)
_WEAK_NAME = re.compile(_WEAK)
_WEAK_ROOTS: tuple[str, ...] = (
    *("_PASS", "_PWD", "_AUTH", "_PAT=", "_PAT:", '_PAT"', "_PAT'", "_SAS", "_SESSION", "_COOKIES"),
    *("_TOKENS", "_SECRETS", "_SIGNATURE", "_SALT", "_OTP", "_PSK"),
)
# Names of what is looked up by its key.
_LOOKED_UP = re.compile(
    r"(?:^|_)(?:CACHE|STEP|GROUP|JOB|BUILD|PUBLIC|PRIMARY|SORT|PARTITION|FOREIGN|ROUTING|INDEX|HOST|OBJECT"
    r"|BUCKET|LOCK|CONCURRENCY|TEST|PIPELINE|ARTIFACT|COMMIT|IDEMPOTENCY|S3|CONFIG|SHARD|HASH|XDG)_KEYS?$"
    r"|^(?:XDG|DESKTOP|WAYLAND|TMUX|MAX|NUM|MIN|N)_|^(?:BUILDKITE|GITHUB|GITLAB)_(?:STEP|GROUP|PARALLEL)_"
)
_PATH_OR_NUMBER = re.compile(r"~?\.{0,2}/[\w.@+/-]*|-?[\d.]+|\w{0,3}|[A-Za-z]:\\.*")
_DIGEST = re.compile(r"(?:[0-9a-f]{32}|[0-9a-f]{40}|[0-9a-f]{64})|[0-9a-f]{8}-[0-9a-f-]{27}")
# HTTP headers that hold credentials: RFC 9110, and those of GitLab and of common gateways.
HEADERS = ("authorization", "api-key", "apikey", "auth-token", "private-token", "subscription-key")
# Every repetition is bounded: a log may be hostile, and backtracking over it must stay linear.
_ADDRESS = re.compile(r"\bhttps?://(?P<user>[^\s/'\":@]{0,256}:)?(?P<secret>[^\s/?#'\"]{1,1024})@")
_USER_AND_PASSWORD = re.compile(r"://[^\s/'\":@]{0,256}:(?P<secret>[^\s/?#'\"]{1,1024})@")
# No possessive quantifier behind a group: before 3.11.5 such a one loses its place where the group
# backtracks (github.com/python/cpython/issues/106052). An atomic group says the same.
_HEADER = re.compile(
    # Also as Python shows a pair: `(b'authorization', b'Bearer …')`.
    rf"""(?P<head>\b(?:proxy-|x-)?(?:{"|".join(HEADERS)})"""
    r"""(?:['"]?\s{0,8}[:=]|['"],)\s{0,8}(?>(?:b(?=['"]))?)['"]?+"""
    r"(?>(?:(?:bearer|basic|token)\s{1,8})?)(?>(?:token=['\"]?)?))"
    r"(?!\[redacted\])(?P<secret>[^\s'\",;]+)",
    re.IGNORECASE,
)
_SINGLE_QUOTED = r"'[^'\n]{0,8192}'"
_DOUBLE_QUOTED = r'"(?:[^"\\\n]|\\.){0,8192}"'
_ESCAPED = r'\\"[^"\\\n]{0,8192}\\"'
_UNQUOTED = r"""[^\s'"`]++"""
_UNCLOSED_QUOTE = r"""['"]\S*+"""
# One shell word on one line, or what stands up to the next space or quote.
_VALUE = f"(?:{_ESCAPED}|(?>(?:{_SINGLE_QUOTED}|{_DOUBLE_QUOTED})+)|{_UNQUOTED}|{_UNCLOSED_QUOTE})"
# What no word of a sentence looks like: twelve characters, letters and digits among them.
_RANDOM = r"(?=[a-z._~+/=-]{0,200}\d)(?=[\d._~+/=-]{0,200}[a-z])[a-z\d][\w.~+/=-]{11,}"
_RANDOM_VALUE = re.compile(_RANDOM, re.IGNORECASE)
# Values that say that there is no secret (EMPTY is the word of vLLM's clients), and a model's
# special tokens: `<s>`, `<|im_start|>`. A sign without letters and digits is none either.
_NO_SECRET = re.compile(r"none|null|nil|true|false|empty|<[^<>]{0,64}>|[^\w\s]{1,8}", re.IGNORECASE)
# A token of a text and its probability, in an answer of the completions API.
_PROBABILITY = re.compile(r"""\s{0,8},\s{0,8}['"](?:logprob|bytes|rank|token_id)\b""")
# A value that only names a variable: `$HF_TOKEN`, `"${HF_TOKEN}"`.
_REFERENCE = re.compile(r"\"?\$(?:\w+|\{\w+\})\"?")


def name_pattern(globs: tuple[str, ...] = ()) -> str:
    """A regular expression (case ignored) for the name of a variable or option of a secret.

    `globs` are more names in the form of BUILDKITE_REDACTED_VARS; only `*` and `?` are special.
    `-` matches `_` too.
    """
    stems = "|".join(STEMS).replace("_", "[-_]?")
    # A new word begins after `-` and `_`, and in `accessToken` at the capital letter.
    border = "(?:[-_]|(?-i:(?<=[a-z0-9])(?=[A-Z])))"
    names = [rf"(?:[\w-]{{0,120}}{border})?(?:{stems})", rf"[\w-]{{0,120}}(?:{_JOINED})"]
    parts = {"*": r"[\w-]{0,120}", "?": r"[\w-]", "_": "[-_]"}
    names += ["".join(parts.get(each, re.escape(each)) for each in glob) for glob in globs]
    return f"(?:{'|'.join(names)})"


def assignment(names: str) -> re.Pattern[str]:
    """`NAME=value`, `"NAME": "value"`, `--name value`, `'--name', 'value'`.

    Groups: `head` is all before the value, `value` the value with its quotes.
    """
    # In the first line: any value, or a quoted or random one after a blank or a colon. In the
    # second: the next word of a command line, if it is no option itself. In the third: a name that
    # is a secret's by its value.
    return re.compile(
        rf"""(?<![\w-])(?P<head>
            (?:--)?{names}(?:=|\\?['"]?\s{{0,8}}[:=]\s{{0,8}}(?=\\?['"]|{_RANDOM}))
            |--?{names}(?:[ ]{{1,8}}(?!--)|['"],\s{{0,8}}(?=['"](?!--)))
            |(?P<weak>{_WEAK})(?:=|\\?['"]?\s{{0,8}}[:=]\s{{0,8}}(?=\\?['"]|{_RANDOM}))
        )(?P<value>(?!=){_VALUE})""",
        re.IGNORECASE | re.VERBOSE,
    )


def hide_places(text: str, assignments: re.Pattern[str], *, more_names: bool) -> str:
    """Return `text` without values of secret names, credentials in HTTP headers and in URLs.

    `more_names` says that `assignments` matches names beyond the built-in ones.
    """
    if more_names or may_name_secret(text):
        text = assignments.sub(_hidden_assignment, text)
        text = _HEADER.sub(rf"\g<head>{PLACEHOLDER}", text)
    if "://" in text and "@" in text:
        text = _ADDRESS.sub(_hidden_address, text)
        text = _USER_AND_PASSWORD.sub(_hidden_address, text)
    return text


def may_name_secret(text: str) -> bool:
    """Whether a built-in name of a secret could stand in `text`.

    Most texts hold no root; to look for the roots first is ten times as fast as the patterns.
    """
    for root in _WEAK_ROOTS:
        if root in text:
            return True
    lowered = text.lower()
    for root in _roots((*STEMS, *HEADERS)):  # noqa: SIM110 - a loop takes half the time of `any`
        if root in lowered:
            return True
    return False


@cache
def _roots(names: tuple[str, ...]) -> tuple[str, ...]:
    """Lower-case words, one of which is in every text that holds one of `names` in any spelling.

    The last word of a name: what stands between its words is `-` in one text and `_` in another.
    """
    words = ([word for word in re.split("[-_]", name.lower()) if word != "url"] for name in names)
    return tuple({each[-1] for each in words})


def _hidden_assignment(match: re.Match[str]) -> str:
    if _PROBABILITY.match(match.string, match.end()):
        return match[0]
    if match["weak"] and not may_be_secret(match["weak"], match["value"].strip("\\\"'")):
        return match[0]
    return match["head"] + _in_same_quotes(match["value"])


def _in_same_quotes(value: str) -> str:
    """The placeholder in the quotes of `value`, or `value` if it hides nothing."""
    if value in {"''", '""'} or _REFERENCE.fullmatch(value):
        return value
    if _NO_SECRET.fullmatch(value.strip("\\\"'")):
        return value
    if value.startswith('\\"'):
        return f'\\"{PLACEHOLDER}\\"'
    mark = value[0]
    if mark in "'\"" and len(value) > 1 and value.endswith(mark):
        return f"{mark}{PLACEHOLDER}{mark}"
    return PLACEHOLDER


def _hidden_address(match: re.Match[str]) -> str:
    start, end = match.span("secret")
    before = match.string[match.start() : start]
    after = match.string[end : match.end()]
    return f"{before}{PLACEHOLDER}{after}"


def is_secret_name(name: str, names: re.Pattern[str]) -> bool:
    """Whether a variable of this name holds a secret; `names` is a compiled `name_pattern`."""
    weak = _WEAK_NAME.fullmatch(name)
    return names.fullmatch(name) is not None or (weak is not None and weak["any"] is not None)


def may_be_secret(name: str, value: str) -> bool:
    """Whether a variable in capitals is a secret by its value: `OPENAI_KEY`, and no `CACHE_KEY`."""
    weak = _WEAK_NAME.fullmatch(name)
    if weak is None or _PATH_OR_NUMBER.fullmatch(value) or _NO_SECRET.fullmatch(value):
        return False
    if weak["any"]:
        # `REQUIRE_AUTH=basic` names a kind.
        return value.lower() not in COMMON and not (weak["any"] == "AUTH" and value.isalpha())
    if _LOOKED_UP.search(name) or _DIGEST.fullmatch(value):
        return False
    return _RANDOM_VALUE.match(value) is not None


def secret_values(environment: Mapping[str, str], names: re.Pattern[str]) -> Iterator[str]:
    """The secrets in `environment`: values of secret names, and passwords in URLs of any name."""
    for name, value in environment.items():
        if names.fullmatch(name) is not None or may_be_secret(name, value):
            yield value
        elif "://" in value:
            for match in _USER_AND_PASSWORD.finditer(value):
                yield match["secret"]


# --- where secrets stand that are known by their form: tokens, private keys, signed addresses ---
# Tokens are known by their beginning, as the two lists beside this file have it; credentials by what
# stands around them, in logs too. Every repetition is bounded: a log may be hostile.


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


_RANDOM_TOKEN = rb"(?=[A-Za-z._~+/=-]{0,200}[0-9])[A-Za-z0-9._~+/-]{16,8192}={0,2}"
# Between a header's name and its value: as sent, as JSON, and as Python shows a dict and a pair.
_BETWEEN = rb"""\\?['"]?\s{0,4}[:=,]\s{0,4}(?:b(?=\\?['"]))?\\?['"]?"""
# RFC 6750 and RFC 7617. `Bearer token required` is a sentence: a credential holds a digit.
_BEARER = re.compile(rb"\b(?i:bearer)(?:\s|%20){1,4}['\"]?(?P<secret>" + _RANDOM_TOKEN + rb")")
_AUTHORIZATION = re.compile(
    rb"(?i:authorization)" + _BETWEEN + rb"(?:\w{1,16}\s{1,4})?(?P<secret>" + _RANDOM_TOKEN + rb")"
)
# RFC 6265; the name of the first cookie stays.
_COOKIE = re.compile(
    rb"\b(?i:(?:set-)?cookie)" + _BETWEEN
    + rb"""[\w.-]{1,128}=(?P<secret>[^\r\n'"\\]{8,4096})"""
)  # fmt: skip
_CREDENTIALS = re.compile(rb"""://[^\s/'\":@]{0,256}:(?P<secret>[^\s/?#'"\\]{1,1024})@[\w\[]""")
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
    (b"://", _CREDENTIALS),
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
