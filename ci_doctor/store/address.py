# SPDX-License-Identifier: Apache-2.0
"""Reads what `--store DIR|URL` names, and opens it: a directory, S3, Google Cloud Storage or Azure.

Only these: a URL of another kind is an error, so that no configuration can point a job at a store
that nobody has thought about.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final
from urllib.parse import SplitResult, unquote, urlsplit

from ci_doctor.errors import UsageError
from ci_doctor.store.deadline import Deadline
from ci_doctor.store.directory_store import DirectoryStore
from ci_doctor.store.objects import ObjectStore

REMOTE: Final = ("s3", "gs", "az")
_HINT: Final = (
    "give a directory, s3://bucket/prefix, gs://bucket/prefix or az://account/container/prefix"
)


def open_store(address: str, environ: Mapping[str, str], *, timeout_s: float) -> ObjectStore:
    """The store that `address` names; nothing is sent or written yet.

    `timeout_s` is for everything that is done through it together, from now on, not for each call:
    a store that hangs takes that long once. It bounds no call to the kernel for a directory.
    `environ` has the credentials. Raises UsageError for an address that is not allowed, and
    StoreError if the extra `cache` is not installed.
    """
    if not is_remote(address):
        return DirectoryStore(directory_of(address))
    from ci_doctor.store.remote_store import open_remote

    return open_remote(_remote(address), environ, Deadline(timeout_s))


def is_remote(address: str) -> bool:
    """Whether `address` names an object store. Raises UsageError if it is not allowed at all."""
    scheme, separator, _ = address.partition("://")
    if separator and scheme not in {*REMOTE, "file"}:
        raise UsageError(f"no store is reached by {scheme[:40]}://", hint=_HINT)
    return separator != "" and scheme != "file"


def directory_of(address: str) -> Path:
    """The directory that `address` names. Raises UsageError if it names none of this machine."""
    if not address.startswith("file://"):
        if not address:
            raise UsageError("the store has no address", hint=_HINT)
        return Path(address).expanduser()
    parts = urlsplit(address)
    if parts.netloc not in {"", "localhost"} or not parts.path.startswith("/"):
        raise UsageError(f"{address} names no directory of this machine", hint=_HINT)
    return Path(unquote(parts.path))


def _remote(address: str) -> SplitResult:
    parts = urlsplit(address)
    if "@" in parts.netloc or parts.query or parts.fragment:
        # Not repeated: it may hold a password or a signature.
        message = f"the address of the {parts.scheme} store has more than a name and a path"
        raise UsageError(message, hint=f"put credentials into the environment, and {_HINT}")
    if not parts.netloc or (parts.scheme == "az" and not parts.path.strip("/")):
        raise UsageError(f"{address} names no bucket", hint=_HINT)
    return parts
