# SPDX-License-Identifier: Apache-2.0
"""Pure. Which variables of an environment a snapshot keeps, and with which value.

Only variables that may decide a result keep a value, and never one that may be a secret. All others
are kept by name: neither their values nor hashes of them are written anywhere.
"""

import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

from ci_doctor.drift.possible_secrets import may_be_secret
from ci_doctor.environment.determinism_table import BY_NAME
from ci_doctor.identity.variables import PREFIXES
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
_NO_PROXY: Final = "NO_PROXY"
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
    if upper == _NO_PROXY:
        return None if "@" in value else redactor.text(value)
    if not _may_decide(name) or len(value) > _LONGEST:
        return None
    if _SECRET.search(name) and not _is_count(name, value):
        return None
    if may_be_secret(name, value):
        return None
    # By its name, by what stands in it, and as the value of another variable.
    changed = redactor.value({name: value})[name]
    return None if PLACEHOLDER in changed else str(changed)


def _is_count(name: str, value: str) -> bool:
    return value.isdigit() and _COUNT.search(name) is not None


def _may_decide(name: str) -> bool:
    return name in _NAMES or name in BY_NAME or name.startswith(_PREFIXES)


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
