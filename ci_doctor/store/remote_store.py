# SPDX-License-Identifier: Apache-2.0
"""Acts on S3, Google Cloud Storage and Azure, through obstore."""

import asyncio
import re
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import SplitResult, unquote

import msgspec

from ci_doctor.store.objects import (
    DamagedError,
    StoredObject,
    StoreError,
    StoreFailure,
    TooLargeError,
    check_object_name,
)
from ci_doctor.store.transfer import Deadline
from ci_doctor.version import install_extra

if TYPE_CHECKING:
    from obstore import ListStream, ObjectMeta
    from obstore.store import AzureStore, GCSStore, S3Store

    RemoteClient = S3Store | GCSStore | AzureStore


# --- what obstore raises, as errors of a store without addresses of requests or secrets ---

# Only these words of an error are repeated: the rest may hold signed addresses and keys.
_WORDS: Final = re.compile(
    r"HTTP error: [a-z ]+|status code: [0-9]{3}[A-Za-z ]*|[Nn]ot [Ii]mplemented", re.ASCII
)
_REASONS: Final = {
    "FileNotFoundError": StoreFailure.MISSING,
    "NotFoundError": StoreFailure.MISSING,
    "PermissionDeniedError": StoreFailure.REFUSED,
    "UnauthenticatedError": StoreFailure.REFUSED,
    "NotSupportedError": StoreFailure.REFUSED,
    "InvalidPathError": StoreFailure.REFUSED,
}
_STATUS: Final = re.compile(r"status code: ([0-9]{3})", re.ASCII)
_STATUSES: Final = {
    "401": StoreFailure.REFUSED,
    "403": StoreFailure.REFUSED,
    "404": StoreFailure.MISSING,
    "416": StoreFailure.DAMAGED,
    "501": StoreFailure.REFUSED,
    "507": StoreFailure.FULL,
}
_TEXTS: Final = {
    StoreFailure.MISSING: "it does not exist",
    StoreFailure.REFUSED: "the store refuses it",
    StoreFailure.UNREACHABLE: "the request failed",
}
_CREDENTIALS: Final = {
    "s3": "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, a web identity or the role of the machine",
    "gs": "GOOGLE_APPLICATION_CREDENTIALS or the service account of the machine",
    "az": "AZURE_STORAGE_ACCOUNT_KEY, AZURE_STORAGE_SAS_TOKEN or the identity of the machine",
}


def remote_error(action: str, place: str, error: Exception) -> StoreError:
    """The error of a store for one of obstore: `action` of `place` failed."""
    status = _STATUS.search(str(error))
    reason = _REASONS.get(type(error).__name__, StoreFailure.UNREACHABLE)
    if status is not None:
        reason = _STATUSES.get(status[1], reason)
    words = _WORDS.search(str(error))
    text = words[0].strip() if words else _TEXTS[reason]
    hint = None
    if reason in {StoreFailure.REFUSED, StoreFailure.UNREACHABLE}:
        hint = credentials_hint(place.partition(":")[0])
    return StoreError(reason, f"cannot {action} {place}: {text}", hint=hint)


def credentials_hint(scheme: str) -> str:
    """What to look at if a store of this scheme refuses or does not answer."""
    return f"see whether the store is reachable, and the credentials: {_CREDENTIALS[scheme]}"


# --- the bucket, the prefix and the credentials of an object store, from its address and the environment ---
# The variables are those of each provider's own tools, as obstore documents them
# (https://developmentseed.org/obstore/latest/api/store/). Profiles in ~/.aws are not read.

_AWS: Final = (
    "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_REGION",
    "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_SKIP_SIGNATURE",
    "AWS_VIRTUAL_HOSTED_STYLE_REQUEST", "AWS_CONDITIONAL_PUT", "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_ROLE_ARN", "AWS_ROLE_SESSION_NAME", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI", "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
    "AWS_METADATA_ENDPOINT", "AWS_IMDSV1_FALLBACK", "AWS_SERVER_SIDE_ENCRYPTION",
    "AWS_SSE_KMS_KEY_ID", "AWS_REQUEST_PAYER",
)  # fmt: skip
_GOOGLE: Final = (
    "GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_SERVICE_ACCOUNT", "GOOGLE_SERVICE_ACCOUNT_KEY",
    "GOOGLE_SKIP_SIGNATURE",
)  # fmt: skip
_AZURE: Final = (
    "AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_ACCESS_KEY", "AZURE_STORAGE_SAS_TOKEN",
    "AZURE_STORAGE_SAS_KEY", "AZURE_STORAGE_TOKEN", "AZURE_STORAGE_ENDPOINT", "AZURE_CLIENT_ID",
    "AZURE_CLIENT_SECRET", "AZURE_TENANT_ID", "AZURE_FEDERATED_TOKEN_FILE",
    "AZURE_AUTHORITY_HOST", "AZURE_MSI_ENDPOINT", "AZURE_USE_AZURE_CLI", "AZURE_SKIP_SIGNATURE",
)  # fmt: skip
_VARIABLES: Final = {"s3": _AWS, "gs": _GOOGLE, "az": _AZURE}
_ENDPOINTS: Final = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AZURE_STORAGE_ENDPOINT")


class RemoteOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How to open an object store. `config` holds secrets.

    `allow_http` is set if the environment names an endpoint without TLS.
    """

    bucket: str
    prefix: str
    config: dict[str, str]
    allow_http: bool


def remote_options(parts: SplitResult, environ: Mapping[str, str]) -> RemoteOptions:
    """The options for `s3://bucket/prefix`, `gs://bucket/prefix`, `az://account/container/prefix`."""
    path = unquote(parts.path.strip("/"))
    bucket = parts.netloc
    config = {name.lower(): environ[name] for name in _VARIABLES[parts.scheme] if environ.get(name)}
    # The name for one service stands above the name for all.
    if endpoint := config.pop("aws_endpoint_url_s3", ""):
        config["aws_endpoint_url"] = endpoint
    if parts.scheme == "az":
        config["azure_storage_account_name"] = bucket
        bucket, _, path = path.partition("/")
    endpoints = [environ.get(name, "") for name in _ENDPOINTS if name in _VARIABLES[parts.scheme]]
    return RemoteOptions(
        bucket=bucket,
        prefix=path,
        config=config,
        allow_http=any(url.startswith("http://") for url in endpoints),
    )


# --- acts on S3, Google Cloud Storage and Azure, through obstore ---
# Every call ends by the deadline of the store, also if a name server, a source of credentials or the
# store itself accepts a connection and never answers: the call is cancelled, not only asked to end.

Answer = TypeVar("Answer")

_RETRIES: Final = 2
# Garbage collection spares what was written within a day; a job that finds an older object writes
# it again, and so has at least this much less than a day to refer to it.
REFRESH_AFTER: Final = timedelta(hours=6)


class RemoteStore:
    """The objects of a bucket below a prefix. Anyone may have written them: it is always shared."""

    shared = True
    # Each request costs a round trip.
    range_bytes = 8 * 1024 * 1024

    def __init__(self, client: "RemoteClient", location: str, deadline: Deadline) -> None:
        self.location = location
        self._client = client
        self._deadline = deadline

    def read(self, name: str, limit: int) -> bytes | None:
        """The content; None if there is no such object. TooLargeError above `limit` bytes."""
        check_object_name(name)
        try:
            return self._answer("read", name, self._content(name, limit))
        except StoreError as error:
            if error.reason is StoreFailure.MISSING:
                return None
            raise

    def read_range(self, name: str, offset: int, buffer: memoryview) -> None:
        """Fill `buffer` with the bytes from `offset`. StoreError if the object is missing or shorter."""
        check_object_name(name)
        content = self._answer("read", name, self._range(name, offset, len(buffer)))
        if len(content) != len(buffer):
            raise DamagedError(f"{self.location}/{name} ends before byte {offset + len(buffer)}")
        buffer[:] = content

    def create(self, name: str, *parts: bytes) -> bool:
        """Write the object, `parts` one after another, whole or not at all. False if it exists already.

        One that exists is written again if it is old, so that garbage collection leaves it: a name
        holds a digest, so the bytes are the same. False may also follow a retry of a request whose
        answer was lost.
        """
        check_object_name(name)
        return self._answer("write", name, self._create(name, b"".join(parts)))

    def names(self, prefix: str) -> Iterator[StoredObject]:
        """The objects whose names begin with `prefix`, in no promised order."""
        # Stores are asked for whole components.
        folder, _, beginning = prefix.rpartition("/")
        for meta in self._answer("list", folder or ".", self._list(folder, beginning)):
            if meta["path"].startswith(prefix):
                modified_ms = int(meta["last_modified"].timestamp() * 1000)
                yield StoredObject(name=meta["path"], bytes=meta["size"], modified_ms=modified_ms)

    def remove(self, name: str) -> None:
        """Remove the object; nothing happens if it is gone already."""
        check_object_name(name)
        try:
            self._answer("remove", name, self._remove(name))
        except StoreError as error:
            if error.reason is not StoreFailure.MISSING:
                raise

    def _answer(self, action: str, name: str, call: Coroutine[Any, Any, Answer]) -> Answer:
        """What `call` returns, within the time that is left. Raises StoreError."""
        from obstore.exceptions import BaseError

        try:
            return asyncio.run(_bounded(call, self._deadline.left()))
        except TimeoutError as error:
            message = (
                f"cannot {action} {self.location}/{name}: no answer in {self._deadline.seconds:g} s"
            )
            hint = "see whether the store is reachable from here, or allow more time"
            raise StoreError(StoreFailure.TIMEOUT, message, hint=hint) from error
        # An object that does not exist is a FileNotFoundError to obstore.
        except (BaseError, OSError) as error:
            # Not `from error`: its text holds addresses, which may hold signatures.
            raise remote_error(action, f"{self.location}/{name}", error) from None

    async def _content(self, name: str, limit: int) -> bytes:
        import obstore

        answer = await obstore.get_async(self._client, name)
        if answer.meta["size"] > limit:
            raise TooLargeError(f"{self.location}/{name} has more than {limit} bytes")
        return bytes(await answer.bytes_async())

    async def _range(self, name: str, offset: int, length: int) -> memoryview:
        import obstore

        content = await obstore.get_range_async(self._client, name, start=offset, length=length)
        return memoryview(content)

    async def _create(self, name: str, content: bytes) -> bool:
        import obstore
        from obstore.exceptions import AlreadyExistsError

        try:
            await obstore.put_async(self._client, name, content, mode="create", use_multipart=False)
        except AlreadyExistsError:
            meta = await obstore.head_async(self._client, name)
            if datetime.now(UTC) - meta["last_modified"] > REFRESH_AFTER:
                await obstore.put_async(self._client, name, content, use_multipart=False)
            return False
        return True

    async def _remove(self, name: str) -> None:
        import obstore

        # It begins when it is called, which needs the loop.
        await obstore.delete_async(self._client, name)

    async def _list(self, folder: str, beginning: str) -> list["ObjectMeta"]:
        """What lies below `folder`; with a `beginning`, at least what starts with it there."""
        import obstore

        if beginning:
            # Of a large store one look at a single level is much less, and often it is enough.
            level = await obstore.list_with_delimiter_async(self._client, folder or None)
            start = f"{folder}/{beginning}" if folder else beginning
            if not any(each.startswith(start) for each in level["common_prefixes"]):
                return list(level["objects"])
        stream: ListStream[Sequence[ObjectMeta]] = obstore.list(self._client, folder or None)
        return [meta async for chunk in stream for meta in chunk]


async def _bounded(call: Coroutine[Any, Any, Answer], seconds: float) -> Answer:
    async with asyncio.timeout(seconds):
        return await call


def open_remote(parts: SplitResult, environ: Mapping[str, str], deadline: Deadline) -> RemoteStore:
    """The store of an address that address.py has checked; nothing is sent yet. Raises StoreError."""
    try:
        import obstore.store as kinds
        from obstore.exceptions import BaseError
    except ImportError as error:
        message = f"{parts.scheme}:// needs the library obstore"
        hint = install_extra("cache")
        raise StoreError(StoreFailure.REFUSED, message, hint=hint) from error
    options = remote_options(parts, environ)
    # Later than the deadline, which is to be the one that ends a call.
    seconds = timedelta(seconds=deadline.seconds + 60)
    kind = {"s3": kinds.S3Store, "gs": kinds.GCSStore, "az": kinds.AzureStore}[parts.scheme]
    location = f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"
    try:
        client = kind(
            options.bucket,
            prefix=options.prefix or None,
            config=options.config,
            client_options={
                "timeout": seconds,
                "connect_timeout": seconds,
                "allow_http": options.allow_http,
            },
            retry_config={"max_retries": _RETRIES, "retry_timeout": seconds},
        )
    except (BaseError, ValueError):
        # Its text may hold a key that could not be read.
        message = (
            f"cannot open {location}: the credentials or options in the environment are not valid"
        )
        raise StoreError(
            StoreFailure.REFUSED, message, hint=credentials_hint(parts.scheme)
        ) from None
    return RemoteStore(client, location, deadline)
