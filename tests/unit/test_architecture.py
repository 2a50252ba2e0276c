"""The shape of the code, held by tests where no tool holds it."""

import ast
import functools
import graphlib
import os
import re
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from ci_doctor.explanation import all_rules
from tests.support.imports import file_imports, first_paragraph, modules, path_to

ROOT = Path(__file__).parents[2]
MODULES = sorted(path for path in (ROOT / "ci_doctor").rglob("*.py") if path.name != "_version.py")
EFFECTS = frozenset({"subprocess", "socket", "asyncio", "httpx", "httpcore", "psutil", "time"})
FORBIDDEN_NAMES = {"util", "utils", "helper", "helpers", "manager", "base", "common", "misc"}


def test_no_module_is_longer_than_700_lines() -> None:
    long = {
        str(path): count for path in MODULES if (count := len(path.read_text().splitlines())) > 700
    }

    assert long == {}


def test_every_source_file_begins_with_its_licence() -> None:
    without = [
        str(path)
        for path in MODULES
        if not path.read_text().startswith("# SPDX-License-Identifier: Apache-2.0\n")
    ]

    assert without == []


def test_no_module_is_named_for_nothing() -> None:
    assert [path for path in MODULES if FORBIDDEN_NAMES & set(path.stem.split("_"))] == []


def test_every_module_says_whether_it_acts_or_reads_or_is_pure() -> None:
    silent = [name for name in modules() if not _has_role(name)]

    assert silent == []


def _has_role(name: str) -> bool:
    """Packages' own files and what runs in other interpreters say what they are for instead."""
    if modules()[name].name == "__init__.py" or _runs_elsewhere(name):
        return True
    paragraph = first_paragraph(name)
    # A command's module says which command it is; what it touches is its room's.
    is_command = name.startswith(("ci_doctor.commands.", "ci_doctor.cli", "ci_doctor.__main__"))
    return (
        is_command
        or "Pure." in paragraph
        or re.search(r"\b(Acts on|Reads) ", paragraph) is not None
    )


def _runs_elsewhere(name: str) -> bool:
    return any(room in name for room in (".shim.", ".injected.", ".recorder.", ".stub."))


def test_what_says_pure_reaches_no_effect_through_any_import() -> None:
    pure = [name for name in modules() if "Pure." in first_paragraph(name)]

    assert pure
    assert [path for name in pure if (path := path_to(name, EFFECTS))] == []


# What stands in a text of the code, or is imported -> the modules that may read it. Others know a name alone.
DOORS = {
    r"pynvml": ("machine.gpus", "checks.entry_points"),
    r"nvidia-smi|--query-gpu=.*": ("machine.gpus", "lint.", "checks.gpu.devices"),
    r"driver/nvidia.*|gpus/\*/information": ("machine.gpus",),
    r"RECORD|direct_url\.json|INSTALLER": ("machine.packages",),
    r"importlib\.metadata": ("machine.packages", "version", "environment.metadata_build"),
    r"CUDA_HOME|CUDA_PATH": ("machine.gpus",),
    r"(memory|cpu)\.max": ("machine.host", "system."),
}


@functools.cache
def _texts(path: Path) -> set[str]:
    """The texts of a module, docstrings too, and the modules that it imports."""
    texts: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            texts.add(node.value)
        elif isinstance(node, ast.Import):
            texts.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            texts.add(node.module or "")
    return texts


@pytest.mark.parametrize("door", DOORS)
def test_what_a_machine_is_has_one_reader(door: str) -> None:
    pattern = re.compile(door)
    readers = [
        name.removeprefix("ci_doctor.")
        for name, path in modules().items()
        if pattern.search(path.read_text(encoding="utf-8"))
        and any(pattern.fullmatch(text) for text in _texts(path))
    ]

    assert readers
    assert [name for name in readers if not name.startswith(DOORS[door])] == []


def test_no_file_imports_itself_in_a_circle() -> None:
    graph = {name: file_imports(name) for name in modules()}

    graphlib.TopologicalSorter(graph).prepare()  # raises CycleError, which names the circle


def test_a_rules_id_stands_in_one_module() -> None:
    families = "|".join(sorted({rule.partition("/")[0] for rule in all_rules()}))
    literal = re.compile(rf"""["']((?:{families})/[a-z0-9{{-][^"']*)["']""")
    places: dict[str, set[str]] = {}
    for name, path in modules().items():
        for identifier in literal.findall(path.read_text(encoding="utf-8")):
            places.setdefault(identifier, set()).add(name)

    assert {id_: names for id_, names in places.items() if len(names) > 1} == {}


@pytest.mark.integration
@pytest.mark.nightly
def test_every_module_can_be_imported_alone_without_a_warning() -> None:
    names = [".".join(path.relative_to(ROOT).with_suffix("").parts) for path in MODULES]
    elsewhere = (
        ".shim.",
        ".injected.",
        ".recorder.",
    )  # run in other interpreters, with each other's help
    names = [
        name.removesuffix(".__init__")
        for name in names
        if not any(room in name for room in elsewhere)
    ]
    # 34,000 imports of the same thousand files: each is read once, and nobody looks for garbage among modules.
    program = (
        "import functools, gc, importlib, importlib.machinery, sys\n"
        "gc.set_threshold(200_000)\n"
        "loader = importlib.machinery.SourceFileLoader\n"
        "read = loader.get_code\n"
        "codes = functools.cache(lambda path, name: read(loader(name, path), name))\n"
        "loader.get_code = lambda self, name: codes(self.path, name)\n"
        "for name in sys.argv[1:]:\n"
        "    for loaded in [each for each in sys.modules if each.startswith('ci_doctor')]:\n"
        "        del sys.modules[loaded]\n"
        "    importlib.import_module(name)\n"
    )

    # An import is no test of its lines, and measured it would take twice the time.
    unmeasured = {key: value for key, value in os.environ.items() if key != "MEASURE_COVERAGE"}
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", program, *names],
        env=unmeasured,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )

    assert (ran.returncode, ran.stderr) == (0, "")


def test_no_message_names_a_page_that_only_the_repository_has() -> None:
    page = re.compile(r"(?<![\w./] )(?<![\w./])docs/[\w/-]+\.md")
    named = []
    texts_of = {path: path.read_text(encoding="utf-8") for path in MODULES}
    # Where no line names one no text does: parsing all modules takes three seconds.
    for path in (path for path, text in texts_of.items() if "docs/" in text):
        tree = ast.parse(texts_of[path])
        # A docstring is for those who read the code.
        docs = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        texts = [node for node in ast.walk(tree) if isinstance(node, ast.Constant)]
        named += [
            f"{path}: {text.value}"
            for text in texts
            if id(text) not in docs and isinstance(text.value, str) and page.search(text.value)
        ]
    reference = (ROOT / "ci_doctor" / "config" / "reference.toml").read_text(encoding="utf-8")

    assert named == []
    assert page.search(reference) is None


_EXTRAS = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in sys.argv[1:]:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Missing())
import importlib
import pkgutil

import ci_doctor.commands
from ci_doctor.explanation import all_rules

assert all_rules()
for module in pkgutil.iter_modules(ci_doctor.commands.__path__):
    importlib.import_module(f"ci_doctor.commands.{module.name}")
"""


def test_every_command_and_every_rule_is_known_where_no_extra_is_installed() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    (everything,) = (Requirement(each) for each in extras["all"])
    needed = {Requirement(each).name for name in everything.extras for each in extras[name]}
    libraries = needed - {everything.name}
    missing = [
        module
        for module, of in packages_distributions().items()
        if libraries.intersection(map(canonicalize_name, of))
    ]
    assert "sqlalchemy" in missing
    subprocess.run([sys.executable, "-c", _EXTRAS, *missing], check=True)
