# SPDX-License-Identifier: Apache-2.0
"""Pure. The bucket, the prefix and the credentials of an object store, from its address and the environment.

The variables are those of each provider's own tools, as obstore documents them
(https://developmentseed.org/obstore/latest/api/store/). Profiles in ~/.aws are not read.
"""

from collections.abc import Mapping
from typing import Final
from urllib.parse import SplitResult, unquote

import msgspec

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
