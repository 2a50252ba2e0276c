# SPDX-License-Identifier: Apache-2.0
"""Reads the configuration and the job: `[cache]`, its store, and whom to believe."""

import os
from collections.abc import Callable, Iterable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from ci_doctor.caches.effect import LogWords, read_lines
from ci_doctor.caches.judge import CacheSettings
from ci_doctor.caches.leader import bounded
from ci_doctor.caches.targets import CacheTarget, IdentifiedCache, identify, targets_of
from ci_doctor.caches.trusted_store import TrustedStore
from ci_doctor.commands.teller import late_teller
from ci_doctor.config.decoding import Origins, decode_section, path_in, seconds_above_zero
from ci_doctor.config.loading import Config, load_config
from ci_doctor.errors import UsageError
from ci_doctor.model.outcome import About
from ci_doctor.store.directory_store import DirectoryStore, is_remote, open_store
from ci_doctor.store.manifest import Origin
from ci_doctor.store.objects import StoreError, StoreFailure
from ci_doctor.store.signer import KEY_VARIABLE, Signer, load_signer, signer_from_text
from ci_doctor.store.transfer import Deadline
from ci_doctor.store.trust import AllowedSigners, JobScopes, TrustRules, namespace_of, scopes_of
from ci_doctor.system import clock
from ci_doctor.version import install_extra, tool_version

T = TypeVar("T")
# What is so on each run.
_LASTING = frozenset({StoreFailure.READ_ONLY, StoreFailure.REFUSED, StoreFailure.MISSING})
_LIBRARIES = ("blake3", "cryptography", "zstandard")


class CacheSetting(Struct, frozen=True, kw_only=True):
    """`[cache]` with the flags over it; paths are resolved. The deadline runs from now on."""

    settings: CacheSettings
    deadline: Deadline

    @property
    def has_key(self) -> bool:
        """Whether this job can sign."""
        return self.settings.key is not None or bool(os.environ.get(KEY_VARIABLE))

    @property
    def targets(self) -> tuple[CacheTarget, ...]:
        """The directories of its families. Raises UsageError."""
        return targets_of(self.settings.families, self.settings.own, os.environ)

    def caches(self, python: str | None) -> tuple[IdentifiedCache, ...]:
        """Its families with their identities; `python` is the interpreter of the job. Raises UsageError."""
        return identify(self.targets, os.environ, python)

    def bounded(self, work: Callable[[], T], doing: str) -> T:
        """What `work` returns. Raises StoreError if `doing` takes longer than what is left."""
        with late_teller() as tell:
            return bounded(work, self.deadline.left(), doing, tell=tell)

    @property
    def scopes(self) -> JobScopes:
        """Where this job writes and reads."""
        return scopes_of(os.environ, has_key=self.has_key)

    def address(self) -> str:
        """Where the caches are. Raises UsageError if nothing names a store."""
        if self.settings.store is None:
            raise UsageError(
                "no store is named", hint="--store DIR|URL, or `store` in [cache] of ci-doctor.toml"
            )
        return self.settings.store

    def trusted_store(self, *, is_optional: bool = False) -> TrustedStore:
        """The store as this job may read it. Raises UsageError, StoreError.

        is_optional: without the strict setting, the job does without a store; then a missing extra is a StoreError.
        """
        address = self.address()
        _require_extra(is_optional=is_optional and not self.settings.strict)
        store = open_store(address, os.environ, timeout_s=self.deadline.left())
        signers = self.settings.allowed_signers
        allowed = AllowedSigners.read(Path(signers)) if signers is not None else None
        now_ms = round(clock.epoch() * 1000)
        rules = TrustRules(policy=self.settings.trust, allowed=allowed, now_ms=now_ms)
        return TrustedStore(store=store, scopes=self.scopes.read, rules=rules)

    def writable_store(self) -> TrustedStore:
        """The store as this job may read it, its directory made. Raises UsageError, StoreError.

        A directory that cannot be made is a mistake of the settings: an error of usage for the strict.
        """
        source = self.trusted_store(is_optional=True)
        if isinstance(source.store, DirectoryStore):
            try:
                self.bounded(source.store.make, "making the store")
            except StoreError as error:
                if self.settings.strict and error.reason in _LASTING:
                    raise UsageError(error.message, hint=error.hint) from error
                raise
        return source


def cache_setting(config_path: Path | None, flags: Mapping[str, Any]) -> CacheSetting:
    """The setting of one command. Raises ConfigError, UsageError."""
    loaded = load_config(config_path, Path.cwd())
    settings, origins = decode_section(
        loaded, "cache", CacheSettings, environ=os.environ, flags=flags
    )
    budget = seconds_above_zero(settings.budget, "budget")
    return CacheSetting(settings=_resolved(loaded, settings, origins), deadline=Deadline(budget))


def _resolved(loaded: Config, settings: CacheSettings, origins: Origins) -> CacheSettings:
    """Paths of the file are relative to it."""
    changed = {}
    if settings.store is not None:
        # Before a mistyped URL becomes a path.
        is_remote(settings.store)
    for name in ("store", "key", "allowed_signers"):
        value = getattr(settings, name)
        if value is not None and "://" not in value:
            changed[name] = str(path_in(loaded, origins[name], value).expanduser().absolute())
    return replace(settings, **changed)


def _require_extra(*, is_optional: bool) -> None:
    """Raises UsageError without the extra `cache`, or StoreError if the job may do without it."""
    missing = [name for name in _LIBRARIES if find_spec(name) is None]
    if not missing:
        return
    message = f"caches need {' and '.join(missing)}, not installed here"
    hint = install_extra("cache")
    if is_optional:
        raise StoreError(StoreFailure.MISSING, f"{message}: {hint}", hint=hint)
    raise UsageError(message, hint=hint)


def origin_of(about: About, environ: Mapping[str, str]) -> Origin:
    """The job that saves, as far as it is known."""
    return Origin(
        tool=f"ci-doctor {tool_version()}",
        pipeline=about.pipeline,
        build=str(about.build) if about.build is not None else None,
        commit=about.commit,
        branch=about.branch,
        job=about.job,
        agent=environ.get("BUILDKITE_AGENT_NAME"),
    )


def signer_of(setting: CacheSetting) -> Signer | None:
    """The signer for what this job writes; None without a key. Raises UsageError."""
    namespace = namespace_of(setting.scopes.write)
    if setting.settings.key is not None:
        return load_signer(Path(setting.settings.key), namespace)
    text = os.environ.get(KEY_VARIABLE)
    return signer_from_text(text, KEY_VARIABLE, namespace) if text else None


def logs_of(log: Path | None, targets: Iterable[CacheTarget]) -> dict[str, LogWords]:
    """What the log says of each family, by its name. Raises UsageError if it cannot be read."""
    if log is None:
        return {}
    try:
        words = {}
        for target in targets:
            with log.open(encoding="utf-8", errors="replace") as lines:
                words[target.family.name] = read_lines(lines, target.family)
    except OSError as error:
        raise UsageError(f"cannot read the log {log}: {error.strerror}") from error
    return words
