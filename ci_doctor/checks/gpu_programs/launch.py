# SPDX-License-Identifier: Apache-2.0
"""Acts on GPUs: runs one measurement of this folder, and prints its answer as a line of JSON.

    python launch.py NAME REQUEST

NAME is a module beside this file with a function `measure(torch, request)`. REQUEST is JSON. It runs
in the job's interpreter, Python 3.8 or later, with that interpreter's torch and the standard library.
The answer is `{"torch": VERSION, "cuda": VERSION, ...}` with the fields that `measure` returns, or has `failed` (why) and `stage`
(`torch`: it cannot be imported; `build`: it is built without CUDA; `driver`: it can use no GPU;
`memory`: a GPU has too little free; `measure`).
"""

import ctypes
import importlib.util
import json
import os
import signal
import sys
from pathlib import Path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def main() -> None:
    """Measure, and print the answer."""
    end_with_parent()
    folder = Path(__file__).resolve().parent
    # What lies beside this file must not shadow a module that torch imports.
    sys.path[:] = [path for path in sys.path if Path(path).resolve() != folder]
    answer = answer_of(load(folder / f"{sys.argv[1]}.py"), json.loads(sys.argv[2]))
    # A line of its own: a module that torch imports may have printed half a line.
    sys.stdout.write("\n" + json.dumps(answer) + "\n")
    sys.stdout.flush()


def end_with_parent() -> None:
    """Let the kernel kill this process when ci-doctor is killed, so that the GPU is free (prctl(2))."""
    death_signal = 1  # PR_SET_PDEATHSIG
    parent = os.getppid()
    try:
        ctypes.CDLL(None).prctl(death_signal, signal.SIGKILL)
    except (OSError, AttributeError):  # a libc without it: the time limits of the job remain
        return
    if os.getppid() != parent:  # it ended before the call
        os.kill(os.getpid(), signal.SIGKILL)


def load(path: Path) -> "Any":
    """The module in this file."""
    spec = importlib.util.spec_from_file_location(f"ci_doctor_measure_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise ImportError(path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def answer_of(module: "Any", request: "Any") -> "dict[str, Any]":
    """What the measurement says, or why it says nothing."""
    try:
        import torch  # type: ignore[import-not-found, unused-ignore]
    # A broken installation raises whatever it likes, SystemExit too.
    except BaseException as error:  # noqa: BLE001
        return {"failed": words(error), "stage": "torch"}
    answer = {"torch": str(torch.__version__), "cuda": torch.version.cuda}
    if torch.version.cuda is None:
        return dict(answer, failed="it is built without CUDA", stage="build")
    try:
        torch.cuda.init()
    except Exception as error:  # noqa: BLE001
        return dict(answer, failed=words(error), stage="driver")
    try:
        values = module.measure(torch, request)
    except torch.cuda.OutOfMemoryError as error:
        return dict(answer, failed=words(error), stage="memory")
    except Exception as error:  # noqa: BLE001
        return dict(answer, failed=words(error), stage="measure")
    return dict(answer, **values)


def words(error: BaseException) -> str:
    """The kind of an error, and the first line of its text."""
    lines = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {lines[0][:300]}"


if __name__ == "__main__":
    main()
