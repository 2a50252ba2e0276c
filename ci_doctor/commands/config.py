# SPDX-License-Identifier: Apache-2.0
"""`ci-doctor config show`."""

import json
import os
from pathlib import Path

import click
from msgspec import Struct, to_builtins

from ci_doctor.commands.group import Group
from ci_doctor.commands.options import config_option, output_options, pass_session
from ci_doctor.config.decoding import DEFAULT, decode_section
from ci_doctor.config.exit_codes import read_exit_codes
from ci_doctor.config.loading import Config, load_config
from ci_doctor.correctness.settings import CorrectnessSettings
from ci_doctor.environment.settings import SetupEnvSettings
from ci_doctor.model.facts.config import ConfigFacts, ConfigValue
from ci_doctor.model.outcome import Outcome
from ci_doctor.model.table import Table, row
from ci_doctor.restart.settings import RestartSettings
from ci_doctor.services.configured import service_specs
from ci_doctor.session.session import Session

TYPED: dict[str, type[Struct]] = {
    "setup-env": SetupEnvSettings,
    "correctness": CorrectnessSettings,
    "restart-check": RestartSettings,
}


Values = dict[str, ConfigValue]


@click.group("config", cls=Group)
def config() -> None:
    """Show every configuration value and where it came from."""


@config.command("show")
@config_option
@output_options
@pass_session
def show(session: Session, config_path: Path | None) -> int:
    """Print every value and its origin: default, file and line, or environment."""
    session.claim()
    return session.finish(describe(load_config(config_path, Path.cwd())), on_stdout=True)


def describe(loaded: Config) -> Outcome:
    """Every value of `loaded`. Raises ConfigError for one that is wrong."""
    values = {**_typed(loaded), **_services(loaded), "exit-codes": _exit_codes(loaded)}
    source = os.path.relpath(loaded.path) if loaded.path else "no file; defaults and environment"
    return Outcome(
        verdict=None,
        summary=f"configuration: {source}",
        tables=tuple(_table(title, section) for title, section in values.items()),
        facts=ConfigFacts(values=values),
    )


def _table(title: str, section: Values) -> Table:
    rows = []
    for name, each in section.items():
        rows.append(row(name, json.dumps(each.value, ensure_ascii=False), each.origin))
    return Table(title=f"[{title}]", rows=tuple(rows))


def _typed(loaded: Config) -> dict[str, Values]:
    sections = {}
    for section, into in TYPED.items():
        settings, origins = decode_section(loaded, section, into, environ=os.environ, flags={})
        values = {}
        for name, origin in origins.items():
            values[name] = ConfigValue(value=to_builtins(getattr(settings, name)), origin=origin)
        sections[section] = values
    return sections


def _services(loaded: Config) -> dict[str, Values]:
    sections = {}
    for name, spec in service_specs(loaded).items():
        written = loaded.tables["services"][name]
        values = {}
        for key, value in to_builtins(spec).items():
            is_written = key in written
            origin = loaded.where("services", name, key) if is_written else DEFAULT
            values[key] = ConfigValue(value=value, origin=origin)
        sections[f"services.{name}"] = values
    return sections


def _exit_codes(loaded: Config) -> Values:
    codes, origins = read_exit_codes(loaded, os.environ)
    return {name: ConfigValue(value=code, origin=origins[name]) for name, code in codes.items()}
