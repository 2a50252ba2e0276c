# SPDX-License-Identifier: Apache-2.0
"""`ci-doctor import-race probe MODULE[:ATTR]`: whether one import can be lost, asked of an interpreter."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.integration.import_programs import MODULES, Program
from tests.integration.preload_venvs import Venv, interpreters, pyenv_python, skip_without
from tests.support.cli import environment, inside

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = Program(name="", text="").write(tmp_path_factory.mktemp("probe"))
    (folder / "both.py").write_text(
        "Thing = 1\n" + MODULES["lazypkg/__init__.py"] + "lazy.Thing = 1\n"
    )
    # Its attribute brings in another module that replaces itself, as transformers:GenerationConfig does.
    (folder / "nested.py").write_text(
        "import sys, types\nclass Lazy(types.ModuleType):\n    def __getattr__(self, name):\n"
        "        if name != 'Thing':\n            raise AttributeError(name)\n        from outer.lazy import Thing\n"
        "        return Thing\nlazy = Lazy(__name__)\nlazy.__spec__ = __spec__\nsys.modules[__name__] = lazy\n"
    )
    return folder


def probe(
    folder: Path, target: str, python: Path | str = sys.executable
) -> tuple[int, dict[str, Any]]:
    ran = inside("import-race", "probe", target, "--python", str(python), "--json", cwd=folder)
    return ran.code, json.loads(ran.out)


@pytest.mark.parametrize("target", ["lazypkg:Thing", "lazypkg", "outer.lazy:Thing", "outer.lazy"])
def test_a_self_replacing_module_is_exposed_and_a_rule_is_ready(folder: Path, target: str) -> None:
    code, report = probe(folder, target)

    assert (code, report["verdict"], report["facts"]["exposed"]) == (1, "failed", True)
    assert target.partition(":")[0] in report["facts"]["replaced"]
    assert report["facts"]["rule"] == f"threading={target}"
    (finding,) = report["findings"]
    assert finding["rule"] == "import-race/self-replacing"
    assert ("cannot import name 'Thing'" in finding["evidence"][0]["excerpt"]) == (":" in target)


@pytest.mark.parametrize("shell", ["bash", "sh"])
@pytest.mark.parametrize("target", ["lazypkg:Thing", "outer.lazy"])
@pytest.mark.gate(1)
def test_the_commands_of_the_remedy_can_be_pasted_as_they_stand(
    folder: Path, target: str, shell: str
) -> None:
    _, report = probe(folder, target)
    commands = re.findall(r"`([^`]+)`", report["findings"][0]["remedy"])
    environ = environment({"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"})

    assert commands
    for command in commands:
        pasted = subprocess.run(
            [shell, "-c", command], cwd=folder, env=environ, capture_output=True, text=True,
            check=False, timeout=90,
        )  # fmt: skip
        assert pasted.returncode == 0, pasted
        assert "Error" not in pasted.stderr


@pytest.mark.parametrize("version", ["3.8.18", "3.10.13", "3.13.0"])
@pytest.mark.gate(1)
def test_other_interpreters_can_be_asked(folder: Path, version: str) -> None:
    python = pyenv_python(version)
    skip_without(python)

    assert probe(folder, "lazypkg:Thing", python)[0] == 1


def test_every_module_that_replaces_itself_on_the_way_is_named(folder: Path) -> None:
    _, report = probe(folder, "nested:Thing")

    assert report["facts"]["replaced"] == ["nested", "outer.lazy"]


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        ("plain_a:value", "does not replace itself"),
        ("cycle_a", "does not replace itself"),
        ("sys", "is loaded at every start"),
        ("both:Thing", "is the same in what was there before"),
    ],
)
def test_what_is_not_exposed_passes_with_the_reason(folder: Path, target: str, reason: str) -> None:
    code, report = probe(folder, target)

    assert (code, report["verdict"]) == (0, "pass")
    assert reason in report["summary"]


@pytest.mark.parametrize(
    ("target", "error"),
    [
        ("no_such_module", "ModuleNotFoundError"),
        ("broken", "an optional library is not there"),
        ("plain_a:nothing", "cannot import name 'nothing'"),
        ("lazypkg:nothing", "cannot import name 'nothing'"),
    ],
)
@pytest.mark.gate(2)
def test_what_cannot_be_imported_is_void(folder: Path, target: str, error: str) -> None:
    code, report = probe(folder, target)

    assert (code, report["verdict"]) == (86, "void")
    assert error in report["facts"]["error"]


@pytest.mark.parametrize("target", ["", "a b", "a:", "a..b", "a:b:c"])
@pytest.mark.gate(1)
def test_what_is_no_module_is_a_usage_error(folder: Path, target: str) -> None:
    assert inside("import-race", "probe", target, cwd=folder).code == 2


def test_no_bytecode_is_left_behind(tmp_path: Path) -> None:
    folder = Program(name="", text="").write(tmp_path)

    probe(folder, "lazypkg:Thing")

    assert list(folder.rglob("__pycache__")) == []


def test_options_may_stand_before_the_word_probe(folder: Path) -> None:
    ran = inside(
        "import-race", "--json", "probe", "plain_a", "--python", sys.executable, cwd=folder
    )

    assert json.loads(ran.out)["facts"]["exposed"] is False


@pytest.mark.parametrize("module", ["json", "decimal", "sched"])
@pytest.mark.gate(1)
def test_modules_of_the_standard_library_are_raced_for_as_any_other(
    folder: Path, module: str, tmp_path: Path
) -> None:
    bare = Venv(
        interpreters()["own"], tmp_path / "v"
    )  # coverage loads many of them at every start of our own

    code, report = probe(folder, module, bare.python)

    assert (code, report["facts"]["exposed"]) == (0, False)
    assert (
        report["summary"]
        == f"{module} is not exposed: {module} does not replace itself in sys.modules"
    )
    assert report["duration_s"] < 10
