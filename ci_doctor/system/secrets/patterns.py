# SPDX-License-Identifier: Apache-2.0
"""Pure. What names a secret, and the places in a text where the value of one stands."""

import re
from collections.abc import Iterator, Mapping
from functools import cache

from ci_doctor.system.secrets.spans import COMMON, PLACEHOLDER

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
