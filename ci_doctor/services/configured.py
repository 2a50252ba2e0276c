# SPDX-License-Identifier: Apache-2.0
"""The `[services.NAME]` tables of a configuration, typed. Pure."""

from ci_doctor.config.decoding import convert
from ci_doctor.config.loading import Config
from ci_doctor.services.spec import ServiceSpec


def service_specs(loaded: Config) -> dict[str, ServiceSpec]:
    """Every `[services.NAME]`, in the order of the file. Raises ConfigError with file and line."""
    return {
        name: convert(
            table, ServiceSpec, lambda keys, name=name: loaded.where("services", name, *keys)
        )
        for name, table in loaded.tables.get("services", {}).items()
    }
