# SPDX-License-Identifier: Apache-2.0
"""In how many cases a shell goes on although `ci-doctor setup-env` printed no exports, by the form that evaluates it.

    python benchmarks/eval_forms.py            prints a table: each form, in real shells, with and without `set -e`
    python benchmarks/eval_forms.py --record   also appends it to benchmarks/RESULTS.md

A case is a shell, a way to start it, and a way in which what is called `ci-doctor` ends before our code could print
anything, or prints half of it. tests/integration/test_evaluation.py holds the documented forms to none.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from ci_doctor.model.words import EVALUATION, FISH_EVALUATION

WENT_ON = "went on"
SHELLS = ("bash", "dash", "zsh", "sh")
FISH = "fish"
FORMS = {
    "documented first": 'eval "$(ci-doctor setup-env)"',
    "called safe then": 'exports=$(ci-doctor setup-env) && eval "$exports"',
    "two statements": 'exports=$(ci-doctor setup-env)\neval "$exports"',
    "with a statement that exits": 'eval "$(ci-doctor setup-env || echo exit 75)"',
    "with `:?`": 'exports=$(ci-doctor setup-env) && eval "${exports:?}" || exit',
    "documented before": 'exports=$(ci-doctor setup-env) && eval "${exports:-false}" || exit',
    "documented": EVALUATION,
}
FISH_FORMS = {
    "fish: source": "ci-doctor setup-env --format fish | source; or exit",
    "fish: documented before": (
        "set exports (ci-doctor setup-env --format fish); "
        'and test -n "$exports"; and eval $exports; or exit'
    ),
    "fish: documented": FISH_EVALUATION,
}
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


def counts(form: str, folder: Path, *, fish: bool) -> dict[str, tuple[int, int]]:
    """By way to start a shell: in how many cases it goes on, and of how many."""
    found: dict[str, tuple[int, int]] = {}
    for shell, way in cases(fish):
        open_, of = found.get(way, (0, 0))
        for death in deaths(folder).values():
            open_ += goes_on(shell, way, form, death, folder)
            of += 1
        found[way] = (open_, of)
    return found


def _module(folder: Path, text: str) -> str:
    folder.mkdir(exist_ok=True)
    (folder / "sitecustomize.py").write_text(text + "\n")
    return str(folder)


def table() -> list[str]:
    rows = ["| form | " + " | ".join(WAYS) + " |", "|---|" + "--:|" * len(WAYS)]
    with tempfile.TemporaryDirectory() as folder:
        for fish, forms in ((False, FORMS), (True, FISH_FORMS)):
            for title, form in forms.items():
                found = counts(form, Path(folder), fish=fish)
                cells = [
                    f"{found[way][0]} of {found[way][1]}" if way in found else "" for way in WAYS
                ]
                # In a table, Markdown wants a bar escaped within code too.
                shown = form.replace("\n", "; ").replace("|", "\\|")
                rows.append(f"| {title}: `{shown}` | {' | '.join(cells)} |")
                print(rows[-1], flush=True)
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--record", action="store_true", help="append the result to RESULTS.md")
    arguments = parser.parse_args()
    rows = table()
    if arguments.record:
        from results import record  # a test imports this file from elsewhere

        about = f", {', '.join(SHELLS)}, {FISH}"
        record("cases in which a shell goes on without exports", rows, about)
    return 0


if __name__ == "__main__":
    sys.exit(main())
