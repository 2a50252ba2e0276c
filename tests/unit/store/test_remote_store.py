# SPDX-License-Identifier: Apache-2.0
"""Objects in S3, against moto's imitation of it, and against servers that do not answer."""

import itertools
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from ci_doctor.store.directory_store import DirectoryStore, open_store
from ci_doctor.store.objects import (
    DamagedError,
    ObjectStore,
    StoreError,
    StoreFailure,
    TooLargeError,
)
from ci_doctor.store.remote_store import remote_options
from tests.support.ranges import range_of
from tests.support.s3_server import BUCKET, environment, s3_server

NAME = "v1/signed/packs/ab/abcd.pack"
_numbers = itertools.count()


@pytest.fixture(scope="session")
def s3() -> Iterator[dict[str, str]]:
    with s3_server() as environ:
        yield environ


@pytest.fixture
def store(s3: dict[str, str]) -> ObjectStore:
    return open_store(f"s3://{BUCKET}/caches/{next(_numbers)}", s3, timeout_s=60)


@pytest.fixture(params=["in a directory", "in S3"])
def any_store(request: pytest.FixtureRequest, tmp_path: Path) -> ObjectStore:
    if request.param == "in S3":
        remote: ObjectStore = request.getfixturevalue("store")
        return remote
    return DirectoryStore(tmp_path / "store")


def test_the_first_write_of_a_name_wins(any_store: ObjectStore) -> None:
    created = [any_store.create(NAME, content) for content in (b"first", b"second")]

    assert created == [True, False]
    assert any_store.read(NAME, 100) == b"first"


def test_several_writers_at_once_leave_one_whole_object(any_store: ObjectStore) -> None:
    barrier = threading.Barrier(8)
    created: list[bytes] = []

    def write(content: bytes) -> None:
        barrier.wait()
        if any_store.create(NAME, content):
            created.append(content)

    threads = [threading.Thread(target=write, args=(bytes([n]) * 100_000,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert [any_store.read(NAME, 200_000)] == created
    assert [entry.name for entry in any_store.names("v1/")] == [NAME]


def test_objects_are_read_listed_and_removed(any_store: ObjectStore) -> None:
    store = any_store
    for name in ("v1/a/1", "v1/a/2", "v1/ab/3"):
        store.create(name, b"0123456789")

    assert range_of(store, "v1/a/1", 3, 4) == b"3456"
    assert store.read("v1/none", 10) is None
    assert sorted(entry.name for entry in store.names("v1/a")) == ["v1/a/1", "v1/a/2", "v1/ab/3"]
    assert sorted(entry.name for entry in store.names("v1/a/")) == ["v1/a/1", "v1/a/2"]
    # Nothing but objects, beside others: one level is enough.
    store.create("v1/b-4", b"0123456789")
    assert [entry.name for entry in store.names("v1/b-")] == ["v1/b-4"]
    assert [entry.name for entry in store.names("v")] == [each.name for each in store.names("")]
    assert {entry.bytes for entry in store.names("")} == {10}
    assert min(entry.modified_ms for entry in store.names("")) > 1_600_000_000_000
    assert list(store.names("v2/")) == []
    store.remove("v1/a/1")
    store.remove("v1/a/1")
    assert store.read("v1/a/1", 10) is None


def test_too_large_and_too_short_objects_are_refused(any_store: ObjectStore) -> None:
    store = any_store
    store.create(NAME, b"0123456789")
    with pytest.raises(TooLargeError):
        store.read(NAME, 9)
    assert store.read(NAME, 10) == b"0123456789"
    for offset in (8, 20):
        with pytest.raises(StoreError) as raised:
            range_of(store, NAME, offset, 4)
        assert raised.value.reason is StoreFailure.DAMAGED


def test_a_bucket_is_always_shared_and_named_without_secrets(store: ObjectStore) -> None:
    assert store.shared
    assert store.location.startswith(f"s3://{BUCKET}/caches/")


def test_no_name_leads_out_of_the_prefix(store: ObjectStore) -> None:
    with pytest.raises(DamagedError):
        store.create("../x", b"")


def test_a_bucket_that_does_not_exist_is_missing(s3: dict[str, str]) -> None:
    store = open_store("s3://no-such-bucket/x", s3, timeout_s=60)

    with pytest.raises(StoreError, match="cannot write s3://no-such-bucket/x/v1/x") as raised:
        store.create("v1/x", b"")

    assert raised.value.reason is StoreFailure.MISSING


CALLS: list[Callable[[ObjectStore], object]] = [
    lambda store: store.read(NAME, 10),
    lambda store: range_of(store, NAME, 0, 10),
    lambda store: store.create(NAME, b"content"),
    lambda store: list(store.names("v1/")),
    lambda store: store.remove(NAME),
]


@pytest.mark.parametrize("call", CALLS, ids=["read", "range", "create", "names", "remove"])
def test_a_store_that_accepts_and_never_answers_is_given_up(
    call: Callable[[ObjectStore], object],
) -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=16) as server:
        endpoint = f"http://127.0.0.1:{server.getsockname()[1]}"
        store = open_store("s3://bucket/x", environment(endpoint), timeout_s=0.3)

        with pytest.raises(StoreError, match=r"no answer in 0\.3 s") as raised:
            call(store)

    assert raised.value.reason is StoreFailure.TIMEOUT
    # The time is for all calls together: now there is none left, and nothing to connect to.
    with pytest.raises(StoreError) as raised:
        call(store)
    assert raised.value.reason is StoreFailure.TIMEOUT


def failure_after(answer: bytes, timeout_s: float) -> StoreError:
    """What a read comes to, of a server that gives this answer once and leaves the connection open."""
    with ExitStack() as stack:
        server = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        server.settimeout(60)
        endpoint = f"http://127.0.0.1:{server.getsockname()[1]}"

        def give() -> None:
            connection = stack.enter_context(server.accept()[0])
            connection.recv(65536)
            connection.sendall(answer)

        thread = threading.Thread(target=give)
        thread.start()
        store = open_store("s3://bucket/x", environment(endpoint), timeout_s=timeout_s)
        with pytest.raises(StoreError) as raised:
            store.read(NAME, 2000)
        thread.join()
    return raised.value


def test_an_answer_that_stops_in_the_middle_is_given_up() -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\nETag: x\r\n"
    modified = b"Last-Modified: Mon, 23 Nov 2026 00:00:00 GMT\r\n\r\n"

    failure = failure_after(head + modified + b"half", 1)

    assert failure.reason is StoreFailure.TIMEOUT


def test_a_store_that_is_not_there_is_unreachable_after_few_attempts() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        endpoint = f"http://127.0.0.1:{server.getsockname()[1]}"
    store = open_store("s3://bucket/x", environment(endpoint), timeout_s=60)

    with pytest.raises(StoreError) as raised:
        store.read(NAME, 10)

    assert raised.value.reason is StoreFailure.UNREACHABLE
    shown = f"{raised.value.message} {raised.value.hint} {raised.value.__cause__}"
    assert "hunter2" not in shown
    assert "AKIA" not in shown


def test_a_refusal_tells_no_secret_that_the_server_repeats() -> None:
    body = b"<Error><Code>InvalidAccessKeyId</Code><Id>hunter2</Id></Error>"
    head = f"HTTP/1.1 403 Forbidden\r\nContent-Length: {len(body)}\r\n\r\n"

    failure = failure_after(head.encode() + body, 60)

    assert failure.reason is StoreFailure.REFUSED
    assert "403 Forbidden" in failure.message
    assert "AWS_ACCESS_KEY_ID" in (failure.hint or "")
    assert "hunter2" not in f"{failure.message} {failure.hint} {failure.__cause__}"


@pytest.mark.parametrize(
    ("address", "environ"),
    [
        ("gs://bucket/x", {"GOOGLE_SERVICE_ACCOUNT_KEY": "{hunter2"}),
        ("az://account/container", {"AZURE_STORAGE_ACCOUNT_KEY": "hunter2!"}),
    ],
)
def test_credentials_that_cannot_be_read_are_not_repeated(
    address: str, environ: dict[str, str]
) -> None:
    with pytest.raises(StoreError) as raised:
        open_store(address, environ, timeout_s=1)

    assert raised.value.reason is StoreFailure.REFUSED
    assert "hunter2" not in f"{raised.value.message} {raised.value.hint} {raised.value.__cause__}"


@pytest.mark.parametrize("address", ["s3://bucket", "gs://bucket/x/", "az://account/container/x"])
def test_each_kind_of_address_opens_without_sending_anything(address: str) -> None:
    store = open_store(address, {"AWS_REGION": "us-east-1"}, timeout_s=1)

    assert store.location == address.rstrip("/")


@pytest.mark.parametrize(
    ("address", "bucket", "prefix"),
    [
        ("s3://bucket", "bucket", ""),
        ("s3://bucket/a/b/", "bucket", "a/b"),
        ("gs://bucket/a%20b", "bucket", "a b"),
        ("az://account/container", "container", ""),
        ("az://account/container/a/b", "container", "a/b"),
    ],
)
def test_an_address_has_a_bucket_and_a_prefix(address: str, bucket: str, prefix: str) -> None:
    options = remote_options(urlsplit(address), {})

    assert (options.bucket, options.prefix) == (bucket, prefix)


def test_azure_names_the_account_in_the_address() -> None:
    options = remote_options(urlsplit("az://account/container"), {"AZURE_CLIENT_ID": "id"})

    assert options.config == {
        "azure_client_id": "id",
        "azure_storage_account_name": "account",
    }


def test_a_store_reads_the_variables_of_its_own_provider_alone() -> None:
    environ = {
        "AWS_ACCESS_KEY_ID": "a",
        "AWS_PROFILE": "p",
        "AWS_SESSION_TOKEN": "",
        "GOOGLE_APPLICATION_CREDENTIALS": "/key.json",
        "HOME": "/root",
    }

    assert remote_options(urlsplit("s3://bucket"), environ).config == {"aws_access_key_id": "a"}
    assert remote_options(urlsplit("gs://bucket"), environ).config == {
        "google_application_credentials": "/key.json"
    }


def test_an_endpoint_for_s3_stands_above_that_for_all() -> None:
    environ = {"AWS_ENDPOINT_URL": "https://all", "AWS_ENDPOINT_URL_S3": "http://s3"}

    options = remote_options(urlsplit("s3://bucket"), environ)

    assert options.config == {"aws_endpoint_url": "http://s3"}


@pytest.mark.parametrize(
    ("environ", "allowed"),
    [
        ({}, False),
        ({"AWS_ENDPOINT_URL": "https://x"}, False),
        ({"AWS_ENDPOINT_URL": "http://x"}, True),
        ({"AZURE_STORAGE_ENDPOINT": "http://x"}, False),
    ],
)
def test_http_without_tls_is_allowed_for_an_endpoint_that_says_so(
    environ: dict[str, str], allowed: bool
) -> None:
    assert remote_options(urlsplit("s3://bucket"), environ).allow_http is allowed
