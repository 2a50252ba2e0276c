# SPDX-License-Identifier: Apache-2.0
import pytest
from msgspec.structs import replace

from ci_doctor.errors import UsageError
from ci_doctor.services.launch.options import choose
from ci_doctor.services.spec import ServiceSpec

CONFIGURED = {
    "kv": ServiceSpec(command="kv {port}", ready="tcp://127.0.0.1:{port}"),
    "vllm": ServiceSpec(command="vllm {port}", needs=["kv"]),
    "other": ServiceSpec(command="other {port}"),
}


def test_all_configured_services_are_started_unless_some_are_named() -> None:
    assert choose(CONFIGURED, (), (), ())[1] == ("kv", "vllm", "other")
    assert choose(CONFIGURED, ("vllm",), (), ())[1] == ("vllm",)


def test_a_command_makes_a_service_which_alone_is_started() -> None:
    specs, names = choose(CONFIGURED, ("mock=serve --x=1 {port}",), (), ("mock=kv",))
    assert names == ("mock",)
    assert specs["mock"] == ServiceSpec(command="serve --x=1 {port}", needs=["kv"])


def test_a_command_takes_the_place_of_a_configured_one() -> None:
    specs, _ = choose(CONFIGURED, ("vllm=other {port}",), (), ())
    assert specs["vllm"] == replace(CONFIGURED["vllm"], command="other {port}")


def test_probes_change_and_needs_are_added() -> None:
    specs, _ = choose(
        CONFIGURED,
        (),
        ("vllm=http://h/?a=b", 'kv={ log = "x=y" }'),
        ("vllm=other", "vllm=kv, other"),
    )
    assert specs["vllm"].ready == "http://h/?a=b"
    assert specs["kv"].ready == '{ log = "x=y" }'
    assert specs["vllm"].needs == ["kv", "other"]


@pytest.mark.parametrize(
    ("services", "ready", "needs", "said", "hint"),
    [
        (("vlm",), (), (), "no service is named `vlm`", "did you mean `vllm`?"),
        (("a=x", "a=y"), (), (), 'two services are named "a"', "name of its own"),
        (("a=",), (), (), 'the command of "a" is empty', "what to run"),
        (("=x",), (), (), "the name is missing", "--service NAME"),
        ((), ("vlm=/x",), (), "no service is named `vlm`", "did you mean `vllm`?"),
        ((), ("/health",), (), "not NAME=PROBE", "--ready NAME=PROBE"),
        ((), ("vllm=",), (), "not NAME=PROBE", "--ready NAME=PROBE"),
        ((), ("vllm=/a", "vllm=/b"), (), "two probes", "keep one"),
        ((), (), ("vllm=kw",), "no service is named `kw`", "known names: kv"),
        ((), (), ("wllm=kv",), "no service is named `wllm`", "did you mean `vllm`?"),
        ((), (), ("kv=vllm",), "in a circle: kv -> vllm -> kv", "remove one"),
        ((), (), ("kv=kv",), "in a circle: kv -> kv", "remove one"),
        (("kv",), ("vllm=/x",), (), 'service "vllm" is not started', "--service vllm"),
    ],
)
def test_what_cannot_be_meant_is_refused(
    services: tuple[str, ...], ready: tuple[str, ...], needs: tuple[str, ...], said: str, hint: str
) -> None:
    with pytest.raises(UsageError) as caught:
        choose(CONFIGURED, services, ready, needs)
    assert said in caught.value.message
    assert hint in (caught.value.hint or "")


def test_nothing_to_start_is_an_error() -> None:
    with pytest.raises(UsageError, match="nothing to start"):
        choose({}, (), (), ())
