# SPDX-License-Identifier: Apache-2.0
"""Acts on files and processes: puts shims into interpreters, proves that these still start, and takes shims out again."""

import contextlib
import fcntl
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from ci_doctor.errors import InfraError, PreparationError, UsageError
from ci_doctor.model.action import FileState, WriteFile
from ci_doctor.model.finding import Evidence, Finding, Severity
from ci_doctor.preload.interpreter import Answer, ask, clean_environment
from ci_doctor.preload.plan import FileCondition, plan_install, plan_remove, read_site
from ci_doctor.preload.rules import Rule
from ci_doctor.preload.shim_files import FINDER, MODULES, PATH_FILE
from ci_doctor.preload.target import Target, inspect_interpreter
from ci_doctor.preload.trial import TRIAL_TIMEOUT_S, try_preloads
from ci_doctor.system.files import write_atomically

START_TIMEOUT_S = 60.0

_COMPILE = "import py_compile, sys; [py_compile.compile(path, doraise=True) for path in sys.argv[1:]]"
# How many finders of ours are armed.
_START = f"import sys; print(sum(f is sys.modules.get({Path(FINDER).stem!r}) for f in sys.meta_path))"


class InstallResult(Struct, frozen=True, kw_only=True):
    """What was done to one target, or would be: `actions` in their order, and what was found on the way."""

    target: Target
    actions: tuple[WriteFile, ...]
    findings: tuple[Finding, ...] = ()


class ShimStatus(Struct, frozen=True, kw_only=True):
    """What lies in a target's site directory; `installed` where all files are there and as we wrote them."""

    target: Target
    installed: bool
    rules: tuple[Rule, ...]
    files: dict[str, FileCondition]


def install_shims(
    pythons: Sequence[Path], rules: Sequence[Rule], *, dry_run: bool, trial_timeout_s: float = TRIAL_TIMEOUT_S
) -> tuple[InstallResult, ...]:
    """Arm `rules`, besides those armed before, in each of `pythons`; interpreters that share a site directory count once.

    All targets are examined before the first is changed. Where something changes, the modules to preload are first
    imported in a child, which a dry run does too. Raises UsageError, PreparationError and InfraError, each with its hint;
    a target that raised is left as it was.
    """
    targets = _distinct_targets(pythons)
    with _alone_in(() if dry_run else targets):
        results = _examine(targets, rules, trial_timeout_s)
        if not dry_run:
            for result in results:
                apply(result.actions, result.target)
    return results


def _examine(targets: Sequence[Target], rules: Sequence[Rule], trial_timeout_s: float) -> tuple[InstallResult, ...]:
    planned = [(target, plan_install(target, rules)) for target in targets]
    results = []
    for target, actions in planned:
        findings = try_preloads(target, rules, timeout_s=trial_timeout_s) if _changes(actions) else ()
        errors = tuple(finding for finding in findings if finding.severity is Severity.ERROR)
        if errors:
            raise PreparationError(
                f"{errors[0].summary}; no shim was changed", hint=errors[0].remedy, findings=findings
            )
        results.append(InstallResult(target=target, actions=actions, findings=findings))
    return tuple(results)


def remove_shims(pythons: Sequence[Path], *, dry_run: bool) -> tuple[InstallResult, ...]:
    """Remove the shim from each of `pythons`; no actions where there is none. Raises as `install_shims` does."""
    targets = _distinct_targets(pythons)
    with _alone_in(() if dry_run else targets):
        results = tuple(InstallResult(target=target, actions=plan_remove(target)) for target in targets)
        if not dry_run:
            for result in results:
                apply(result.actions, result.target)
    return results


def status(python: Path) -> ShimStatus:
    """What is installed in `python`. Raises UsageError and InfraError where it cannot be asked."""
    target = inspect_interpreter(python)
    state = read_site(target.site_dir)
    installed = all(condition is FileCondition.OURS for condition in state.conditions.values())
    return ShimStatus(target=target, installed=installed, rules=state.rules, files=state.conditions)


def apply(actions: Sequence[WriteFile], target: Target) -> None:
    """Carry out `actions` in their order; all or, where something fails or the target starts no more, nothing.

    Raises PreparationError where the target does not start cleanly with the shim, UsageError where a file cannot be
    written.
    """
    if not _changes(actions):
        return
    before = {action.path: action.path.read_bytes() if action.path.exists() else None for action in actions}
    clean = _start(target)
    try:
        for action in actions:
            if action.path.name == PATH_FILE and action.state is not FileState.REMOVE:
                _compile_modules(target)  # before the shim is armed: the user of the interpreter may not be able to
            _carry_out(action)
        if any(action.state is FileState.REMOVE for action in actions):
            _remove_compiled(target.site_dir)
        else:
            _prove_start(target, clean)
    except BaseException:
        _roll_back(before, target.site_dir)
        raise


def _changes(actions: Sequence[WriteFile]) -> bool:
    return any(action.state is not FileState.UNCHANGED for action in actions)


def _distinct_targets(pythons: Sequence[Path]) -> list[Target]:
    by_site_dir: dict[str, Target] = {}
    for python in pythons:
        target = inspect_interpreter(python)
        by_site_dir.setdefault(os.path.realpath(target.site_dir), target)
    return list(by_site_dir.values())


@contextlib.contextmanager
def _alone_in(targets: Sequence[Target]) -> Iterator[None]:
    """Wait until no other ci-doctor changes these targets: what one adds to the rules, another must not write over.

    The lock is on the directory itself, so it leaves no file, and it ends with this process. In one order, so that two
    processes never wait for each other.
    """
    with contextlib.ExitStack() as locks:
        for site_dir in sorted(os.path.realpath(target.site_dir) for target in targets):
            with contextlib.suppress(OSError):  # a file system without locks
                descriptor = os.open(site_dir, os.O_RDONLY | os.O_DIRECTORY)
                locks.callback(os.close, descriptor)
                fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield


def _carry_out(action: WriteFile) -> None:
    if action.state is FileState.REMOVE:
        _remove(action.path)
    elif action.state is not FileState.UNCHANGED:
        write_atomically(action.path, action.content)


def _remove(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise UsageError(
            f"cannot remove {path}: {error.strerror or error}", hint="run as the user who owns it"
        ) from error


def _compile_modules(target: Target) -> None:
    """Without bytecode every start by a user who may not write there pays 1.3 ms; that is no reason to stop."""
    paths = (str(target.site_dir / name) for name in MODULES)
    environment = clean_environment(os.environ)
    ask(target.python, "-I", "-c", _COMPILE, *paths, timeout_s=START_TIMEOUT_S, environment=environment)


def _remove_compiled(site_dir: Path) -> None:
    cache = site_dir / "__pycache__"
    compiled = [path for name in MODULES for path in cache.glob(f"{Path(name).stem}.*.pyc")]
    for path in compiled:
        _remove(path)
    if compiled:
        with contextlib.suppress(OSError):  # others keep their bytecode there
            cache.rmdir()


def _start(target: Target) -> Answer:
    """An ordinary start of the target; the answer's stdout is the number of finders of ours that it has armed."""
    environment = clean_environment(os.environ)
    answer = ask(target.python, "-I", "-c", _START, timeout_s=START_TIMEOUT_S, environment=environment)
    if answer.exit_code is None:
        raise InfraError(
            f"{target.python} did not start within {START_TIMEOUT_S:.0f} s", hint="look at its `.pth` files"
        )
    return answer


def _prove_start(target: Target, clean: Answer) -> None:
    """Hold a start with the shim against `clean`, one from before it: nothing new on stderr, and armed exactly once."""
    answer = _start(target)
    armed = answer.stdout.strip().splitlines()[-1:]
    # An interpreter that complains of other things at every start may go on doing so.
    quiet = PATH_FILE not in answer.stderr if clean.stderr else not answer.stderr
    if answer.exit_code == 0 and armed == ["1"] and quiet:
        return
    summary = f"{target.python} does not start cleanly with the shim, which was taken out again"
    evidence = Evidence(excerpt=answer.stderr.strip() or f"exit code {answer.exit_code}, armed finders: {armed}")
    remedy = f"look at the other `.pth` files and at sitecustomize in {target.site_dir}"
    finding = Finding(
        rule="preload/breaks-start", severity=Severity.ERROR, summary=summary, evidence=(evidence,), remedy=remedy
    )
    raise PreparationError(summary, hint=remedy, findings=(finding,))


def _roll_back(before: dict[Path, bytes | None], site_dir: Path) -> None:
    """Put the files back as they were: first the `.pth` goes, at last it returns."""
    path_file = site_dir / PATH_FILE
    _remove(path_file)
    for path, content in sorted(before.items(), key=lambda item: item[0] == path_file):
        if content is None:
            _remove(path)
        else:
            write_atomically(path, content)
    _remove_compiled(site_dir)
