# SPDX-License-Identifier: Apache-2.0
"""Reads git: whether it reads the checkout and its tags, what is not as committed, and locks left by a killed git."""

import contextlib
import os
import shlex
import shutil
from pathlib import Path
from typing import Final

from msgspec import Struct

from ci_doctor.checks.check import (
    Cost,
    Fault,
    Findings,
    Need,
    UndeterminedError,
    check,
    problem,
)
from ci_doctor.checks.context import CheckContext
from ci_doctor.checks.processes import read_processes, user_name
from ci_doctor.environment import rules as of_versions
from ci_doctor.environment.project import NotComputable, Project
from ci_doctor.git import git_environment
from ci_doctor.model.outcome import Evidence, Rule, Severity, ShellCommand
from ci_doctor.model.words import EVALUATION
from ci_doctor.render.formatting import amount
from ci_doctor.services.leak_ledger import in_use
from ci_doctor.system import clock
from ci_doctor.system.processes.limited_runs import SeparateRun

# Of `git rev-parse`, in the order of its answers.
_QUESTIONS: Final = (
    "--show-toplevel",
    "--absolute-git-dir",
    "--git-common-dir",
)


class CheckoutPlace(Struct, frozen=True, kw_only=True):
    """Where a checkout is.

    `top` is its first directory. `git_dir` is its own part of the repository, `common_dir` what all
    work trees share.
    """

    top: Path
    git_dir: Path
    common_dir: Path


def run_git(context: CheckContext, *words: str) -> SeparateRun:
    """Run git in the job's directory; it takes no lock and changes nothing. Raises OSError."""
    environ = git_environment(context.environ)
    environ["GIT_OPTIONAL_LOCKS"] = "0"
    environ["LC_ALL"] = "C"
    return context.run(["git", *words], environ=environ)


def output_of(context: CheckContext, *words: str) -> str:
    """What git prints. Raises UndeterminedError if it fails, and OSError."""
    ran = run_git(context, *words)
    if ran.exit_code != 0:
        name = next(word for word in words if not word.startswith(("-", "/")))
        raise UndeterminedError(f"git {name}: {ran.last_words}")
    return ran.stdout


def read_place(context: CheckContext) -> CheckoutPlace:
    """Where the checkout is. Raises UndeterminedError if git does not read it.

    For CheckContext.shared.
    """
    answers = _answers(context.shared(read_git_directory))
    if answers is None:
        # One check says why; the others need not repeat it.
        raise UndeterminedError("git does not read this checkout: see checkout/owner")
    top, git_dir, common = answers
    return CheckoutPlace(
        top=Path(top),
        git_dir=Path(git_dir),
        # Relative to the working directory, unlike the others.
        common_dir=context.cwd / common,
    )


def read_git_directory(context: CheckContext) -> SeparateRun:
    """What git says of the checkout. Raises UndeterminedError if there is no git.

    For CheckContext.shared.
    """
    try:
        return run_git(context, "rev-parse", *_QUESTIONS)
    except FileNotFoundError as error:
        raise UndeterminedError("there is no git on PATH") from error


def _answers(ran: SeparateRun) -> list[str] | None:
    """The lines that `git rev-parse` prints, one for each question; None if it does not answer all."""
    lines = ran.stdout.splitlines()
    return lines if ran.exit_code == 0 and len(lines) == len(_QUESTIONS) else None


def _first_line(text: str) -> str:
    """The first line of what git says, without `fatal: `."""
    lines = text.strip().splitlines() or ["no reason given"]
    return lines[0].removeprefix("fatal: ")


GIT_MISSING: Final = Rule(
    id="doctor/git-missing",
    severity=Severity.WARNING,
    meaning="The job works in a git checkout, and there is no git to read it. Tools that take a "
    "version from tags fail, or compute another one.",
    remedy="Install git in the image of the job.",
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
_TRUST = "git config --global --add safe.directory "


@check(
    "checkout/owner",
    title="whether git reads the checkout",
    need=Need.GIT_CHECKOUT,
    cost=Cost.PROGRAM,
)
def owner(context: CheckContext) -> Findings:
    if shutil.which("git", path=context.environ.get("PATH")) is None:
        yield problem(GIT_MISSING, "there is no git on PATH")
        return "there is no git on PATH"
    ran = context.shared(read_git_directory)
    answers = _answers(ran)
    if answers is not None:
        return f"git reads {answers[0]}"
    if ran.exit_code is None:
        raise UndeterminedError(ran.last_words)
    if ran.exit_code == 0:
        raise UndeterminedError(f"git rev-parse does not answer {' '.join(_QUESTIONS)}")
    reason = _first_line(ran.stderr)
    evidence = (Evidence(excerpt=ran.stderr.strip()),)
    if "dubious ownership" in ran.stderr or "unsafe repository" in ran.stderr:
        summary = f"git refuses the checkout: {reason}, and we are {user_name(os.geteuid())}"
        yield problem(
            OTHER_OWNER,
            summary,
            evidence=evidence,
            remedy=ShellCommand(_trusting(context, ran.stderr)),
        )
    else:
        summary = f"git cannot read the checkout: {reason}"
        yield problem(CHECKOUT_BROKEN, summary, evidence=evidence)
    return summary


def _trusting(context: CheckContext, words: str) -> str:
    """The command that git itself proposes; variables with the same effect if HOME takes no file."""
    path = shlex.quote(str(context.cwd))
    for line in words.splitlines():
        if line.strip().startswith(_TRUST):
            path = line.strip().removeprefix(_TRUST)
    home = context.environ.get("HOME")
    if home and os.access(home, os.W_OK):
        return _TRUST + path
    # git-config(1), since git 2.31.
    place = context.environ.get("GIT_CONFIG_COUNT") or "0"
    count = int(place) if place.isdigit() else 0
    return (
        f"export GIT_CONFIG_COUNT={count + 1} GIT_CONFIG_KEY_{count}=safe.directory "
        f"GIT_CONFIG_VALUE_{count}={path}"
    )


@check(
    "checkout/objects",
    title="objects of the commit, and mirrors",
    need=Need.GIT_CHECKOUT,
    cost=Cost.PROGRAM,
)
def objects(context: CheckContext) -> Findings:
    place = context.shared(read_place)
    missing = _missing_mirrors(place.common_dir / "objects")
    of_mirror = f"the mirror {missing[0]} is not here" if missing else None
    head = run_git(context, "rev-parse", "--verify", "--quiet", "HEAD")
    if head.exit_code is None:
        raise UndeterminedError(head.last_words)
    if head.exit_code != 0:
        # A branch without a commit has no file; one that is damaged has.
        branch = run_git(context, "symbolic-ref", "--quiet", "HEAD")
        is_there = (place.common_dir / branch.stdout.strip()).exists()
        if branch.exit_code == 0 and not is_there and not missing:
            return "the checkout has no commit yet"
        summary = of_mirror or "HEAD names no commit"
        yield problem(CHECKOUT_BROKEN, summary)
        return summary
    commit = head.stdout.strip()
    ran = run_git(context, "cat-file", "-e", f"{commit}^{{tree}}")
    if ran.exit_code is None:
        raise UndeterminedError(ran.last_words)
    if ran.exit_code == 0 and not missing:
        return f"{commit[:12]} is here"
    summary = f"objects of {commit[:12]} are missing: {of_mirror or _first_line(ran.stderr)}"
    yield problem(CHECKOUT_BROKEN, summary, evidence=(Evidence(excerpt=ran.stderr.strip()),))
    return summary


def _missing_mirrors(objects: Path) -> list[str]:
    """The directories of objects that the clone borrows from (gitrepository-layout(5))."""
    try:
        text = (objects / "info" / "alternates").read_text(errors="surrogateescape")
    except FileNotFoundError:
        return []
    paths = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [path for path in paths if not (objects / path).is_dir()]


SHALLOW_CLONE: Final = Rule(
    id="doctor/shallow-clone",
    severity=Severity.WARNING,
    meaning="The clone has only the newest commits, and its history ends before the nearest version "
    "tag. A version that is computed from tags is wrong.",
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
_ABOUT_TAGS = frozenset({of_versions.UNPARSABLE_TAG.id, of_versions.SUSPICIOUS_TAG.id})


@check(
    "checkout/version-tags",
    title="tags that break the project's version",
    need=Need.GIT_CHECKOUT,
    cost=Cost.PROGRAM,
)
def version_tags(context: CheckContext) -> Findings:
    """How the version of the project in the working directory is computed, without a build.

    Raises UsageError for packaging files that cannot be parsed.
    """
    project = _project_here(context)
    if project is None:
        return "no Python project here"
    if project.source is None:
        return f"the version of {project.label} does not come from git"
    variable = project.deciding_variable(context.environ)
    if variable is not None:
        return f"{variable} pins the version of {project.label}"
    # Late: they load the tools of version control, which most checkouts do not need.
    from ci_doctor.environment.pins import judge
    from ci_doctor.environment.versions import describe_locally

    try:
        described = describe_locally(project)
    except NotComputable as error:
        raise UndeterminedError(error.finding.summary) from error
    reason = f"{project.tool} computes {described.version} for {project.label}"
    if described.shallow:
        yield problem(
            SHALLOW_CLONE,
            f"{project.directory} is a shallow clone whose history does not reach a version tag: {reason}",
            remedy=ShellCommand("git fetch --unshallow --tags"),
        )
    for finding in judge(project, described, allow_fallback=True):
        # A tag that no build picks is a note of setup-env's.
        if finding.rule in _ABOUT_TAGS and finding.severity is Severity.WARNING:
            yield problem(
                VERSION_TAG,
                finding.summary,
                evidence=finding.evidence,
                remedy=ShellCommand(EVALUATION),
                fault=Fault.REPOSITORY,
            )
    return reason


def _project_here(context: CheckContext) -> Project | None:
    """The project of the working directory, or of the checkout around it."""
    from ci_doctor.environment.detection import has_project, read_project

    if has_project(context.cwd):
        return read_project(context.cwd)
    top = context.shared(read_place).top
    return read_project(top) if has_project(top) else None


# Files and submodules that are not as committed, and locks.

_SHOWN = 10

SUBMODULES: Final = Rule(
    id="doctor/submodules",
    severity=Severity.WARNING,
    meaning="Submodules are not checked out, or not at the commit that the checkout names.",
    remedy="git submodule update --init --recursive",
)
# The first character of a line (git-submodule(1), status).
_ABSENT = "not checked out"
_STATES = {"-": _ABSENT, "+": "at another commit", "U": "in a merge conflict"}


@check("checkout/submodules", title="submodules", need=Need.GIT_CHECKOUT, cost=Cost.PROGRAM)
def submodules(context: CheckContext) -> Findings:
    top = context.shared(read_place).top
    if not (top / ".gitmodules").exists():
        return "no submodules"
    lines = output_of(context, "-C", str(top), "submodule", "status").splitlines()
    bad = []
    for line in lines:
        state = _STATES.get(line[:1])
        if state is not None:
            # The path, and after it what describes the commit, if that is known.
            rest = line[1:].split(" ", 1)[1]
            bad.append(f"{rest.rpartition(' (')[0] or rest} is {state}")
    if not bad:
        return f"submodules at their commits: {len(lines)}"
    more = f", and {amount(len(bad) - 1, 'more submodule')}" if len(bad) > 1 else ""
    # The checkout of Buildkite's agent obeys it.
    is_wanted = context.environ.get("BUILDKITE_GIT_SUBMODULES", "") != "false"
    is_absent_alone = all(words.endswith(_ABSENT) for words in bad)
    yield problem(
        SUBMODULES,
        f"the submodule {bad[0]}{more}",
        evidence=(Evidence(excerpt="\n".join(bad[:_SHOWN])),),
        remedy=ShellCommand("git submodule update --init --recursive"),
        severity=Severity.WARNING if is_wanted or not is_absent_alone else Severity.NOTE,
    )
    return f"{len(bad)} of {len(lines)} not as committed"


LFS_POINTERS: Final = Rule(
    id="doctor/lfs-pointers",
    severity=Severity.WARNING,
    meaning="Files that Git LFS keeps are pointers here: some lines of text in place of their content.",
    remedy="git lfs install --local && git lfs pull",
)
# How a pointer begins, and the bytes that it has at most (git-lfs, docs/spec.md).
_BEGINS = b"version https://git-lfs.github.com/spec/"
_LONGEST = 1024


@check("checkout/lfs", title="files of Git LFS", need=Need.GIT_CHECKOUT, cost=Cost.PROGRAM)
def lfs(context: CheckContext) -> Findings:
    top = context.shared(read_place).top
    # By the attribute, so that no other file is looked at.
    listed = output_of(context, "-C", str(top), "ls-files", "-z", "--", ":(attr:filter=lfs)")
    names = [name for name in listed.split("\0") if name]
    if not names:
        return "no file of Git LFS"
    pointers = [name for name in names if _is_pointer(top / name)]
    summary = f"{len(pointers)} of {len(names)} files of Git LFS are pointers"
    # Whoever sets it asks git for pointers (git-lfs-smudge(1)).
    is_wanted = context.environ.get("GIT_LFS_SKIP_SMUDGE", "") in {"", "0", "false"}
    if pointers:
        yield problem(
            LFS_POINTERS,
            f"{summary}, such as {pointers[0]}",
            evidence=(Evidence(excerpt="\n".join(pointers[:_SHOWN])),),
            remedy=ShellCommand("git lfs install --local && git lfs pull"),
            severity=Severity.WARNING if is_wanted else Severity.NOTE,
        )
    return summary


def _is_pointer(path: Path) -> bool:
    with contextlib.suppress(OSError):  # not checked out, or gone
        if path.stat().st_size <= _LONGEST:
            return path.read_bytes().startswith(_BEGINS)
    return False


STALE_GIT_LOCK: Final = Rule(
    id="doctor/stale-git-lock",
    severity=Severity.WARNING,
    meaning="A killed git has left its lock, so git refuses each command that would take it again.",
    remedy="Remove the file, if no git runs in this checkout.",
)
# No locks that stop a command lie there, and there are thousands of files. Other work trees have
# jobs of their own.
_SKIPPED = frozenset({"objects", "lfs", "hooks", "logs", "worktrees", "rr-cache"})
# Our own git commands take locks for an instant, too.
_LEAST_AGE_S = 60.0


@check(
    "checkout/locks",
    title="locks that a killed git has left",
    need=Need.GIT_CHECKOUT,
    cost=Cost.PROGRAM,
)
def locks(context: CheckContext) -> Findings:
    place = context.shared(read_place)
    old = _old_locks(place)
    if not old:
        return "no lock of git"
    stale = sorted(set(old) - in_use(old))
    if not stale or _is_git_at_work(context, place.top):
        return f"git is at work: {', '.join(old)}"
    summary = f"no git runs, and {', '.join(stale)} is there"
    yield problem(STALE_GIT_LOCK, summary, remedy=ShellCommand(shlex.join(["rm", *stale])))
    return summary


def _old_locks(place: CheckoutPlace) -> list[str]:
    """The locks of the work tree, of references at any depth, and of submodules."""
    now = clock.epoch()
    old: dict[str, None] = {}
    for top in dict.fromkeys((place.git_dir, place.common_dir)):
        for folder, folders, files in os.walk(top):
            folders[:] = [name for name in folders if name not in _SKIPPED]
            # What git makes next to the file that it is going to replace (lockfile.h).
            for name in files:
                path = Path(folder, name)
                with contextlib.suppress(FileNotFoundError):
                    if name.endswith(".lock") and now - path.stat().st_mtime >= _LEAST_AGE_S:
                        old[str(path.resolve())] = None
    return list(old)


def _is_git_at_work(context: CheckContext, top: Path) -> bool:
    """Whether a git that is none of ours works in the checkout, or where we may not look."""
    for process in context.shared(read_processes).values():
        # Other checks run git at this moment.
        if process.kin.name != "git" or process.kin.parent == os.getpid():
            continue
        try:
            if (context.proc / str(process.pid) / "cwd").readlink().is_relative_to(top):
                return True
        except FileNotFoundError:
            continue
        except OSError:
            return True
    return False
