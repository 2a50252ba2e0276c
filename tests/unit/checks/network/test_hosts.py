"""The hosts that a repository names."""

from pathlib import Path

from ci_doctor.checks.check import CheckStatus
from ci_doctor.checks.network.area import checks
from ci_doctor.checks.network.hosts import host_checks, judge_host
from ci_doctor.checks.network.name_lookup import Lookup
from ci_doctor.checks.settings import DoctorSettings
from tests.support.checks import check_context


def test_no_host_is_looked_up_unless_one_is_named() -> None:
    assert not [check.id for check in checks(DoctorSettings()) if "host-" in check.id]


def test_each_host_is_a_check_of_its_own(tmp_path: Path) -> None:
    made = host_checks(["127.0.0.1", "127.0.0.2", "127.0.0.1"])

    assert [check.id for check in made] == ["network/host-127.0.0.1", "network/host-127.0.0.2"]
    result = made[1].run(check_context(tmp_path))
    assert (result.status, result.summary) == (CheckStatus.OK, "127.0.0.2 is 127.0.0.2")


def test_a_host_without_an_address_is_an_error_with_the_reason() -> None:
    result = judge_host("hub.example", Lookup(error="Temporary failure in name resolution"))

    assert result.status is CheckStatus.ERROR
    assert result.summary == "hub.example does not resolve: Temporary failure in name resolution"
