# SPDX-License-Identifier: Apache-2.0
"""The plugin's option `install`: real virtual environments, and wheels of a tiny distribution in a directory.

The distribution has our name, and a `ci-doctor` that prints what the hooks need. No test has a network. The test of the
whole uses the real pip, the others one that unpacks a wheel.
"""

import ctypes
import ensurepip
import hashlib
import os
import shlex
import shutil
import signal
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.support.bootstrap import Job
from tests.support.git_repository import git, make_repository
from tests.support.plugin_workplace import Workplace, phases
from tests.support.wheels import SITE, build_wheel

pytestmark = pytest.mark.integration

PR_SET_CHILD_SUBREAPER, PR_GET_CHILD_SUBREAPER = 36, 37  # linux/prctl.h
TOOLS = ("env", "uname", "sha256sum", "mv", "rm", "ln", "mkdir", "flock", "find")
PROGRAM = """
import os, sys
VERSION = {version!r}
def main():
    words = sys.argv[1:]
    if words == ["--version"]:
        print("ci-doctor", VERSION)
    elif words == ["plugin", "pre-command"]:
        print("export NASTY=" + VERSION)
        print("export CI_DOCTOR_REPORT_DIR=reports")
    else:
        print("RAN", VERSION, *words, file=sys.stderr)
"""


# A `pip install` of one wheel from PIP_FIND_LINKS in a twentieth of pip's time, for the tests that are not about pip.
QUICK_PIP = """
import glob, os, pathlib, subprocess, sys, sysconfig, zipfile
wanted = sys.argv[-1]
if wanted.startswith("git+"):
    address, _, commit = wanted.removeprefix("git+").rpartition("@")
    subprocess.check_call(["git", "clone", "--quiet", address, "clone"])
    subprocess.check_call(["git", "-C", "clone", "checkout", "--quiet", commit])
    (wanted,) = glob.glob("clone/*.whl")
name = wanted.replace("-", "_").replace("==", "-")
found = [wanted] if wanted.endswith(".whl") else glob.glob(f"{os.environ['PIP_FIND_LINKS']}/{name}-*.whl")
if not found:
    sys.exit(f"ERROR: No matching distribution found for {wanted}")
zipfile.ZipFile(found[0]).extractall(sysconfig.get_path("purelib"))
program = pathlib.Path(sys.prefix, "bin", "ci-doctor")
program.write_text(f"#!/bin/sh\\nexec '{sys.executable}' -c 'import stand_in_doctor as d; d.main()' \\"$@\\"\\n")
program.chmod(0o755)
"""


def wheel(directory: Path, version: str, *, says: str | None = None) -> Path:
    """A wheel of our distribution whose `ci-doctor` says that it is `says`."""
    info = f"ci_doctor_toolkit-{version}.dist-info"
    files = {
        "stand_in_doctor.py": PROGRAM.format(version=says or version),
        f"{info}/entry_points.txt": "[console_scripts]\nci-doctor = stand_in_doctor:main\n",
    }
    return build_wheel(directory, "ci_doctor_toolkit", version, files)


class Agent(Workplace):
    """An agent's machine without a ci-doctor: a cache directory, and wheels in place of an index."""

    def __init__(self, folder: Path, pip: Path) -> None:
        super().__init__(folder)
        self.pip = pip
        for tool in TOOLS:
            if not (self.bin / tool).exists():
                self.link(tool)
        # As in a step without a virtual environment of its own.
        (self.bin / "python3").unlink()
        self.python3()
        self.wheels = folder / "wheels"
        self.cache = folder / "cache dir"
        self.wheel = wheel(self.wheels, "1.2.3")

    def python3(self, then: str = "exit") -> None:
        """A `python3` whose `-m venv` takes pip from elsewhere, which unpacks it in seconds, and goes on with `then`."""
        (self.bin / "python3").write_text(
            "#!/bin/sh\n"
            'case "$*" in *"-m venv"*)\n'
            f'  {base_python()} "$@" --without-pip || exit\n'
            f'  for venv; do :; done; echo {self.pip} > "$venv/{SITE}/pip.pth"; {then};;\n'
            "esac\n"
            f'exec {base_python()} "$@"\n'
        )
        (self.bin / "python3").chmod(0o755)

    def uv(self) -> None:
        """A `uv` with the three commands that the plugin uses, as its reference has them, by Python's own tools."""
        (self.bin / "uv").write_text(
            "#!/bin/sh\n"
            "set -eu\n"
            'case "$*" in\n'
            '"venv --quiet --no-project --clear --python >=3.11 "*)\n'
            '  shift 6; exec python3 -I -m venv --clear "$1";;\n'
            '"run --quiet --no-project --python >=3.11 python "*)\n'
            '  shift 6; exec python3 "$@";;\n'
            '"pip install --quiet --python "*)\n'
            '  shift 4; exec "$1" -I -m pip install --quiet --disable-pip-version-check "$2";;\n'
            "*) exit 2;;\n"
            "esac\n"
        )
        (self.bin / "uv").chmod(0o755)

    def install(
        self,
        requirement: str = "ci-doctor-toolkit==1.2.3",
        command: str = "ci-doctor --version",
        **environ: str,
    ) -> Job:
        settings = {
            "CI_DOCTOR_CACHE_DIR": str(self.cache),
            "PIP_NO_INDEX": "1",
            "PIP_FIND_LINKS": str(self.wheels),
            "PIP_NO_CACHE_DIR": "1",
            "PIP_CONFIG_FILE": os.devnull,
            **environ,
        }
        return self.job(command, {"install": requirement}, **settings)

    def pinned_wheel(self) -> str:
        return f"{self.wheel}#sha256={hashlib.sha256(self.wheel.read_bytes()).hexdigest()}"

    def venvs(self) -> list[Path]:
        return sorted(self.cache.glob("*/venv.*"))


def base_python() -> str:
    name = f"python{sys.version_info.major}.{sys.version_info.minor}"
    return str(Path(sys.base_prefix, "bin", name))


@pytest.fixture
def agent(tmp_path: Path) -> Agent:
    """An agent with a stand-in for pip."""
    pip = tmp_path / "pip"
    (pip / "pip").mkdir(parents=True)
    (pip / "pip" / "__main__.py").write_text(QUICK_PIP)
    return Agent(tmp_path, pip)


@pytest.fixture
def agent_with_pip(agent: Agent) -> Agent:
    """The same with the pip that ensurepip brings."""
    shutil.rmtree(agent.pip)
    # Debian keeps it apart.
    places = (Path(ensurepip.__file__).parent / "_bundled", Path("/usr/share/python-wheels"))
    bundled = next(wheel for place in places for wheel in place.glob("pip-*.whl"))
    with zipfile.ZipFile(bundled) as archive:
        archive.extractall(agent.pip)
    return agent


def test_a_pinned_requirement_is_installed_once_and_serves_hooks_and_command(
    agent_with_pip: Agent,
) -> None:
    agent = agent_with_pip
    first = agent.install(command="ci-doctor --version; exit 4")
    assert first.run() == 4, first.log
    assert "ci-doctor: installing ci-doctor-toolkit==1.2.3" in first.log
    assert "ci-doctor 1.2.3\n" in first.log
    assert "RAN 1.2.3 plugin post-command" in first.log
    assert "RAN 1.2.3 plugin pre-exit" in first.log

    # The second job needs no index, and no interpreter but the venv's; PATH gets the command alone.
    second = agent.install(
        command="ci-doctor --version; type -P pip || echo no-pip", PIP_FIND_LINKS="/gone"
    )
    assert second.run() == 0, second.log
    assert "installing" not in second.log
    assert "no-pip" in second.log
    assert len(agent.venvs()) == 1

    # A part of it is lost, as by a cleaner of old files: it is made anew.
    (lost,) = agent.cache.glob("*/venv.*/lib/python*/site-packages/stand_in_doctor.py")
    lost.unlink()
    third = agent.install()
    assert third.run() == 0, third.log
    assert "installing" in third.log
    assert "ci-doctor 1.2.3\n" in third.log


@pytest.mark.parametrize("has_uv", [False, True])
@pytest.mark.nightly
def test_a_wheel_is_taken_only_with_its_digest(has_uv: bool, agent: Agent) -> None:
    if has_uv:
        agent.uv()
    wrong = agent.install(f"{agent.wheel}#sha256={'0' * 64}")
    assert wrong.run() == 2, wrong.log
    assert phases(wrong) == ["pre-command", "pre-exit"]
    assert "has the sha256" in wrong.log
    # Refused before a virtual environment was made, and nothing is left of the wheel.
    assert not list(agent.cache.glob("*/*.*"))
    assert not list(agent.cache.glob("*/current"))

    right = agent.install(agent.pinned_wheel(), BUILDKITE_BUILD_PATH=f"{agent.folder}/builds/")
    # Without a home and a setting, the cache lies beside the builds.
    del right.environment["CI_DOCTOR_CACHE_DIR"]
    assert right.run() == 0, right.log
    assert "ci-doctor 1.2.3\n" in right.log

    # The same wheel by a URL is the same installation, and the option names the place first of all.
    by_url = agent.install(f"file://{agent.pinned_wheel()}")
    assert isinstance(by_url.configuration, dict)
    by_url.configuration |= {"install-dir": str(agent.folder / "builds-ci-doctor")}
    assert by_url.run() == 0, by_url.log
    assert "installing" not in by_url.log


def test_a_commit_of_a_repository_is_installed_whatever_its_version(agent: Agent) -> None:
    repository = make_repository(agent.folder / "a repository.git", {"README.md": "x\n"})
    shutil.copy(agent.wheel, repository)
    git(repository, "add", ".")
    git(repository, "commit", "--quiet", "--message", "a wheel")
    commit = git(repository, "rev-parse", "HEAD").strip()
    agent.link("git")
    job = agent.install(f"git+{repository.as_uri()}@{commit}")
    assert job.run() == 0, job.log
    assert "ci-doctor 1.2.3\n" in job.log
    assert f"ci-doctor-toolkit-g{commit[:12]}-" in job.log


@pytest.mark.parametrize(
    "requirement",
    [
        "git+https://h/ci-doctor.git",
        "git+https://h/ci-doctor.git@main",
        f"git+ftp://h/ci-doctor.git@{'0' * 40}",
        f"git+https://h/ci-doctor.git@{'0' * 40} --index-url=http://x",
        "ci-doctor-toolkit",
        "ci-doctor-toolkit>=1.2.3",
        "ci-doctor-toolkit==1.*",
        "ci-doctor-toolkit==1.2.3,<2",
        "ci-doctor-toolkit==1.2.3 --index-url=http://x",
        "ci-doctor-kit==1.2.3",
        "ci-doctor-toolkit @ https://h/ci_doctor_toolkit-1.2.3-py3-none-any.whl",
        "https://h/ci_doctor_toolkit-1.2.3-py3-none-any.whl",
        "https://h/ci_doctor_toolkit-1.2.3-py3-none-any.whl#sha256=abc",
        f"https://h/other-1.2.3-py3-none-any.whl#sha256={'0' * 64}",
        f"ftp://h/ci_doctor_toolkit-1.2.3-py3-none-any.whl#sha256={'0' * 64}",
        "$(touch pwned)",
        "ci-doctor-toolkit==1.2.3\ntouch pwned",
    ],
)
def test_what_is_not_pinned_fails_the_job_before_anything_is_made(
    requirement: str, agent: Agent
) -> None:
    job = agent.install(requirement)

    assert job.run() == 2, job.log
    assert phases(job) == ["pre-command", "pre-exit"]
    assert "ci-doctor: option `install`" in job.log
    assert not agent.cache.exists()
    assert not (agent.checkout / "pwned").exists()


@pytest.mark.parametrize("tools", ["flock and pip", "neither flock nor pip"])
@pytest.mark.nightly
def test_parallel_jobs_install_once(tools: str, agent: Agent) -> None:
    if tools != "flock and pip":
        (agent.bin / "flock").unlink()
        agent.uv()
    jobs = []
    for number in range(3):
        job = agent.install()
        job.temporary = agent.folder / f"temporary-{number}"
        job.temporary.mkdir()
        jobs.append(job)

    with ThreadPoolExecutor() as pool:
        assert list(pool.map(Job.run, jobs)) == [0, 0, 0], [job.log for job in jobs]

    assert sum("ci-doctor: installing" in job.log for job in jobs) == 1
    assert len(agent.venvs()) == 1


@pytest.fixture
def zombies() -> Iterator[None]:
    """Orphans become ours, and nobody waits for them: as in a container whose first process is no init."""
    libc = ctypes.CDLL(None, use_errno=True)
    former = ctypes.c_int()
    assert libc.prctl(PR_GET_CHILD_SUBREAPER, ctypes.byref(former), 0, 0, 0) == 0
    assert libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0
    yield
    assert libc.prctl(PR_SET_CHILD_SUBREAPER, former.value, 0, 0, 0) == 0


@pytest.mark.parametrize("lock", ["flock", "directory"])
@pytest.mark.nightly
def test_an_installer_that_was_killed_leaves_nothing_that_counts(
    lock: str, agent: Agent, zombies: None
) -> None:
    if lock == "directory":
        (agent.bin / "flock").unlink()
    # The installer stops in the middle, and says that it is there through a pipe that this test reads.
    here = agent.folder / "here"
    os.mkfifo(here)
    agent.python3(then=f"echo $$ > {shlex.quote(str(here))}; exec {shutil.which('sleep')} 600")
    job = agent.install()
    hook = subprocess.Popen(
        [
            str(shutil.which("bash")),
            "-c",
            f". {shlex.quote(str(agent.plugin / 'hooks' / 'pre-command'))}",
        ],
        env=job.environment | {"BUILDKITE_PLUGIN_CI_DOCTOR_INSTALL": "ci-doctor-toolkit==1.2.3"},
        cwd=agent.checkout,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    sleeper = int(here.read_text())
    for pid in below(hook.pid):
        os.kill(pid, signal.SIGKILL)
    hook.wait()
    assert sleeper not in below(hook.pid)
    assert len(agent.venvs()) == 1  # a half of one

    agent.python3()
    again = agent.install()
    assert again.run() == 0, again.log
    assert "ci-doctor 1.2.3\n" in again.log
    assert len(agent.venvs()) == 1


def below(pid: int) -> list[int]:
    """A process and all below it, as they are now."""
    found = [pid]
    for one in found:
        for children in Path("/proc", str(one)).glob("task/*/children"):
            found += [int(word) for word in children.read_text().split()]
    return found


@pytest.mark.nightly
def test_what_cannot_be_installed_fails_the_job_as_infrastructure(agent: Agent) -> None:
    job = agent.install("ci-doctor-toolkit==9.9")

    assert job.run() == 75, job.log
    assert phases(job) == ["pre-command", "pre-exit"]
    assert "could not be installed" in job.log
    assert not list(agent.cache.glob("*/current"))


@pytest.mark.nightly
def test_a_wheel_that_installs_another_version_does_not_count(agent: Agent) -> None:
    agent.wheel = wheel(agent.wheels, "1.2.4", says="1.0")
    job = agent.install(agent.pinned_wheel())

    assert job.run() == 75, job.log
    assert "does not start, or is not version 1.2.4" in job.log


@pytest.mark.nightly
def test_a_wheel_that_holds_another_version_than_its_name_says_is_refused(agent: Agent) -> None:
    agent.wheel = wheel(agent.folder / "renamed", "9.9.9").rename(agent.wheel)
    job = agent.install(agent.pinned_wheel())

    assert job.run() == 2, job.log
    assert "ci-doctor-toolkit 9.9.9 is installed, not 1.2.3" in job.log
    assert "could not be installed" not in job.log


@pytest.mark.nightly
def test_a_cache_that_cannot_be_written_is_named(agent: Agent) -> None:
    agent.cache.touch()  # root may write to any directory, and not below a file
    job = agent.install()

    assert job.run() == 2, job.log
    assert (
        "cannot be written: name another directory by the plugin's option `install-dir`" in job.log
    )


@pytest.mark.nightly
def test_an_executable_wins_over_install(agent: Agent) -> None:
    other = agent.stand_in(at=agent.folder / "other")
    job = agent.install()
    job.configuration = {"install": "ci-doctor-toolkit==1.2.3", "executable": str(other)}

    job.command = "true"
    assert job.run() == 0, job.log
    assert not agent.cache.exists()
