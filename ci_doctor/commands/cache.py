# SPDX-License-Identifier: Apache-2.0
"""`ci-doctor cache`, and the commands below it."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ci_doctor.commands.documented import (
    TIME,
    VERDICT,
    Group,
    config_option,
    dry_run_option,
    option,
    output_options,
    pass_session,
)
from ci_doctor.session.session import Session

if TYPE_CHECKING:
    from ci_doctor.commands.cache_setting import CacheSetting
    from ci_doctor.model.facts.cache import (
        CacheEffectFacts,
        RestoreCacheFacts,
        SaveCacheFacts,
        VerifyCacheFacts,
    )
    from ci_doctor.model.outcome import About


@click.group(
    "cache",
    examples={
        "ci-doctor cache status": "Show where the caches lie.",
    },
    cls=Group,
)
def cache() -> None:
    """Move JIT caches between jobs, and prove whether that has paid."""


CACHES = "Caches"
TRUST = "Trust"
_STORE_GROUP = "Store"


F = TypeVar("F", bound=Callable[..., Any])

_STORE = option(
    "--store",
    group=_STORE_GROUP,
    metavar="DIR|URL",
    help="A directory, or s3://bucket/prefix, gs://…, az://…. [default: that of [cache]]",
)
_FAMILIES = option(
    "--family",
    "families",
    group=CACHES,
    multiple=True,
    metavar="NAME[=DIR]",
    help="A kind of cache, and its directory if it is not the library's own. Repeatable. "
    "[default: those of [cache], else all that are known]",
)
_BUDGET = option(
    "--budget",
    group=TIME,
    metavar="TIME",
    help="The most that the whole command takes. [default: 60s]",
)
_STRICT = option(
    "--strict",
    group=VERDICT,
    is_flag=True,
    default=None,
    help="A problem with a cache decides the exit code. [default: it is a warning, and 0]",
)
_PYTHON = option(
    "--python",
    group=CACHES,
    metavar="PY",
    help="The interpreter of the job, whose packages are facts of the identity. "
    "[default: python3 on PATH]",
)
SIGNERS_OPTION = option(
    "--allowed-signers",
    group=TRUST,
    metavar="FILE",
    help="The accepted signers, in the format of ssh-keygen(1).",
)
TRUST_OPTION = option(
    "--trust",
    group=TRUST,
    type=click.Choice(["signed", "local", "any"]),
    help="Whose caches are restored. They are executed. signed: those of an accepted signer; local: also "
    "unsigned ones from a directory that this user alone can write; any: all. [default: local]",
)
LOG_OPTION = option(
    "--log",
    group=CACHES,
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help="The job's log, in which libraries report on their caches.",
)


def cache_options(function: F) -> F:
    """What every command has that looks at cache directories."""
    for each in (_PYTHON, _FAMILIES):
        function = each(function)
    return config_option(output_options(function))


def store_options(function: F) -> F:
    """What every command has that uses a store."""
    for each in (_STRICT, _BUDGET, _STORE):
        function = each(function)
    return function


@cache.command(
    "restore",
    section="cache",
    examples={
        "ci-doctor cache restore --store s3://ci-caches/jit --trust signed --allowed-signers ci/signers": "Before the job's command: restore what an allowed signer saved.",
        "ci-doctor cache restore --store /mnt/caches --family triton": "Restore one kind of cache from a directory.",
    },
    exits={
        0: "restored, or a warning",
        1: "--strict: a cache is refused, such as one without an accepted signature",
        2: "--strict: the extra `cache` is not installed",
        75: "--strict: a problem with the store",
        86: "--strict: nothing was restored",
    },
)
@store_options
@TRUST_OPTION
@SIGNERS_OPTION
@cache_options
@pass_session
def restore(
    session: Session,
    /,
    *,
    python: str | None,
    config_path: Path | None,
    **flags: object,
) -> int:
    """Restore the caches that earlier jobs saved, if they are valid on this machine.

    If several processes of this user on one machine ask for the same caches, one of them transfers.
    The others wait and have its result. A problem is a warning: the job goes on without a cache.
    """
    session.claim()
    from ci_doctor.caches.outcomes import restore_outcome
    from ci_doctor.commands.cache_setting import cache_setting

    setting = cache_setting(config_path, flags)
    facts = restored(setting, python)
    return session.finish(restore_outcome(facts, strict=setting.settings.strict))


def restored(setting: "CacheSetting", python: str | None = None) -> "RestoreCacheFacts":
    """What was restored; a problem with the store is a part of the facts. Raises UsageError."""
    from ci_doctor.caches.restore import RestoreWork, run_restore
    from ci_doctor.caches.trusted_store import machine_directory
    from ci_doctor.commands.teller import late_teller
    from ci_doctor.model.facts.cache import RestoreCacheFacts
    from ci_doctor.store.objects import StoreError

    caches = setting.caches(python)
    try:
        source = setting.trusted_store(is_optional=True)
        work = RestoreWork(
            caches=caches,
            source=source,
            deadline=setting.deadline,
            state=machine_directory(os.environ),
            job=os.environ.get("BUILDKITE_JOB_ID"),
        )
        with late_teller() as progress:
            return run_restore(work, setting.deadline, progress)
    except StoreError as error:
        return RestoreCacheFacts(
            store=setting.address(),
            is_shared=False,
            caches=(),
            problem=error.message,
            failure=error.reason.value,
        )


@cache.command(
    "save",
    section="cache",
    examples={
        "ci-doctor cache save --store s3://ci-caches/jit --key signing-key": "After the job's command: save, with a signature.",
    },
    exits={
        0: "saved, or a warning",
        1: "--strict: what was saved is not signed, and others can write to the store",
        2: "--strict: the extra `cache` is not installed, or the directory of the store cannot be made",
        75: "--strict: a problem with the store, or a cache could not be saved",
        86: "--strict: there is nothing to save, or nothing in a named directory",
    },
)
@store_options
@option(
    "--key",
    group=TRUST,
    metavar="FILE",
    help="The private key to sign with, for jobs of the default branch alone.",
)
@SIGNERS_OPTION
@LOG_OPTION
@cache_options
@pass_session
def save(
    session: Session,
    /,
    *,
    log: Path | None,
    python: str | None,
    config_path: Path | None,
    **flags: object,
) -> int:
    """Save what this job has compiled, for later jobs with the same identity.

    Only what changed is sent. Run it after a command that succeeded, and `cache verify --effect`
    before it.
    """
    session.claim()
    from ci_doctor.caches.outcomes import save_outcome
    from ci_doctor.commands.cache_setting import cache_setting

    setting = cache_setting(config_path, flags)
    facts = saved(setting, session.about, log, python)
    return session.finish(save_outcome(facts, strict=setting.settings.strict))


def saved(
    setting: "CacheSetting", about: "About", log: Path | None, python: str | None = None
) -> "SaveCacheFacts":
    """What was saved; a problem with the store is a part of the facts. Raises UsageError."""
    from ci_doctor.caches.restore import SaveWork, run_save
    from ci_doctor.caches.trusted_store import machine_directory
    from ci_doctor.commands.cache_setting import logs_of, origin_of, signer_of
    from ci_doctor.commands.teller import late_teller
    from ci_doctor.config.decoding import seconds_above_zero
    from ci_doctor.model.facts.cache import SaveCacheFacts
    from ci_doctor.store.objects import StoreError

    caches = setting.caches(python)
    expires_s = seconds_above_zero(setting.settings.expires, "expires")
    try:
        target = setting.writable_store()
        work = SaveWork(
            caches=caches,
            target=target,
            scope=setting.scopes.write,
            signer=signer_of(setting),
            deadline=setting.deadline,
            state=machine_directory(os.environ),
            expires_s=expires_s,
            origin=origin_of(about, os.environ),
            logs=logs_of(log, setting.targets),
            gpus=len(about.gpus),
        )
        with late_teller() as progress:
            return run_save(work, setting.deadline, progress)
    except StoreError as error:
        return SaveCacheFacts(
            store=setting.address(),
            scope=setting.scopes.write,
            is_signed=setting.has_key,
            is_accepted=True,
            caches=(),
            problem=error.message,
            failure=error.reason.value,
        )


@cache.command(
    "status",
    section="cache",
    examples={
        "ci-doctor cache status --store /mnt/caches": "Show the caches, and what a restore would do.",
    },
)
@store_options
@TRUST_OPTION
@SIGNERS_OPTION
@cache_options
@pass_session
def status(
    session: Session, /, *, python: str | None, config_path: Path | None, **flags: object
) -> int:
    """Show where the caches lie, which were restored from where, and what a restore would do."""
    session.claim()
    from ci_doctor.caches.outcomes import status_outcome
    from ci_doctor.caches.trusted_store import machine_directory, status_row
    from ci_doctor.commands.cache_setting import cache_setting
    from ci_doctor.model.facts.cache import CacheStatusFacts

    setting = cache_setting(config_path, flags)
    store = setting.settings.store
    source = setting.trusted_store() if store is not None else None
    state = machine_directory(os.environ)
    caches = setting.caches(python)

    def look() -> CacheStatusFacts:
        rows = tuple(status_row(cache, state, source) for cache in caches)
        return CacheStatusFacts(store=store, caches=rows)

    facts = setting.bounded(look, "looking at the store")
    return session.finish(status_outcome(facts), on_stdout=True)


@cache.command(
    "verify",
    section="cache",
    examples={
        "ci-doctor cache verify --effect --log server.log": "Say whether the restored caches have paid.",
        "ci-doctor cache verify --store /mnt/caches": "Read a store against its digests.",
    },
    exits={
        0: "intact, or with --effect whatever it is without --strict",
        1: "the store is damaged; --effect --strict: a restored cache is inert",
        86: "nothing was restored or saved; --effect --strict: there is no proof",
    },
)
@option(
    "--effect",
    group=CACHES,
    is_flag=True,
    help="Say whether what was restored has paid: paid, partly or inert. Run it after the job's "
    "command, and before `cache save`.",
)
@LOG_OPTION
@store_options
@TRUST_OPTION
@SIGNERS_OPTION
@cache_options
@pass_session
def verify(
    session: Session,
    /,
    *,
    effect: bool,
    log: Path | None,
    python: str | None,
    config_path: Path | None,
    **flags: object,
) -> int:
    """Read restored caches against their receipts, and the store against its digests.

    With --effect, from what was compiled after the restore, and how long that took.
    """
    session.claim()
    from ci_doctor.caches.outcomes import effect_outcome, verify_outcome
    from ci_doctor.commands.cache_setting import cache_setting

    del python  # the receipts have the identity
    setting = cache_setting(config_path, flags)
    if effect:
        outcome = effect_outcome(effects(setting, log), strict=setting.settings.strict)
    else:
        outcome = verify_outcome(_verified(setting))
    return session.finish(outcome, on_stdout=True)


def effects(setting: "CacheSetting", log: Path | None) -> "CacheEffectFacts":
    """Whether what was restored has paid. Raises UsageError, StoreError."""
    from ci_doctor.caches.outcomes import effect_facts
    from ci_doctor.caches.prove import ProofWork, prove_all
    from ci_doctor.caches.trusted_store import machine_directory
    from ci_doctor.commands.cache_setting import logs_of

    work = ProofWork(
        targets=setting.targets,
        state=machine_directory(os.environ),
        job=os.environ.get("BUILDKITE_JOB_ID"),
        logs=logs_of(log, setting.targets),
    )
    return effect_facts(prove_all(work))


def _verified(setting: "CacheSetting") -> "VerifyCacheFacts":
    """The restored trees, and the store if one is named. Raises StoreError, UsageError."""
    from msgspec.structs import replace

    from ci_doctor.caches.trusted_store import machine_directory, verify_installed, verify_store
    from ci_doctor.model.facts.cache import VerifyCacheFacts

    place = setting.settings.store
    installed = verify_installed(setting.targets, machine_directory(os.environ))
    if place is None:
        return VerifyCacheFacts(store=None, caches=installed)
    source = setting.trusted_store()
    names = tuple(target.family.name for target in setting.targets)
    whole = setting.bounded(
        lambda: verify_store(source, names, setting.deadline), "verifying the store"
    )
    return replace(whole, store=place, caches=installed)


@cache.command(
    "explain",
    section="cache",
    examples={
        "ci-doctor cache explain --store /mnt/caches --family triton": "Show why a saved cache is not valid here.",
    },
)
@store_options
@TRUST_OPTION
@SIGNERS_OPTION
@cache_options
@pass_session
def explain(
    session: Session, /, *, python: str | None, config_path: Path | None, **flags: object
) -> int:
    """Print the identity of each cache, fact by fact, and where the nearest saved one differs."""
    session.claim()
    from ci_doctor.caches.outcomes import explain_outcome
    from ci_doctor.caches.trusted_store import explain as explain_cache
    from ci_doctor.commands.cache_setting import cache_setting
    from ci_doctor.model.facts.cache import ExplainCacheFacts

    setting = cache_setting(config_path, flags)
    store = setting.settings.store
    source = setting.trusted_store() if store is not None else None
    caches = setting.caches(python)

    def look() -> ExplainCacheFacts:
        rows = tuple(explain_cache(cache, source) for cache in caches)
        return ExplainCacheFacts(store=store, caches=rows)

    facts = setting.bounded(look, "looking at the store")
    return session.finish(explain_outcome(facts), on_stdout=True)


@cache.command(
    "gc",
    section="cache",
    examples={
        "ci-doctor cache gc --store /mnt/caches --older-than 14d --dry-run": "Show what would be removed.",
    },
)
@option(
    "--keep",
    group="What is kept",
    type=click.IntRange(min=1),
    help="How many saved caches of each family and identity stay. [default: 3]",
)
@option(
    "--older-than",
    group="What is kept",
    metavar="TIME",
    help="Remove what is older. [default: 30d]",
)
@dry_run_option
@store_options
@config_option
@output_options
@pass_session
def gc(
    session: Session,
    /,
    *,
    older_than: str | None,
    dry_run: bool,
    config_path: Path | None,
    **flags: object,
) -> int:
    """Remove old caches from a store, and packs that none of the others needs.

    It may run beside jobs that save and restore: a pack goes in a second run, a day after the first.
    """
    session.claim()
    from ci_doctor.caches.outcomes import collect_outcome
    from ci_doctor.commands.cache_setting import cache_setting
    from ci_doctor.config.decoding import seconds_above_zero
    from ci_doctor.store.collect_garbage import GarbageRules, collect_garbage
    from ci_doctor.store.objects import StoreLimits
    from ci_doctor.system import clock

    setting = cache_setting(config_path, flags)
    store = setting.trusted_store().store
    rules = GarbageRules(
        keep=setting.settings.keep,
        older_than_ms=round(seconds_above_zero(older_than or "30d", "--older-than") * 1000),
        now_ms=round(clock.epoch() * 1000),
    )
    facts = setting.bounded(
        lambda: collect_garbage(store, rules, StoreLimits(), dry_run=dry_run), "collecting garbage"
    )
    return session.finish(collect_outcome(facts), on_stdout=True)


@cache.command(
    "keygen",
    examples={
        "ci-doctor cache keygen signing-key": "Make signing-key and signing-key.pub.",
    },
)
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@option(
    "--principal",
    default="ci-doctor-cache",
    help="The name of the signer in the file of allowed signers. [default: ci-doctor-cache]",
)
@output_options
@pass_session
def keygen(session: Session, /, *, file: Path, principal: str) -> int:
    """Make a key to sign caches with: FILE and FILE.pub, in OpenSSH's format.

    FILE belongs only into the jobs that save on the default branch.
    """
    session.claim()
    from ci_doctor.caches.outcomes import key_outcome
    from ci_doctor.model.facts.cache import CacheKeyFacts
    from ci_doctor.store.signer import generate_key
    from ci_doctor.store.trust import NAMESPACE

    public = generate_key(file)
    facts = CacheKeyFacts(
        private=str(file),
        public=f"{file}.pub",
        allowed_signer=f'{principal} namespaces="{NAMESPACE}" {public}',
    )
    return session.finish(key_outcome(facts), on_stdout=True)
