# SPDX-License-Identifier: Apache-2.0
"""A program for test_preload_kill: does one operation on a shim again and again, killed one effect later each time.

    python -m tests.integration.preload_kills OPERATION PYTHON SITE_DIR

Prints one JSON object per kill and, as its last line, how many effects the whole operation has.
"""

import ast
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ci_doctor.preload.install import install_each, install_shims
from ci_doctor.preload.preload_rule import parse_rule
from ci_doctor.preload.start_files import FINDER, PATH_FILE
from tests.integration.preload_venvs import files_in, remove_shims, shim_of

RULE = parse_rule("serve=json:dumps")
OTHER_RULE = parse_rule(
    "serve=json:loads"
)  # as long: its bytecode must not be taken for that of RULE
FILE_EFFECTS = {
    "os.rename",
    "os.remove",
    "os.mkdir",
    "os.rmdir",
    "os.chmod",
    "os.utime",
    "os.truncate",
}


def count_effects(site_dir: Path, reached: Callable[[], None]) -> None:
    """Call `reached` before each change in `site_dir` and each process that is started, for the rest of this process."""
    root = os.path.realpath(site_dir)

    def is_inside(path: Any) -> bool:
        if isinstance(path, int):
            path = str(Path(f"/proc/self/fd/{path}").readlink())
        return isinstance(path, str | bytes) and os.path.realpath(os.fsdecode(path)).startswith(
            root
        )

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        opens_for_writing = event == "open" and arguments[2] & (
            os.O_WRONLY | os.O_RDWR | os.O_CREAT
        )
        writes = (opens_for_writing or event in FILE_EFFECTS) and is_inside(arguments[0])
        if writes or event == "subprocess.Popen":
            reached()

    sys.addaudithook(hook)


def killed_before(effect: int, site_dir: Path, operation: Callable[[], object]) -> bool:
    """Do `operation` in a child that kills itself before its `effect`-th effect, from 1; False where it has fewer."""
    child = os.fork()
    if child == 0:
        made = 0

        def reached() -> None:
            nonlocal made
            made += 1
            if made == effect:
                os.kill(os.getpid(), signal.SIGKILL)

        try:
            count_effects(site_dir, reached)
            operation()
        finally:
            os._exit(3 if sys.exc_info()[0] else 0)
    _, ended = os.waitpid(child, 0)
    if os.WIFEXITED(ended) and os.WEXITSTATUS(ended):
        raise RuntimeError("the operation failed by itself")
    return os.WIFSIGNALED(ended)


def _start(python: Path) -> subprocess.CompletedProcess[str]:
    """A start that may write bytecode; it prints the rules that are armed, or None."""
    program = f"import json, sys; print(getattr(sys.modules.get({FINDER[:-3]!r}), 'RULES', None))"
    return subprocess.run(
        [python, "-c", program],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": os.defpath},
    )


def _rules_in_source(site_dir: Path) -> str:
    """What `_start` should print."""
    if not (site_dir / PATH_FILE).exists():
        return "None"
    for node in ast.parse((site_dir / FINDER).read_bytes()).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "RULES":
            return str(ast.literal_eval(node.value))
    raise LookupError("RULES")


def main() -> None:
    """Kill at every effect; after each: does it start, does the next installation do, does removal leave nothing."""
    name, python, site_dir = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    operations: dict[str, Callable[[], object]] = {
        "install": lambda: install_shims([python], [RULE], dry_run=False),
        "replace": lambda: install_each([python], [OTHER_RULE], dry_run=False, replace_rules=True),
        "remove": lambda: remove_shims([python], dry_run=False),
    }
    before = files_in(site_dir)
    effect = 0
    going_on = True
    while going_on:
        effect += 1
        if name != "install":
            install_shims([python], [RULE], dry_run=False)
        going_on = killed_before(effect, site_dir, operations[name])
        start = _start(python)
        rules = _rules_in_source(site_dir)
        left = sorted(set(files_in(site_dir)) - set(before))
        # Every second time removal alone must do.
        finished = None
        if effect % 2:
            install_shims([python], [RULE], dry_run=False)
            finished = shim_of(python).installed and not shim_of(python).cut_off
        remove_shims([python], dry_run=False)
        after = files_in(site_dir)
        changed = sorted(name for name, _ in set(after.items()) ^ set(before.items()))
        told = {"effect": effect, "start": [start.returncode, start.stderr], "left": left}
        told |= {"loaded": start.stdout.strip(), "in_source": rules}
        told |= {"finished": finished, "changed": changed}
        print(json.dumps(told))
    print(effect - 1)


if __name__ == "__main__":
    main()
