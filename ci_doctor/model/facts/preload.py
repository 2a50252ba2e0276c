# SPDX-License-Identifier: Apache-2.0
"""Pure. The facts of the commands below `ci-doctor preload`, as the room `preload` makes them."""

from enum import StrEnum

from msgspec import Struct

from ci_doctor.model.facts import Facts
from ci_doctor.model.facts.setup_env import FileState


class Refusal(Struct, frozen=True, kw_only=True):
    """Why nothing can be done to an interpreter; `exit_code` is that of the reason alone."""

    message: str
    hint: str | None
    exit_code: int


class RefusedInterpreter(Struct, frozen=True, kw_only=True):
    """An interpreter that was refused; `state` is always `refused`."""

    python: str
    site_dir: str | None
    state: str = "refused"
    refused: Refusal


class ShimAction(Struct, frozen=True, kw_only=True):
    """A file or directory that was or would be changed; `why` is one clause for a reader."""

    path: str
    state: FileState
    why: str


class ShimChange(Struct, frozen=True, kw_only=True):
    """One interpreter; `state` is `planned`, `changed`, `unchanged`, `held back` or `refused`.

    `rules` are those that are armed at the end.
    """

    python: str
    site_dir: str | None
    state: str
    version: str | None = None
    rules: tuple[str, ...] = ()
    actions: tuple[ShimAction, ...] = ()
    refused: Refusal | None = None

    @property
    def changing(self) -> tuple[ShimAction, ...]:
        """The actions that change something."""
        return tuple(each for each in self.actions if each.state is not FileState.UNCHANGED)


class ChangeFacts(Facts, frozen=True, kw_only=True):
    """What `install` and `remove` did or would do; `changed` are paths."""

    targets: tuple[ShimChange, ...]
    changed: tuple[str, ...]
    dry_run: bool


class StartFile(Struct, frozen=True, kw_only=True):
    """A file that runs at every start.

    `lines` are the import lines of a `.pth` file; a sitecustomize or usercustomize has none.
    `cost_us` is the time that it took. `stderr` are the lines that it wrote there.
    """

    path: str
    lines: tuple[str, ...]
    cost_us: int
    stderr: tuple[str, ...] = ()


class FileCondition(StrEnum):
    """What occupies the place of a file of the shim."""

    ABSENT = "absent"
    OURS = "ours"
    EDITED = "edited"  # it names us as its owner, and is not as we wrote it
    FOREIGN = "foreign"
    NOT_A_FILE = "not-a-file"  # a symbolic link, a directory


class Shim(Struct, frozen=True, kw_only=True):
    """The shim of one interpreter; `state` is `asked` or `refused`.

    `installed`: all files are as ci-doctor wrote them; `outdated`: another version did. `cut_off`
    are the remainders of killed processes. `start_up` has the files that run at every start.
    """

    python: str
    site_dir: str | None
    state: str = "asked"
    version: str | None = None
    installed: bool = False
    outdated: bool = False
    rules: tuple[str, ...] = ()
    files: dict[str, FileCondition] = {}
    cut_off: tuple[str, ...] = ()
    start_up: tuple[StartFile, ...] | None = None
    refused: Refusal | None = None


class StatusFacts(Facts, frozen=True, kw_only=True):
    """The shims, interpreter by interpreter."""

    shims: tuple[Shim, ...]


class CheckOutcome(StrEnum):
    """`void`: nothing is proven either way. `not-needed`: the fault cannot happen here."""

    PASSED = "passed"
    FAILED = "failed"
    NOT_NEEDED = "not-needed"
    VOID = "void"


class ShimCheck(Struct, frozen=True, kw_only=True):
    """One check: `name` is short and the same from run to run, `sentence` has no full stop.

    `rule` is the id of its finding, None for an outcome without one; `evidence` is text, such as a
    traceback.
    """

    python: str
    name: str
    outcome: CheckOutcome
    sentence: str
    evidence: str = ""
    rule: str | None = None
    remedy: str | None = None


class VerifyFacts(Facts, frozen=True, kw_only=True):
    """All checks, and the interpreters that did not answer."""

    checks: tuple[ShimCheck, ...]
    refused: tuple[RefusedInterpreter, ...]
