"""Ports of the configured services."""

import os
import socket
from pathlib import Path

from ci_doctor.checks.check import CheckStatus
from ci_doctor.checks.network.ports import CHECK
from ci_doctor.services.spec import ServiceSpec
from tests.support.checks import check_context


def service(port: int) -> dict[str, ServiceSpec]:
    return {"vllm": ServiceSpec(command="serve", ready=f"http://127.0.0.1:{port}/health")}


def test_who_holds_a_port_is_said_with_pid_user_command_and_a_line_to_paste(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        result = CHECK.run(check_context(tmp_path, services=service(port)))

    (found,) = result.problems
    assert result.status is CheckStatus.ERROR
    head = f"port {port} of the service vllm is taken by pid {os.getpid()} of "
    assert found.finding.summary.startswith(head)
    assert "python" in found.finding.summary
    assert f"kill {os.getpid()}" in (found.finding.remedy or "")


def test_a_free_port_is_ok(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]

    result = CHECK.run(check_context(tmp_path, services=service(port)))

    assert (result.status, result.summary) == (CheckStatus.OK, f"free: {port}")


def test_services_without_a_fixed_port_need_none(tmp_path: Path) -> None:
    services = {"vllm": ServiceSpec(command="serve --port {port}")}

    assert CHECK.run(check_context(tmp_path, services=services)).status is CheckStatus.OK
