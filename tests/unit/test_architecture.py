"""The shape of the code, held by tests where no tool holds it."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MODULES = sorted(path for path in (ROOT / "ci_doctor").rglob("*.py") if path.name != "_version.py")
FORBIDDEN_NAMES = {"util", "utils", "helper", "helpers", "manager", "base", "common", "misc"}


def test_no_module_is_longer_than_300_lines() -> None:
    long = {
        str(path): count for path in MODULES if (count := len(path.read_text().splitlines())) > 300
    }

    assert long == {}


def test_no_function_is_longer_than_50_lines() -> None:
    long = []
    for path in MODULES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno:
                length = node.end_lineno - node.body[0].lineno
                long += [f"{path}:{node.lineno} {node.name} {length}"] if length > 50 else []

    assert long == []


def test_every_source_file_begins_with_its_licence() -> None:
    without = [
        str(path)
        for path in MODULES
        if not path.read_text().startswith("# SPDX-License-Identifier: Apache-2.0\n")
    ]

    assert without == []


def test_no_module_is_named_for_nothing() -> None:
    assert [path for path in MODULES if FORBIDDEN_NAMES & set(path.stem.split("_"))] == []


@pytest.mark.integration
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
    program = (
        "import importlib, sys\n"
        "for name in sys.argv[1:]:\n"
        "    for loaded in [each for each in sys.modules if each.startswith('ci_doctor')]:\n"
        "        del sys.modules[loaded]\n"
        "    importlib.import_module(name)\n"
    )

    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", program, *names],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )

    assert (ran.returncode, ran.stderr) == (0, "")
