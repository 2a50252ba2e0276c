# SPDX-License-Identifier: Apache-2.0
"""`ci-doctor config`, and the commands below it."""

import json
import os
from pathlib import Path

import click
from msgspec import to_builtins

from ci_doctor.buildkite.steps import rules_for
from ci_doctor.commands.documented import Group, config_option, output_options, pass_session
from ci_doctor.config.decoding import DEFAULT, decode_section, read_exit_codes
from ci_doctor.config.loading import Config, load_config
from ci_doctor.configuration import SETTINGS, configuration_schema
from ci_doctor.model.facts.preparing import ConfigFacts, ConfigSchemaFacts, ConfigValue
from ci_doctor.model.outcome import Outcome, Table, row
from ci_doctor.services.spec import service_specs
from ci_doctor.session.session import Session

Values = dict[str, ConfigValue]


@click.group(
    "config",
    examples={
        "ci-doctor config show": "Print every value, and where it came from.",
    },
    cls=Group,
)
def config() -> None:
    """Show every configuration value and its origin; print a schema, and the retry rules of a step."""


@config.command(
    "show",
    examples={
        "ci-doctor config show": "Print every value, and where it came from.",
    },
)
@config_option
@output_options
@pass_session
def show(session: Session, config_path: Path | None) -> int:
    """Print every value and its origin: default, file and line, or environment."""
    session.claim()
    loaded = load_config(config_path, Path.cwd())
    return session.finish(describe(loaded), on_stdout=True)


@config.command(
    "schema",
    examples={
        "ci-doctor config schema > ci-doctor.schema.json": "Write the schema to a file.",
    },
)
@output_options
@pass_session
def schema(session: Session) -> int:
    """Print the JSON Schema of ci-doctor.toml, for editors.

    Name the file in the first line of ci-doctor.toml: `#:schema ./ci-doctor.schema.json`.
    """
    session.claim()
    written = configuration_schema()
    outcome = Outcome(
        verdict=None,
        summary=f"the schema of {len(written['properties'])} sections",
        facts=ConfigSchemaFacts(configuration=written),
    )
    text = json.dumps(written, ensure_ascii=False, indent=2)
    return session.finish(outcome, on_stdout=True, text=text)


def describe(loaded: Config) -> Outcome:
    """Every value of `loaded`. Raises ConfigError for one that is wrong."""
    values = _typed(loaded) | _services(loaded)
    codes, origins = read_exit_codes(loaded, os.environ)
    values["exit-codes"] = {
        name: ConfigValue(value=code, origin=origins[name]) for name, code in codes.items()
    }
    source = "no file; defaults and environment"
    if loaded.path is not None:
        source = os.path.relpath(loaded.path)
    return Outcome(
        verdict=None,
        summary=f"configuration: {source}",
        tables=tuple(_table(title, section) for title, section in values.items()),
        facts=ConfigFacts(values=values),
    )


def _table(title: str, section: Values) -> Table:
    # As JSON: "8000" and 8000 are two values, and null is shown.
    rows = [
        row(name, json.dumps(each.value, ensure_ascii=False), each.origin)
        for name, each in section.items()
    ]
    return Table(title=f"[{title}]", rows=tuple(rows))


def _typed(loaded: Config) -> dict[str, Values]:
    sections = {}
    for section, into in SETTINGS.items():
        settings, origins = decode_section(loaded, section, into, environ=os.environ, flags={})
        sections[section] = {
            name: ConfigValue(value=to_builtins(getattr(settings, name)), origin=origin)
            for name, origin in origins.items()
        }
    return sections


def _services(loaded: Config) -> dict[str, Values]:
    sections = {}
    for name, spec in service_specs(loaded).items():
        written = loaded.tables["services"][name]
        # No variable and no flag sets a single key of a service.
        sections[f"services.{name}"] = {
            key: ConfigValue(
                value=value,
                origin=loaded.where("services", name, key) if key in written else DEFAULT,
            )
            for key, value in to_builtins(spec).items()
        }
    return sections


@config.command(
    "retry-rules",
    examples={
        "ci-doctor config retry-rules": "Print the rules for the codes of this repository.",
    },
)
@config_option
@output_options
@pass_session
def retry_rules(session: Session, config_path: Path | None) -> int:
    """Print a step's `retry` and `soft_fail` as YAML.

    They match the codes of `[exit-codes]`. A failure of the change has no rule: it is never retried and never let pass.
    """
    session.claim()
    codes, _ = read_exit_codes(load_config(config_path, Path.cwd()), os.environ)
    facts = rules_for(codes)
    rules = len(facts.retry) + len(facts.soft_fail)
    outcome = Outcome(verdict=None, summary=f"{rules} rules for a step", facts=facts)
    return session.finish(outcome, on_stdout=True, text=facts.yaml)
