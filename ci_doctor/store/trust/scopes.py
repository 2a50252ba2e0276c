# SPDX-License-Identifier: Apache-2.0
"""Pure. Which scope of a store a job writes to, and which it reads.

signed           the default branch's jobs that have a key; everybody reads it
pr-<number>      the builds of one pull request
branch-<name>    the builds of one branch
local            everything outside CI

A job can set the variables that decide this: they keep honest jobs apart. What keeps a dishonest
one out of `signed` is the key that it does not have. A signature names the scope that it was made
for, so that what a pull request has signed is worth nothing elsewhere.
"""

import hashlib
import re
from collections.abc import Mapping
from typing import Final

import msgspec

from ci_doctor.buildkite.default_branch import is_default_branch_build
from ci_doctor.buildkite.job import JobEnvironment

SIGNED: Final = "signed"
LOCAL: Final = "local"
NAMESPACE: Final = "ci-doctor-cache"
_NAME_CHARACTERS: Final = 60


class JobScopes(msgspec.Struct, frozen=True, kw_only=True):
    """Where a job writes, where it reads (in order of preference), and why, as a clause."""

    write: str
    read: tuple[str, ...]
    reason: str


def scopes_of(environ: Mapping[str, str], *, has_key: bool) -> JobScopes:
    """The scopes of the job that has these variables.

    A pull request never writes to `signed`, whatever key it has.
    """
    own, reason = _own_scope(environ)
    trusted, trusted_reason = is_default_branch_build(environ)
    if trusted and has_key:
        return JobScopes(write=SIGNED, read=(SIGNED,), reason=trusted_reason)
    if trusted:
        reason = f"{trusted_reason}, and there is no key"
    return JobScopes(write=own, read=(own, SIGNED), reason=reason)


def namespace_of(scope: str) -> str:
    """The namespace of signatures in `scope`: `ci-doctor-cache`, or `ci-doctor-cache@pr-12`."""
    return NAMESPACE if scope == SIGNED else f"{NAMESPACE}@{scope}"


def readable_packs(scope: str) -> frozenset[str]:
    """The scopes in whose packs a manifest of `scope` may have its bytes."""
    return frozenset({scope, SIGNED})


def _own_scope(environ: Mapping[str, str]) -> tuple[str, str]:
    job = JobEnvironment.from_environ(environ)
    if job is None:
        return LOCAL, "this is no Buildkite job"
    request = environ.get("BUILDKITE_PULL_REQUEST", "")
    if request.isascii() and request.isdigit():
        return f"pr-{int(request)}", f"this is a build of pull request {int(request)}"
    branch = job.branch or "unknown"
    return f"branch-{_slug(branch)}", f"this is a build of branch {branch}"


def _slug(branch: str) -> str:
    """The branch's name in plain characters; with a digest, because a/b and a-b are two branches."""
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", branch)[:_NAME_CHARACTERS].strip("-.")
    digest = hashlib.sha256(branch.encode(errors="surrogateescape")).hexdigest()[:8]
    return f"{plain}-{digest}" if plain else digest
