import json
import platform
from pathlib import Path

from ci_doctor.checks.python.rules import TORCH_WITHOUT_CUDA, WHEEL_OF_ANOTHER_PLATFORM
from ci_doctor.checks.python.wheels import CHECK

from ci_doctor.checks.check import CheckStatus
from tests.support.packages import install, site_of
from tests.unit.checks.python.conftest import Examine

_ELF = b"\x7fELF\x02\x01" + bytes(12)


def test_pure_wheels_are_ok(python: Path, examine: Examine) -> None:
    assert examine(CHECK, python).status is CheckStatus.OK


def test_a_wheel_of_another_python_is_an_error(python: Path, examine: Examine) -> None:
    tag = f"cp38-cp38-linux_{platform.machine()}"
    install(site_of(python), "fast", "1", tags=[tag])

    (found,) = examine(CHECK, python).problems

    assert found.finding.rule == WHEEL_OF_ANOTHER_PLATFORM.id
    assert found.finding.severity == "error"
    assert "built for Python 3.8" in found.finding.summary


def test_modules_of_another_python_are_an_error_without_any_tag(
    python: Path, examine: Examine
) -> None:
    files = {"fast/_C.cpython-38-x86_64-linux-gnu.so": _ELF}
    install(site_of(python), "fast", "1", files=files, tags=[])

    (found,) = examine(CHECK, python).problems

    assert "it has 1 module for another Python" in found.finding.summary


def test_a_module_of_another_processor_is_an_error(python: Path, examine: Examine) -> None:
    files = {"fast/lib.so": _ELF + (21).to_bytes(2, "little")}
    install(site_of(python), "fast", "1", files=files)

    (found,) = examine(CHECK, python).problems

    assert "fast/lib.so: it was built for ppc64le" in found.finding.summary


def test_an_editable_installation_that_was_built_for_another_python_is_an_error(
    python: Path, tmp_path: Path, examine: Examine
) -> None:
    package = tmp_path / "source" / "fast"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "_C.cpython-38-x86_64-linux-gnu.so").write_bytes(_ELF)
    folder = install(site_of(python), "fast", "1", files={"fast.pth": b"\n"})
    url = {"url": (tmp_path / "source").as_uri(), "dir_info": {"editable": True}}
    (folder / "direct_url.json").write_text(json.dumps(url))

    (found,) = examine(CHECK, python).problems

    assert "has compiled modules for another Python" in found.finding.summary
    assert str(found.finding.remedy).endswith(f"--no-deps -e {tmp_path}/source")


def test_a_torch_for_the_cpu_beside_packages_of_cuda_is_a_warning(
    python: Path, examine: Examine
) -> None:
    install(site_of(python), "torch", "2.9.0+cpu")
    install(site_of(python), "flash-attn", "2.8")

    result = examine(CHECK, python)

    assert result.status is CheckStatus.WARNING
    assert result.problems[0].finding.rule == TORCH_WITHOUT_CUDA.id
