"""The check of proxies for servers of this machine."""

import subprocess
from pathlib import Path

from ci_doctor.checks.check import CheckStatus
from ci_doctor.checks.network.loopback_proxy import CHECK
from tests.support.checks import check_context


def test_no_proxy_at_all_is_ok(tmp_path: Path) -> None:
    result = CHECK.run(check_context(tmp_path, environ={}))

    assert (result.status, result.summary) == (CheckStatus.OK, "no proxy is set for http")


def test_the_clients_that_would_ask_the_proxy_are_named(tmp_path: Path) -> None:
    environ = {"http_proxy": "http://user:hunter2@proxy.example:3128", "no_proxy": "127.0.0.0/8"}

    result = CHECK.run(check_context(tmp_path, environ=environ))

    (found,) = result.problems
    assert result.status is CheckStatus.WARNING
    assert "requests, curl" not in found.finding.summary
    assert "curl, requests for localhost" in found.finding.summary
    assert "httpx, urllib and aiohttp for 127.0.0.1 and localhost" in found.finding.summary
    assert "hunter2" not in repr(result)


def test_the_remedy_cures_the_warning(tmp_path: Path) -> None:
    environ = {"http_proxy": "p:1", "no_proxy": "internal.example"}
    result = CHECK.run(check_context(tmp_path, environ=environ))
    (found,) = result.problems

    printed = subprocess.run(
        ["sh", "-c", f"{found.finding.remedy}; env"],
        env=environ,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    after = dict(line.partition("=")[::2] for line in printed.splitlines())

    assert after["no_proxy"] == "internal.example,127.0.0.1,localhost,::1"
    assert CHECK.run(check_context(tmp_path, environ=after)).status is CheckStatus.OK


def test_a_value_that_httpx_cannot_read_is_a_warning(tmp_path: Path) -> None:
    environ = {"http_proxy": "p:1", "no_proxy": "127.0.0.1,localhost,[::1]"}

    (found,) = CHECK.run(check_context(tmp_path, environ=environ)).problems

    assert found.finding.rule == "doctor/proxy-unusable"
