# SPDX-License-Identifier: Apache-2.0
"""Reads the job: who saves a cache, with which key, and what its log says."""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from ci_doctor.caches.compiled import LogWords, read_lines
from ci_doctor.caches.targets import CacheTarget
from ci_doctor.commands.cache.setting import KEY_VARIABLE, CacheSetting
from ci_doctor.errors import UsageError
from ci_doctor.model.about import About
from ci_doctor.store.manifest import Origin
from ci_doctor.store.signer import Signer, load_signer, signer_from_text
from ci_doctor.store.trust import namespace_of
from ci_doctor.version import tool_version


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
