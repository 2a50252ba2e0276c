# SPDX-License-Identifier: Apache-2.0
"""Whether the flags, metrics and names of examples/recipes are in the packages that they stand for.

    python benchmarks/recipe_flags.py                      vLLM, LMCache and SGLang, downloaded by pip (400 MB)
    python benchmarks/recipe_flags.py --wheels DIRECTORY   wheels that are there already

Reads the source in the wheels and runs none of it. Ends with 1 if anything is missing.
"""

import argparse
import ast
import re
import shlex
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path

RECIPES = Path(__file__).parents[1] / "examples" / "recipes"
VERSIONS = {"vllm": "0.33.0", "lmcache": "0.5.6", "sglang": "0.5.23"}
# Where a package defines the options of the program.
FLAG_FILES = {
    "vllm": ("vllm/engine/arg_utils.py", "vllm/entrypoints/common/cli_args.py"),
    "lmcache": ("lmcache/v1/multiprocess/config.py", "lmcache/v1/distributed/config.py", "lmcache/v1/mp_observability/config.py"),
    "sglang": ("sglang/srt/arg_groups/fields/",),
}  # fmt: skip
# What else the recipes say of a package: a text that its source must hold.
TEXTS = {
    "vllm": (
        '"vllm:external_prefix_cache_hits"', '"/reset_prefix_cache"', '"VLLM_BATCH_INVARIANT"',
        '"VLLM_SERVER_DEV_MODE"', '"VLLM_NIXL_SIDE_CHANNEL_PORT"', '"LMCacheConnectorV1"',
        '"LMCacheMPConnector"', '"NixlConnector"', "headless multiproc executor",
        "world_size=%d rank=%d local_rank=%d", "BlockAllocationRecord as RequestAllocationRecord",
        "zero-based index", '"success": bool(success)', "do_remote_prefill", "remote_request_id",
    ),
    "lmcache": (
        '"chunk_size"', '"local_cpu"', '"max_local_cpu_size"', '"/healthcheck"',
        '"lmcache_blend.lookup_non_prefix_hit_tokens"', "class BlockAllocationRecord",
        "requires --l1-size-gb and --eviction-policy", "lmcache.mp.host", "lmcache.mp.port",
    ),
    "sglang": (
        '"sglang:cached_tokens_total"', '"/flush_cache"', "radix cache is not compatible with",
        'RADIX_SUPPORTED_DETERMINISTIC_ATTENTION_BACKEND = ["ascend", "fa3", "fa4", "triton"]',
    ),
}  # fmt: skip


def main() -> int:
    """Print what was looked for and what is missing; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--wheels", type=Path, help="a directory with the three wheels")
    args = parser.parse_args()
    wanted = flags_of_recipes()
    missing = 0
    with tempfile.TemporaryDirectory() as scratch:
        for package, version in VERSIONS.items():
            wheel = find_wheel(args.wheels or Path(scratch), package, version)
            sources = dict(read_sources(wheel))
            known = set(known_flags(package, sources))
            lost = sorted(wanted[package] - known)
            lost += [
                text
                for text in TEXTS[package]
                if not any(text in each for each in sources.values())
            ]
            missing += len(lost)
            count = len(wanted[package]) + len(TEXTS[package])
            print(
                f"{package} {version}: {count - len(lost)} of {count} there",
                *lost,
                sep="\n  missing: ",
            )
    return 1 if missing else 0


def flags_of_recipes() -> dict[str, set[str]]:
    """The options of each program in the configurations of all recipes."""
    wanted: dict[str, set[str]] = {package: set() for package in VERSIONS}
    for file in sorted(RECIPES.glob("*/*.toml")):
        for service in tomllib.loads(file.read_text(encoding="utf-8")).get("services", {}).values():
            command = service["command"]
            words = shlex.split(command) if isinstance(command, str) else command
            package = package_of(words)
            if package is not None:
                wanted[package].update(word for word in words if word.startswith("--"))
    return wanted


def package_of(words: list[str]) -> str | None:
    """Which package's program a command runs."""
    if words[1:3] == ["-m", "sglang.launch_server"]:
        return "sglang"
    name = Path(words[0]).name
    return name if name in VERSIONS else None


def find_wheel(directory: Path, package: str, version: str) -> Path:
    """The wheel in `directory`, downloaded into it if it is not there."""
    if not list(directory.glob(f"{package}-{version}-*.whl")):
        words = [
            sys.executable,
            "-m",
            "pip",
            "download",
            "--quiet",
            "--no-deps",
            "--only-binary",
            ":all:",
        ]
        words += ["--python-version", "3.12", "--dest", str(directory), f"{package}=={version}"]
        for platform in ("manylinux_2_28_x86_64", "manylinux_2_34_x86_64", "manylinux2014_x86_64"):
            words += ["--platform", platform]
        subprocess.run(words, check=True)
    (wheel,) = directory.glob(f"{package}-{version}-*.whl")
    return wheel


def read_sources(wheel: Path) -> Iterator[tuple[str, str]]:
    """Each Python file of a wheel: its name and its text."""
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            if name.endswith(".py"):
                yield name, archive.read(name).decode("utf-8", "replace")


def known_flags(package: str, sources: dict[str, str]) -> Iterator[str]:
    """The options that a package's program takes: those it names, and those made of fields."""
    for name, text in sources.items():
        if not name.startswith(FLAG_FILES[package]):
            continue
        for node in ast.walk(ast.parse(text)):
            yield from flags_of(node)


def flags_of(node: ast.AST) -> Iterator[str]:
    """The options that one node of the source names."""
    match node:
        case ast.Constant(value=str(text)) if re.fullmatch(r"--[a-z0-9-]+", text):
            yield text
            # argparse.BooleanOptionalAction makes both.
            yield text.replace("--", "--no-", 1)
        # vLLM's front end and SGLang make an option of each annotated field.
        case ast.AnnAssign(target=ast.Name(id=name)):
            yield "--" + name.replace("_", "-")
        case _:
            pass


if __name__ == "__main__":
    sys.exit(main())
