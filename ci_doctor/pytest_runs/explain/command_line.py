# SPDX-License-Identifier: Apache-2.0
"""The shell command that makes a trial again by hand. Pure."""

import shlex
from collections.abc import Sequence
from pathlib import Path

import msgspec

from ci_doctor.pytest_runs.explain.trial import FlakyTrial

PLUGIN = "_ci_doctor_trial"
# The folder holds nothing but the plugin and its parts.
PLUGIN_FOLDER = Path(__file__).with_name("injected")


def plugin_form(trial: FlakyTrial, **more: object) -> str:
    """The value of CI_DOCTOR_TRIAL: the conditions that the plugin makes, as JSON."""
    fields = msgspec.to_builtins(trial)
    fields["tests"] = [*trial.before, trial.target]
    for name in ("target", "before", "earlier", "hash_seed", "zone"):
        fields.pop(name, None)
    return msgspec.json.encode({**fields, **more}).decode()


def shell_command(trial: FlakyTrial, python: str, arguments: Sequence[str] = ()) -> str:
    """One line for a shell in the root of the tests; `arguments` are the user's own for pytest."""
    assignments = []
    if trial.hash_seed is not None:
        assignments.append(f"PYTHONHASHSEED={trial.hash_seed}")
    if trial.zone is not None:
        assignments.append(f"TZ={shlex.quote(trial.zone)}")
    if not trial.needs_plugin:
        words = [python, "-m", "pytest", "-p", "no:randomly", *arguments]
        line = " ".join([*assignments, shlex.join([*words, *trial.before, trial.target])])
    else:
        assignments.append(f"PYTHONPATH={shlex.quote(str(PLUGIN_FOLDER))}")
        assignments.append(f"CI_DOCTOR_TRIAL={shlex.quote(plugin_form(trial))}")
        files = [*trial.before, *trial.collect, trial.target]
        paths = dict.fromkeys(each.partition("::")[0] for each in files)
        words = [python, "-m", "pytest", "-p", PLUGIN, *arguments, *paths]
        line = " ".join([*assignments, shlex.join(words)])
    for test in trial.earlier:
        earlier = msgspec.structs.replace(trial, target=test, before=(), earlier=())
        line = f"{shell_command(earlier, python, arguments)}; {line}"
    return line
