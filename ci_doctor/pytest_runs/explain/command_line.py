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
_FLAGS_OF_SUITES = frozenset({
    "-x", "--exitfirst", "--lf", "--last-failed", "--ff", "--failed-first", "--nf", "--new-first",
    "--sw", "--stepwise", "--sw-skip", "--stepwise-skip",
})  # fmt: skip
# Options of pytest whose value is the next word. A file or a folder may have the name of the value.
_WITH_VALUE = frozenset({
    "-c", "-k", "-m", "-o", "-p", "-r", "-W", "--basetemp", "--capture", "--config-file",
    "--confcutdir", "--deselect", "--ignore", "--ignore-glob", "--import-mode", "--log-file",
    "--override-ini", "--pythonwarnings", "--rootdir", "--tb",
})  # fmt: skip
_NO_WORKERS = "-n0"
# Options of plugins that shuffle. Their values may be the next word.
_SHUFFLING = ("--randomly-", "--random-order")
_WITH_SHUFFLING_VALUE = frozenset({
    "--randomly-seed", "--random-order-bucket", "--random-order-seed",
})  # fmt: skip
_SHUFFLERS = frozenset({"randomly", "pytest_randomly"})


def options_for_tests(arguments: Sequence[str], is_path: Callable[[str], bool]) -> tuple[str, ...]:
    """Those of the user's `arguments` that a run of chosen tests needs too.

    Left out are the paths, and what belongs to a whole suite. `is_path` tells whether a word is one.
    """
    kept: list[str] = []
    before = ""
    for word in arguments:
        option, before = before, word
        if option in _WITH_VALUE:
            kept.append(word)
            # The value is no option, even if it looks like one.
            before = ""
        elif not _is_of_suite(word, option) and not is_path(word):
            kept.append(word)
    return tuple(kept)


def _is_of_suite(word: str, option: str) -> bool:
    """Whether `word`, which follows `option`, belongs to a run of a whole suite alone."""
    if word == _NO_WORKERS:
        return False
    # The value may be missing, as in `--cov -q`.
    if option in _OF_SUITES and not word.startswith("-"):
        return True
    is_option = word.partition("=")[0] in _OF_SUITES or word.startswith("-n")
    return is_option or word == "--" or word in _FLAGS_OF_SUITES


def _unshuffled(arguments: Sequence[str]) -> tuple[str, ...]:
    """`arguments` without what shuffles the tests, or belongs to a plugin that is switched off."""
    kept: list[str] = []
    before = ""
    for word in arguments:
        option, before = before, word
        if option == "-p" and word in _SHUFFLERS:
            kept.pop()
        elif option in _WITH_SHUFFLING_VALUE or word.startswith(_SHUFFLING):
            continue
        elif not (word.startswith("-p") and word[2:] in _SHUFFLERS):
            kept.append(word)
    return tuple(kept)


def plugin_form(trial: FlakyTrial, **more: object) -> str:
    """The value of CI_DOCTOR_TRIAL: the conditions that the plugin makes, as JSON."""
    fields = msgspec.to_builtins(trial)
    fields["tests"] = [*trial.before, trial.target]
    for name in ("target", "before", "earlier", "hash_seed", "zone"):
        fields.pop(name, None)
    return msgspec.json.encode({**fields, **more}).decode()


def shell_command(
    trial: FlakyTrial,
    python: str,
    arguments: Sequence[str] = (),
    path_of: Callable[[str], str] = str,
) -> str:
    """One line for a shell where the suite was started; `arguments` are the user's own for pytest.

    path_of: turns a path in an id, which belongs to pytest's root directory, into one for that shell.
    """

    def here(test: str) -> str:
        file, separator, name = test.partition("::")
        return path_of(file) + separator + name

    assignments = []
    if trial.hash_seed is not None:
        assignments.append(f"PYTHONHASHSEED={trial.hash_seed}")
    if trial.zone is not None:
        assignments.append(f"TZ={shlex.quote(trial.zone)}")
    if not trial.needs_plugin:
        words = [python, "-m", "pytest", "-p", "no:randomly", *_unshuffled(arguments)]
        words += [here(each) for each in (*trial.before, trial.target)]
    else:
        assignments.append(f"PYTHONPATH={shlex.quote(str(PLUGIN_FOLDER))}")
        assignments.append(f"CI_DOCTOR_TRIAL={shlex.quote(plugin_form(trial))}")
        files = [*trial.before, *trial.collect, trial.target]
        paths = dict.fromkeys(path_of(each.partition("::")[0]) for each in files)
        words = [python, "-m", "pytest", "-p", PLUGIN, *arguments, *paths]
    line = " ".join([*assignments, shlex.join(words)])
    for test in trial.earlier:
        earlier = msgspec.structs.replace(trial, target=test, before=(), earlier=())
        line = f"{shell_command(earlier, python, arguments, path_of)}; {line}"
    return line
