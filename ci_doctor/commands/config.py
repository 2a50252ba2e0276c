# SPDX-License-Identifier: Apache-2.0
"""`ci-doctor config show`."""

import os
import sys
from pathlib import Path
from typing import Any

import click
from msgspec import Struct, to_builtins

from ci_doctor.commands.delivery import claim, deliver
from ci_doctor.commands.group import Group
from ci_doctor.commands.invocation import Invocation
from ci_doctor.commands.options import config_option, output_options
from ci_doctor.config.decoding import DEFAULT, decode_section
from ci_doctor.config.exit_codes import read_exit_codes
from ci_doctor.config.loading import Config, load_config
from ci_doctor.correctness.settings import CorrectnessSettings
from ci_doctor.environment.settings import SetupEnvSettings
from ci_doctor.model.report import Section
from ci_doctor.model.verdict import Verdict
from ci_doctor.restart.settings import RestartSettings
from ci_doctor.services.configured import service_specs

TYPED: dict[str, type[Struct]] = {
    "setup-env": SetupEnvSettings,
    "correctness": CorrectnessSettings,
    "restart-check": RestartSettings,
}


Rows = dict[str, tuple[Any, str]]  # a key's value and its origin


@click.group("config", cls=Group)
def config() -> None:
    """Show every configuration value and where it came from."""


@config.command("show")
@config_option
@output_options
@click.pass_obj
def show(
    invocation: Invocation,
    config_path: Path | None,
    as_json: bool,
    report_dir: Path | None,  # noqa: ARG001
) -> int:
    """Every value and its origin: default, file and line, or environment."""
    claim(invocation.report_directory)
    loaded = load_config(config_path, Path.cwd())
    values = {**_typed(loaded), **_services(loaded), "exit-codes": _exit_codes(loaded)}
    source = os.path.relpath(loaded.path) if loaded.path else "no file; defaults and environment"
    report = invocation.report(
        verdict=Verdict.PASS,
        exit_code=0,
        summary=f"configuration: {source}",
        sections=tuple(
            Section(title=f"[{title}]", lines=_lines(rows)) for title, rows in values.items()
        ),
        facts={"values": {title: _facts(rows) for title, rows in values.items()}},
    )
    return deliver(
        report, as_json=as_json, directory=invocation.report_directory, text_to=sys.stdout
    )


def _typed(loaded: Config) -> dict[str, Rows]:
    found = {}
    for section, into in TYPED.items():
        settings, origins = decode_section(loaded, section, into, environ=os.environ, flags={})
        found[section] = {
            name: (getattr(settings, name), origin) for name, origin in origins.items()
        }
    return found


def _services(loaded: Config) -> dict[str, Rows]:
    found = {}
    for name, spec in service_specs(loaded).items():
        written = loaded.tables["services"][name]
        found[f"services.{name}"] = {
            key: (
                value,
                loaded.where("services", name, key) if key in written else DEFAULT,
            )
            for key, value in to_builtins(spec).items()
        }
    return found


def _exit_codes(loaded: Config) -> Rows:
    codes, origins = read_exit_codes(loaded, os.environ)
    return {name: (code, origins[name]) for name, code in codes.items()}


def _lines(rows: Rows) -> tuple[str, ...]:
    import json

    return tuple(
        f"{name} = {json.dumps(to_builtins(value), ensure_ascii=False)}  ({origin})"
        for name, (value, origin) in rows.items()
    )


def _facts(rows: Rows) -> dict[str, Any]:
    return {
        name: {"value": to_builtins(value), "origin": origin}
        for name, (value, origin) in rows.items()
    }
