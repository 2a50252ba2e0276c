# SPDX-License-Identifier: Apache-2.0
"""Acts on S3, Google Cloud Storage and Azure, through obstore.

Every call ends by the deadline of the store, also if a name server, a source of credentials or the
store itself accepts a connection and never answers: the call is cancelled, not only asked to end.
"""

import asyncio
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import SplitResult

from ci_doctor.model.distribution import install_extra
from ci_doctor.store.deadline import Deadline
from ci_doctor.store.errors import DamagedError, StoreError, StoreFailure, TooLargeError
from ci_doctor.store.object_names import check_object_name
from ci_doctor.store.objects import StoredObject
from ci_doctor.store.remote_errors import credentials_hint, remote_error
from ci_doctor.store.remote_options import remote_options

if TYPE_CHECKING:
    from obstore import ListStream, ObjectMeta
    from obstore.store import AzureStore, GCSStore, S3Store

    RemoteClient = S3Store | GCSStore | AzureStore

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
