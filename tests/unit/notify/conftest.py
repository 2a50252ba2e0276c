# SPDX-License-Identifier: Apache-2.0
"""A stand-in for GitHub and webhooks, by https, which this process trusts."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.stand_in_github import StandInGithub, running_github


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandInGithub]:
    with running_github(Path(tmp_path_factory.mktemp("github"))) as github:
        yield github


@pytest.fixture
def github(server: StandInGithub, monkeypatch: pytest.MonkeyPatch) -> StandInGithub:
    server.clear()
    monkeypatch.setenv("SSL_CERT_FILE", str(server.certificate))
    return server
