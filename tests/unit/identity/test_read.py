# SPDX-License-Identifier: Apache-2.0

import os
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from ci_doctor.identity.identity import Identity
from ci_doctor.identity.read import Served, hardware, model_of, models, read_identity
from ci_doctor.machine.gpus import GpuView
from ci_doctor.machine.nvidia_smi import Gpu
from ci_doctor.system.secrets.redaction import Redactor


def read(
    cwd: Path,
    *words: str,
    ignore: tuple[str, ...] = (),
    names: tuple[str, ...] = ("server",),
    **env: str,
) -> Identity:
    served = [Served(name=name, words=words, environ=env, cwd=cwd) for name in names]
    return read_identity(served, ["m"], Redactor(["sesame-open-1"]), ignore)


def test_a_port_and_the_place_of_the_checkout_do_not_matter(tmp_path: Path) -> None:
    identities = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "server.py").write_text("print()")
        identities.append(
            read(
                tmp_path / name, sys.executable, f"{tmp_path}/{name}/server.py", "--port", "{port}"
            )
        )

    assert identities[0].digest() == identities[1].digest()
    assert identities[0].facts["argv"] == f"{Path(sys.executable).name} server.py --port {{port}}"


def test_another_script_or_configuration_is_another_identity(tmp_path: Path) -> None:
    script, configuration = tmp_path / "server.py", tmp_path / "c.yaml"
    digests = []
    for text, settings in (("1", "a"), ("2", "a"), ("2", "b")):
        script.write_text(text)
        configuration.write_text(settings)
        digests.append(read(tmp_path, sys.executable, "server.py", "--config=c.yaml").digest())

    assert len(set(digests)) == 3


def test_the_sources_of_a_module_in_the_working_directory_count(tmp_path: Path) -> None:
    (tmp_path / "toy").mkdir()
    digests = set()
    for text in ("1", "2"):
        (tmp_path / "toy/model.py").write_text(text)
        digests.add(read(tmp_path, sys.executable, "-m", "toy").digest())

    assert len(digests) == 2


def test_libraries_are_those_of_the_interpreter_that_the_command_runs(tmp_path: Path) -> None:
    found = read(tmp_path, sys.executable, "server.py")

    assert found.facts["python"] == f"{sys.version_info[0]}.{sys.version_info[1]}"
    assert found.facts["numpy"][0].isdigit()


def test_what_cannot_be_told_is_unknown_and_no_error(tmp_path: Path) -> None:
    found = read(tmp_path, "no-such-program", "x\0y", PATH="/nowhere")

    assert found.unknown["libraries"] == "no-such-program is not on PATH"
    assert "model" in found.unknown


def test_secrets_are_in_no_fact(tmp_path: Path) -> None:
    found = read(
        tmp_path, "s", "--api-key", "hunter22", "x=sesame-open-1", VLLM_OPTIONS="sesame-open-1"
    )

    text = str(found)
    assert "hunter22" not in text
    assert "sesame" not in text


def test_a_word_that_is_too_long_for_a_file_s_name_is_none(tmp_path: Path) -> None:
    key = "eyJhbGciOiJIUzI1NiJ9." + "Zq9" * 120
    found = read(tmp_path, "s", "--api-key", key)

    assert key not in str(found)
    assert not [name for name in found.unknown if name.startswith("file ")]


def test_what_is_ignored_is_noted_only(tmp_path: Path) -> None:
    found = read(tmp_path, sys.executable, ignore=("num*", "model"))

    assert not {"numpy", "model"} & {*found.facts, *found.unknown}
    assert {"numpy", "model"} <= set(found.noted)


def test_of_several_services_each_fact_says_whose_it_is(tmp_path: Path) -> None:
    found = read(tmp_path, sys.executable, names=("prefill", "decode"), ignore=("numpy",))

    assert {"prefill: argv", "decode: argv", "gpu"} <= set(found.facts)
    assert "decode: numpy" in found.noted


COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.mark.parametrize(
    ("line", "model"),
    [
        ("vllm serve org/m --port {port}", "org/m"),
        ("python -m vllm.entrypoints.openai.api_server --model org/m", "org/m"),
        ("python -m sglang.launch_server --model-path=org/m", "org/m"),
        ("vllm serve --model org/m", "org/m"),
        ("python server.py", None),
        ("vllm serve --port 8000", None),
        ("vllm serve", None),
    ],
)
def test_the_model_is_read_from_the_command(line: str, model: str | None) -> None:
    assert model_of(line.split()) == model


def test_the_revision_is_that_of_the_local_cache(tmp_path: Path) -> None:
    refs = tmp_path / "hub/models--org--m/refs"
    refs.mkdir(parents=True)
    (refs / "main").write_text(COMMIT)
    environ = {"HF_HOME": str(tmp_path)}

    found = models(["vllm", "serve", "org/m"], environ, tmp_path, ["m", "m"])

    assert dict(found.facts) == {"model": "org/m", "model.requests": "m", "model.revision": COMMIT}
    other = models(["vllm", "serve", "org/m", "--revision", "v2"], environ, tmp_path, [])
    assert "model.revision" in other.unknown
    pinned = models(["vllm", "serve", "org/m", "--revision", "f" * 40], {}, tmp_path, [])
    assert pinned.facts["model.revision"] == "f" * 40


def test_a_revision_that_nobody_tells_is_unknown(tmp_path: Path) -> None:
    assert "model.revision" in models(["vllm", "serve", "org/m"], {}, tmp_path, []).unknown
    assert set(models(["server"], {}, tmp_path, []).unknown) == {"model"}


def test_a_directory_is_told_by_its_files(tmp_path: Path) -> None:
    (tmp_path / "m").mkdir()
    (tmp_path / "m/config.json").write_text("{}")
    first = models(["vllm", "serve", "./m"], {}, tmp_path, []).facts["model.revision"]
    (tmp_path / "m/config.json").write_text("[]")

    assert models(["vllm", "serve", "./m"], {}, tmp_path, []).facts["model.revision"] != first


def test_a_snapshot_of_the_cache_is_told_by_its_commit(tmp_path: Path) -> None:
    snapshot = tmp_path / "models--org--m/snapshots" / COMMIT
    snapshot.mkdir(parents=True)

    assert (
        models(["vllm", "serve", str(snapshot)], {}, tmp_path, []).facts["model.revision"] == COMMIT
    )


INFORMATION = "Model: \t\t NVIDIA H100 80GB HBM3\nIRQ:   \t\t 18\nGPU UUID: \t GPU-{0}-d72c\nDevice Minor: \t {0}\n"
VERSIONS = {
    "550.54.15": "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5 22:23:56 UTC 2024\nGCC version: 12\n",
    "570.86.10": "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.10  Release Build  (root@x)  2025\n",
}


def driver(root: Path, gpus: int = 2, version: str = VERSIONS["550.54.15"]) -> Path:
    for number in range(gpus):
        folder = root / "driver/nvidia/gpus" / f"0000:0{number}:00.0"
        folder.mkdir(parents=True)
        (folder / "information").write_text(INFORMATION.format(number))
    (root / "driver/nvidia").mkdir(parents=True, exist_ok=True)
    (root / "driver/nvidia/version").write_text(version)
    (root / "cpuinfo").write_text(
        "processor: 0\nmodel name: Xeon\nflags: sse avx2 avx512f\n\nprocessor: 1\nmodel name: other\n"
    )
    return root


def test_this_machine_is_told() -> None:
    found = hardware({})

    assert found.facts["cpu.architecture"] == os.uname().machine
    assert found.facts["cpu.cores"] == str(len(os.sched_getaffinity(0)))
    assert {"kernel", "libc"} <= set(found.noted)
    assert "kernel" not in found.facts


@pytest.mark.parametrize("version", VERSIONS)
def test_the_drivers_files_tell_what_they_can_and_the_rest_is_unknown(
    tmp_path: Path, version: str
) -> None:
    found = hardware({}, driver(tmp_path, version=VERSIONS[version]))

    assert found.facts["driver"] == version
    assert found.facts["gpu1.name"] == "NVIDIA H100 80GB HBM3"
    assert found.facts["gpu1.uuid"] == "GPU-1-d72c"
    unknown = {f"gpu{n}.{key}" for n in (0, 1) for key in ("capability", "cores", "mig")}
    assert set(found.unknown) == unknown
    assert found.facts["cpu.flags"] == "avx2 avx512f"


def test_a_version_that_cannot_be_read_is_unknown(tmp_path: Path) -> None:
    assert "driver" in hardware({}, driver(tmp_path, version="?")).unknown


@pytest.mark.parametrize(
    ("chosen", "uuids"),
    [
        ("1,0", ["GPU-1-d72c", "GPU-0-d72c"]),
        ("GPU-1", ["GPU-1-d72c"]),
        ("0,0", []),
        ("", []),
        ("MIG-GPU-0/1/0", ["MIG-GPU-0/1/0"]),
    ],
)
def test_only_the_gpus_that_a_process_sees_count(
    tmp_path: Path, chosen: str, uuids: list[str]
) -> None:
    found = hardware({"CUDA_VISIBLE_DEVICES": chosen}, driver(tmp_path))

    assert [found.facts[name] for name in sorted(found.facts) if name.endswith(".uuid")] == uuids
    assert (found.facts.get("gpu") == "none visible") == (not uuids)
    assert ("gpu0.name" in found.unknown) == chosen.startswith("MIG")


def test_a_slice_is_identified_as_that_slice_and_not_as_its_gpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gpu = Gpu(index=0, bus_id="", name="NVIDIA H200", uuid="GPU-0", mig="Enabled", cores=16896)
    parts = tuple(
        replace(
            gpu,
            name=f"NVIDIA H200 MIG {profile}",
            uuid=uuid,
            cores=None,
            mig=None,
            former_uuid=uuid,
        )
        for uuid, profile in (("MIG-a", "1g.18gb"), ("MIG-b", "3g.71gb"))
    )

    def view(environ: dict[str, str], proc: Path) -> GpuView:
        chosen = environ.get("CUDA_VISIBLE_DEVICES")
        return GpuView(gpus=(gpu,), chosen=chosen, parts=parts, driver="580.1")

    monkeypatch.setattr("ci_doctor.identity.read.gpu_view", view)
    small, large, whole = (
        hardware({"CUDA_VISIBLE_DEVICES": chosen}, tmp_path) for chosen in ("MIG-a", "MIG-b", "0")
    )

    assert small.facts["gpu0.name"] == "NVIDIA H200 MIG 1g.18gb"
    assert (small.facts["gpu0.uuid"], small.facts["gpu0.mig"]) == ("MIG-a", "slice")
    assert whole.facts["gpu0.mig"] == "on"
    assert len({each.digest() for each in (small, large, whole)}) == 3


def test_a_machine_without_gpus_has_none(tmp_path: Path) -> None:
    found = hardware({}, tmp_path)

    assert found.facts["gpu"] == "none"
    assert {"cpu.model", "cpu.flags"} <= set(found.unknown)
