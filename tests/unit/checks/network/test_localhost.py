"""What the addresses of localhost mean."""

from pathlib import Path

from ci_doctor.checks.check import CheckStatus
from ci_doctor.checks.network.localhost import CHECK, judge_localhost
from ci_doctor.checks.network.name_lookup import Lookup
from tests.support.checks import check_context


def test_both_loopback_addresses_are_ok() -> None:
    assert judge_localhost(Lookup(addresses=("::1", "127.0.0.1"))).status is CheckStatus.OK


def test_ipv6_alone_is_a_warning() -> None:
    assert judge_localhost(Lookup(addresses=("::1",))).status is CheckStatus.WARNING


def test_no_address_is_an_error_with_a_line_to_paste() -> None:
    result = judge_localhost(Lookup(error="Name or service not known"))

    assert result.status is CheckStatus.ERROR
    assert result.problems[0].finding.remedy == "printf '\\n127.0.0.1 localhost\\n' >> /etc/hosts"


def test_another_machine_is_an_error() -> None:
    result = judge_localhost(Lookup(addresses=("127.0.0.1", "192.0.2.7")))

    assert result.status is CheckStatus.ERROR


def test_this_machine_has_a_localhost(tmp_path: Path) -> None:
    assert "127.0.0.1" in CHECK.run(check_context(tmp_path)).summary
