# SPDX-License-Identifier: Apache-2.0
"""Acts on the job's report directory: its caches are restored, judged and saved, with one report."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click
import msgspec

from ci_doctor.buildkite.hook_record import keep_cached, was_cached
from ci_doctor.buildkite.job_log import VARIABLE
from ci_doctor.buildkite.plugin import (
    CacheOption,
    effect_arguments,
    options_and_problem,
    report_root,
    restore_arguments,
    save_arguments,
)
from ci_doctor.caches.outcomes import job_outcome
from ci_doctor.decodable import decodable
from ci_doctor.errors import CiDoctorError
from ci_doctor.model.facts.cache import (
    CacheEffectFacts,
    JobCacheFacts,
    RestoreCacheFacts,
    SaveCacheFacts,
)
from ci_doctor.model.verdict import Verdict
from ci_doctor.session.delivery import read_reports
from ci_doctor.session.invocation import Invocation
from ci_doctor.session.printing import say_line
from ci_doctor.session.session import Session

if TYPE_CHECKING:
    from ci_doctor.model.outcome import Outcome


F = TypeVar("F", RestoreCacheFacts, CacheEffectFacts, SaveCacheFacts)

# A command of the job may write reports of `ci-doctor cache` itself, to `cache`, `cache-2` …
_FOLDER = "caches"


class _KeptOutcome(Session):
    """The session of one command of several that share a report: it keeps the outcome."""

    outcome: "Outcome | None" = None

    def claim(self, default: Path | None = None, *, clear: bool = True) -> Path | None:  # noqa: ARG002
        """No directory: the shared report has one."""
        return None

    def finish(
        self,
        outcome: "Outcome",
        *,
        on_stdout: bool = False,  # noqa: ARG002
        text: str | None = None,  # noqa: ARG002
    ) -> int:
        """Keep the outcome."""
        self.outcome = outcome
        return 0


def restore_caches(
    context: click.Context, root: Path, option: CacheOption, config: str | None
) -> int:
    """Restore before the command; the exit code, which is 0 unless the option is strict.

    Strict or not, a job that saves its caches goes on without them: somebody must save the first.
    """
    words = ["restore", *restore_arguments(option, config)]
    if was_cached(root, words):
        return 0
    session = _session(root, words)
    try:
        outcome = _outcome(context, session, words)
    except CiDoctorError as error:
        return session.fail(error)
    keep_cached(root, words)
    before = _kept(root)
    restored = (*before.restored, _facts_of(outcome, RestoreCacheFacts))
    facts = msgspec.structs.replace(before, restored=restored)
    verdict = outcome.verdict
    if verdict is Verdict.PASS or (verdict is Verdict.VOID and option.save):
        verdict = None
    return session.finish(job_outcome(facts, verdict))


def judge_and_save_caches(context: click.Context) -> None:
    """Say whether the restored caches have paid, and save what the command has compiled."""
    options, _ = options_and_problem(os.environ)
    option = options.cache
    if option is None:
        return
    root = report_root(options, os.environ)
    words = ["verify", *effect_arguments(option, options.config)]
    log = os.environ.get(VARIABLE)
    if log and os.access(log, os.R_OK):
        words += ["--log", log]
    if was_cached(root, words):
        return
    session = _session(root, words)
    before = _kept(root)
    # First: reading the files to save them would hide which of them the command has read.
    effect = _facts_of(_outcome(context, session, words), CacheEffectFacts)
    facts = msgspec.structs.replace(before, effects=(*before.effects, effect))
    if option.save:
        saved = _saved(context, session, option, options.config)
        facts = msgspec.structs.replace(facts, saved=(*before.saved, saved))
    keep_cached(root, words)
    session.finish(job_outcome(facts, None))


def _saved(
    context: click.Context, session: Session, option: CacheOption, config: str | None
) -> SaveCacheFacts:
    """What was saved; a mistake of the step must not take away whether its caches have paid."""
    words = ["save", *save_arguments(option, config)]
    try:
        return _facts_of(_outcome(context, session, words), SaveCacheFacts)
    except CiDoctorError as error:
        return SaveCacheFacts(
            store=option.store or "the configured store",
            scope="",
            is_signed=False,
            is_accepted=True,
            caches=(),
            problem=error.message,
        )


def _session(root: Path, words: list[str]) -> Session:
    """The session of the shared report; without a directory that can be written, it is printed alone."""
    session = Session(Invocation.begin(["cache", *words]))
    session.has_group = True
    session.named_directory = root / _FOLDER
    try:
        # What the hook before has written stays until it is replaced.
        session.claim(clear=False)
    except CiDoctorError as error:
        say_line(f"{error.message}; the report on caches is printed alone")
    return session


def _outcome(context: click.Context, session: Session, words: list[str]) -> "Outcome":
    """The outcome of `ci-doctor cache` with `words`. Raises what it raises."""
    name, *arguments = words
    from ci_doctor.commands.cache import cache

    command = cache.commands[name]
    kept = _KeptOutcome(Invocation.begin(["cache", *words]))
    kept.speak_of(session.about)
    with command.make_context(name, arguments, parent=context, obj=kept) as inner:
        command.invoke(inner)
    assert kept.outcome is not None  # noqa: S101 - each of these commands ends by `finish`
    return kept.outcome


def _facts_of(outcome: "Outcome", kind: type[F]) -> F:
    assert isinstance(outcome.facts, kind)  # noqa: S101 - of the command that was called
    return outcome.facts


def _kept(root: Path) -> JobCacheFacts:
    """What the hooks before this one did; nothing if their report cannot be read."""
    for _, report in read_reports((root / _FOLDER,), []):
        try:
            return msgspec.convert(report.facts, decodable(JobCacheFacts))
        except msgspec.ValidationError:
            continue
    return JobCacheFacts()
