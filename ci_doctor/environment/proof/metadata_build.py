# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: builds a project's metadata with its own backend (PEP 517), and reads it."""

import email.parser
import tomllib
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pyproject_hooks import BackendUnavailable, BuildBackendHookCaller, HookMissing

from ci_doctor.environment.proof.build_environment import BuildEnvironment
from ci_doctor.environment.proof.metadata_result import BuiltMetadata
from ci_doctor.environment.proof.unbuildable import Unbuildable
from ci_doctor.system import clock
from ci_doctor.system.processes.limited_run import run_limited

# What a build has without a `[build-system]` table (PEP 517, "Source trees").
_LEGACY: Mapping[str, Any] = {
    "requires": ["setuptools >= 40.8.0"],
    "build-backend": "setuptools.build_meta:__legacy__",
}


class _HookFailed(Exception):  # noqa: N818 - an answer of the backend
    """A hook of the backend ended with an error; `line` is the last one that it printed."""

    def __init__(self, line: str) -> None:
        super().__init__(line)
        self.line = line


def build_system(project: Path) -> Mapping[str, Any]:
    """The `[build-system]` table of the project, or what stands for it."""
    try:
        pyproject = tomllib.loads((project / "pyproject.toml").read_text(encoding="utf-8-sig"))
    except (OSError, ValueError):
        return _LEGACY
    table = pyproject.get("build-system")
    if not isinstance(table, dict):
        return _LEGACY
    return {**table, "build-backend": table.get("build-backend", _LEGACY["build-backend"])}


def build_metadata(
    project: Path, scratch: Path, build: BuildEnvironment, environ: Mapping[str, str]
) -> BuiltMetadata:
    """Build the metadata of `project`, with `environ`; `scratch` is an empty directory.

    A backend without a hook for metadata builds a whole wheel, if `build` may install things.
    Raises Unbuildable if the requirements cannot be had, or if the time of `build` is over.
    """
    system = build_system(project)
    environ = _build_environ(environ, build.python)

    def run(
        cmd: Sequence[str], cwd: str | None = None, extra_environ: Mapping[str, str] | None = None
    ) -> None:
        variables = {**environ, **(extra_environ or {})}
        place = Path(cwd) if cwd else project
        left = build.deadline - clock.now()
        ran = run_limited(cmd, timeout_s=left, cwd=place, environ=variables)
        if ran.exit_code is None:
            raise Unbuildable("the build of the metadata was not over within the time limit")
        if ran.exit_code:
            raise _HookFailed(_telling_line(ran.output))

    caller = BuildBackendHookCaller(
        str(project),
        system["build-backend"],
        backend_path=system.get("backend-path"),
        runner=run,
        python_executable=str(build.python),
    )
    try:
        build.add(system.get("requires", []), environ)
        # pyproject_hooks repeats the warnings of the backend, which are no business of a report.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            build.add(caller.get_requires_for_build_wheel(), environ)
            name = caller.prepare_metadata_for_build_wheel(
                str(scratch), _allow_fallback=build.may_build_wheels
            )
    except _HookFailed as error:
        return BuiltMetadata(failure=error.line)
    except HookMissing as error:
        raise Unbuildable("the build backend gives metadata with a whole wheel alone") from error
    except (BackendUnavailable, OSError, ValueError) as error:
        raise Unbuildable(f"the build backend cannot be called: {error}") from error
    text = (scratch / name / "METADATA").read_text(encoding="utf-8", errors="replace")
    return BuiltMetadata(version=email.parser.HeaderParser().parsestr(text)["Version"])


def _build_environ(environ: Mapping[str, str], python: Path) -> dict[str, str]:
    """The variables of a build: none that changes how Python starts or where git looks."""
    kept = {
        name: value
        for name, value in environ.items()
        if not name.startswith(("PYTHON", "GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX"))
    }
    kept.pop("VIRTUAL_ENV", None)
    # Scripts of the requirements, such as ninja, are looked up there.
    kept["PATH"] = f"{python.parent}:{environ.get('PATH', '')}"
    return kept


def _telling_line(output: str) -> str:
    """The last line of a traceback, or of what was printed."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    if not lines:
        return "the backend printed nothing"
    for line in reversed(lines):
        head = line.partition(":")[0]
        if head.endswith(("Error", "Exception", "Version")) and " " not in head:
            return line
    return lines[-1]
