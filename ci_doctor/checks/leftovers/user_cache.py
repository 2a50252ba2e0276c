# SPDX-License-Identifier: Apache-2.0
"""Reads where a user's programs keep what they can make again."""

import os
from collections.abc import Mapping
from pathlib import Path


def user_cache(environ: Mapping[str, str]) -> Path:
    """`$XDG_CACHE_HOME`, else `.cache` in the home directory."""
    return expanded(environ.get("XDG_CACHE_HOME") or f"{environ.get('HOME', '~')}/.cache")


def expanded(path: str) -> Path:
    """`path`, its `~` replaced if this user has a home directory; pathlib would raise without one."""
    return Path(os.path.expanduser(path))  # noqa: PTH111
