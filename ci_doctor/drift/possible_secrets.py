# SPDX-License-Identifier: Apache-2.0
"""Pure. Texts that may be a secret although neither a name nor a known form says so.

A snapshot is kept for months and handed on. A value that is lost there costs little, so more of them
are lost than a log's redaction takes out.
"""

import re
from itertools import pairwise
from typing import Final
from urllib.parse import urlsplit

# Words beside a value, in connection strings and headers.
_BESIDE: Final = re.compile(
    r"(?:(?<![a-z])(?:pw|pwd|pass|sig|signature|salt|hmac)['\"]?\s*[=:]"
    r"|\b(?:basic|bearer|digest|negotiate)\s+[\w+/.~-]{8,})",
    re.IGNORECASE,
)
# Letters and digits without a break, as base64 and hexadecimal digits are.
_RUN: Final = re.compile(r"[A-Za-z0-9]{16,}")
# GPU-8c2f…: pieces of 8, 4, 4, 4 and 12 are too short for a run. Hashes of public contents:
_HASH: Final = re.compile(r"\b(?:sha(?:1|256|512)|md5)[:=-][0-9a-f]+", re.IGNORECASE)
_HASH_NAME: Final = re.compile(r"(?:^|_)(?:COMMIT|SHA|SHA256|REV|REVISION|HASH|DIGEST)(?:_|$)")
# A directory is not made of secrets; its name may be a hash: /nix/store/…, a build's checkout.
_PATH: Final = re.compile(r"(?:(?<=[:=,;\s'\"])|^)~?/[^:,;\s'\"?&]+")
# A user in an address may be a token.
_USER: Final = re.compile(r"://[^\s/?#'\",]*@")


def may_be_secret(name: str, value: str) -> bool:
    """Whether the value of the variable `name` holds what may be a secret."""
    if _BESIDE.search(value) or _USER.search(value):
        return True
    if _HASH_NAME.search(name.upper()):
        return False
    rest = _PATH.sub(" ", _HASH.sub(" ", value))
    return any(_is_random(run) for run in _RUN.findall(rest))


def plain_address(address: str) -> str:
    """`address` without user, password, query and fragment: each may be a credential.

    What is no address with a scheme is empty.
    """
    try:
        parts = urlsplit(address)
        host = parts.hostname or ""
        port = parts.port
    except ValueError:
        return ""
    if not parts.scheme:
        return ""
    if ":" in host:
        host = f"[{host}]"
    if port is not None:
        host = f"{host}:{port}"
    return f"{parts.scheme}://{host}{parts.path}"


def _is_random(run: str) -> bool:
    """Whether a run of letters and digits looks like no word: `float8e4m3fnuz` is one."""
    digits = sum(character.isdigit() for character in run)
    # A number says nothing. A long word without a digit is a word, unless its cases are mixed.
    if digits == len(run):
        return False
    changes = sum(a.isupper() != b.isupper() for a, b in pairwise(run))
    return digits >= 2 or changes > len(run) // 4
