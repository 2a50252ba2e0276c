# SPDX-License-Identifier: Apache-2.0
"""Acts on Ed25519 keys in OpenSSH's format: made, read, and used to sign as `ssh-keygen -Y sign` does.

The private key belongs only into the jobs that are trusted to fill a cache for all others.
"""

import hashlib
import os
import stat
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Final

from ci_doctor.errors import UsageError
from ci_doctor.model.distribution import install_extra
from ci_doctor.store.trust.ssh_wire import ALGORITHM, SshSignature, armor, signed_bytes, string

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

_HASH: Final = b"sha512"
_MOST_KEY_BYTES: Final = 16 * 1024


class Signer:
    """Signs with one private key."""

    def __init__(self, key: "Ed25519PrivateKey") -> None:
        self._key = key
        self._blob = string(ALGORITHM) + string(key.public_key().public_bytes_raw())

    def sign(self, message: bytes, namespace: str) -> str:
        """The armored signature over `message`, for `namespace` alone."""
        digest = hashlib.sha512(message).digest()
        signed = signed_bytes(namespace.encode(), _HASH, digest)
        signature = string(ALGORITHM) + string(self._key.sign(signed))
        return armor(
            SshSignature(
                public_key=self._blob,
                namespace=namespace.encode(),
                hash_algorithm=_HASH,
                signature=signature,
            )
        )


def load_signer(path: Path) -> Signer:
    """The signer with the private key in `path`. Raises UsageError if it cannot be used.

    As ssh does, it refuses a key that others can read.
    """
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            content = file.read(_MOST_KEY_BYTES)
    except OSError as error:
        raise UsageError(
            f"cannot read the key {path}: {error.strerror}",
            hint="name the file that `ci-doctor cache keygen` has written",
        ) from error
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise UsageError(f"others can read the key {path}", hint=f"chmod 600 {path}")
    return _signer(content, str(path))


def signer_from_text(text: str, source: str) -> Signer:
    """The signer with the private key in `text`, which stood in `source` (a variable's name).

    Secret stores cut the last line's end, and some write line ends of their own. Raises UsageError.
    """
    lines = [line.strip() for line in text.strip().splitlines()]
    return _signer("\n".join([*lines, ""]).encode(), source)


def generate_key(path: Path, comment: str = "ci-doctor-cache") -> str:
    """Write a new private key to `path` (0600) and the public one to `path`.pub.

    Returns the line with the public key. Raises UsageError if either file exists or cannot be made.
    """
    from cryptography.hazmat.primitives import serialization

    ed25519 = _ed25519()
    key = ed25519.Ed25519PrivateKey.generate()
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.OpenSSH,
        serialization.NoEncryption(),
    )
    public = key.public_key().public_bytes(
        serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
    )
    line = f"{public.decode()} {comment}"
    public_path = path.with_name(f"{path.name}.pub")
    _write_new(public_path, f"{line}\n".encode(), 0o644)
    try:
        _write_new(path, private, 0o600)
    except UsageError:
        public_path.unlink(missing_ok=True)
        raise
    return line


def _write_new(path: Path, content: bytes, mode: int) -> None:
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise UsageError(
            f"cannot write {path}: {error.strerror}",
            hint="name a new file in a directory that this user can write",
        ) from error


def _signer(content: bytes, source: str) -> Signer:
    ed25519 = _ed25519()
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives import serialization

    hint = "use an Ed25519 key without a passphrase, as `ci-doctor cache keygen` makes it"
    try:
        key = serialization.load_ssh_private_key(content, password=None)
    except TypeError:
        raise UsageError(f"the key in {source} has a passphrase", hint=hint) from None
    except (ValueError, UnsupportedAlgorithm):
        # Not `from error`: its text may repeat a part of the key.
        raise UsageError(f"{source} holds no private key in OpenSSH's format", hint=hint) from None
    if not isinstance(key, ed25519.Ed25519PrivateKey):
        raise UsageError(f"the key in {source} is no Ed25519 key", hint=hint)
    return Signer(key)


def _ed25519() -> ModuleType:
    try:
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError as error:
        raise UsageError(
            "signatures need the library cryptography", hint=install_extra("cache")
        ) from error
    return ed25519
