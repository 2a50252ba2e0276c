# SPDX-License-Identifier: Apache-2.0
"""Makes virtual environments with the stand-ins for vLLM, transformers and LMCache in them.

    python make_venvs.py venvs/prefill=0.5.6 venvs/decode=0.4.1

Each word is a directory and the version of LMCache in it. The version of vLLM is a nightly with the
thread that races for transformers.
"""

import importlib.util
import shutil
import sys
import sysconfig
import venv
from pathlib import Path

HERE = Path(__file__).resolve().parent
VLLM = "0.19.2rc1.dev100"
# What a version has of the names that vLLM 0.33.0 imports: read in the wheels of 0.4.1 and 0.5.6.
NAMES = {"0.5.6": "class BlockAllocationRecord:\n    pass\n", "0.4.1": ""}
SCRIPT = """#!{python}
from {module} import main
main()
"""


def make(directory: Path, lmcache: str) -> None:
    """One environment. Raises KeyError for a version of LMCache that is not in NAMES."""
    names = NAMES[lmcache]
    venv.EnvBuilder(clear=True, symlinks=True).create(directory)
    paths = {"base": str(directory), "platbase": str(directory)}
    site = Path(sysconfig.get_path("purelib", "venv", paths))
    shutil.copytree(HERE / "venv-site", site, dirs_exist_ok=True)
    package = site / "lmcache" / "v1" / "multiprocess"
    package.mkdir(parents=True)
    (package / "custom_types.py").write_text(names)
    for name, version in (("vllm", VLLM), ("lmcache", lmcache), ("transformers", "5.5.4")):
        metadata = site / f"{name}-{version}.dist-info" / "METADATA"
        metadata.parent.mkdir()
        metadata.write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    # The programs themselves, tiny-llm, and numpy of the interpreter that runs this.
    numpy = importlib.util.find_spec("numpy")
    if numpy is None or numpy.origin is None:
        sys.exit("make_venvs.py: numpy is needed: pip install numpy")
    folders = (HERE, HERE.parents[1] / "tiny-llm", Path(numpy.origin).parents[1])
    (site / "stand_ins.pth").write_text("\n".join(map(str, folders)) + "\n")
    for program, module in (("vllm", "vllm.entrypoints.cli.main"), ("lmcache", "lmcache_server")):
        file = directory / "bin" / program
        python = directory.absolute() / "bin" / "python"
        file.write_text(SCRIPT.format(python=python, module=module))
        file.chmod(0o755)


if __name__ == "__main__":
    for word in sys.argv[1:]:
        where, _, version = word.partition("=")
        make(Path(where), version or "0.5.6")
