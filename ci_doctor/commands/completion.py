# SPDX-License-Identifier: Apache-2.0
"""Shell completion: bash, zsh and fish ask ci-doctor itself what may stand at the cursor.

The shells' own scripts and the protocol are click's. Here is what click does not know: the words
behind `--`, and the spellings of `--option=value`.
"""

import os
import re
import shutil
import subprocess
from typing import Any, Final

import click
from click.shell_completion import (
    BashComplete,
    CompletionItem,
    FishComplete,
    ShellComplete,
    ZshComplete,
)

from ci_doctor.commands.completion_values import words_of_command
from ci_doctor.errors import UsageError
from ci_doctor.session.invocation import Invocation
from ci_doctor.session.session import Session

VARIABLE: Final = "_CI_DOCTOR_COMPLETE"
_PROGRAM: Final = "ci-doctor"
# The first bash with `complete -o nosort`.
_OLDEST_BASH: Final = (4, 4)


def complete(root: click.Command, instruction: str) -> int:
    """Do what VARIABLE asks for: print a shell's script, or what may stand at the cursor.

    Raises UsageError for another instruction, and for a bash that is too old. What goes wrong at
    the cursor is silent: a person is typing there.
    """
    shell, _, action = instruction.partition("_")
    kind = _SHELLS.get(shell)
    if kind is None or action not in ("source", "complete"):
        names = ", ".join(f"{name}_source" for name in _SHELLS)
        raise UsageError(
            f"{VARIABLE}={instruction} is no instruction of shell completion",
            hint=f"use one of {names}; see docs/install.md",
        )
    completion = kind(root, {}, _PROGRAM, VARIABLE)
    if action == "source":
        click.echo(completion.source())
        return 0
    try:
        click.echo(completion.complete())
    except Exception:  # noqa: BLE001 - see above
        return 1
    return 0


class _Completion(ShellComplete):
    """What the three shells have in common."""

    # Whether the shell takes `--option=value` for one word, and wants the whole of it back.
    keeps_option = True

    def get_completions(self, args: list[str], incomplete: str) -> list[CompletionItem[str]]:
        """What may stand in place of `incomplete` behind `args`."""
        if "--" in args:
            behind = args[args.index("--") + 1 :]
            return words_of_command(behind, incomplete)
        # bash splits at the `=`.
        if args and args[-1] == "=":
            args = args[:-1]
        self.ctx_args = {"obj": Session(Invocation.begin(args))}
        option, equals, _ = incomplete.partition("=")
        items = super().get_completions(args, incomplete)
        if self.keeps_option and equals and option.startswith("-"):
            return [_behind_option(option, item) for item in items]
        return items


class _BashCompletion(_Completion, BashComplete):
    keeps_option = False

    @staticmethod
    def _check_version() -> None:
        """Raises UsageError for a bash that cannot read the script."""
        version = _bash_version()
        if version is None or version < _OLDEST_BASH:
            shown = "none" if version is None else ".".join(map(str, version))
            raise UsageError(
                f"completion needs bash 4.4 or newer, and {shown} is on PATH",
                hint="use zsh or fish, or a newer bash",
            )


class _ZshCompletion(_Completion, ZshComplete):
    pass


class _FishCompletion(_Completion, FishComplete):
    pass


_SHELLS: Final[dict[str, type[ShellComplete]]] = {
    "bash": _BashCompletion,
    "zsh": _ZshCompletion,
    "fish": _FishCompletion,
}


def _bash_version() -> tuple[int, int] | None:
    """The version of the bash on PATH; None if there is none that tells."""
    bash = shutil.which("bash", path=os.environ.get("PATH"))
    if bash is None:
        return None
    words = [bash, "--norc", "-c", 'echo "${BASH_VERSION}"']
    printed = subprocess.run(words, capture_output=True, text=True, check=False).stdout
    version = re.match(r"(\d+)\.(\d+)", printed)
    return (int(version[1]), int(version[2])) if version else None


def _behind_option(option: str, item: CompletionItem[Any]) -> CompletionItem[Any]:
    """The item as a whole word; a file's name is put together by the shell."""
    if item.type != "plain":
        return item
    return CompletionItem(f"{option}={item.value}", type=item.type, help=item.help)
