# SPDX-License-Identifier: Apache-2.0
"""Guards: no test sees the machine's home, git configuration, build or job, and none leaves a trace in os.environ.

And how many examples hypothesis draws: few by default, all with `--hypothesis-profile full`.
"""

import gc
import os
import signal
import sys
import venv
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest

from ci_doctor.environment.determinism_table import TABLE

pytest_plugins = ["tests.support.costs", "tests.support.gate"]

# `few` is for the loop of edit and test, and for tests/run.sh; tests/nightly.sh asks for `full`. A busy machine is no
# reason to fail in either.
_PATIENT = hypothesis.settings(
    deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.register_profile("full", _PATIENT, max_examples=100)
hypothesis.settings.register_profile("few", _PATIENT, max_examples=15)
hypothesis.settings.load_profile("few")

_FOREIGN = (
    "BUILDKITE",
    "CI_DOCTOR_",
    "SETUPTOOLS_SCM_",
    "VCS_VERSIONING_",
    "PDM_BUILD_",
    "GIT_",
    "GITHUB_",
    "GITLAB_",
)
_NAMES = {
    "VIRTUAL_ENV",
    "NO_COLOR",
    "FORCE_COLOR",
    "SOURCE_DATE_EPOCH",
    *(row.name for row in TABLE),
}
_GIT_CONFIGURATION = """
[user]
name = Test
email = test@example.org
[init]
defaultBranch = main
[safe]
directory = *
"""
# Programs with flaky tests, which their own tests run.
collect_ignore = ["support/flaky_corpus"]
_CHANGING = {"PYTEST_CURRENT_TEST"}


def pytest_sessionfinish() -> None:
    # On a busy machine the end of a worker takes longer than the ten seconds after which pytest-xdist kills it.
    measuring = sys.modules.get("measure_coverage")
    if measuring is not None:
        measuring.save_now()


def pytest_configure() -> None:
    """What tests start inherits ignored signals, and 12,000 tests are collected without a look for garbage among them.

    A shell ignores SIGINT and SIGQUIT in what it starts with `&`, and `nohup` ignores SIGHUP.
    """
    # As ci-doctor itself; with Python's 700, collecting takes each worker 2 to 5 s of CPU more.
    gc.set_threshold(20_000)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGQUIT, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)


def pytest_collection_finish() -> None:
    """What was collected stays to the end: no later look for garbage goes through it."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def _environment_of_no_machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A session's environment: an empty home, an identity for git, and nothing of a job."""
    home = tmp_path_factory.mktemp("home")
    configuration = home / "gitconfig"
    configuration.write_text(_GIT_CONFIGURATION)
    # Not above: what pytest loads before it knows the tests is loaded where none is run, too.
    from tests.support.cli import EMPTY_ENVIRONMENT

    empty = home / "empty"
    venv.create(empty, symlinks=True)
    # A pytest takes away, at its end, the directories of earlier ones with the same root. After a gate that takes minutes.
    directories = home / "pytest"
    directories.mkdir()
    EMPTY_ENVIRONMENT[:] = [str(empty)]
    with pytest.MonkeyPatch.context() as patch:
        for name in os.environ:
            if name.startswith(_FOREIGN) or name in _NAMES:
                patch.delenv(name)
        patch.setenv("HOME", str(home))
        patch.setenv("XDG_CONFIG_HOME", str(home / ".config"))
        patch.setenv("XDG_STATE_HOME", str(home / ".local" / "state"))
        patch.setenv("GIT_CONFIG_GLOBAL", str(configuration))
        patch.setenv("GIT_CONFIG_NOSYSTEM", "1")
        patch.setenv("PYTEST_DEBUG_TEMPROOT", str(directories))
        # A build takes a second; the tests of proofs ask for it.
        patch.setenv("CI_DOCTOR_SETUP_ENV_VERIFY", "never")
        yield


@pytest.fixture(autouse=True)
def _environment_is_left_as_it_was(_environment_of_no_machine: None) -> Iterator[None]:
    before = _stable()
    yield
    assert _stable() == before, "the test changed os.environ"


@pytest.fixture(autouse=True)
def _working_directory_is_left_as_it_was() -> Iterator[None]:
    before = Path.cwd()
    yield
    assert Path.cwd() == before, "the test changed the working directory"


def _stable() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name not in _CHANGING}
