# SPDX-License-Identifier: Apache-2.0
"""Real virtual environments with packages in the shape of vLLM and transformers, for the tests of preload shims."""

import os
import subprocess
import sys
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from ci_doctor.model.facts.preparing import Shim
from ci_doctor.preload import verify as preload_status
from ci_doctor.preload.install import Installation, remove_each
from ci_doctor.preload.interpreter import Refused, inspect_interpreter
from ci_doctor.preload.preload_rule import parse_rule
from ci_doctor.preload.start_files import shim_files

PYENV = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"

# Stands for transformers: replaces itself in sys.modules at the end. When another thread than the main one imports it,
# it first waits until the main thread waits for it, so that the race is lost every time without a shim.
FAKEFORMERS = """
import importlib._bootstrap as bootstrap, sys, threading, time, types

if threading.current_thread() is not threading.main_thread():
    import fakegate
    fakegate.opened.set()
    deadline = time.monotonic() + 120
    while not bootstrap._blocking_on.get(threading.main_thread().ident) and time.monotonic() < deadline:
        time.sleep(0.001)

class Lazy(types.ModuleType):
    def __getattr__(self, name):
        if name == "GenerationConfig":
            return type(name, (), {})
        raise AttributeError(name)

lazy = Lazy(__name__)
lazy.__file__, lazy.__path__, lazy.__spec__ = __file__, __path__, __spec__
sys.modules[__name__] = lazy
"""

# Stands for vllm.entrypoints.cli.main: warms up in the background, then needs the same package on the main thread.
FAKESERVE_CLI = """
import sys, threading, fakegate

def warm_up():
    import fakeformers
    fakegate.opened.set()

threading.Thread(target=warm_up).start()
fakegate.opened.wait(120)
from fakeformers import GenerationConfig

def main():
    print("served", GenerationConfig.__name__)

def in_child():
    pass

if __name__ == "__main__":
    main()
    if sys.argv[1:] == ["spawn"]:
        import multiprocessing
        child = multiprocessing.get_context("spawn").Process(target=in_child)
        child.start()
        child.join()
        print("child", child.exitcode)
"""

PACKAGES = {
    "fakegate.py": "import threading\nopened = threading.Event()\n",
    "fakeformers/__init__.py": FAKEFORMERS,
    "fakeserve/__init__.py": "",
    "fakeserve/__main__.py": "from fakeserve.cli import main\nmain()\n",
    "fakeserve/cli.py": FAKESERVE_CLI,
}


class Venv:
    """A virtual environment without pip."""

    def __init__(self, interpreter: Path, directory: Path) -> None:
        subprocess.run(
            [interpreter, "-m", "venv", "--without-pip", directory],
            check=True,
            env={"PATH": os.defpath},
        )
        self.directory = directory
        self.python = directory / "bin" / "python"
        (self.site_dir,) = directory.glob("lib/python3.*/site-packages")

    def put(self, files: Mapping[str, str]) -> None:
        """Write modules into the site directory, by path."""
        for name, text in files.items():
            path = self.site_dir / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(textwrap.dedent(text))

    def put_shim(self, *rules: str) -> None:
        """Write the files of a shim without an installation: no trial of the modules, no bytecode."""
        for name, content in shim_files([parse_rule(text) for text in rules]).items():
            (self.site_dir / name).write_bytes(content)

    def run(
        self, *arguments: str, timeout_s: float = 180, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        """Run the venv's Python with nothing in its environment but PATH and `environment`."""
        return subprocess.run(
            [self.python, *arguments],
            capture_output=True,
            text=True,
            check=False,
            cwd=self.directory,
            timeout=timeout_s,
            env={"PATH": os.defpath, **environment},
        )

    def files(self) -> dict[str, bytes | None]:
        """All that lies in the site directory."""
        return files_in(self.site_dir)


def files_in(site_dir: Path) -> dict[str, bytes | None]:
    """All that lies in a site directory, with its content; None for a directory."""
    return {
        str(path.relative_to(site_dir)): path.read_bytes() if path.is_file() else None
        for path in site_dir.rglob("*")
    }


def shim_of(python: Path) -> Shim:
    """The shim in an interpreter."""
    return preload_status.shim_of(inspect_interpreter(python))


def remove_shims(pythons: Sequence[Path], *, dry_run: bool) -> tuple[Installation, ...]:
    """Remove the shims of all; raises the first refusal."""
    results = remove_each(pythons, dry_run=dry_run)
    for result in results:
        if isinstance(result, Refused):
            raise result.error
    return tuple(result for result in results if isinstance(result, Installation))


def interpreters() -> dict[str, Path]:
    """The interpreters that may be on this machine, by a short name: our own, the system's, and pyenv's."""
    own = Path(sys.executable)
    if os.environ.get(
        "CI_DOCTOR_TEST_OWN_PYTHON"
    ):  # tests/other_pythons.sh: the others had their turn
        return {"own": own}
    names = ("3.8.18", "3.9.18", "3.10.13", "3.11.7", "3.12.1", "3.13.0")
    others = {
        name: python
        for name in names
        if not own.resolve().is_relative_to((python := pyenv_python(name)).parents[1])
    }
    return {"own": own, "system": Path("/usr/bin/python3"), **others}


def each_interpreter() -> list[Any]:
    """The names of all interpreters, for parameters: the gate takes our own, the system's and the oldest."""
    return [
        name
        if name in {"own", "system", "3.8.18"}
        else pytest.param(name, marks=pytest.mark.nightly)
        for name in interpreters()
    ]


def pyenv_python(version: str) -> Path:
    """Where pyenv keeps that Python, or the newest one that differs in its last number only."""
    exact = PYENV / version / "bin" / "python"
    alike = sorted(PYENV.glob(f"{version.rpartition('.')[0]}.*/bin/python"))
    return exact if exact.exists() or not alike else alike[-1]


def venv_of(name: str, directory: Path) -> Venv:
    """A virtual environment `v` of the interpreter with that name; skips the test where there is none."""
    skip_without(interpreters()[name])
    return Venv(interpreters()[name], directory / "v")


def skip_without(interpreter: Path) -> None:
    """Skip the test where this user cannot run `interpreter`."""
    if not os.access(interpreter, os.X_OK):
        pytest.skip(f"no {interpreter} on this machine")
