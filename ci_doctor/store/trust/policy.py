# SPDX-License-Identifier: Apache-2.0
"""Reads a signature, and decides whether what it stands for may be used: what is restored is executed."""

import enum

import msgspec

from ci_doctor.store.trust.allowed_signers import AllowedSigners
from ci_doctor.store.trust.scopes import namespace_of
from ci_doctor.store.trust.untrusted import Distrust, UntrustedError
from ci_doctor.store.trust.verify import verify


class TrustPolicy(enum.StrEnum):
    """Whose content is used.

    signed: what an allowed signer has signed. local: also the rest, from a directory to which this
    user alone can write. any: everything, with a warning.
    """

    SIGNED = "signed"
    LOCAL = "local"
    ANY = "any"


class TrustRules(msgspec.Struct, frozen=True, kw_only=True):
    """The policy, the signers (None if no file of them is given), and the time in ms since the epoch."""

    policy: TrustPolicy
    allowed: AllowedSigners | None
    now_ms: int


class Vouched(msgspec.Struct, frozen=True, kw_only=True):
    """Content that may be used: who has signed it, or what is accepted without that.

    `signer` has the principals of a line of the allowed signers. `warning` is a sentence for people.
    """

    signer: str | None = None
    warning: str | None = None


def vouch(
    content: bytes, armored: str | None, scope: str, rules: TrustRules, *, shared: bool
) -> Vouched:
    """Who vouches for `content` of `scope`. Raises UntrustedError if nobody does who may.

    `armored` is the signature beside it, if there is one; `shared` says that others can write to
    the store. A signature that does not fit is refused by every policy.
    """
    if armored is None:
        error = UntrustedError(
            Distrust.UNSIGNED,
            "it is not signed",
            hint="sign with --key where caches are saved, and name the signers here",
        )
        return _without_signer(error, rules.policy, shared=shared)
    allowed = rules.allowed
    if allowed is None:
        allowed = AllowedSigners(
            source="an empty list (--allowed-signers is not given)", signers=()
        )
    try:
        signer = verify(content, armored, allowed, namespace_of(scope), rules.now_ms)
    except UntrustedError as error:
        if error.distrust is not Distrust.UNKNOWN_KEY:
            raise
        return _without_signer(error, rules.policy, shared=shared)
    return Vouched(signer=signer)


def accepts_unsigned(policy: TrustPolicy, *, shared: bool) -> bool:
    """Whether a reader with `policy` takes what nobody has signed. shared: others can write to the store."""
    return policy is TrustPolicy.ANY or (policy is TrustPolicy.LOCAL and not shared)


def _without_signer(error: UntrustedError, policy: TrustPolicy, *, shared: bool) -> Vouched:
    """What the policy accepts although nobody vouches for it. Raises `error` if it does not."""
    if policy is TrustPolicy.ANY:
        warning = f"used by --trust any, and it runs code in this job: {error.message}"
        if shared:
            warning += "; whoever can write to the store may have made it"
        return Vouched(warning=warning)
    if accepts_unsigned(policy, shared=shared):
        return Vouched()
    raise error
