# SPDX-License-Identifier: Apache-2.0
"""Pure. The facts of `ci-doctor config show` and `ci-doctor config schema`."""

from typing import Any

from msgspec import Struct

from ci_doctor.model.facts import Facts


class ConfigValue(Struct, frozen=True, kw_only=True):
    """A value of the configuration, as JSON has it, and where it came from."""

    value: Any
    origin: str


class ConfigFacts(Facts, frozen=True, kw_only=True):
    """Every value by its section and key."""

    values: dict[str, dict[str, ConfigValue]]


class ConfigSchemaFacts(Facts, frozen=True, kw_only=True):
    """The JSON Schema of `ci-doctor.toml`."""

    configuration: dict[str, Any]
