"""The ports that services name themselves."""

from pathlib import Path

import pytest

from ci_doctor.checks.network.service_ports import fixed_ports
from ci_doctor.services.probes.ready import ReadySpec
from ci_doctor.services.spec import ServiceSpec
from tests.support.checks import check_context


@pytest.mark.parametrize(
    ("ready", "port"),
    [
        ("http://127.0.0.1:8000/health", 8000),
        ("tcp://localhost:6379", 6379),
        (ReadySpec(tcp="127.0.0.1:6380"), 6380),
        ("http://127.0.0.1:{port}/health", None),
        ("http://127.0.0.1:{kv.port}/health", None),
        ("http://192.0.2.1:8000/health", None),
        ("/health", None),
        ("log:ready", None),
    ],
)
def test_a_port_counts_if_it_is_fixed_and_of_this_machine(
    tmp_path: Path, ready: str | ReadySpec, port: int | None
) -> None:
    services = {"vllm": ServiceSpec(command="serve", ready=ready)}

    ports = [each.port for each in fixed_ports(services, check_context(tmp_path))]

    assert ports == ([] if port is None else [port])
