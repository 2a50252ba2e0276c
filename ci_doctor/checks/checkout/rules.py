# SPDX-License-Identifier: Apache-2.0
"""Pure. The rules of the area `checkout`."""

from typing import Final

from ci_doctor.model.evaluation import EVALUATION
from ci_doctor.model.finding import Severity
from ci_doctor.model.rule import Rule

GIT_MISSING: Final = Rule(
    id="doctor/git-missing",
    severity=Severity.WARNING,
    meaning="The job works in a git checkout, and there is no git to read it. Tools that take a "
    "version from tags fail, or compute another one.",
    remedy="Install git in the image of the job.",
)

GIT_OLD: Final = Rule(
    id="doctor/git-old",
    severity=Severity.WARNING,
    meaning="This git is older than 2.13 (2017). It cannot leave tags out of `git describe`, by which "
    "ci-doctor computes versions.",
    remedy="Install a newer git in the image of the job.",
)

OTHER_OWNER: Final = Rule(
    id="doctor/other-owner",
    severity=Severity.ERROR,
    meaning="Another user owns the checkout, so git refuses to read it. Builds that take their "
    "version from git fail. This is usual if a container runs as another user than the agent.",
    remedy="git config --global --add safe.directory PATH. This trusts the owner of the checkout, so "
    "ci-doctor never does it by itself.",
)

CHECKOUT_BROKEN: Final = Rule(
    id="doctor/checkout-broken",
    severity=Severity.ERROR,
    meaning="git cannot read the checkout: its repository, or a part of its objects, is not on this "
    "machine. This is usual if a container mounts the checkout and not the mirror or the repository "
    "to which it refers.",
    remedy="Mount what is missing at the same path, or clone without a mirror.",
)

SHALLOW_CLONE: Final = Rule(
    id="doctor/shallow-clone",
    severity=Severity.NOTE,
    meaning="The clone has only the newest commits. A version that is computed from tags is wrong "
    "if the history ends before the nearest tag.",
    remedy="git fetch --unshallow --tags",
)

VERSION_TAG: Final = Rule(
    id="doctor/version-tag",
    severity=Severity.WARNING,
    meaning="A tag breaks the version of the project: the tool that computes it from git cannot parse "
    "the nearest tag, or reads a date as a version. `ci-doctor setup-env` pins the version that the "
    "other tags give. Every agent has the same tags, so another run does not help.",
    remedy=EVALUATION,
)

SUBMODULES: Final = Rule(
    id="doctor/submodules",
    severity=Severity.WARNING,
    meaning="Submodules are not checked out, or not at the commit that the checkout names.",
    remedy="git submodule update --init --recursive",
)

LFS_POINTERS: Final = Rule(
    id="doctor/lfs-pointers",
    severity=Severity.WARNING,
    meaning="Files that Git LFS keeps are pointers here: some lines of text in place of their content.",
    remedy="git lfs install --local && git lfs pull",
)

DIRTY_CHECKOUT: Final = Rule(
    id="doctor/dirty-checkout",
    severity=Severity.NOTE,
    meaning="Files under version control differ from the commit. If nothing of this job has changed "
    "them, an earlier one has.",
    remedy="git status; git stash",
)

PARTIAL_CHECKOUT: Final = Rule(
    id="doctor/partial-checkout",
    severity=Severity.NOTE,
    meaning="Not everything of the commit is on this machine: a sparse checkout leaves files out, and "
    "a partial clone fetches objects when somebody asks for them, which needs the network.",
    remedy="`git sparse-checkout disable`, or a clone without `--filter`.",
)

FILE_MODE: Final = Rule(
    id="doctor/file-mode",
    severity=Severity.NOTE,
    meaning="core.fileMode is off, so git neither sets nor sees that a script is executable.",
    remedy="git config core.fileMode true",
)

STALE_GIT_LOCK: Final = Rule(
    id="doctor/stale-git-lock",
    severity=Severity.WARNING,
    meaning="A killed git has left its lock, so git refuses each command that would take it again.",
    remedy="Remove the file, if no git runs in this checkout.",
)

UNFINISHED: Final = Rule(
    id="doctor/git-unfinished",
    severity=Severity.WARNING,
    meaning="A rebase, merge, cherry-pick, revert or bisection has begun in this checkout and not "
    "ended. Files and HEAD may not be those of the commit, and git refuses the next one.",
    remedy="The command in the report ends it and keeps the commit. `--abort` goes back to the "
    "commit at which it began.",
)

GIT_ELSEWHERE: Final = Rule(
    id="doctor/git-elsewhere",
    severity=Severity.WARNING,
    meaning="A variable such as GIT_DIR or GIT_INDEX_FILE leads git to another repository, or to "
    "other parts of it, than the checkout in the working directory. A hook of git sets them for what "
    "it starts.",
    remedy="Unset them: `unset GIT_DIR GIT_WORK_TREE GIT_INDEX_FILE`.",
)

RULES: Final[tuple[Rule, ...]] = (
    GIT_MISSING,
    GIT_OLD,
    OTHER_OWNER,
    CHECKOUT_BROKEN,
    SHALLOW_CLONE,
    VERSION_TAG,
    SUBMODULES,
    LFS_POINTERS,
    DIRTY_CHECKOUT,
    PARTIAL_CHECKOUT,
    FILE_MODE,
    STALE_GIT_LOCK,
    UNFINISHED,
    GIT_ELSEWHERE,
)
