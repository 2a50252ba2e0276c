# SPDX-License-Identifier: Apache-2.0
"""Reads what a configured service imports at its start: by its console script, or by `-m`."""

import os
import shutil
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path

from msgspec import Struct

from ci_doctor.checks.entry_points.console_script import read_console_script
from ci_doctor.checks.entry_points.entry_point import EntryCommand, importing
from ci_doctor.services.spec import ServiceSpec


class NoProgram(Struct, frozen=True, kw_only=True):
    """A service that cannot be started: no such program is there."""

    service: str
    program: str


def entry_point_of_service(
    name: str, spec: ServiceSpec, environ: Mapping[str, str], directory: Path
) -> EntryCommand | NoProgram | str:
    """What the service `name` imports; or why that is not known, as a clause.

    `environ` is the job's environment, `directory` the base of a relative `cwd`. Raises ValueError
    on an unclosed quotation in its command.
    """
    words = spec.words()
    if not words:
        return "its command is empty"
    place = directory / (spec.cwd or "")
    program = _program(words[0], {**environ, **spec.env}, place)
    if program is None:
        return NoProgram(service=name, program=words[0])
    label = f"service {name}"
    script = read_console_script(program)
    if script is not None:
        return importing(
            label, script.python, script.module, attribute=script.attribute, env=spec.env
        )
    module = _module(program, words[1:])
    if module is None:
        return f"`{words[0]}` is no console script of a Python package"
    return importing(label, program, module, env=spec.env, cwd=place)


def _program(word: str, environ: Mapping[str, str], directory: Path) -> Path | None:
    if "/" in word:
        path = directory / word
        return path if os.access(path, os.X_OK) else None
    place = shutil.which(word, path=environ.get("PATH", ""))
    return Path(place) if place is not None else None


def _module(program: Path, arguments: Sequence[str]) -> str | None:
    """The module that `python -m MODULE` runs; a package is imported, its `__main__` is not."""
    if not program.name.startswith("python"):
        return None
    for option, word in pairwise(arguments):
        if option == "-m":
            return word
        # Whatever stands behind a script's name is the script's.
        if not option.startswith("-"):
            return None
    return None
