"""Addresses and variables as options of an object store."""

from urllib.parse import urlsplit

import pytest

from ci_doctor.store.remote_store import remote_options


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
