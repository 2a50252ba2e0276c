# SPDX-License-Identifier: Apache-2.0
import pytest
from msgspec.structs import replace

from ci_doctor.caches.facts import GpuFacts, UnknownFactError
from ci_doctor.machine.gpus import GpuView
from ci_doctor.machine.nvidia_smi import Gpu

H100 = Gpu(index=0, bus_id="", name="NVIDIA H100 PCIe", uuid="GPU-1", capability="9.0")
A100 = Gpu(index=1, bus_id="", name="NVIDIA A100", uuid="GPU-2", capability=None)
SLICE = Gpu(
    index=0, bus_id="", name="NVIDIA H100 PCIe, MIG 1g.10gb", uuid="MIG-1", capability="9.0"
)
BOTH = GpuView(gpus=(H100, A100), chosen=None, parts=(SLICE,), driver="580.65.06")


def test_no_gpu_is_a_fact() -> None:
    gpus = GpuFacts(None)

    assert (gpus.names(), gpus.capability(), gpus.driver()) == ("none", "none", "none")


def test_different_models_are_all_named() -> None:
    assert GpuFacts(BOTH).names() == "NVIDIA A100, NVIDIA H100 PCIe"
    assert GpuFacts(BOTH).driver() == "580.65.06"


def test_what_nothing_reports_is_unknown() -> None:
    with pytest.raises(UnknownFactError, match="capability"):
        GpuFacts(BOTH).capability()
    with pytest.raises(UnknownFactError, match="driver"):
        GpuFacts(replace(BOTH, driver=None)).driver()


def test_the_gpus_that_the_job_does_not_see_do_not_count() -> None:
    assert GpuFacts(replace(BOTH, chosen="0")).capability() == "9.0"


def test_a_slice_is_itself_and_not_the_gpu_that_it_is_of() -> None:
    assert GpuFacts(replace(BOTH, chosen="MIG-1")).names() == "NVIDIA H100 PCIe, MIG 1g.10gb"
    with pytest.raises(UnknownFactError, match="MIG-9"):
        GpuFacts(replace(BOTH, chosen="MIG-9")).names()
