# SPDX-License-Identifier: Apache-2.0
"""Acts on Ed25519 keys in OpenSSH's format: made, read, and used to sign as `ssh-keygen -Y sign` does."""

import hashlib
import importlib.util
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ci_doctor.errors import UsageError
from ci_doctor.store.trust import ALGORITHM, SshSignature, armor, signed_bytes, string
from ci_doctor.version import install_extra

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey


# The private key belongs only into the jobs that are trusted to fill a cache for all others.

# A private key for jobs that have no file of it.
KEY_VARIABLE: Final = "CI_DOCTOR_CACHE_KEY_TEXT"
_HASH: Final = b"sha512"
_MOST_KEY_BYTES: Final = 16 * 1024


class Signer:
    """Signs with one private key, for one namespace (see scopes.py)."""

    def __init__(self, key: "Ed25519PrivateKey", namespace: str) -> None:
        self.namespace = namespace
        self._key = key
        self._blob = string(ALGORITHM) + string(key.public_key().public_bytes_raw())

    def sign(self, message: bytes) -> str:
        """The armored signature over `message`."""
        namespace = self.namespace.encode()
        digest = hashlib.sha512(message).digest()
        signed = signed_bytes(namespace, _HASH, digest)
        signature = string(ALGORITHM) + string(self._key.sign(signed))
        return armor(
            SshSignature(
                public_key=self._blob,
                namespace=namespace,
                hash_algorithm=_HASH,
                signature=signature,
            )
        )


def load_signer(path: Path, namespace: str) -> Signer:
    """The signer for `namespace` with the private key in `path`. Raises UsageError if it cannot be used.

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
    return Signer(_key(content, str(path)), namespace)


def signer_from_text(text: str, source: str, namespace: str) -> Signer:
    """The signer for `namespace` with the private key in `text`, which stood in `source` (a variable's name).

    Secret stores cut the last line's end, and some write line ends of their own. Raises UsageError.
    """
    lines = [line.strip() for line in text.strip().splitlines()]
    content = "\n".join([*lines, ""]).encode()
    return Signer(_key(content, source), namespace)


def generate_key(path: Path, comment: str = "ci-doctor-cache") -> str:
    """Write a new private key to `path` (0600) and the public one to `path`.pub.

    Returns the line with the public key. Raises UsageError if either file exists or cannot be made.
    """
    _need_cryptography()
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    key = Ed25519PrivateKey.generate()
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


def _key(content: bytes, source: str) -> "Ed25519PrivateKey":
    _need_cryptography()
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    hint = "use an Ed25519 key without a passphrase, as `ci-doctor cache keygen` makes it"
    try:
        key = serialization.load_ssh_private_key(content, password=None)
    except TypeError:
        raise UsageError(f"the key in {source} has a passphrase", hint=hint) from None
    except (ValueError, UnsupportedAlgorithm):
        # Not `from error`: its text may repeat a part of the key.
        raise UsageError(f"{source} holds no private key in OpenSSH's format", hint=hint) from None
    if not isinstance(key, Ed25519PrivateKey):
        raise UsageError(f"the key in {source} is no Ed25519 key", hint=hint)
    return key


def _need_cryptography() -> None:
    """Raise UsageError if the extra is not installed."""
    if importlib.util.find_spec("cryptography") is None:
        raise UsageError("signatures need the library cryptography", hint=install_extra("cache"))
