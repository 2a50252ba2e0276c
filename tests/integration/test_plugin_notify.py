# SPDX-License-Identifier: Apache-2.0
"""The plugin's option `notify`: the comment on a job that ends, to a stand-in for GitHub by https."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.plugin_workplace import Workplace
from tests.support.stand_in_github import APP, REPOSITORY, TOKEN, StandInGithub, running_github

pytestmark = pytest.mark.integration
OPTIONS: dict[str, object] = {"setup-env": False, "notify": True}


@pytest.fixture(scope="module")
def github(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandInGithub]:
    with running_github(Path(tmp_path_factory.mktemp("github"))) as github:
        yield github


def test_a_job_without_a_report_is_told_of_and_its_retry_that_passes_changes_the_comment(
    github: StandInGithub, tmp_path: Path
) -> None:
    workplace = Workplace(tmp_path)
    workplace.real_ci_doctor()
    (workplace.checkout / "ci-doctor.toml").write_text(
        "[notify.github]\n"
        f'token_env = "PR_TOKEN"\naccount = "{APP}"\n'
        f'repository = "{REPOSITORY}"\napi_url = "{github.url}"\n'
    )
    environment = {
        "SSL_CERT_FILE": str(github.certificate),
        "PR_TOKEN": TOKEN,
        "BUILDKITE_PULL_REQUEST": "7",
    }

    failed = workplace.job("exit 3", OPTIONS, **environment)
    assert failed.run() == 3, failed.log
    (comment,) = github.comments
    assert "**✗ FAILED** · `e2e`" in comment["body"]
    assert "3" in comment["body"].split("\n")[2]
    assert "github: the message is sent" in failed.log

    retry = {"BUILDKITE_JOB_ID": "0190c-retry", "BUILDKITE_RETRY_COUNT": "1"}
    passed = workplace.job("exit 0", OPTIONS, **environment, **retry)
    assert passed.run() == 0, passed.log
    (comment,) = github.comments
    assert "**✓ PASS** · `e2e`" in comment["body"]
    assert TOKEN not in failed.log + passed.log


def test_a_mistake_in_the_configuration_is_a_line_and_changes_no_status(tmp_path: Path) -> None:
    workplace = Workplace(tmp_path)
    workplace.real_ci_doctor()
    (workplace.checkout / "ci-doctor.toml").write_text("[notify]\nslack = {}\n")

    job = workplace.job("exit 0", OPTIONS)

    assert job.run() == 0, job.log
    assert "it has neither `url_env` nor `url_file`; no message is sent" in job.log
