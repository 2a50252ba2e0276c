# SPDX-License-Identifier: Apache-2.0
"""Pure. The binary and the armored form of an SSH signature.

https://github.com/openssh/openssh-portable/blob/master/PROTOCOL.sshsig; strings are those of RFC
4251, section 5.
"""

import base64
import binascii
from typing import Final

import msgspec

from ci_doctor.store.trust.untrusted import Distrust, UntrustedError

ALGORITHM: Final = b"ssh-ed25519"
_MAGIC: Final = b"SSHSIG"
_BEGIN: Final = "-----BEGIN SSH SIGNATURE-----"
_END: Final = "-----END SSH SIGNATURE-----"
_LINE: Final = 70  # as ssh-keygen breaks it
MOST_ARMORED_BYTES: Final = 16 * 1024


class SshSignature(msgspec.Struct, frozen=True, kw_only=True):
    """The fields of a signature. `public_key` is a key blob, `signature` a signature blob."""

    public_key: bytes
    namespace: bytes
    hash_algorithm: bytes
    signature: bytes


def string(content: bytes) -> bytes:
    """A string with its length before it."""
    return len(content).to_bytes(4, "big") + content


def strings(blob: bytes) -> list[bytes]:
    """The strings that a blob consists of. Raises ValueError if it ends within one."""
    blobs = []
    position = 0
    while position < len(blob):
        end = position + 4 + int.from_bytes(blob[position : position + 4], "big")
        if position + 4 > len(blob) or end > len(blob):
            raise ValueError("a string is cut off")
        blobs.append(blob[position + 4 : end])
        position = end
    return blobs


def signed_bytes(namespace: bytes, hash_algorithm: bytes, digest: bytes) -> bytes:
    """What the key signs, of a message with this digest."""
    return _MAGIC + string(namespace) + string(b"") + string(hash_algorithm) + string(digest)


def armor(signature: SshSignature) -> str:
    """The text that `ssh-keygen -Y verify` reads."""
    blob = (
        _MAGIC
        + (1).to_bytes(4, "big")
        + string(signature.public_key)
        + string(signature.namespace)
        + string(b"")
        + string(signature.hash_algorithm)
        + string(signature.signature)
    )
    text = base64.b64encode(blob).decode()
    lines = [text[start : start + _LINE] for start in range(0, len(text), _LINE)]
    return "\n".join([_BEGIN, *lines, _END, ""])


def unarmor(text: str) -> SshSignature:
    """The signature in `text`. Raises UntrustedError (malformed) if it is none of version 1."""
    body = text.strip()
    if len(body) > MOST_ARMORED_BYTES or not (body.startswith(_BEGIN) and body.endswith(_END)):
        raise malformed("it is no armored SSH signature")
    encoded = "".join(body[len(_BEGIN) : -len(_END)].split())
    try:
        blob = base64.b64decode(encoded, validate=True)
        if blob[:6] != _MAGIC or blob[6:10] != (1).to_bytes(4, "big"):
            raise malformed("it is no SSH signature of version 1")
        public_key, namespace, _, hash_algorithm, signature = strings(blob[10:])
    except (ValueError, binascii.Error) as error:
        raise malformed("its fields cannot be read") from error
    return SshSignature(
        public_key=public_key,
        namespace=namespace,
        hash_algorithm=hash_algorithm,
        signature=signature,
    )


def malformed(why: str) -> UntrustedError:
    """The error for a signature that cannot be read."""
    return UntrustedError(Distrust.MALFORMED, f"the signature cannot be read: {why}")
