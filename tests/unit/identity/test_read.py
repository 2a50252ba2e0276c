# SPDX-License-Identifier: Apache-2.0
import sys
from pathlib import Path

from ci_doctor.identity.identity import Identity
from ci_doctor.identity.read import Served, read_identity
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
