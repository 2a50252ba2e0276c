# SPDX-License-Identifier: Apache-2.0
"""Reads which entry point of an interpreter a workload starts."""

from pathlib import Path
from typing import Final

from msgspec import Struct

from ci_doctor.checks.entry_points.entry_point import EntryCommand, importing
from ci_doctor.checks.settings import Workload


class PackageEntry(Struct, frozen=True, kw_only=True):
    """How a package is started: its console `script`; else a `module` by `-m`, or its import.

    `package` is what must be importable.
    """

    package: str
    script: str | None
    module: str
    runs_module: bool


# vLLM: `vllm = "vllm.entrypoints.cli.main:main"` in its pyproject.toml.
# LMCache: `lmcache = "lmcache.cli.main:main"`; earlier versions have no such script.
# SGLang: the documented `python -m sglang.launch_server`; its newer script `sglang` imports the
# server only behind a subcommand, so its `--help` would show nothing.
PACKAGES: Final = {
    Workload.VLLM: PackageEntry(
        package="vllm", script="vllm", module="vllm.entrypoints.cli.main", runs_module=True
    ),
    Workload.LMCACHE: PackageEntry(
        package="lmcache", script="lmcache", module="lmcache.v1.cache_engine", runs_module=False
    ),
    Workload.SGLANG: PackageEntry(
        package="sglang", script=None, module="sglang.launch_server", runs_module=True
    ),
}


def entry_point_of(package: PackageEntry, python: Path) -> EntryCommand:
    """The entry point of `package` in the environment of `python`, asked for its `--help`."""
    name = f"{package.package} of {python}"
    script = python.parent / (package.script or "")
    if script.is_file():
        by_script = (str(script), "--help")
        return EntryCommand(name=name, words=by_script, python=python, module=package.module)
    if not package.runs_module:
        return importing(name, python, package.module)
    by_module = (str(python), "-m", package.module, "--help")
    return EntryCommand(name=name, words=by_module, python=python, module=package.module)
