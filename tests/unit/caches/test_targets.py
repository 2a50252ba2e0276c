# SPDX-License-Identifier: Apache-2.0
"""Which directories a job's caches have."""

import os
import pwd
import shutil
from pathlib import Path

import pytest

from ci_doctor.caches.facts import FactReader, UnknownFactError, package_build
from ci_doctor.caches.families import (
    FLASHINFER,
    INDUCTOR,
    INDUCTOR_CPU,
    TRITON,
    OwnFamily,
    all_families,
    is_fact_name,
    own_family,
)
from ci_doctor.caches.judge import Inert, RefusedCache, Relocate, Tiers, Usable, usable
from ci_doctor.caches.targets import read_tiers, targets_of
from ci_doctor.errors import UsageError
from ci_doctor.machine.interpreters import Interpreter


def test_without_a_home_variable_a_cache_lies_in_the_users_home_as_libraries_have_it() -> None:
    (target,) = targets_of(["triton"], {}, {})

    assert target.directory == Path(pwd.getpwuid(os.getuid()).pw_dir, ".triton", "cache")


@pytest.mark.parametrize("below", ["", ".git"])
def test_a_directory_that_holds_the_checkout_is_no_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, below: str
) -> None:
    (tmp_path / ".git").mkdir()
    monkeypatch.chdir(tmp_path / below)

    for directory in ("/", str(tmp_path)):
        with pytest.raises(UsageError, match="is no cache"):
            targets_of([f"mine={directory}"], {}, {"HOME": "/nowhere"})


def test_the_home_directory_is_no_cache_and_one_below_it_is(tmp_path: Path) -> None:
    home = {"HOME": str(tmp_path)}

    with pytest.raises(UsageError, match="is no cache"):
        targets_of([f"mine={tmp_path}"], {}, home)
    (target,) = targets_of([f"mine={tmp_path / 'cache'}"], {}, home)
    assert target.directory == tmp_path / "cache"


def test_a_directory_that_is_a_loop_of_links_is_one_that_cannot_be_restored_to(
    tmp_path: Path,
) -> None:
    (tmp_path / "loop").symlink_to("loop")

    (target,) = targets_of([f"mine={tmp_path / 'loop'}"], {}, {"HOME": "/nowhere"})

    assert target.directory == tmp_path / "loop"


CPU = "processor : 0\nsiblings : 4\ncpu cores : 2\nflags : fma avx2 avx512f avx512vl avx512bw avx512dq\n"
VERSION = "__version__ = '2.13.0+cpu'\ncuda: Optional[str] = None\ngit_version = 'cf30'\nhip: Optional[str] = None\n"


class Machine:
    """A venv with torch and triton, and a CPU, as files."""

    def __init__(self, folder: Path, venv: str = "venv") -> None:
        self.proc = folder / "proc"
        self.proc.mkdir(exist_ok=True)
        (self.proc / "cpuinfo").write_text(CPU)
        self.venv = folder / venv
        self.site = self.venv / "lib/python3.11/site-packages"
        (self.site / "torch").mkdir(parents=True)
        (self.site / "torch/version.py").write_text(VERSION)
        self.install("torch", "2.13.0+cpu", "torch/version.py,sha256=abc,9\n")
        self.install("triton", "3.9.0", "triton/knobs.py,sha256=def,9\n")
        self.environ = {"PATH": os.environ["PATH"]}

    def install(self, name: str, version: str, record: str) -> Path:
        folder = self.site / f"{name}-{version}.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Name: {name}\nVersion: {version}\n")
        (folder / "RECORD").write_text(record)
        return folder

    def reader(self, **environ: str) -> FactReader:
        python = Interpreter(
            python=self.venv / "bin/python", version="3.11", directories=(self.site,)
        )
        return FactReader({**self.environ, **environ}, python, self.proc)


def test_the_facts_of_a_cpu_cache_are_known_without_importing_torch(tmp_path: Path) -> None:
    tiers = read_tiers(INDUCTOR_CPU, Machine(tmp_path).reader(), tmp_path / "cache")

    assert tiers.hard.unknown == {}
    assert tiers.hard.facts["package.torch"].startswith("2.13.0+cpu, files ")
    assert tiers.hard.facts["torch.git"] == "cf30"
    assert tiers.hard.facts["torch.cuda"] == "none"
    assert tiers.hard.facts["cpu.isa"] == "avx512"
    assert "4 threads on 2 cores" in tiers.hard.facts["cpu.threads"]
    assert tiers.path.facts["python.environment"] == str(
        tmp_path / "venv/lib/python3.11/site-packages"
    )
    assert tiers.path.facts["cache.root"] == str(tmp_path / "cache")


def test_another_capability_another_build_or_another_setting_is_refused(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    saved = read_tiers(INDUCTOR_CPU, machine.reader(), tmp_path)

    def facts(**environ: str) -> list[str]:
        decision = usable(
            INDUCTOR_CPU, saved, read_tiers(INDUCTOR_CPU, machine.reader(**environ), tmp_path)
        )
        assert isinstance(decision, RefusedCache)
        return [each.fact for each in decision.differences]

    assert facts(ATEN_CPU_CAPABILITY="avx2") == ["cpu.isa"]
    assert facts(OMP_NUM_THREADS="1") == ["cpu.threads"]
    assert facts(TORCHINDUCTOR_FREEZING="1") == ["env.TORCHINDUCTOR_FREEZING"]
    record = machine.site / "torch-2.13.0+cpu.dist-info" / "RECORD"
    record.write_text("torch/version.py,sha256=other,9\n")
    assert facts() == ["package.torch"]


def test_the_same_environment_at_another_path_is_inert_for_a_cpu_and_not_for_triton(
    tmp_path: Path,
) -> None:
    one, other = Machine(tmp_path, "one").reader(), Machine(tmp_path, "other").reader()
    old, new = tmp_path / "old", tmp_path / "new"

    decision = usable(
        INDUCTOR_CPU, read_tiers(INDUCTOR_CPU, one, old), read_tiers(INDUCTOR_CPU, other, old)
    )
    assert isinstance(decision, Inert)
    # The base of a venv that links to nothing is the venv.
    assert "python.environment" in [each.fact for each in decision.differences]
    saved, here = read_tiers(TRITON, one, old), read_tiers(TRITON, other, new)
    assert usable(TRITON, saved, here) == Relocate(old_root=str(old), new_root=str(new))


def test_the_python_of_a_venv_is_the_one_that_it_names(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    (machine.venv / "pyvenv.cfg").write_text("home = /opt/python-3.11/bin\n")

    path = read_tiers(INDUCTOR_CPU, machine.reader(), tmp_path).path

    assert path.facts["python.base"] == "/opt/python-3.11"


def test_ninjas_caches_need_the_times_of_the_installation(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    folder = machine.install("flashinfer_python", "0.6.0", "flashinfer/a.py,sha256=a,1\n")
    saved = read_tiers(FLASHINFER, machine.reader(), tmp_path)
    assert usable(FLASHINFER, saved, saved) == Usable()

    os.utime(folder / "RECORD", ns=(0, 0))

    decision = usable(FLASHINFER, saved, read_tiers(FLASHINFER, machine.reader(), tmp_path))
    assert isinstance(decision, Inert)
    assert [each.fact for each in decision.differences] == ["package.times"]


def test_without_the_library_or_its_python_nothing_is_known_to_be_equal(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    (machine.site / "triton-3.9.0.dist-info" / "METADATA").unlink()
    (machine.site / "triton-3.9.0.dist-info").rename(tmp_path / "gone")

    absent = read_tiers(TRITON, machine.reader(), tmp_path)
    nobody = read_tiers(TRITON, FactReader(machine.environ, None, machine.proc), tmp_path)

    assert "not installed" in absent.hard.unknown["package.triton"]
    assert "which Python" in nobody.hard.unknown["package.triton"]
    assert isinstance(usable(TRITON, absent, absent), RefusedCache)


def test_an_editable_library_and_one_without_a_record_are_unknown(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    folder = machine.site / "triton-3.9.0.dist-info"
    (folder / "direct_url.json").write_text(
        '{"url": "file:///src", "dir_info": {"editable": true}}'
    )
    assert (
        "editable" in read_tiers(TRITON, machine.reader(), tmp_path).hard.unknown["package.triton"]
    )

    (folder / "direct_url.json").unlink()
    (folder / "RECORD").unlink()
    assert "RECORD" in read_tiers(TRITON, machine.reader(), tmp_path).hard.unknown["package.triton"]


def test_a_build_under_another_name_decides_by_its_own_files(tmp_path: Path) -> None:
    machine = Machine(tmp_path)

    def fact() -> str:
        return package_build("triton", [machine.site])

    # Metadata alone, as those write whose program asks for the usual name.
    (machine.site / "triton-3.9.0.dist-info/RECORD").write_text("triton-3.9.0.dist-info/METADATA,,")
    other = machine.install("triton-cpu", "3.8.1", "pkg/triton/__init__.py,sha256=1,9\n")
    (machine.site / "triton").mkdir()
    (machine.site / "triton/__init__.py").touch()
    with pytest.raises(UnknownFactError, match="no RECORD of its files"):
        fact()

    (other / "RECORD").write_text("triton/__init__.py,sha256=abc,9\n")
    assert fact().startswith("3.8.1, files ")
    before = fact()
    (other / "RECORD").write_text("triton/__init__.py,sha256=def,9\n")
    assert fact() != before

    shutil.rmtree(machine.site / "triton-3.9.0.dist-info")
    assert fact().startswith("3.8.1, files ")
    shutil.rmtree(other)
    with pytest.raises(UnknownFactError, match="belongs to no installed distribution"):
        fact()
    shutil.rmtree(machine.site / "triton")
    assert fact() == "not installed"


@pytest.mark.parametrize("family", all_families(), ids=lambda each: each.name)
def test_every_fact_of_every_family_has_a_reader(family: object, tmp_path: Path) -> None:
    assert isinstance(family, type(TRITON))
    tiers = read_tiers(family, Machine(tmp_path).reader(), tmp_path)
    reasons = {**tiers.hard.unknown, **tiers.path.unknown, **tiers.soft.unknown}

    assert "no fact has this name" not in reasons.values()
    assert all(is_fact_name(name) for name in (*family.hard, *family.path, *family.soft))


def test_branch_and_step_choose_among_candidates(tmp_path: Path) -> None:
    reader = Machine(tmp_path).reader(BUILDKITE_BRANCH="main")

    soft = read_tiers(TRITON, reader, tmp_path).soft

    assert soft.facts["job.branch"] == "main"
    assert soft.unknown["job.step"] == "BUILDKITE_STEP_KEY is not set"


def test_without_a_gpu_the_directory_of_inductor_is_that_of_the_cpu_family_alone(
    tmp_path: Path,
) -> None:
    reader = Machine(tmp_path).reader()

    assert "the job sees none" in read_tiers(INDUCTOR, reader, tmp_path).hard.unknown["gpu.names"]
    assert read_tiers(INDUCTOR_CPU, reader, tmp_path).hard.unknown == {}


def test_a_variable_that_may_be_a_secret_is_a_fact_by_its_digest(tmp_path: Path) -> None:
    family = own_family("mine", OwnFamily(environment=("MODE", "HUB_TOKEN", "ABSENT")))
    reader = Machine(tmp_path).reader(MODE="fast", HUB_TOKEN="hunter2")

    facts = read_tiers(family, reader, tmp_path).hard.facts

    assert facts["env.MODE"] == "fast"
    assert facts["env.HUB_TOKEN"].startswith("sha256 ")
    assert "hunter2" not in str(facts)
    assert "env.ABSENT" not in facts


def test_a_lock_file_decides_or_only_chooses_if_there_is_a_fallback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    machine = Machine(tmp_path)

    def tiers(*, fallback: bool) -> Tiers:
        settings = OwnFamily(hard=("os.architecture",), files=("x.lock",), fallback=fallback)
        return read_tiers(own_family("mine", settings), machine.reader(), tmp_path)

    (tmp_path / "x.lock").write_text("a==1")
    strict, loose = tiers(fallback=False), tiers(fallback=True)
    (tmp_path / "x.lock").write_text("a==2")

    family = own_family("mine")
    refused = usable(family, strict, tiers(fallback=False))
    chosen = usable(family, loose, tiers(fallback=True))
    (tmp_path / "x.lock").unlink()
    gone = tiers(fallback=False)

    assert isinstance(refused, RefusedCache)
    assert [each.fact for each in refused.differences] == ["file.x.lock"]
    assert isinstance(chosen, Usable)
    assert [each.fact for each in chosen.soft] == ["file.x.lock"]
    assert "cannot be read" in gone.hard.unknown["file.x.lock"]
