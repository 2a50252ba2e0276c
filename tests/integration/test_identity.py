# SPDX-License-Identifier: Apache-2.0
"""Identities of real interpreters and real servers."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from ci_doctor.identity.loaded import build_id, loaded
from ci_doctor.machine.interpreters import UnknownInterpreterError, interpreter_of
from ci_doctor.system import clock

pytestmark = pytest.mark.integration
PROGRAM = "import numpy, os; numpy.ones((9, 9)) @ numpy.ones((9, 9)); os.environ['OMP_NUM_THREADS'] = '9'; print(flush=True); input()"


@contextmanager
def running(program: str, *prefix: str, **env: str) -> Iterator[int]:
    with subprocess.Popen(
        [*prefix, sys.executable, "-c", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, **env},
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process.pid
        process.communicate(b"\n")


def test_the_blas_of_a_real_python_is_told_with_the_wheel_that_it_lies_in() -> None:
    with running(PROGRAM, PYTHONHASHSEED="0", OMP_NUM_THREADS="2") as pid:
        found = loaded([pid])

    blas = {name: value for name, value in found.items() if "openblas" in name}
    assert [value.partition(",")[0] for value in blas.values()] == [f"numpy {np.__version__}"]
    assert (found["env.PYTHONHASHSEED"], found["env.OMP_NUM_THREADS"]) == ("0", "2")


def test_processes_that_differ_are_both_told() -> None:
    with running(PROGRAM, PYTHONHASHSEED="0") as one, running(PROGRAM, PYTHONHASHSEED="1") as two:
        found = loaded([one, two])

    assert found["env.PYTHONHASHSEED"] == "0 and 1"


def test_a_process_that_has_gone_is_left_out() -> None:
    process = subprocess.Popen(["true"])
    process.wait()

    assert dict(loaded([process.pid, 2**22 + 1])) == {}


@pytest.mark.skipif(
    os.geteuid() != 0, reason="needs a process of another user, and root may read all"
)
def test_a_process_that_may_not_be_read_is_unknown(tmp_path: Path) -> None:
    (tmp_path / "7").mkdir()
    (tmp_path / "7/maps").mkdir()  # reading a directory fails as root too

    assert loaded([7], tmp_path)["loaded"].startswith("unknown: ")


def test_versions_are_read_from_the_names_of_nvidias_files(tmp_path: Path) -> None:
    (tmp_path / "7").mkdir()
    (tmp_path / "7/environ").write_bytes(b"")
    lines = [
        f"7f{number:010x}-7f{number + 1:010x} r-xp 00000000 08:01 {number} {path}"
        for number, path in enumerate(
            [
                "/usr/local/cuda/lib64/libcublas.so.12.4.5.8",
                "/usr/lib/libcuda.so.550.54.15 (deleted)",
                "/opt/my path/libcudnn_ops.so.9.1.0",
                "/home/u/.cache/flashinfer/0.3/90a/cached_ops/batch_decode/batch_decode.so",
                "/home/u/.triton/cache/ABCD/__triton_launcher.so",
                "/usr/lib/libgomp.so.1.0.0",
                "/usr/lib/libother.so.1",
                "[heap]",
            ]
        )
    ]
    (tmp_path / "7/maps").write_text("\n".join(lines) + "\n")

    found = loaded([7], tmp_path)

    assert found["libcublas.so.12"] == "12.4.5.8"
    assert found["libcuda.so.550"] == "550.54.15"
    assert found["libcudnn_ops.so.9"] == "9.1.0"
    assert found["libgomp.so.1"].startswith("unknown: ")
    assert found["flashinfer kernels"].startswith("1 compiled here")
    assert found["triton kernels"].startswith("1 compiled here")
    assert len(found) == 6


def test_a_thousand_mappings_are_read_in_fifty_milliseconds() -> None:
    program = PROGRAM.replace(
        "print(",
        "import mmap; kept = [mmap.mmap(-1, 8192, prot=1 + i % 2 * 2) for i in range(1500)]; print(",
    )
    with running(program) as pid:
        assert len(Path(f"/proc/{pid}/maps").read_text().splitlines()) > 1000
        best = 9.0
        for _ in range(5):
            began = clock.now()
            loaded([pid])
            best = min(best, clock.now() - began)

    assert best < 0.05


def test_the_build_id_is_the_one_that_file_tells() -> None:
    told = subprocess.run(
        ["readelf", "-n", "/usr/bin/python3"], capture_output=True, text=True, check=False
    ).stdout
    if "Build ID: " not in told:
        pytest.skip("there is no readelf here, or no build id to read")

    assert build_id(Path("/usr/bin/python3")) == told.partition("Build ID: ")[2].split()[0]


def test_a_file_that_is_no_library_has_no_build_id(tmp_path: Path) -> None:
    for content in (b"", b"\x7fELF\x02\x01", b"\x7fELF\x02\x01" + b"\xff" * 100, b"text" * 100):
        (tmp_path / "x.so").write_bytes(content)
        assert build_id(tmp_path / "x.so") is None


def own_directories(python: str, *options: str) -> set[Path]:
    """The site directories of an interpreter, as it says itself."""
    program = "import sys; print('\\n'.join(p for p in sys.path if p.endswith('-packages')))"
    ran = subprocess.run(
        [python, *options, "-c", program], capture_output=True, text=True, check=True
    )
    return {Path(line).resolve() for line in ran.stdout.splitlines()}


@pytest.mark.parametrize("options", [[], ["--system-site-packages"]])
@pytest.mark.parametrize("base", ["/usr/bin/python3", sys.executable])
def test_directories_are_those_that_the_interpreter_itself_searches(
    tmp_path: Path, base: str, options: list[str]
) -> None:
    if not Path(base).exists():
        pytest.skip("no such Python here")
    subprocess.run(
        [base, "-m", "venv", "--without-pip", *options, str(tmp_path / "v")],
        check=True,
        timeout=120,
    )
    python = str(tmp_path / "v/bin/python")

    for word in (python, base):
        found = interpreter_of([word], {**os.environ}, tmp_path)
        assert {each.resolve() for each in found.directories} == own_directories(word), word


def test_the_python_of_a_script_is_that_of_its_first_line(tmp_path: Path) -> None:
    python = sys.executable
    scripts = {
        "direct": f"#!{python} -u\n",
        "by-env": "#!/usr/bin/env -S python -u\n",
        "pip": f"#!/bin/sh\n'''exec' \"{python}\" \"$0\" \"$@\"\n' '''\nimport sys\n",
    }
    environ = {"PATH": f"{tmp_path}:{Path(python).parent}"}
    for name, text in scripts.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
        assert interpreter_of([name, "serve"], environ, tmp_path).python == Path(python), name
    environ["PATH"] += ":/usr/bin:/bin"
    wrapped = interpreter_of(["env", "A=1", "taskset", "-c", "0", "direct"], environ, tmp_path)
    assert wrapped.python == Path(python)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ([], "no command"),
        (["nothing-like-it"], "not on PATH"),
        (["bash", "-c", "x"], "no Python"),
        (["script"], "is run by"),
    ],
)
def test_what_is_no_python_is_said_to_be_none(tmp_path: Path, words: list[str], why: str) -> None:
    (tmp_path / "script").write_text("#!/bin/bash\n")
    (tmp_path / "script").chmod(0o755)

    with pytest.raises(UnknownInterpreterError, match=why):
        interpreter_of(words, {"PATH": f"{tmp_path}:/usr/bin:/bin"}, tmp_path)
