# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

from ci_doctor.checks.machine.directories import DirectoryRole, JobDirectory, job_directories

CWD = Path("/work/job")


def by_name(environ: dict[str, str], *caches: str) -> dict[str, JobDirectory]:
    return {each.name: each for each in job_directories(environ, CWD, caches)}


def test_without_variables_the_usual_places_count() -> None:
    directories = by_name({"HOME": "/home/ci"})

    assert directories["/tmp"].role is DirectoryRole.TEMPORARY
    assert directories["the working directory"].path == CWD
    assert directories["~/.cache/vllm"].path == Path("/home/ci/.cache/vllm")
    assert directories["~/.triton/cache"].role is DirectoryRole.JIT_CACHE


def test_a_variable_takes_the_place_of_the_usual_directory() -> None:
    environ = {"HOME": "/home/ci", "VLLM_CACHE_ROOT": "/fast/vllm", "XDG_CACHE_HOME": "/x"}
    directories = by_name(environ)

    assert directories["VLLM_CACHE_ROOT"].path == Path("/fast/vllm")
    assert "~/.cache/vllm" not in directories
    assert directories["/x/pip"].path == Path("/x/pip")


def test_a_relative_path_counts_from_the_working_directory_and_a_tilde_from_home() -> None:
    environ = {"HOME": "/home/ci", "TMPDIR": "tmp", "HF_HOME": "~/models"}
    directories = by_name(environ, "own")

    assert directories["TMPDIR"].path == CWD / "tmp"
    assert directories["HF_HOME"].path == Path("/home/ci/models")
    assert directories["own"] == JobDirectory(
        path=CWD / "own", name="own", role=DirectoryRole.CONFIGURED
    )


def test_one_directory_of_two_names_is_looked_at_once() -> None:
    directories = by_name({"TMPDIR": "/tmp"})

    assert directories["TMPDIR"].path == Path("/tmp")
    assert "/tmp" not in directories


def test_without_a_home_there_are_no_usual_caches() -> None:
    names = set(by_name({}))

    assert names == {"/tmp", "/var/tmp", "the working directory", "/var/lib/docker"}


def test_the_report_directory_counts() -> None:
    assert (
        by_name({"CI_DOCTOR_REPORT_DIR": "out"})["CI_DOCTOR_REPORT_DIR"].role
        is DirectoryRole.REPORT
    )


def test_with_a_tmpdir_the_usual_ones_matter_less() -> None:
    directories = by_name({"TMPDIR": "/scratch"})

    assert directories["TMPDIR"].role is DirectoryRole.TEMPORARY
    assert directories["/tmp"].role is DirectoryRole.OTHER_TEMPORARY
    assert by_name({})["/tmp"].role is DirectoryRole.TEMPORARY
