# SPDX-License-Identifier: Apache-2.0
"""Pure. Which variables of an environment a snapshot keeps, and with which value.

Only variables that may decide a result keep a value, and never one that may be a secret. All others
are kept by name: neither their values nor hashes of them are written anywhere.
"""

import re
from collections.abc import Mapping
from itertools import pairwise
from typing import Final
from urllib.parse import urlsplit

from ci_doctor.environment.determinism_table import BY_NAME
from ci_doctor.identity.identity import PREFIXES
from ci_doctor.system.secrets.redaction import Redactor
from ci_doctor.system.secrets.spans import PLACEHOLDER

_PREFIXES: Final = (
    *PREFIXES,
    "CUDA_",
    "HF_HUB_",
    "HIP_",
    "LC_",
    "NVIDIA_",
    "ROCR_",
    "TRANSFORMERS_",
    "UCX_",
)
_NAMES: Final = frozenset(
    {
        "CONDA_PREFIX",
        "GPU_DEVICE_ORDINAL",
        "HF_HOME",
        "LANG",
        "LANGUAGE",
        "LD_LIBRARY_PATH",
        "LD_PRELOAD",
        "MALLOC_CONF",
        "NUMEXPR_NUM_THREADS",
        "PATH",
        "PYTHONDONTWRITEBYTECODE",
        "PYTHONHOME",
        "PYTHONIOENCODING",
        "PYTHONNOUSERSITE",
        "PYTHONOPTIMIZE",
        "PYTHONPATH",
        "PYTHONSAFEPATH",
        "PYTHONUTF8",
        "PYTHONWARNINGS",
        "SOURCE_DATE_EPOCH",
        "TMPDIR",
        "TOKENIZERS_PARALLELISM",
        "TZ",
        "VIRTUAL_ENV",
    }
)
_PROXIES: Final = frozenset({"ALL_PROXY", "FTP_PROXY", "HTTPS_PROXY", "HTTP_PROXY"})
# Words of a name that may stand for a secret, more of them than a log's redaction knows: here a
# value that is lost costs little.
_SECRET: Final = re.compile(
    r"(?:^|_)(?:\w*KEYS?|\w*TOKENS?|\w*SECRETS?|\w*PASS|PASS\w*|PWD|PAT|\w*CRED\w*|\w*AUTH\w*"
    r"|\w*COOKIES?|PRIVATE|CERT\w*|DSN|SIGNATURE|SESSION|USER|LICENSE|\w*SALT)(?:_|$)",
    re.IGNORECASE,
)
# A number of tokens, as in VLLM_MAX_NUM_BATCHED_TOKENS, is none.
_COUNT: Final = re.compile(r"(?:^|_)TOKENS(?:_|$)")
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
# A longer value is no setting, and may be anything.
_LONGEST: Final = 4000


def kept_variables(
    environ: Mapping[str, str], redactor: Redactor, places: Mapping[str, str]
) -> dict[str, str | None]:
    """Name -> value, by name; None if only the name is kept.

    `places` maps a path of this machine to what stands for it in values, the longest first: the
    working directory differs from agent to agent, and decides nothing.
    """
    kept: dict[str, str | None] = {}
    for name in sorted(environ):
        value = _kept(name, environ[name], redactor)
        if value is not None:
            value = placed(value, places) or "''"
        kept[_encodable(name)] = None if value is None else _encodable(value)
    return kept


def placed(text: str, places: Mapping[str, str]) -> str:
    """`text` with what stands for the paths in `places`."""
    for path, sign in places.items():
        if len(path) > 1:
            text = re.sub(rf"{re.escape(path)}(?=[/:;,\s]|$)", sign, text)
    return text


def _kept(name: str, value: str, redactor: Redactor) -> str | None:
    """The value that is kept of a variable; None for none."""
    upper = name.upper()
    if upper in _PROXIES:
        return _proxy(value)
    if upper == "NO_PROXY":
        return None if "@" in value else redactor.text(value)
    may_decide = name in _NAMES or name in BY_NAME or name.startswith(_PREFIXES)
    is_count = value.isdigit() and _COUNT.search(name) is not None
    is_secret = (_SECRET.search(name) and not is_count) or may_be_secret(name, value)
    if not may_decide or len(value) > _LONGEST or is_secret:
        return None
    # By its name, by what stands in it, and as the value of another variable.
    changed = redactor.value({name: value})[name]
    return None if PLACEHOLDER in changed else str(changed)


def _proxy(value: str) -> str | None:
    """The scheme, the host and the port of a proxy: the rest may be a credential."""
    if not value:
        return ""
    try:
        parts = urlsplit(value if "://" in value else f"//{value}")
        host = parts.hostname
        port = parts.port
    except ValueError:
        return None
    if not host:
        return None
    place = host if port is None else f"{host}:{port}"
    return f"{parts.scheme}://{place}" if parts.scheme else place


def _encodable(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def may_be_secret(name: str, value: str) -> bool:
    """Whether the value of the variable `name` holds what may be a secret."""
    if _BESIDE.search(value) or _USER.search(value):
        return True
    if _HASH_NAME.search(name.upper()):
        return False
    rest = _PATH.sub(" ", _HASH.sub(" ", value))
    return any(_is_random(run) for run in _RUN.findall(rest))


def _is_random(run: str) -> bool:
    """Whether a run of letters and digits looks like no word: `float8e4m3fnuz` is one."""
    digits = sum(character.isdigit() for character in run)
    # A number says nothing. A long word without a digit is a word, unless its cases are mixed.
    if digits == len(run):
        return False
    changes = sum(a.isupper() != b.isupper() for a, b in pairwise(run))
    return digits >= 2 or changes > len(run) // 4
