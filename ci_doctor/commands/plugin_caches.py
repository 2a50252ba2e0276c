# SPDX-License-Identifier: Apache-2.0
"""Acts on the job's report directory: its caches are restored, judged and saved, with one report."""

import os
from pathlib import Path

import msgspec

from ci_doctor.buildkite.plugin import (
    CacheOption,
    HookStep,
    done_with,
    keep_done,
    options_and_problem,
    report_root,
)
from ci_doctor.buildkite.rest import VARIABLE
from ci_doctor.caches.outcomes import job_outcome, restore_outcome
from ci_doctor.commands.cache import effects, restored, saved
from ci_doctor.commands.cache_setting import CacheSetting, cache_setting
from ci_doctor.decodable import decodable
from ci_doctor.errors import CiDoctorError
from ci_doctor.model.facts.cache import JobCacheFacts, SaveCacheFacts
from ci_doctor.model.outcome import Verdict
from ci_doctor.session.delivery import read_reports
from ci_doctor.session.invocation import Invocation
from ci_doctor.session.printing import say_line
from ci_doctor.session.session import Session

# A command of the job may write reports of `ci-doctor cache` itself, to `cache`, `cache-2` …
_FOLDER = "caches"
_OF_A_STORE = ("store", "families", "allowed_signers", "budget")


def restore_caches(root: Path, option: CacheOption, config: str | None) -> int:
    """Restore before the command; the exit code, which is 0 unless the option is strict.

    Strict or not, a job that saves its caches goes on without them: somebody must save the first.
    """
    words = ["restore", str(option), str(config)]
    if words in done_with(root, HookStep.CACHED):
        return 0
    session = _session(root, "restore")
    try:
        setting = _setting(option, config, *_OF_A_STORE, "trust", "strict")
        facts = restored(setting)
    except CiDoctorError as error:
        return session.fail(error)
    keep_done(root, HookStep.CACHED, words)
    before = _kept(root)
    verdict = restore_outcome(facts, strict=setting.settings.strict).verdict
    if verdict is Verdict.PASS or (verdict is Verdict.VOID and option.save):
        verdict = None
    all_facts = msgspec.structs.replace(before, restored=(*before.restored, facts))
    return session.finish(job_outcome(all_facts, verdict))


def judge_and_save_caches() -> None:
    """Say whether the restored caches have paid, and save what the command has compiled."""
    options, _ = options_and_problem(os.environ)
    option = options.cache
    if option is None:
        return
    root = report_root(options, os.environ)
    words = ["verify", str(option), str(options.config)]
    if words in done_with(root, HookStep.CACHED):
        return
    name = os.environ.get(VARIABLE)
    log = Path(name) if name and os.access(name, os.R_OK) else None
    session = _session(root, "verify")
    before = _kept(root)
    # First: reading the files to save them would hide which of them the command has read.
    effect = effects(_setting(option, options.config, "families"), log)
    facts = msgspec.structs.replace(before, effects=(*before.effects, effect))
    if option.save:
        try:
            kept = saved(_setting(option, options.config, *_OF_A_STORE, "key"), session.about, None)
        except CiDoctorError as error:
            # A mistake of the step must not take away whether its caches have paid.
            kept = SaveCacheFacts(
                store=option.store or "the configured store",
                scope="",
                is_signed=False,
                is_accepted=True,
                caches=(),
                problem=error.message,
            )
        facts = msgspec.structs.replace(facts, saved=(*before.saved, kept))
    keep_done(root, HookStep.CACHED, words)
    session.finish(job_outcome(facts, None))


def _setting(option: CacheOption, config: str | None, *names: str) -> CacheSetting:
    """`[cache]` with these fields of the option over it. Raises ConfigError, UsageError."""
    # What is false is not said.
    flags = {name: getattr(option, name) or None for name in names}
    return cache_setting(None if config is None else Path(config), flags)


def _session(root: Path, name: str) -> Session:
    """The session of the shared report; without a directory that can be written, it is printed alone."""
    session = Session(Invocation.begin(["cache", name]))
    session.has_group = True
    session.named_directory = root / _FOLDER
    try:
        # What the hook before has written stays until it is replaced.
        session.claim(clear=False)
    except CiDoctorError as error:
        say_line(f"{error.message}; the report on caches is printed alone")
    return session


def _kept(root: Path) -> JobCacheFacts:
    """What the hooks before this one did; nothing if their report cannot be read."""
    for _, report in read_reports((root / _FOLDER,), []):
        try:
            return msgspec.convert(report.facts, decodable(JobCacheFacts))
        except msgspec.ValidationError:
            continue
    return JobCacheFacts()
