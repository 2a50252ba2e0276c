"""Ports for outgoing connections."""

from pathlib import Path

from ci_doctor.checks.check import CheckResult, CheckStatus
from ci_doctor.checks.network.ephemeral_ports import CHECK
from ci_doctor.services.spec import ServiceSpec
from tests.support.checks import check_context


def look(tmp_path: Path, *, waiting: int = 0, port: int = 8000, reserved: str = "") -> CheckResult:
    settings = tmp_path / "proc" / "sys" / "net" / "ipv4"
    settings.mkdir(parents=True)
    (settings / "ip_local_port_range").write_text("32768\t60999\n")
    (settings / "ip_local_reserved_ports").write_text(f"{reserved}\n")
    (tmp_path / "proc" / "net").mkdir()
    (tmp_path / "proc" / "net" / "sockstat").write_text(
        f"sockets: used 9\nTCP: inuse 5 orphan 0 tw {waiting} alloc 7 mem 1\n"
    )
    services = {"kv": ServiceSpec(command="kv", ready=f"tcp://127.0.0.1:{port}")}
    return CHECK.run(check_context(tmp_path, root=tmp_path, services=services))


def test_few_waiting_connections_and_a_low_port_are_ok(tmp_path: Path) -> None:
    assert look(tmp_path, waiting=14_000).problems == ()


def test_a_range_full_of_waiting_connections_is_a_note(tmp_path: Path) -> None:
    result = look(tmp_path, waiting=15_000)

    assert [each.finding.rule for each in result.problems] == ["doctor/ports-scarce"]
    assert result.status is CheckStatus.OK


def test_a_service_in_the_range_is_a_note(tmp_path: Path) -> None:
    (found,) = look(tmp_path, port=40000).problems

    assert found.finding.rule == "doctor/port-ephemeral"
    assert found.finding.remedy == "sysctl -w net.ipv4.ip_local_reserved_ports=40000"


def test_the_remedy_keeps_what_is_reserved_already(tmp_path: Path) -> None:
    (found,) = look(tmp_path, port=40000, reserved="8080,50000-50100").problems

    expected = "sysctl -w net.ipv4.ip_local_reserved_ports=8080,50000-50100,40000"
    assert found.finding.remedy == expected


def test_a_reserved_port_is_ok(tmp_path: Path) -> None:
    assert look(tmp_path, port=40000, reserved="8080,39990-40010").problems == ()


def test_this_machine_can_be_read(tmp_path: Path) -> None:
    assert CHECK.run(check_context(tmp_path)).unknown is None
