# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: whether the import of a module can be lost to another thread's, in one interpreter."""

import tempfile
from collections.abc import Mapping
from pathlib import Path

import msgspec
from msgspec import Struct

from ci_doctor.errors import InfraError, UsageError
from ci_doctor.imports.confirm.delays import Hold
from ci_doctor.imports.record.events import End
from ci_doctor.imports.record.recording import recording
from ci_doctor.imports.record.run import read_traces
from ci_doctor.preload.immunity import self_replacement_race
from ci_doctor.preload.interpreter import Answer, ask
from ci_doctor.system import clock

# Cold imports of torch from a network file system take tens of seconds.
TIMEOUT_S = 180.0
# The main thread comes at once: it looks for the module as long as it is not there.
_HOLD_S = 30.0

# Says how it went on the last line of stdout; what the module prints goes to stderr. The thread's import is held by the
# recorder until the main thread asks for the same module. os._exit: threads of the module must not hold up the answer.
# Until the race is over it imports nothing that is not built in: what it imported itself could be raced for no more.
_PROBE = """
import sys
module, attribute = sys.argv[1], sys.argv[2]
said = {"loaded_before": module in sys.modules, "failed": "", "error": "", "stale": False, "absent": ""}
import _thread, os, time
del sys.argv[1:]
stdout = os.dup(1)
os.dup2(2, 1)

def describe(error):
    try:
        return "%s: %s" % (type(error).__name__, " ".join(str(error).split()))
    except Exception:
        return type(error).__name__

def background():
    try:
        __import__(module)
    except BaseException as error:
        sys.excepthook(*sys.exc_info())
        said["failed"] = describe(error)
    finally:
        ended.release()

given = {}
if not said["loaded_before"]:
    ended = _thread.allocate_lock()
    ended.acquire()
    _thread.start_new_thread(background, ())
    while module not in sys.modules and ended.locked():
        time.sleep(0.0005)
    try:
        if attribute:
            exec("from %s import %s as it" % (module, attribute), given)
        else:
            given["it"] = __import__(module, fromlist=("__name__",))
    except BaseException as error:
        said["error"] = describe(error)
    ended.acquire()
if not said["failed"]:
    now = sys.modules.get(module)
    if not attribute:
        said["stale"] = "it" in given and given["it"] is not now
    else:
        try:
            first, second = getattr(now, attribute), getattr(now, attribute)
            said["stale"] = "it" in given and first is second and given["it"] is not first
        except BaseException as error:
            try:
                exec("from %s import %s as late" % (module, attribute), {})
            except BaseException as error:
                said["absent"] = describe(error)
sys.stderr.flush()
import atexit, json
os.write(stdout, b"\\n" + json.dumps(said).encode() + b"\\n")
atexit._run_exitfuncs()
os._exit(0)
"""


class _ProbeAnswer(Struct, frozen=True, kw_only=True):
    """`failed`: the module cannot be imported at all; `absent`: it has no such attribute in the end either."""

    loaded_before: bool
    failed: str
    error: str
    stale: bool
    absent: str


class ProbeResult(Struct, frozen=True, kw_only=True):
    """What the main thread was given while another thread imported `module` in `python`.

    `exposed` is None where nothing can be said, because the import fails without any race: `error` says how. Otherwise
    `error` is that of the lost race, empty where the object that is handed out is merely another one. `replaced` are all
    modules that replaced themselves meanwhile, `immune` says that this interpreter does not lose such a race.
    """

    module: str
    attribute: str
    python: Path
    exposed: bool | None
    error: str
    loaded_before: bool
    replaced: tuple[str, ...]
    immune: bool
    duration_s: float


def probe(python: Path, module: str, attribute: str, *, environ: Mapping[str, str]) -> ProbeResult:
    """Let two threads of a child of `python` import `module` (and `attribute`, where it is not empty), one held for the other.

    The import happens once, in the working directory and under `environ`. Raises UsageError where `python` cannot be run,
    InfraError where it cannot be asked.
    """
    began = clock.now()
    immune = not self_replacement_race(python)
    with tempfile.TemporaryDirectory(prefix="ci-doctor-import-probe-") as folder:
        hold = Hold(mode="exec", x=module, limit_s=_HOLD_S)
        environment = recording(_plain(environ), Path(folder), hold.text())
        answer = ask(
            python, "-c", _PROBE, module, attribute, timeout_s=TIMEOUT_S, environment=environment
        )
        processes, _ = read_traces(Path(folder))
    replaced = dict.fromkeys(
        event.name
        for process in processes
        for event in process.events
        if isinstance(event, End) and event.replaced
    )
    if answer.exit_code == 0 and not any(process.armed for process in processes):
        raise InfraError(
            f"{python} cannot be recorded, so nothing is known of it",
            hint="name another interpreter",
        )
    said = _said(answer)
    lost = bool(said.error) or said.stale
    return ProbeResult(
        module=module,
        attribute=attribute,
        python=python,
        exposed=None if said.failed or said.absent else lost,
        error=said.failed or said.absent or said.error,
        loaded_before=said.loaded_before,
        replaced=tuple(replaced),
        immune=immune,
        duration_s=clock.now() - began,
    )


def _plain(environ: Mapping[str, str]) -> dict[str, str]:
    # The question is what happens without a shim, and a probe leaves no bytecode behind.
    return {
        **environ,
        "CI_DOCTOR_PRELOAD": "0",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONFAULTHANDLER": "1",
    }


def _said(answer: Answer) -> _ProbeAnswer:
    try:
        return msgspec.json.decode(answer.stdout.strip().splitlines()[-1], type=_ProbeAnswer)
    except (msgspec.DecodeError, IndexError):
        pass
    if answer.exit_code is None:
        failed = f"the import took longer than {TIMEOUT_S:g} s and was stopped"
    else:
        failed = (
            f"the interpreter ended with exit code {answer.exit_code}: {answer.last_error_line}"
        )
    return _ProbeAnswer(loaded_before=False, failed=failed, error="", stale=False, absent="")


def parse_target(text: str) -> tuple[str, str]:
    """`MODULE` or `MODULE:ATTR`, as the two names; the second is empty where there is none. Raises UsageError."""
    module, _, attribute = text.partition(":")
    names = [*module.split("."), *([attribute] if ":" in text else [])]
    if not all(name.isidentifier() for name in names):
        raise UsageError(
            f"{text!r} is not MODULE or MODULE:ATTR",
            hint="write, for example, transformers:GenerationConfig",
        )
    return module, attribute
