# SPDX-License-Identifier: Apache-2.0
"""The `[services.NAME]` tables of a configuration, typed. Pure."""

import functools
from collections.abc import Sequence

from ci_doctor.config.decoding import convert
from ci_doctor.config.loading import Config
from ci_doctor.services.spec import ServiceSpec


def service_specs(loaded: Config) -> dict[str, ServiceSpec]:
    """Every `[services.NAME]`, in the order of the file. Raises ConfigError with file and line."""
    specs = {}
    for name, table in loaded.tables.get("services", {}).items():
        where = functools.partial(_where, loaded, name)
        specs[name] = convert(table, ServiceSpec, where)
    return specs


def _where(loaded: Config, name: str, keys: Sequence[str | int]) -> str:
    return loaded.where("services", name, *keys)
