# SPDX-License-Identifier: Apache-2.0
"""bootstrap.sh, by a real shell, where interpreters and tools are only what a test puts on PATH."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

pytestmark = pytest.mark.integration
ROOT = Path(__file__).parents[2]
TOOLS = ("sh", "dirname", "cksum", "cat", "mkdir", "rmdir", "rm", "ls", "chmod")

# What Debian's python3 without python3-venv does: `import venv` works, making one stops half-way.
WITHOUT_ENSUREPIP = f"""#!/bin/sh
case "$*" in
  *ensurepip*) exit 1 ;;
  "-m venv"*)
    for venv; do :; done
    mkdir -p "$venv/bin"
    echo "home = /usr/bin" >"$venv/pyvenv.cfg"
    echo "The virtual environment was not created successfully because ensurepip is not available." >&2
    exit 1 ;;
esac
exec {sys.executable} "$@"
"""
# Makes an environment whose pip only notes how it was called, and fails if the clone says so.
QUICK = f"""#!/bin/sh
case "$*" in
  "-m venv"*)
    for venv; do :; done
    # As venv itself.
    [ ! -L "$venv" ] || exit 1
    mkdir -p "$venv/bin"
    echo "home = /usr/bin" >"$venv/pyvenv.cfg"
    cat >"$venv/bin/python" <<'END'
#!/bin/sh
[ "$1 $2" = "-m pip" ] || exec {sys.executable} "$@"
shift 2
echo "$@" >>"$HOME/pip-calls"
case "$*" in *install*) [ ! -e "$HOME/no-index" ] ;; esac
END
    chmod +x "$venv/bin/python"
    exit 0 ;;
esac
exec {sys.executable} "$@"
"""
GIT = "#!/bin/sh\nexit 0\n"
# A project without dependencies, whose backend needs nothing from an index.
PYPROJECT = """[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]
[project]
name = "ci-doctor-toolkit"
version = "1"
"""
BACKEND = """
import zipfile


def build_editable(directory, config_settings=None, metadata_directory=None):
    name = "ci_doctor_toolkit-1-py3-none-any.whl"
    with zipfile.ZipFile(f"{directory}/{name}", "w") as wheel:
        info = "ci_doctor_toolkit-1.dist-info"
        wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\\nName: ci-doctor-toolkit\\nVersion: 1\\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        wheel.writestr(f"{info}/RECORD", "")
    return name
"""


class Clone:
    """A checkout with the script, and a PATH with a few tools."""

    def __init__(self, directory: Path) -> None:
        self.root = directory / "clone"
        self.bin = directory / "bin"
        self.root.mkdir()
        self.bin.mkdir()
        shutil.copy(ROOT / "bootstrap.sh", self.root)
        (self.root / "pyproject.toml").write_text(PYPROJECT)
        (self.root / "backend.py").write_text(BACKEND)
        for tool in TOOLS:
            (self.bin / tool).symlink_to(str(shutil.which(tool)))
        self.program("git", GIT)

    def program(self, name: str, text: str) -> None:
        path = self.bin / name
        path.unlink(missing_ok=True)
        path.write_text(text)
        path.chmod(0o755)

    def real_python(self, name: str = "python3") -> None:
        self.program(name, f'#!/bin/sh\nexec {sys.executable} "$@"\n')

    def quick_python(self, name: str = "python3") -> None:
        self.program(name, QUICK)

    @property
    def pip_calls(self) -> list[str]:
        """How pip of the environment was called, in order."""
        path = self.root / "pip-calls"
        return path.read_text().splitlines() if path.exists() else []

    def run(self, **variables: str) -> subprocess.CompletedProcess[str]:
        environment = {
            "PATH": str(self.bin),
            "HOME": str(self.root),
            "PIP_NO_INDEX": "1",
            "PIP_CONFIG_FILE": os.devnull,
            "PIP_NO_CACHE_DIR": "1",
            **variables,
        }
        return subprocess.run(
            ["sh", str(self.root / "bootstrap.sh")],
            cwd=self.root.parent,
            env=environment,
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
        )

    @property
    def is_installed(self) -> bool:
        """Whether a real pip has installed it."""
        venv = self.root / ".venv"
        return any(venv.glob("lib/python3*/site-packages/ci_doctor_toolkit-1.dist-info"))

    @property
    def was_installed(self) -> bool:
        """Whether the last call of a quick pip was to install it."""
        last = self.pip_calls[-1:] or [""]
        return f"install --editable {self.root}" in last[0]


@pytest.fixture
def clone(tmp_path: Path) -> Clone:
    return Clone(tmp_path)


@pytest.mark.nightly
def test_a_second_run_changes_nothing(clone: Clone) -> None:
    clone.real_python()
    first = clone.run()
    assert (first.returncode, clone.is_installed) == (0, True), first.stderr

    # Nothing is needed any more, not even git.
    (clone.bin / "git").unlink()
    (clone.bin / "python3").unlink()
    second = clone.run()
    assert (second.returncode, second.stderr) == (0, "")


def interpreter_gone(clone: Clone) -> None:
    assert clone.run().returncode == 0
    (clone.root / ".venv" / "bin" / "python").unlink()


def half_made(clone: Clone) -> None:
    half = clone.root / ".venv" / "bin"
    half.mkdir(parents=True)
    (half.parent / "pyvenv.cfg").write_text("home = /usr/bin\n")
    # It starts, and has no pip.
    (half / "python").write_text(
        f'#!/bin/sh\n[ "$1" = -m ] && exit 1\nexec {sys.executable} "$@"\n'
    )
    (half / "python").chmod(0o755)


def without_ensurepip(clone: Clone) -> None:
    clone.program("python3", WITHOUT_ENSUREPIP)
    clone.quick_python("python3.11")


def by_another_tool(clone: Clone, tool: str) -> None:
    # Both are called with the directory as the last word.
    clone.program("python3", WITHOUT_ENSUREPIP)
    clone.program(
        tool, f'#!/bin/sh\nfor venv; do :; done\nexec {clone.bin}/quick -m venv "$venv"\n'
    )
    clone.program("quick", QUICK)


def linked(clone: Clone) -> None:
    (clone.bin / "readlink").symlink_to(str(shutil.which("readlink")))
    place = clone.root.parent / "disk"
    (clone.root / ".venv").symlink_to(place)
    place.mkdir()


def copied(clone: Clone) -> None:
    """The environment of the first checkout would run its code."""
    assert clone.run().returncode == 0
    first = clone.root
    clone.root = first.with_name("copy")
    shutil.copytree(first, clone.root)


@pytest.mark.parametrize(
    ("arrange", "says"),
    [
        (half_made, "making"),
        (interpreter_gone, "making"),
        (without_ensurepip, "with python3.11"),
        *(
            pytest.param(partial(by_another_tool, tool=tool), f"with {tool}", id=f"by {tool}")
            for tool in ("uv", "virtualenv")
        ),
        (linked, "making"),
        (copied, "making"),
    ],
    ids=lambda each: getattr(each, "__name__", None),
)
def test_an_environment_is_made_by_what_the_machine_has_wherever_none_can_be_used(
    arrange: Callable[[Clone], None], says: str, clone: Clone
) -> None:
    clone.quick_python()
    arrange(clone)
    ran = clone.run()
    assert (ran.returncode, clone.was_installed) == (0, True), ran.stderr
    assert says in ran.stderr
    assert (clone.root / ".venv").is_symlink() == (arrange is linked)


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        pytest.param("git", None, "git is missing", id="no git"),
        pytest.param("python3", None, "no Python >= 3.11 found", id="no Python"),
        pytest.param(
            "python3",
            WITHOUT_ENSUREPIP,
            "apt-get install python{0[0]}.{0[1]}-venv",
            id="no ensurepip",
        ),
        pytest.param("old", "#!/bin/sh\nexit 1\n", "PYTHON=old is no Python >= 3.11", id="too old"),
    ],
)
def test_what_is_missing_is_named_and_nothing_is_half_made(
    name: str, text: str | None, says: str, clone: Clone
) -> None:
    clone.quick_python()
    if text is None:
        (clone.bin / name).unlink()
    else:
        clone.program(name, text)
    ran = clone.run(**({"PYTHON": name} if name == "old" else {}))
    assert ran.returncode == 2, ran.stderr
    assert says.format(sys.version_info) in ran.stderr
    assert not (clone.root / ".venv").exists()


def test_without_an_index_it_says_what_it_needs_and_the_next_run_tries_again(clone: Clone) -> None:
    clone.quick_python()
    (clone.root / "no-index").touch()
    ran = clone.run()
    assert ran.returncode == 2, ran.stderr
    assert "it needs a package index" in ran.stderr
    (clone.root / "no-index").unlink()
    assert clone.run().returncode == 0
    assert clone.was_installed


def test_the_environment_may_be_elsewhere(clone: Clone, tmp_path: Path) -> None:
    clone.quick_python()
    ran = clone.run(CI_DOCTOR_VENV="elsewhere/venv")
    assert ran.returncode == 0, ran.stderr
    assert (tmp_path / "elsewhere" / "venv" / ".ci-doctor-bootstrap").exists()
    assert clone.was_installed
    assert not (clone.root / ".venv").exists()


@pytest.mark.parametrize(
    ("file", "says"),
    [
        # As one of uv, without pip, where uv is not on PATH.
        ("lib/python3.11/site-packages/torch-2.9.dist-info/METADATA", "no pip that works"),
        ("thesis.txt", "is no virtual environment"),
    ],
)
def test_what_somebody_else_has_there_is_not_cleared(file: str, says: str, clone: Clone) -> None:
    clone.quick_python()
    mine = clone.root / ".venv" / file
    mine.parent.mkdir(parents=True)
    mine.write_text("mine")
    if file.startswith("lib"):
        (clone.root / ".venv" / "pyvenv.cfg").write_text("home = /usr/bin\n")
    ran = clone.run()
    assert ran.returncode == 2, ran.stderr
    assert says in ran.stderr
    assert mine.read_text() == "mine"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_checkout_is_told(clone: Clone) -> None:
    clone.quick_python()
    clone.root.chmod(0o555)
    try:
        ran = clone.run()
    finally:
        clone.root.chmod(0o755)
    assert ran.returncode == 2
    assert "cannot be written" in ran.stderr


def test_an_installation_under_the_former_name_is_removed_first(clone: Clone) -> None:
    clone.quick_python()
    assert clone.run().returncode == 0
    venv = clone.root / ".venv"
    (venv / "lib" / "python3.11" / "site-packages" / "ci_doctor-0.1.dist-info").mkdir(parents=True)
    (venv / ".ci-doctor-bootstrap").unlink()

    assert clone.run().returncode == 0

    (removal,) = [call for call in clone.pip_calls if call.endswith("uninstall --yes ci-doctor")]
    assert clone.pip_calls.index(removal) < len(clone.pip_calls) - 1
    assert clone.was_installed
