# SPDX-License-Identifier: Apache-2.0
import pytest

from ci_doctor.caches.facts import UnknownIsaError, vector_isa

AVX2 = ("avx2", "fma")
AVX512 = (*AVX2, "avx512f", "avx512vl", "avx512bw", "avx512dq")
SAPPHIRE_RAPIDS = (*AVX512, "avx512_vnni", "avx512_bf16", "amx_tile")


# Compared with torch 2.13.0's own pick_vec_isa, on a CPU with AMX, for each ATEN_CPU_CAPABILITY.
@pytest.mark.parametrize(
    ("flags", "capability", "isa"),
    [
        (SAPPHIRE_RAPIDS, None, "avx512 avx512_vnni amx_tile +avx512_bf16"),
        (SAPPHIRE_RAPIDS, "avx512", "avx512 avx512_vnni amx_tile +avx512_bf16"),
        (SAPPHIRE_RAPIDS, "nonsense", "avx512 avx512_vnni amx_tile +avx512_bf16"),
        (SAPPHIRE_RAPIDS, "avx2", "avx2"),
        (SAPPHIRE_RAPIDS, "default", "none"),
        (
            (*SAPPHIRE_RAPIDS, "amx_fp16"),
            None,
            "avx512 avx512_vnni amx_tile +avx512_bf16 +amx_fp16",
        ),
        ((*AVX512, "avx512_vnni"), None, "avx512 avx512_vnni"),
        ((*AVX512, "amx_tile"), None, "avx512"),
        (AVX2, "avx512", "avx2"),
        (("avx2",), None, "none"),
        (("sse4_2",), None, "none"),
    ],
)
def test_the_instructions_are_those_that_torch_chooses(
    flags: tuple[str, ...], capability: str | None, isa: str
) -> None:
    assert vector_isa("x86_64", flags, capability) == isa


def test_an_arm_with_sve_needs_the_length_of_its_registers() -> None:
    assert vector_isa("aarch64", ["asimd"], None) == "asimd"
    assert vector_isa("aarch64", ["sve", "sve2", "bf16"], None, 16) == "sve 128 bits +sve2"
    with pytest.raises(UnknownIsaError, match="length"):
        vector_isa("aarch64", ["sve", "bf16"], None)


@pytest.mark.parametrize(("machine", "flags"), [("x86_64", []), ("riscv64", ["v"])])
def test_what_is_uncertain_is_not_guessed(machine: str, flags: list[str]) -> None:
    with pytest.raises(UnknownIsaError):
        vector_isa(machine, flags, None)
