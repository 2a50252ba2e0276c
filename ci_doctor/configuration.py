# SPDX-License-Identifier: Apache-2.0
"""Pure. Every section of the configuration with its type, and the JSON Schema of all of them."""

from functools import cache
from importlib import resources
from typing import Any

import msgspec
from msgspec import Struct

from ci_doctor.caches.judge import CacheSettings
from ci_doctor.checks.settings import DoctorSettings
from ci_doctor.config.decoding import ExitCodes
from ci_doctor.config.loading import Key, line_of
from ci_doctor.correctness.settings import CorrectnessSettings
from ci_doctor.diagnosis.log_rules import DiagnoseSettings
from ci_doctor.environment.determinism import SetupEnvSettings
from ci_doctor.history.address import HistorySettings
from ci_doctor.lint.selection import LintSettings
from ci_doctor.pytest_runs.quarantine import PytestSettings
from ci_doctor.restart.settings import RestartSettings
from ci_doctor.services.spec import ServiceSpec


@cache
def reference_text() -> str:
    """The example of every section, with a comment on each key."""
    return resources.files("ci_doctor.config").joinpath("reference.toml").read_text("utf-8")


def description(*keys: Key) -> str | None:
    """The comment on a key of the example, such as `("correctness", "retries")`; None without one."""
    text = reference_text()
    number = line_of(text, keys)
    if number is None:
        return None
    line = text.split("\n")[number - 1]
    name = str(keys[-1])
    table = ".".join(map(str, keys))
    # Else it is the line of a table above: the key itself is not in the example.
    if not line.startswith((f"{name} ", f"[{table}]", f"[{table}.", f"[[{table}]]")):
        return None
    _, marker, comment = line.partition("  # ")
    return comment.strip() if marker else None


SETTINGS: dict[str, type[Struct]] = {
    "setup-env": SetupEnvSettings,
    "correctness": CorrectnessSettings,
    "restart-check": RestartSettings,
    "diagnose": DiagnoseSettings,
    "doctor": DoctorSettings,
    "history": HistorySettings,
    "cache": CacheSettings,
    "lint": LintSettings,
    "pytest": PytestSettings,
}
# In the example, the services whose keys stand for those of every service.
_EXAMPLE_SERVICES = ("vllm", "kv")
_DIALECT = "http://json-schema.org/draft-07/schema#"  # the one that editors of TOML know best

Schema = dict[str, Any]


def configuration_schema() -> Schema:
    """JSON Schema of `ci-doctor.toml`, for editors.

    It knows keys, types and choices. What only ci-doctor can check, such as a duration, it does not.
    """
    types: dict[str, type[Struct]] = {**SETTINGS, "exit-codes": ExitCodes, "services": ServiceSpec}
    schemas, definitions = msgspec.json.schema_components(
        types.values(), ref_template="#/definitions/{name}"
    )
    for section, kind in types.items():
        _describe(definitions, section, kind)
    properties = dict(zip(types, schemas, strict=True))
    properties["services"] = {"type": "object", "additionalProperties": properties["services"]}
    schema = {
        "$schema": _DIALECT,
        "title": "ci-doctor.toml",
        "type": "object",
        "properties": dict(sorted(properties.items())),
        "additionalProperties": False,
        "definitions": dict(sorted(definitions.items())),
    }
    written: Schema = _as_toml(schema)
    return written


def key_description(section: str, name: str) -> str | None:
    """What a key of a section means, in a phrase."""
    if section != "services":
        return description(section, name)
    texts = (description(section, service, name) for service in _EXAMPLE_SERVICES)
    return next((text for text in texts if text is not None), None)


def _describe(definitions: dict[str, Schema], section: str, kind: type[Struct]) -> None:
    """Put what the example says of each key into the schema of a section."""
    for definition in definitions.values():
        # A docstring is for those who read the code.
        definition.pop("description", None)
    properties = definitions[kind.__name__]["properties"]
    for name, schema in properties.items():
        text = key_description(section, name)
        if text is None:
            continue
        # Beside a reference, draft 7 ignores every other word.
        reference = schema.pop("$ref", None)
        if reference is not None:
            schema["allOf"] = [{"$ref": reference}]
        schema["description"] = text


def _as_toml(schema: Any) -> Any:
    """The schema without null, which TOML does not have."""
    if isinstance(schema, list):
        return [_as_toml(each) for each in schema if each != {"type": "null"}]
    if not isinstance(schema, dict):
        return schema
    kept = {
        name: _as_toml(each)
        for name, each in schema.items()
        if not (name == "default" and each is None)
    }
    only = kept.get("anyOf", ())
    if len(only) == 1:
        del kept["anyOf"]
        kept = {**only[0], **kept}
    return kept
