# SPDX-License-Identifier: Apache-2.0
"""Reads the configuration: `[cache]`, the store that it names, and whom to believe."""

import os
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ci_doctor.caches.settings import CacheSettings
from ci_doctor.caches.trusted_store import TrustedStore
from ci_doctor.config.decoding import Origins, decode_section, path_in, seconds_above_zero
from ci_doctor.config.loading import Config, load_config
from ci_doctor.errors import UsageError
from ci_doctor.model.distribution import install_extra
from ci_doctor.store.directory_store import open_store
from ci_doctor.store.objects import StoreError, StoreFailure
from ci_doctor.store.transfer import Deadline
from ci_doctor.store.trust import AllowedSigners, JobScopes, TrustRules, scopes_of
from ci_doctor.system import clock

KEY_VARIABLE = "CI_DOCTOR_CACHE_KEY_TEXT"
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

    def trusted_store(self) -> TrustedStore:
        """The store as this job may read it. Raises UsageError, StoreError."""
        address = self.address()
        _require_extra(strict=self.settings.strict)
        store = open_store(address, os.environ, timeout_s=self.deadline.left())
        return TrustedStore(store=store, scopes=self.scopes.read, rules=self._rules())

    def _rules(self) -> TrustRules:
        signers = self.settings.allowed_signers
        allowed = AllowedSigners.read(Path(signers)) if signers is not None else None
        now_ms = round(clock.epoch() * 1000)
        return TrustRules(policy=self.settings.trust, allowed=allowed, now_ms=now_ms)


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
    for name in ("store", "key", "allowed_signers"):
        value = getattr(settings, name)
        if value is not None and "://" not in value:
            changed[name] = str(path_in(loaded, origins[name], value).expanduser().absolute())
    return replace(settings, **changed)


def _require_extra(*, strict: bool) -> None:
    """Raises StoreError without the extra `cache`, which is an error of usage for the strict."""
    missing = [name for name in _LIBRARIES if find_spec(name) is None]
    if not missing:
        return
    message = f"caches need {' and '.join(missing)}, not installed here"
    hint = install_extra("cache")
    if strict:
        raise UsageError(message, hint=hint)
    raise StoreError(StoreFailure.MISSING, f"{message}: {hint}", hint=hint)
