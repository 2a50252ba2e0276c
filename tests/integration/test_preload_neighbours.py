# SPDX-License-Identifier: Apache-2.0
"""Preload shims beside other start-up files and in unusual environments: both work, in either order.

coverage and setuptools are the real ones. What is not in our own environment stands as a file that does the one thing
which its documentation or its changelog tells; each says which.
"""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from ci_doctor.preload.install import install_shims
from ci_doctor.preload.preload_rule import parse_rule
from tests.integration.preload_venvs import PACKAGES, Venv, interpreters, venv_of

pytestmark = pytest.mark.integration

RULE = "fakeserve.cli=fakeformers:GenerationConfig"
LIBRARIES = Path(pytest.__file__).parents[1]
NOBODY = 65534
CHILD = "import subprocess, sys; sys.exit(subprocess.run([sys.executable, '-m', 'fakeserve']).returncode)"
COUNT = "import sys; print(sys.meta_path.count(sys.modules['_ci_doctor_preload']), [getattr(f, 'mark', '') for f in sys.meta_path])"

# virtualenv's `_virtualenv.pth`: a finder in the first place that asks for the spec itself, guards against asking twice,
# and puts its own function in the place of the loader's exec_module, for the names that it patches.
PATCHING_FINDER = """
import sys
class Finder:
    mark = "patching"
    asking = False
    def find_spec(self, name, path, target=None):
        if not name.startswith("fake") or self.asking: return None
        self.asking = True
        try:
            from importlib.util import find_spec
            spec = find_spec(name, path)
        finally: self.asking = False
        if spec is not None and hasattr(spec.loader, "exec_module"):
            execute = spec.loader.exec_module
            def patched(module):
                execute(module)
                module.patched = True
            spec.loader.exec_module = patched
        return spec
sys.meta_path.insert(0, Finder())
"""
# ddtrace's ModuleWatchdog: a finder in the first place that gives each module a loader of its own, which hands on to the
# loader that would have been.
WRAPPING_FINDER = """
import sys
from importlib.util import find_spec
class Loader:
    def __init__(self, loader): self.loader = loader
    def __getattr__(self, name): return getattr(self.loader, name)
    def create_module(self, spec): return self.loader.create_module(spec)
    def exec_module(self, module):
        self.loader.exec_module(module)
        module.patched = True
class Finder:
    mark = "wrapping"
    def __init__(self): self.asking = set()
    def find_spec(self, name, path=None, target=None):
        if name in self.asking: return None
        self.asking.add(name)
        try: spec = find_spec(name)
        finally: self.asking.discard(name)
        if spec is not None and hasattr(spec.loader, "exec_module"): spec.loader = Loader(spec.loader)
        return spec
sys.meta_path.insert(0, Finder())
"""
# setuptools' editable installs: a finder at the end, with the directories of the packages.
EDITABLE_FINDER = """
import sys
from importlib.util import spec_from_file_location
MAPPING = {mapping!r}
class Finder:
    mark = "editable"
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name in MAPPING: return spec_from_file_location(name, MAPPING[name] + "/__init__.py")
sys.meta_path.append(Finder)
"""
# ddtrace-run: steps aside, runs the sitecustomize behind itself, and takes its place again.
CHAINING = """
import os, sys
here = os.path.dirname(__file__)
ours = sys.modules.pop("sitecustomize")
place = sys.path.index(here)
sys.path.remove(here)
try: import sitecustomize
except ImportError: pass
finally:
    sys.path.insert(place, here)
    sys.modules["sitecustomize"] = ours
"""
# opentelemetry-instrument: hides the sitecustomize behind itself; children are not to find it a second time.
NOT_CHAINING = """
import os
here = os.path.dirname(__file__)
entries = [entry for entry in os.environ["PYTHONPATH"].split(os.pathsep) if entry != here]
os.environ["PYTHONPATH"] = os.pathsep.join(entries)
"""
# An application's monitor that imports what the rule names before the program starts: nothing is left to be done.
IMPORTING = "import fakeformers; fakeformers.GenerationConfig\n"


def arm(venv: Venv) -> None:
    venv.put(PACKAGES)
    install_shims([venv.python], [parse_rule(RULE)], dry_run=False)


@pytest.fixture(params=["own", "system"])
def venv(request: pytest.FixtureRequest, tmp_path: Path) -> Venv:
    made = venv_of(request.param, tmp_path)
    arm(made)
    return made


def assert_race_is_won(venv: Venv, *arguments: str, **environment: str) -> None:
    """With the shim, and not without it; nothing is said on stderr."""
    arguments = arguments or ("-m", "fakeserve")
    off = venv.run(*arguments, timeout_s=60, **{**environment, "CI_DOCTOR_PRELOAD": "0"})
    assert "cannot import name 'GenerationConfig'" in off.stderr
    on = venv.run(*arguments, timeout_s=60, **environment)
    assert (on.returncode, on.stdout.strip(), on.stderr) == (0, "served GenerationConfig", "")


def armed(venv: Venv, **environment: str) -> str:
    """How many finders of ours are armed, and the marks of the others."""
    ran = venv.run("-c", COUNT, timeout_s=60, **environment)
    assert ran.stderr == ""
    return ran.stdout.strip()


@pytest.mark.parametrize("name", ["aa_theirs", "zz_theirs"])  # executed before ours, and after
@pytest.mark.parametrize("finder", [PATCHING_FINDER, WRAPPING_FINDER], ids=["patching", "wrapping"])
@pytest.mark.gate(2)
def test_finder_that_changes_loaders(venv: Venv, finder: str, name: str) -> None:
    venv.put({f"{name}.py": finder, f"{name}.pth": f"import {name}\n"})
    assert armed(venv).startswith("1 [")
    assert_race_is_won(venv)
    both = venv.run(
        "-c", "import fakeserve.cli as c; print(c.patched, c.__loader__.__class__.__name__)"
    )
    assert both.stdout.splitlines()[0].startswith("True "), "theirs works too"


@pytest.mark.parametrize("what", ["fakeserve", "fakeformers"])
@pytest.mark.parametrize("name", ["__editable___aa", "zz_editable"])
@pytest.mark.gate(2)
def test_editable_install_of_either_package(
    venv: Venv, what: str, name: str, tmp_path: Path
) -> None:
    (venv.site_dir / what).rename(tmp_path / what)
    finder = EDITABLE_FINDER.format(mapping={what: str(tmp_path / what)})
    venv.put({f"{name}_finder.py": finder, f"{name}.pth": f"import {name}_finder\n"})
    assert_race_is_won(venv)
    left = venv.run(
        "-c",
        "import fakeserve.cli, sys; print([f.mark for f in sys.meta_path if hasattr(f, 'mark')])",
    )
    assert left.stdout.strip() == "['editable']", "their finder stays when ours leaves"


def test_editable_install_by_a_path_line(venv: Venv, tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (venv.site_dir / "fakeserve").rename(tmp_path / "src" / "fakeserve")
    venv.put({"__editable__.fakeserve.pth": f"{tmp_path / 'src'}\n"})
    assert_race_is_won(venv)


@pytest.mark.parametrize("text", [CHAINING, NOT_CHAINING], ids=["chains", "does not chain"])
@pytest.mark.parametrize(
    "arguments", [("-m", "fakeserve"), ("-c", CHILD)], ids=["itself", "its child"]
)
@pytest.mark.gate(2)
def test_sitecustomize_on_pythonpath(
    venv: Venv, text: str, arguments: tuple[str, ...], tmp_path: Path
) -> None:
    (tmp_path / "agent").mkdir()
    (tmp_path / "agent" / "sitecustomize.py").write_text(text)
    assert armed(venv, PYTHONPATH=str(tmp_path / "agent")).startswith("1 ")
    assert_race_is_won(venv, *arguments, PYTHONPATH=str(tmp_path / "agent"))


def test_sitecustomize_that_has_imported_it_all_already(venv: Venv, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(IMPORTING)
    ran = venv.run("-m", "fakeserve", PYTHONPATH=str(tmp_path))
    assert (ran.stdout.strip(), ran.stderr) == ("served GenerationConfig", "")


def test_setuptools_distutils_precedence(venv: Venv) -> None:
    shutil.copytree(LIBRARIES / "_distutils_hack", venv.site_dir / "_distutils_hack")
    shutil.copy(LIBRARIES / "distutils-precedence.pth", venv.site_dir)
    script = "import fakeserve.cli, sys; print([type(finder).__name__ for finder in sys.meta_path].count('DistutilsMetaFinder'))"
    assert venv.run("-c", script).stdout.strip() == "1", "their finder stays when ours leaves"
    assert_race_is_won(venv)


@pytest.mark.parametrize("arguments", [("child.py",), ("-m", "fakeserve")], ids=["a child", "-m"])
@pytest.mark.gate(1)
def test_coverage_that_follows_children(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    venv = Venv(interpreters()["own"], tmp_path / "v")
    arm(venv)
    shutil.copy(LIBRARIES / "a1_coverage.pth", venv.site_dir)
    (venv.directory / "child.py").write_text(CHILD)
    (venv.directory / ".coveragerc").write_text(
        "[run]\npatch = subprocess\nparallel = true\nsource = fakeserve\ndisable_warnings = no-data-collected, module-not-imported\n"
    )
    assert_race_is_won(venv, "-m", "coverage", "run", *arguments, PYTHONPATH=str(LIBRARIES))
    venv.run("-m", "coverage", "combine", "-q", PYTHONPATH=str(LIBRARIES))
    report = venv.run(
        "-m", "coverage", "report", "--include", "*/fakeserve/cli.py", PYTHONPATH=str(LIBRARIES)
    )
    assert "fakeserve/cli.py" in report.stdout


def test_environment_that_was_moved(venv: Venv, tmp_path: Path) -> None:
    moved = venv.directory.rename(tmp_path / "moved")
    venv.directory, venv.python = moved, moved / "bin" / "python"
    assert armed(venv).startswith("1 ")
    assert_race_is_won(venv)


def test_environment_behind_a_symbolic_link(venv: Venv, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(venv.directory)
    venv.python = tmp_path / "link" / "bin" / "python"
    assert armed(venv).startswith("1 ")
    assert_race_is_won(venv)


def test_environment_that_sees_the_packages_of_the_system(venv: Venv) -> None:
    settings = venv.directory / "pyvenv.cfg"
    settings.write_text(settings.read_text().replace("packages = false", "packages = true"))
    assert (
        "True"
        in venv.run(
            "-c",
            "import site, sys; print(len(site.getsitepackages()) > 1 or site.ENABLE_USER_SITE)",
        ).stdout
    )
    assert armed(venv).startswith("1 ")
    assert_race_is_won(venv)


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user can enter."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def test_environment_that_cannot_be_written(open_folder: Path) -> None:
    venv = venv_of("system", open_folder)  # which every user can run
    arm(venv)
    there = venv.files()
    everything = [venv.directory, *venv.directory.rglob("*")]
    for path in everything:
        if not path.is_symlink():
            path.chmod(0o555)
    user = f"import os; os.getuid() or os.setuid({NOBODY}); "
    start = "import runpy; runpy.run_module('fakeserve', run_name='__main__')"
    # The modules of the rule are looked for only after the user was changed.
    assert_race_is_won(venv, "-c", user + start)
    assert venv.files() == there, "nothing was written"
    for path in everything:
        if path.is_dir() and not path.is_symlink():
            path.chmod(0o755)
