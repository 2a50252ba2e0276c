# SPDX-License-Identifier: Apache-2.0
"""Acts on processes and reads the machine: the identity of a server before it is started."""

import errno
import hashlib
import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from itertools import islice
from pathlib import Path

from msgspec import Struct

from ci_doctor.identity.identity import Identity, variables
from ci_doctor.identity.libraries import libraries
from ci_doctor.machine.gpus import PROC, gpu_view
from ci_doctor.machine.host import first_cpu, libc_version
from ci_doctor.machine.interpreters import UnknownInterpreterError, interpreter_of
from ci_doctor.machine.nvidia_smi import Gpu
from ci_doctor.system.secrets.redaction import Redactor

# --- which GPUs and which CPU will answer, as facts of an identity ---

# The CPU features for which libraries keep kernels of their own, under the names of x86 and of ARM.
FLAGS = (
    *("fma", "f16c", "avx", "avx2", "avx_vnni"),
    *(f"avx512{name}" for name in ("f", "bw", "dq", "vl", "_vnni", "_bf16", "_fp16")),
    *("amx_tile", "amx_int8", "amx_bf16"),
    *("asimd", "asimddp", "bf16", "i8mm", "sve", "sve2"),
)


def hardware(environ: Mapping[str, str], proc: Path = PROC) -> Identity:
    """GPUs that CUDA_VISIBLE_DEVICES in `environ` leaves visible, driver, CPU and cores.

    Kernel and libc are noted only.
    """
    return _cpu(proc).also(_gpus(environ, proc))


def _cpu(proc: Path) -> Identity:
    facts = {
        "cpu.architecture": os.uname().machine,
        # Those that this process may use: a container's share, and not the machine's.
        "cpu.cores": str(len(os.sched_getaffinity(0))),
    }
    unknown = {}
    block = first_cpu(proc)
    # ARM has no `model name`: two numbers stand for it.
    numbers = " ".join(block[key] for key in ("CPU implementer", "CPU part") if key in block)
    model = block.get("model name") or numbers
    if model:
        facts["cpu.model"] = model
    else:
        unknown["cpu.model"] = f"{proc}/cpuinfo does not name it"
    flags = (block.get("flags") or block.get("Features") or "").split()
    if flags:
        relevant = [flag for flag in FLAGS if flag in flags]
        facts["cpu.flags"] = " ".join(relevant) or "none of those that matter"
    else:
        unknown["cpu.flags"] = f"{proc}/cpuinfo does not name any"
    return Identity.of(facts, unknown, {"kernel": os.uname().release, "libc": libc_version() or ""})


def _gpus(environ: Mapping[str, str], proc: Path) -> Identity:
    """The GPUs that a program sees, in its order. A MIG device is that slice, and not its GPU."""
    view = gpu_view(environ, proc)
    if view is None:
        return Identity.of({"gpu": "none"})
    facts: dict[str, str] = {}
    unknown: dict[str, str] = {}
    if view.driver:
        facts["driver"] = view.driver
    else:
        unknown["driver"] = "its version cannot be read"
    visible = view.visible()
    if not visible.count:
        facts["gpu"] = "none visible"
    for number, gpu in enumerate(visible.gpus):
        for key, value in _fields(gpu).items():
            if value is None:
                unknown[f"gpu{number}.{key}"] = "the NVIDIA driver does not report it"
            else:
                facts[f"gpu{number}.{key}"] = value
    for number, part in enumerate(visible.parts, start=len(visible.gpus)):
        facts[f"gpu{number}.uuid"] = part
        unknown[f"gpu{number}.name"] = "the NVIDIA driver does not list this MIG device"
    return Identity.of(facts, unknown)


def _fields(gpu: Gpu) -> dict[str, str | None]:
    mig = None
    if gpu.is_part:
        mig = "slice"
    elif gpu.mig is not None:
        mig = "on" if gpu.is_partitioned else "off"
    return {
        "name": gpu.name,
        "uuid": gpu.uuid,
        "capability": gpu.capability,
        # Stands for the number of SMs: each generation has a fixed number of cores in one. NVIDIA's
        # library alone counts them, and not those of a slice, which its name tells.
        "cores": None if gpu.cores is None else str(gpu.cores),
        "mig": mig,
    }


# --- which model a command serves, and which revision of it lies here ---
# Nothing is downloaded.

_OPTIONS = (
    "--model",
    "--model-path",
    "--model_path",
    "--model_name_or_path",
    "--model-name-or-path",
)
_HASH = re.compile(r"[0-9a-f]{40}")
# Files up to this size count by content: the settings of a model. Its weights count by name and
# size.
_SMALL_FILE = 1 << 20


def model_of(words: Sequence[str]) -> str | None:
    """The model of a command line: `--model X`, `--model-path X`, `vllm serve X`; else None."""
    named = _option(words, _OPTIONS)
    if named is not None:
        return named
    for index, word in enumerate(words[:-1]):
        # After an option there may be its value, so the model is uncertain.
        if word == "serve" and not words[index + 1].startswith("-"):
            return words[index + 1]
    return None


def models(
    words: Sequence[str], environ: Mapping[str, str], cwd: Path, requests: Iterable[str]
) -> Identity:
    """`model`, its revision, and the names that the requests use (`requests`, their `model`)."""
    names = sorted(set(requests))
    requested = Identity.of({"model.requests": ", ".join(names)} if names else {})
    return requested.also(_served(words, environ, cwd))


def _served(words: Sequence[str], environ: Mapping[str, str], cwd: Path) -> Identity:
    name = model_of(words)
    if name is None:
        return Identity.of({}, {"model": "the command names none"})
    if (cwd / name).is_dir():
        return _local(name, cwd / name)
    revision = _option(words, ("--revision", "--model-revision")) or "main"
    commit = revision if _HASH.fullmatch(revision) else _cached(name, revision, environ)
    if commit:
        return Identity.of({"model": name, "model.revision": commit})
    reason = f"the local Hugging Face cache holds no {revision} of it"
    return Identity.of({"model": name}, {"model.revision": reason})


def _option(words: Sequence[str], names: Sequence[str]) -> str | None:
    """The value of the first of `words` that is one of the options `names`."""
    for index, word in enumerate(words):
        option, equals, value = word.partition("=")
        if option not in names:
            continue
        if equals:
            return value
        return words[index + 1] if index + 1 < len(words) else None
    return None


def _cached(name: str, revision: str, environ: Mapping[str, str]) -> str | None:
    """The commit of a branch or tag in the cache: models--ORG--NAME/refs/REVISION."""
    folder = f"models--{name.replace('/', '--')}"
    for hub in _hubs(environ):
        try:
            commit = (hub / folder / "refs" / revision).read_text().strip()
        except (OSError, ValueError):
            continue
        if _HASH.fullmatch(commit):
            return commit
    return None


def _hubs(environ: Mapping[str, str]) -> list[Path]:
    """https://huggingface.co/docs/huggingface_hub/package_reference/environment_variables."""
    named = environ.get("HF_HUB_CACHE") or environ.get("HUGGINGFACE_HUB_CACHE")
    if named:
        return [Path(named)]
    if environ.get("HF_HOME"):
        return [Path(environ["HF_HOME"]) / "hub"]
    caches = environ.get("XDG_CACHE_HOME")
    if not caches and environ.get("HOME"):
        caches = f"{environ['HOME']}/.cache"
    return [Path(caches) / "huggingface" / "hub"] if caches else []


def _local(name: str, directory: Path) -> Identity:
    """A directory: small files by content, weights by name and size; one of the cache by commit."""
    # The cache's own layout: models--ORG--NAME/snapshots/COMMIT.
    if directory.parent.name == "snapshots" and _HASH.fullmatch(directory.name):
        repository = directory.parent.parent.name
        return Identity.of({"model": repository, "model.revision": directory.name})
    try:
        digest = _digest(directory)
    except OSError as error:
        reason = f"{directory} cannot be read: {error.strerror}"
        return Identity.of({"model": name}, {"model.revision": reason})
    revision = f"files {digest[:12]}, weights by name and size"
    return Identity.of({"model": name, "model.revision": revision})


def _digest(directory: Path) -> str:
    content = hashlib.sha256()
    for path in sorted(directory.iterdir()):
        if not path.is_file():
            continue
        size = path.stat().st_size
        content.update(f"{path.name}\0{size}\0".encode(errors="surrogateescape"))
        if size <= _SMALL_FILE:
            content.update(path.read_bytes())
    return content.hexdigest()


# --- the identity of a server before it is started ---
# Nothing is started, imported or downloaded.

# A file on the command line is a script or a configuration; a larger file counts by its size.
_SMALL = 4 << 20
# Source files of a module that are read.
_FILES = 500


class Served(Struct, frozen=True, kw_only=True):
    """A command to be started: `words` with placeholders, the whole `environ`, its directory."""

    name: str
    words: tuple[str, ...]
    environ: Mapping[str, str]
    cwd: Path


def read_identity(
    served: Sequence[Served],
    requested_models: Iterable[str],
    redactor: Redactor,
    ignore: Collection[str] = (),
) -> Identity:
    """The identity of a group of services.

    Facts whose names match one of `ignore` (with `*` and `?`) are noted only: the part that is
    under test, and not used by the baseline. With more than one service, the facts of each have its
    name in front. Raises nothing: what cannot be read is unknown. Typically some ten milliseconds;
    waking a GPU's driver may take a second.
    """
    identity = hardware(served[0].environ if served else {})
    models_in_requests = set(requested_models)
    for each in served:
        front = f"{each.name}: " if len(served) > 1 else ""
        identity = identity.also(_one(each, models_in_requests, redactor).rewritten(str, front))
    return _without(identity.rewritten(redactor.without_values), ignore)


def _one(served: Served, requested_models: Collection[str], redactor: Redactor) -> Identity:
    words = [word.replace(f"{served.cwd}/", "") for word in redactor.argv(served.words)]
    # The path of an interpreter or a script differs from agent to agent; what it runs is read
    # below.
    if words:
        words[0] = Path(words[0]).name
    return (
        Identity.of({"argv": " ".join(words)})
        .also(_files(served))
        .also(_software(served))
        .also(models(served.words, served.environ, served.cwd, requested_models))
        .also(variables(served.environ))
    )


def _software(served: Served) -> Identity:
    try:
        python = interpreter_of(served.words, served.environ, served.cwd)
    # RuntimeError: a link that leads to itself.
    except (UnknownInterpreterError, OSError, RuntimeError) as error:
        return Identity.of({}, {"libraries": str(error)})
    own = Identity.of({"python": python.version}, {}, {"interpreter": str(python.python)})
    return own.also(libraries(python.directories))


def _files(served: Served) -> Identity:
    """The files that a command line names, by content: a server's script, a configuration."""
    facts: dict[str, str] = {}
    unknown: dict[str, str] = {}
    for word in _words(served):
        # Longer than any path, or a text that no path can be.
        if not word or len(word) >= 4096 or "\0" in word:
            continue
        path = served.cwd / word
        name = f"file {word.removeprefix(f'{served.cwd}/')}"
        try:
            if path.is_file():
                facts[name] = _content(path)
        except (OSError, ValueError) as error:
            # Too long for a name: a key, or JSON, which is in `argv` without its secrets.
            if getattr(error, "errno", None) != errno.ENAMETOOLONG:
                unknown[name] = f"it cannot be read: {error}"
    return Identity.of({**facts, **_module(served)}, unknown)


def _content(path: Path) -> str:
    size = path.stat().st_size
    if size > _SMALL:
        return f"{size} bytes"
    return hashlib.sha256(path.read_bytes()).hexdigest()[:12]


def _module(served: Served) -> dict[str, str]:
    """The sources of `python -m NAME`, if NAME lies in the working directory.

    The modules that these import are not followed.
    """
    words = served.words
    name = words[words.index("-m") + 1] if "-m" in words[:-1] else ""
    if not re.fullmatch(r"\w+(\.\w+)*", name):
        return {}
    path = served.cwd.joinpath(*name.split("."))
    files = [path.with_suffix(".py")]
    content = hashlib.sha256()
    try:
        if path.is_dir():
            files = sorted(islice(path.rglob("*.py"), _FILES))
        for file in files:
            content.update(str(file).removeprefix(str(path)).encode())
            content.update(file.read_bytes())
    except OSError:
        return {}
    return {f"module {name}": content.hexdigest()[:12]} if files else {}


def _words(served: Served) -> Iterator[str]:
    """Words that may name files; of options such as `--config=FILE` the value."""
    for word in served.words[:1]:
        # A console script beside its Python says only how pip has made it.
        beside_python = (served.cwd / word).parent.glob("python*")
        if "/" in word and not any(beside_python):
            yield word
    for word in served.words[1:]:
        yield word.partition("=")[2] if word.startswith("-") else word
    for name, value in served.environ.items():
        if name.endswith("_CONFIG_FILE"):
            yield value


def _without(identity: Identity, ignore: Collection[str]) -> Identity:
    """`identity` with the facts that match one of `ignore` as notes."""
    readings = {
        **identity.facts,
        **{name: f"unknown: {reason}" for name, reason in identity.unknown.items()},
    }
    ignored = {name: text for name, text in readings.items() if _matches(name, ignore)}
    return Identity.of(
        {name: value for name, value in identity.facts.items() if name not in ignored},
        {name: reason for name, reason in identity.unknown.items() if name not in ignored},
        {**identity.noted, **ignored},
    )


def _matches(name: str, globs: Collection[str]) -> bool:
    """Whether the whole name matches one of `globs`, or the name without its service."""
    plain = name.rpartition(": ")[2]
    return any(fnmatchcase(name, glob) or fnmatchcase(plain, glob) for glob in globs)
