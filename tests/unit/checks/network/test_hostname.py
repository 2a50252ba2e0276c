"""What the address of our own name means."""

from ci_doctor.checks.check import CheckStatus
from ci_doctor.checks.network.hostname import judge_hostname
from ci_doctor.checks.network.name_lookup import Lookup


def test_any_address_is_ok() -> None:
    assert judge_hostname("agent-1", Lookup(addresses=("127.0.1.1",))).status is CheckStatus.OK


def test_no_address_is_a_warning_with_our_name_in_the_remedy() -> None:
    result = judge_hostname("agent-1", Lookup(error="Name or service not known"))

    assert result.status is CheckStatus.WARNING
    assert result.problems[0].finding.remedy == "printf '\\n127.0.1.1 %s\\n' agent-1 >> /etc/hosts"
