"""IPv6 for services that ask for it."""

from pathlib import Path

import pytest

from ci_doctor.checks.network.ipv6 import CHECK
from ci_doctor.services.spec import ServiceSpec
from tests.support.checks import check_context


@pytest.mark.parametrize(
    "words", ["serve --host ::", "serve --host=::", "serve [::]:8000", "a ::1"]
)
def test_a_service_that_asks_for_ipv6_needs_it(tmp_path: Path, words: str) -> None:
    context = check_context(
        tmp_path, root=tmp_path, services={"vllm": ServiceSpec(command=words, ready="/health")}
    )

    (found,) = CHECK.run(context).problems

    assert found.finding.rule == "doctor/ipv6-off"


@pytest.mark.parametrize("words", ["serve --host 0.0.0.0", "std::vector", "serve --mac 02::1:2"])
def test_other_services_do_not(tmp_path: Path, words: str) -> None:
    context = check_context(
        tmp_path, root=tmp_path, services={"vllm": ServiceSpec(command=words, ready="/health")}
    )

    assert CHECK.run(context).problems == ()


def test_a_machine_with_ipv6_is_ok(tmp_path: Path) -> None:
    (tmp_path / "proc" / "net").mkdir(parents=True)
    (tmp_path / "proc" / "net" / "if_inet6").touch()
    services = {"vllm": ServiceSpec(command="serve --host ::", ready="/health")}

    assert CHECK.run(check_context(tmp_path, root=tmp_path, services=services)).problems == ()
