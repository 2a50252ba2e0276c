# SPDX-License-Identifier: Apache-2.0
"""Faults that are planted into a copy of a server's environment, and runs that are drawn from recorded starts."""

from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from ci_doctor.correctness.settings import Rules

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(BENCHMARKS)
    return lambda name: import_module(f"real_servers.{name}")


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, load: Any) -> Path:
    """What a fault needs of an environment, with the text of the first one."""
    monkeypatch.setenv("CI_DOCTOR_REAL_SERVERS", str(tmp_path))
    folder = tmp_path / load("place").VLLM
    fault = load("faults").FAULTS[0]
    source: Path = folder / "lib" / "python3.11" / "site-packages" / "vllm" / fault.file
    compiled = source.parent / "__pycache__" / f"{source.stem}.cpython-311.pyc"
    compiled.parent.mkdir(parents=True)
    source.write_text(f"before\n{fault.old}\nafter\n")
    compiled.write_bytes(b"compiled")
    source.with_name("other.py").write_text("other\n")
    (folder / "bin").mkdir()
    (folder / "bin" / "python").touch()
    (folder / "ci-doctor-complete").touch()
    return source


@pytest.mark.parametrize("text", ["", "{old}{old}"])
def test_a_text_that_is_not_there_once_names_the_version(load: Any, text: str) -> None:
    faults = load("faults")
    fault = faults.FAULTS[0]
    source = text.format(old=fault.old)
    with pytest.raises(
        faults.PatchError, match=rf"{source.count(fault.old)} times in vllm/.* of vllm-9"
    ):
        fault.patched(source, "vllm-9")


def test_a_copy_has_the_fault_and_the_original_keeps_every_byte(
    load: Any, environment: Path, tmp_path: Path
) -> None:
    fault = load("faults").FAULTS[0]
    before = environment.read_bytes()
    name = load("planting").planted(fault)
    copy = tmp_path / name / environment.relative_to(tmp_path / load("place").VLLM)
    assert fault.new.replace("PLANTED", "True") in copy.read_text()
    assert environment.read_bytes() == before
    assert not list((copy.parent / "__pycache__").iterdir())
    assert list((environment.parent / "__pycache__").iterdir())
    assert copy.with_name("other.py").samefile(environment.with_name("other.py"))


def test_a_rare_fault_is_in_the_drawn_starts_alone(load: Any) -> None:
    [fault, *_] = [each for each in load("faults").FAULTS if each.rare]
    source = fault.patched(fault.old, "vllm")
    assert 'environ["PLANTED_START"] in' in source
    environ = dict(fault.experiment.environ)
    assert environ["PLANTED_START"] == "{start}"
    assert 0.2 < len(environ["PLANTED_STARTS"].split()) / 64 < 0.5


def test_drawn_runs_are_let_through_as_often_as_the_fault_is_not_met(load: Any) -> None:
    resampling = load("resampling")
    sound = {"a": "x", "b": "x"}
    faulty = {"a": "y", "b": "x"}
    recorded = resampling.Recorded([sound], [sound], [faulty])
    always = resampling.resampled(recorded, 1.0, Rules(), 20)
    assert (always.passed, always.untrue) == (0, 0)
    rarely = resampling.resampled(recorded, 1 / 3, Rules(), 60)
    assert 28 <= rarely.passed <= 52
    # One start excludes nothing below 98 %.
    assert rarely.untrue == 0
    # Ten starts exclude a third of the starts, and not a sixth of them.
    seldom = resampling.Recorded([sound], [sound], [faulty, sound])
    ten = resampling.resampled(seldom, 1 / 3, Rules(least_candidates=10), 60)
    assert ten.passed > 3
    assert ten.untrue == 0
    never = resampling.resampled(recorded, 0.0, Rules(), 20)
    assert never.passed == 20
