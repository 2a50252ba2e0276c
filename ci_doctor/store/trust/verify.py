# SPDX-License-Identifier: Apache-2.0
"""Pure. Whether a message has been signed by a key that may sign it, as `ssh-keygen -Y verify` decides."""

import hashlib
from typing import Final

from ci_doctor.store.trust.allowed_signers import AllowedSigners
from ci_doctor.store.trust.ssh_wire import (
    ALGORITHM,
    SshSignature,
    malformed,
    signed_bytes,
    strings,
    unarmor,
)
from ci_doctor.store.trust.untrusted import Distrust, UntrustedError

_HASHES: Final = {b"sha256": hashlib.sha256, b"sha512": hashlib.sha512}


def verify(
    message: bytes, armored: str, allowed: AllowedSigners, namespace: str, at_ms: int
) -> str:
    """The principals of the line that allows the key, if the signature over `message` is its own.

    `at_ms` (since the epoch) is when the key must be valid: now, because a stolen key can sign with
    any date. Raises UntrustedError with the reason.
    """
    signature = unarmor(armored)
    _check_signature(message, signature)
    if signature.namespace != namespace.encode():
        made_for = signature.namespace.decode(errors="replace")[:80]
        raise UntrustedError(
            Distrust.WRONG_NAMESPACE,
            f"the signature was made for {made_for!r}, not for {namespace!r}",
        )
    lines = allowed.with_key(signature.public_key)
    if not lines:
        raise UntrustedError(
            Distrust.UNKNOWN_KEY,
            f"no line of {allowed.source} has the key of the signature",
            hint="add the public key of the job that saves, if you trust it",
        )
    lines = tuple(line for line in lines if line.may_sign(namespace))
    if not lines:
        message_text = f"{allowed.source} does not allow this key the namespace {namespace!r}"
        raise UntrustedError(Distrust.WRONG_NAMESPACE, message_text)
    for line in lines:
        if line.is_valid_at(at_ms):
            return line.principals
    raise UntrustedError(
        Distrust.KEY_NOT_VALID_NOW,
        f"the key of {lines[0].principals} is not valid now",
        hint=f"see valid-after and valid-before in {allowed.source}",
    )


def _check_signature(message: bytes, signature: SshSignature) -> None:
    """Raise UntrustedError unless the key in the signature has signed `message`."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    digest = _HASHES.get(signature.hash_algorithm)
    if digest is None:
        raise malformed("its hash is neither sha256 nor sha512")
    try:
        key_type, key = strings(signature.public_key)
        signature_type, raw = strings(signature.signature)
        public_key = Ed25519PublicKey.from_public_bytes(key)
    except ValueError as error:
        raise malformed("it is no signature of an Ed25519 key") from error
    if key_type != ALGORITHM or signature_type != ALGORITHM:
        raise malformed("it is no signature of an Ed25519 key")
    signed = signed_bytes(signature.namespace, signature.hash_algorithm, digest(message).digest())
    try:
        public_key.verify(raw, signed)
    except InvalidSignature as error:
        raise UntrustedError(
            Distrust.TAMPERED, "the signature does not fit the content: one of them was changed"
        ) from error
