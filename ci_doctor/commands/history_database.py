# SPDX-License-Identifier: Apache-2.0
"""Reads the configuration: `[history]`, and the database that it names."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ci_doctor.config.decoding import decode_section, path_in
from ci_doctor.config.loading import load_config
from ci_doctor.history.address import DatabaseAddress, database_address
from ci_doctor.history.settings import HistorySettings


def configured_history(
    config_path: Path | None, flags: Mapping[str, Any]
) -> tuple[HistorySettings, DatabaseAddress | None]:
    """The settings, and the database; None if nobody names one. Raises ConfigError, UsageError."""
    loaded = load_config(config_path, Path.cwd())
    settings, origins = decode_section(
        loaded, "history", HistorySettings, environ=os.environ, flags=flags
    )
    if not settings.database:
        return settings, None
    address = database_address(settings.database)
    if address.file is None:
        return settings, address
    return settings, DatabaseAddress(file=path_in(loaded, origins["database"], str(address.file)))
