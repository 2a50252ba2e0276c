# SPDX-License-Identifier: Apache-2.0
"""Reads git: whether it reads the checkout, its history, its tags, and what leads it elsewhere."""

import os
import re
import shlex
import shutil
from collections.abc import Mapping
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
from ci_doctor.checks.processes import user_name
from ci_doctor.environment import rules as of_versions
from ci_doctor.environment.project import NotComputable
from ci_doctor.environment.tags import Described
from ci_doctor.git import ELSEWHERE, git_environment
from ci_doctor.model.finding import Evidence, Finding, Rule, Severity, ShellCommand
from ci_doctor.model.words import EVALUATION
from ci_doctor.system.processes.limited_runs import SeparateRun

# Of `git rev-parse`, in the order of its answers.
_QUESTIONS: Final = (
    "--show-toplevel",
    "--absolute-git-dir",
    "--git-common-dir",
    "--is-shallow-repository",
)


class CheckoutPlace(Struct, frozen=True, kw_only=True):
    """Where a checkout is.

    `top` is its first directory. `git_dir` is its own part of the repository, `common_dir` what all
    work trees share.
    """

    top: Path
    git_dir: Path
    common_dir: Path
    is_shallow: bool


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
    top, git_dir, common, shallow = answers
    return CheckoutPlace(
        top=Path(top),
        git_dir=Path(git_dir),
        # Relative to the working directory, unlike the others.
        common_dir=context.cwd / common,
        is_shallow=shallow == "true",
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
    """The lines that `git rev-parse` prints, one for each question; None if it does not answer all.

    An option that it does not know, as before git 2.15, it prints as it stands, and ends with 0.
    """
    lines = ran.stdout.splitlines()
    is_whole = len(lines) == len(_QUESTIONS) and set(_QUESTIONS).isdisjoint(lines)
    return lines if ran.exit_code == 0 and is_whole else None


def read_git_config(context: CheckContext) -> Mapping[str, str]:
    """The configuration that holds in the checkout, with names in lower case; of several, the last.

    For CheckContext.shared. Raises UndeterminedError.
    """
    context.shared(read_place)
    entries = output_of(context, "config", "--list", "-z").split("\0")
    pairs = [entry.partition("\n") for entry in entries]
    return {name.lower(): value for name, _, value in pairs}


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
GIT_OLD: Final = Rule(
    id="doctor/git-old",
    severity=Severity.WARNING,
    meaning="This git is older than 2.13 (2017). It cannot leave tags out of `git describe`, by which "
    "ci-doctor computes versions.",
    remedy="Install a newer git in the image of the job.",
)
# `git describe --exclude` (git's RelNotes/2.13.0.txt).
_LEAST = (2, 13)


@check("checkout/git", title="git itself", need=Need.GIT_CHECKOUT, cost=Cost.PROGRAM)
def git_program(context: CheckContext) -> Findings:
    try:
        text = run_git(context, "--version").stdout.strip()
    except FileNotFoundError:
        yield problem(GIT_MISSING, "there is no git on PATH")
        return "there is no git on PATH"
    return (yield from old_git(text))


def old_git(text: str) -> Findings:
    """What `git version 2.39.5` means. Raises UndeterminedError if there is no number."""
    number = re.search(r"(\d+)\.(\d+)", text)
    if number is None:
        raise UndeterminedError(f"git --version prints {text!r}")
    if tuple(map(int, number.groups())) < _LEAST:
        yield problem(GIT_OLD, f"{text} is older than 2.13")
    return text


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


class ProjectVersion(Struct, frozen=True, kw_only=True):
    """How the version of the project is computed, as a sentence.

    `described` is None if it does not come from git, or if the environment pins it. `findings` are
    those of setup-env.
    """

    reason: str
    described: Described | None = None
    findings: tuple[Finding, ...] = ()


def read_project_version(context: CheckContext) -> ProjectVersion | None:
    """The version of the project in the working directory, without a build; None without a project.

    For CheckContext.shared. Raises UndeterminedError if it cannot be computed, UsageError for
    packaging files that cannot be parsed.
    """
    from ci_doctor.environment.detection import has_project, read_project

    directory = context.cwd
    if not has_project(directory):
        directory = context.shared(read_place).top
        if not has_project(directory):
            return None
    project = read_project(directory)
    if project.source is None:
        return ProjectVersion(reason=f"the version of {project.label} does not come from git")
    variable = project.deciding_variable(context.environ)
    if variable is not None:
        return ProjectVersion(reason=f"{variable} pins the version of {project.label}")
    # Late: they load the tools of version control, which most checkouts do not need.
    from ci_doctor.environment.pins import judge
    from ci_doctor.environment.versions import describe_locally

    if shutil.which("git", path=context.environ.get("PATH")) is None:
        raise UndeterminedError("there is no git on PATH")
    try:
        described = describe_locally(project)
    except NotComputable as error:
        raise UndeterminedError(error.finding.summary) from error
    return ProjectVersion(
        reason=f"{project.tool} computes {described.version} for {project.label}",
        described=described,
        findings=judge(project, described, allow_fallback=True),
    )


SHALLOW_CLONE: Final = Rule(
    id="doctor/shallow-clone",
    severity=Severity.NOTE,
    meaning="The clone has only the newest commits. A version that is computed from tags is wrong "
    "if the history ends before the nearest tag.",
    remedy="git fetch --unshallow --tags",
)


@check(
    "checkout/history",
    title="history of the clone",
    need=Need.GIT_CHECKOUT,
    cost=Cost.PROGRAM,
)
def history(context: CheckContext) -> Findings:
    place = context.shared(read_place)
    if not place.is_shallow:
        return "the clone has its whole history"
    version = context.shared(read_project_version)
    severity = Severity.NOTE
    words = f"{place.top} is a shallow clone"
    if version is not None and version.described is not None and version.described.shallow:
        severity = Severity.WARNING
        words += f" whose history does not reach a version tag: {version.reason}"
    yield problem(
        SHALLOW_CLONE, words, severity=severity, remedy=ShellCommand("git fetch --unshallow --tags")
    )
    return words


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
    version = context.shared(read_project_version)
    if version is None:
        return "no Python project here"
    for finding in version.findings:
        # A tag that no build picks is a note of setup-env's.
        if finding.rule in _ABOUT_TAGS and finding.severity is Severity.WARNING:
            yield problem(
                VERSION_TAG,
                finding.summary,
                evidence=finding.evidence,
                remedy=ShellCommand(EVALUATION),
                fault=Fault.REPOSITORY,
            )
    return version.reason


PARTIAL_CHECKOUT: Final = Rule(
    id="doctor/partial-checkout",
    severity=Severity.NOTE,
    meaning="Not everything of the commit is on this machine: a sparse checkout leaves files out, and "
    "a partial clone fetches objects when somebody asks for them, which needs the network.",
    remedy="`git sparse-checkout disable`, or a clone without `--filter`.",
)
# git-config(1), Boolean values; an empty value is none that git writes here.
TRUE = frozenset({"true", "yes", "on", "1"})
_FALSE = frozenset({"false", "no", "off", "0"})


@check(
    "checkout/partial",
    title="sparse checkout, partial clone",
    need=Need.GIT_CHECKOUT,
    cost=Cost.PROGRAM,
)
def partial_clone(context: CheckContext) -> Findings:
    config = context.shared(read_git_config)
    said = []
    if config.get("core.sparsecheckout", "").lower() in TRUE:
        said.append("a sparse checkout: some files of the commit are left out")
        yield problem(
            PARTIAL_CHECKOUT, said[-1], remedy=ShellCommand("git sparse-checkout disable")
        )
    if any(
        name.startswith("remote.") and name.endswith(".promisor") and value.lower() in TRUE
        for name, value in config.items()
    ):
        said.append("a partial clone: objects that are missing are fetched when they are needed")
        yield problem(
            PARTIAL_CHECKOUT,
            said[-1],
            remedy="clone it without `--filter`. `git fetch --refetch --no-filter` fetches what is missing now, "
            "and the clone stays a partial one",
        )
    return "; ".join(said) or "neither sparse nor partial"


FILE_MODE: Final = Rule(
    id="doctor/file-mode",
    severity=Severity.NOTE,
    meaning="core.fileMode is off, so git neither sets nor sees that a script is executable.",
    remedy="git config core.fileMode true",
)


@check("checkout/file-mode", title="executable files", need=Need.GIT_CHECKOUT, cost=Cost.PROGRAM)
def file_mode(context: CheckContext) -> Findings:
    value = context.shared(read_git_config).get("core.filemode", "true")
    summary = f"core.fileMode is {value}"
    if value.lower() in _FALSE:
        yield problem(FILE_MODE, summary, remedy=ShellCommand("git config core.fileMode true"))
    return summary


GIT_ELSEWHERE: Final = Rule(
    id="doctor/git-elsewhere",
    severity=Severity.WARNING,
    meaning="A variable such as GIT_DIR or GIT_INDEX_FILE leads git to another repository, or to "
    "other parts of it, than the checkout in the working directory. A hook of git sets them for what "
    "it starts.",
    remedy="Unset them: `unset GIT_DIR GIT_WORK_TREE GIT_INDEX_FILE`.",
)
# What each of the others replaces, below the directory that git uses.
_PARTS = {"GIT_INDEX_FILE": "index", "GIT_OBJECT_DIRECTORY": "objects"}
_ALWAYS_ELSEWHERE = ("GIT_NAMESPACE", "GIT_SHALLOW_FILE", "GIT_GRAFT_FILE")


@check(
    "checkout/variables",
    title="variables that lead git elsewhere",
    need=Need.GIT_CHECKOUT,
    cost=Cost.PROGRAM,
)
def variables(context: CheckContext) -> Findings:
    environ = context.environ
    named = sorted(name for name in environ if name in ELSEWHERE and environ[name])
    if not named:
        return "no variable leads git elsewhere"
    place = context.shared(read_place)
    ran = context.run(
        ["git", "rev-parse", "--show-toplevel", "--absolute-git-dir"],
        environ={**environ, "LC_ALL": "C"},
    )
    lines = ran.stdout.splitlines()
    is_known = ran.exit_code == 0 and len(lines) == 2
    if is_known and _is_same(lines[0], place.top) and _is_same(lines[1], place.git_dir):
        parts = [name for name in named if _is_other_part(context, name, place.git_dir)]
        if not parts:
            return f"{', '.join(named)}: git works in this checkout"
        where = f"{' and '.join(parts)} replaces a part of {place.git_dir}"
    elif is_known:
        where = f"git works in {lines[1]} and not in {place.git_dir}"
    else:
        where = f"git fails with them ({ran.last_words})"
    summary = f"{' and '.join(named)} is set: {where}"
    yield problem(
        GIT_ELSEWHERE,
        summary,
        evidence=(Evidence(excerpt="\n".join(f"{name}={environ[name]}" for name in named)),),
        remedy=ShellCommand(f"unset {' '.join(named)}"),
    )
    return summary


def _is_same(first: str, second: Path) -> bool:
    return os.path.realpath(first) == os.path.realpath(second)


def _is_other_part(context: CheckContext, name: str, git_dir: Path) -> bool:
    if name not in _PARTS:
        return name in _ALWAYS_ELSEWHERE
    return not _is_same(str(context.cwd / context.environ[name]), git_dir / _PARTS[name])
