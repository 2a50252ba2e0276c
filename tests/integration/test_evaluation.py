# SPDX-License-Identifier: Apache-2.0
"""The documented form in which a shell evaluates the exports, in real shells, whatever becomes of ci-doctor."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from ci_doctor.model.words import EVALUATION, FISH_EVALUATION
from tests.support.cli import ROOT, environment

pytestmark = pytest.mark.integration
WENT_ON = "went on"
SHELLS = ("bash", "dash", "zsh", "sh")
FISH = "fish"
# How a shell is started; `{}` is the file with the form.
WAYS = {"-c": ("-c", ". {}"), "-e": ("-ec", ". {}"), "interactive": ("-i",)}
_OURS = (
    "line = 'export {}={}' if len(sys.argv) < 3 else 'set -gx {} {};'\n"
    "print(line.format('A', 1), line.format('CI_DOCTOR_PREPARED', 1), sep='\\n')"
)


class Death(NamedTuple):
    """What stands on PATH as `ci-doctor` (None: nothing), and the variables it is started with."""

    text: str | None
    variables: Mapping[str, str] = {}
    mode: int = 0o755


def deaths(folder: Path) -> dict[str, Death]:
    """Ways in which a command ends before our code; `folder` takes the modules that some need."""
    ours = f"#!{sys.executable}\nimport sys\n{_OURS}\n"
    killed = _module(folder / "killed", "import os; os.kill(os.getpid(), 9)")
    return {
        "PYTHONHASHSEED=abc": Death(ours, {"PYTHONHASHSEED": "abc"}),
        "PYTHONUTF8=2": Death(ours, {"PYTHONUTF8": "2"}),
        "PYTHONHOME is wrong": Death(ours, {"PYTHONHOME": "/nonexistent"}),
        "PYTHONIOENCODING is wrong": Death(ours, {"PYTHONIOENCODING": "nonsense"}),
        "a sitecustomize exits with 0": Death(
            ours, {"PYTHONPATH": _module(folder / "exits", "import os; os._exit(0)")}
        ),
        "a sitecustomize is killed": Death(ours, {"PYTHONPATH": killed}),
        "the address space is limited": Death(
            f"#!/bin/sh\nulimit -v 20000\nexec {sys.executable}\n"
        ),
        "not on PATH": Death(None),
        "its interpreter is gone": Death("#!/nonexistent/python\n"),
        "not executable": Death(ours, mode=0o644),
        "killed": Death("#!/bin/sh\nkill -KILL $$\n"),
        "killed half-way": Death('#!/bin/sh\necho "export A=\'1"\nkill -KILL $$\n'),
        # As by a kernel that is out of memory: the substitution is a process of its own.
        "killed with its subshell": Death(
            '#!/bin/sh\n[ "$PPID" = "$MAIN" ] || kill -KILL $PPID\nkill -KILL $$\n'
        ),
        "prints nothing and ends with 0": Death("#!/bin/sh\n"),
        # As another program of this name may do.
        "prints a comment and ends with 0": Death("#!/bin/sh\necho '# report'\n"),
        # As a wrapper does that pipes it into `tee`.
        "prints half and ends with 0": Death("#!/bin/sh\necho 'export A=1'\n"),
        "an error of ours": Death("#!/bin/sh\necho '(exit 2)'\nexit 2\n"),
    }


def _elsewhere() -> str:
    """The directories of PATH without a ci-doctor of their own: one would stand in for the dead one."""
    directories = os.environ["PATH"].split(os.pathsep)
    return os.pathsep.join(each for each in directories if not Path(each, "ci-doctor").exists())


def success() -> Death:
    """A `ci-doctor` that prints an export."""
    return Death(f"#!{sys.executable}\nimport sys\n{_OURS}\n")


def goes_on(shell: str, way: str, form: str, death: Death, folder: Path) -> bool:
    """Whether `shell` comes to the line behind `form`."""
    tools = folder / "tools"
    shutil.rmtree(tools, ignore_errors=True)
    tools.mkdir()
    if death.text is not None:
        (tools / "ci-doctor").write_text(death.text)
        (tools / "ci-doctor").chmod(death.mode)
    file = folder / "script"
    pid = "$fish_pid" if shell == FISH else "$$"
    export = "set -gx MAIN " if shell == FISH else "export MAIN="
    file.write_text(f"{export}{pid}\n{form}\necho {WENT_ON}\n")
    options, *programs = WAYS[way]
    quiet = {"zsh": ["-f"], "bash": ["--norc"], FISH: ["--no-config"]}.get(shell, [])
    text = f". {file}\n"
    ended = subprocess.run(
        [shell, *quiet, options, *(program.format(file) for program in programs)],
        input=None if programs else text,
        stdin=subprocess.DEVNULL if programs else None,
        env={"PATH": f"{tools}:{_elsewhere()}", "HOME": str(folder), **death.variables},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        start_new_session=True,
    )
    return WENT_ON in ended.stdout


def cases(fish: bool = False) -> Iterator[tuple[str, str]]:
    """Each shell of this machine and each way to start it; fish has no `set -e`."""
    for shell in (FISH,) if fish else SHELLS:
        for way in WAYS if shutil.which(shell) else ():
            if not (fish and way == "-e"):
                yield shell, way


def _module(folder: Path, text: str) -> str:
    folder.mkdir(exist_ok=True)
    (folder / "sitecustomize.py").write_text(text + "\n")
    return str(folder)


FORMS = [
    *(pytest.param(shell, way, EVALUATION, id=f"{shell} {way}") for shell, way in cases()),
    *(pytest.param(*case, FISH_EVALUATION, id=" ".join(case)) for case in cases(fish=True)),
]


@pytest.mark.parametrize(("shell", "way", "form"), FORMS)
@pytest.mark.gate(4)
def test_a_shell_goes_on_with_the_exports_alone(
    shell: str, way: str, form: str, tmp_path: Path
) -> None:
    went_on = [
        name
        for name, death in deaths(tmp_path).items()
        if goes_on(shell, way, form, death, tmp_path)
    ]

    assert went_on == []
    assert goes_on(shell, way, f'{form}\n[ "$A" = 1 ] || exit', success(), tmp_path)


@pytest.mark.parametrize("shell", ["bash", "dash", "zsh", FISH])
@pytest.mark.parametrize("profile", ["default", "off"])
def test_the_real_exports_reach_the_shell(shell: str, profile: str, tmp_path: Path) -> None:
    text = with_profile(shell, profile) + '\necho "$CI_DOCTOR_PREPARED"'
    ended = in_shell(shell, text, tmp_path)

    # With nothing to export there is still something to evaluate.
    assert re.fullmatch(r"-:[0-9a-f]{12}\n", ended.stdout), ended


def test_a_job_without_a_python_project_gets_something_to_evaluate(tmp_path: Path) -> None:
    text = with_profile("sh", "off") + '\necho "$CI_DOCTOR_PREPARED"'
    ended = in_shell("sh", text, tmp_path, is_project=False)

    assert re.fullmatch(r"-:[0-9a-f]{12}\n", ended.stdout), ended


@pytest.mark.parametrize("shell", ["bash", "dash", "zsh", FISH])
@pytest.mark.gate(2)
def test_the_shell_ends_with_the_code_of_an_error(shell: str, tmp_path: Path) -> None:
    ended = in_shell(shell, with_profile(shell, "nonsense") + "\necho went on", tmp_path)

    assert ended.stdout == "", ended
    assert ended.returncode == 2, ended


def test_a_fish_that_evaluates_an_error_by_other_forms_fails_too(tmp_path: Path) -> None:
    text = (
        "ci-doctor setup-env --determinism nonsense --format fish | source; or echo failed $status"
    )
    assert in_shell(FISH, text, tmp_path).stdout == "failed 2\n"


@pytest.mark.parametrize("shell", ["bash", "dash", "zsh", FISH])
@pytest.mark.parametrize("noise", ["hooks loaded", "# hooks loaded", "C:\\"])
@pytest.mark.gate(4)
def test_no_export_is_lost_to_what_python_prints_before_ours(
    shell: str, noise: str, tmp_path: Path
) -> None:
    """As a sitecustomize does; its text may not even end in a newline."""
    (tmp_path / "sitecustomize.py").write_text(f"print({noise!r}, end='')\n")
    text = with_profile(shell, "default") + '\necho "$CUBLAS_WORKSPACE_CONFIG"'
    ended = in_shell(shell, text, tmp_path, is_project=False, PYTHONPATH=str(tmp_path))

    # In fish `set` keeps the status of what failed before it.
    if shell == FISH and not noise.startswith("#"):
        assert (ended.stdout, ended.returncode) == ("", 127), ended
    else:
        assert ended.stdout == ":4096:8\n", ended


def with_profile(shell: str, profile: str) -> str:
    form = FISH_EVALUATION if shell == FISH else EVALUATION
    return form.replace("setup-env", f"setup-env --determinism {profile}")


def in_shell(
    shell: str, text: str, folder: Path, *, is_project: bool = True, **variables: str
) -> "subprocess.CompletedProcess[str]":
    """How `shell` ends with `text` where ci-doctor is on PATH; without such a shell the test is skipped."""
    if shutil.which(shell) is None:
        pytest.skip(f"no {shell}")
    if is_project:
        (folder / "pyproject.toml").write_text('[project]\nname = "pkg"\nversion = "1.0"\n')
    command = folder / "bin" / "ci-doctor"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m ci_doctor "$@"\n')
    command.chmod(0o755)
    path = f"{command.parent}:/usr/bin:/bin"
    return subprocess.run(
        [shell, "-c", text],
        cwd=folder,
        env=environment({"PATH": path, **variables}),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


@pytest.mark.parametrize(
    "path",
    ["README.md", "docs/setup-env.md", "buildkite_plugins/ci-doctor/README.md"],
)
def test_no_page_shows_a_form_that_goes_on(path: str) -> None:
    text = (ROOT / path).read_text()

    assert 'eval "$(ci-doctor' not in text
    # A page may break a line in two.
    assert text.count("ci-doctor setup-env)") == " ".join(text.split()).count(EVALUATION)


def test_the_form_that_was_documented_goes_on_after_every_early_death(tmp_path: Path) -> None:
    """So each of these deaths does prevent the exports: the other tests would prove nothing else."""
    old = 'eval "$(ci-doctor setup-env)"'
    stopped = [
        name
        for name, death in deaths(tmp_path).items()
        if not goes_on("sh", "-e", old, death, tmp_path)
    ]

    # A quote that is never closed, and the statement that only our own code prints.
    assert stopped == ["killed half-way", "an error of ours"]
