# SPDX-License-Identifier: Apache-2.0
"""The shell command that makes a trial again by hand. Pure."""

import shlex
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from ci_doctor.pytest_runs.explain.trial import FlakyTrial

PLUGIN = "_ci_doctor_trial"
# The folder holds nothing but the plugin and its parts.
PLUGIN_FOLDER = Path(__file__).with_name("injected")


# Options of a whole suite: its workers, its reports, when it stops. The value may be the next word.
_OF_SUITES = (
    "-n", "--numprocesses", "--dist", "--maxprocesses", "--maxfail", "--durations", "--junitxml",
    "--junit-xml", "--html", "--report-log", "--cov", "--cov-report", "--cov-config", "--cov-fail-under",
)  # fmt: skip
_FLAGS_OF_SUITES = frozenset({"-x", "--exitfirst", "--lf", "--last-failed", "--ff", "--nf", "--sw"})
_NO_WORKERS = "-n0"


def options_for_tests(arguments: Sequence[str], is_path: Callable[[str], bool]) -> tuple[str, ...]:
    """Those of the user's `arguments` that a run of chosen tests needs too.

    Left out are the paths, and what belongs to a whole suite. `is_path` tells whether a word is one.
    """
    kept: list[str] = []
    is_value = False
    for word in arguments:
        was_value, is_value = is_value, word in _OF_SUITES
        if is_value or was_value or word == "--" or word in _FLAGS_OF_SUITES:
            continue
        is_of_suite = word.partition("=")[0] in _OF_SUITES or word.startswith("-n")
        if word == _NO_WORKERS or not (is_of_suite or is_path(word)):
            kept.append(word)
    return tuple(kept)


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
