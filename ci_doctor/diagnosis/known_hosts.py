# SPDX-License-Identifier: Apache-2.0
"""Reads which hosts are this machine's, and which ones its package clients and stores are set to."""

import os
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from ci_doctor.diagnosis.outside import KnownHosts

# Where pip, uv, npm, yarn, go, cargo, conda, the Hugging Face hub and the AWS clients are told an address.
_VARIABLES: Final = re.compile(
    r"(?i)^(?:PIP_(?:EXTRA_)?INDEX_URL|UV_(?:EXTRA_|DEFAULT_)?INDEX(?:_URL)?|NPM_CONFIG_REGISTRY"
    r"|YARN_(?:NPM_REGISTRY_SERVER|REGISTRY)|GOPROXY|CARGO_REGISTRIES_\w+_INDEX|CONDA_CHANNEL_ALIAS"
    r"|HF_ENDPOINT|AWS_ENDPOINT_URL\w*|DOCKER_REGISTRY\w*|CI_REGISTRY)$"
)
# Files of the machine and of its user. One of the repository is part of the change.
_FILES: Final = ("/etc/pip.conf", "~/.pip/pip.conf", "~/.config/pip/pip.conf", "~/.npmrc")
_URL: Final = re.compile(r"\bhttps?://[^\s\"',|]+")
_MOST_BYTES: Final = 64 * 1024


@cache
def known_hosts() -> KnownHosts:
    """Those of this machine; what cannot be read is left out, and then proves nothing."""
    return KnownHosts(own=frozenset(_own()), configured=frozenset(_configured()))


def _own() -> Iterator[str]:
    name = os.uname().nodename.lower()
    yield name
    yield name.partition(".")[0]


def _configured() -> Iterator[str]:
    for name, value in os.environ.items():
        if _VARIABLES.match(name) is not None:
            yield from _hosts(value)
    for path in _FILES:
        try:
            with Path(path).expanduser().open(errors="replace") as file:
                yield from _hosts(file.read(_MOST_BYTES))
        # Also without a home directory.
        except (OSError, RuntimeError):
            continue


def _hosts(text: str) -> Iterator[str]:
    for url in _URL.findall(text):
        try:
            host = urlsplit(url).hostname
        except ValueError:
            continue
        if host is not None:
            yield host
