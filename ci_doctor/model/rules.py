# SPDX-License-Identifier: Apache-2.0
"""Every rule that a finding may name: what it means and what to do. docs/findings.md says the same, rule by rule."""

from ci_doctor.model.meaning import Meaning
from ci_doctor.model.preload_rules import PRELOAD_RULES
from ci_doctor.model.restart_rules import RESTART_RULES
from ci_doctor.model.service_rules import SERVICE_RULES

RULES: dict[str, Meaning] = {
    "determinism/no-effect": Meaning(
        "A determinism variable is set that no library reads, or that has no effect in serving.",
        "Unset it.",
    ),
    "determinism/invalid-value": Meaning(
        "A determinism variable has a value that its library does not accept.",
        "Unset it, or use a documented value.",
    ),
    "determinism/overwritten": Meaning(
        "A determinism variable is set, but the server replaces it in its own process: what was requested is not what is effective.",
        "Do not rely on it. `/proc/PID/environ` does not show what a process set itself.",
    ),
    "determinism/conflict": Meaning(
        "Two determinism settings contradict each other.", "Keep one of them."
    ),
    "determinism/left-over": Meaning(
        "A variable that an earlier run exported under another profile stays set: exports cannot unset.",
        "`unset NAME`, or start the job from a clean environment.",
    ),
    "determinism/strict": Meaning(
        "The strict profile changes the product under test: the shipped configuration is not what is compared.",
        "Use it to find a cause, and the default profile for the verdict.",
    ),
    "setup-env/agent": Meaning(
        "`buildkite-agent env set` did not take the exports.",
        'Nothing, where the step evaluates them itself: `eval "$(ci-doctor setup-env)"`.',
    ),
    "setup-env/own-interpreter": Meaning(
        "The shim went, by default and not by name, into the interpreter that ci-doctor itself lives in.",
        "Name the job's interpreter with `--venv` or `--python`.",
    ),
    "version/unparsable-tag": Meaning(
        "Tags in the repository are no versions, and the build backend stops at (or would be misled by) one of them.",
        "Use the pin; for a lasting cure put the setting that is shown into pyproject.toml.",
    ),
    "version/suspicious-tag": Meaning(
        "A tag parses, but into nonsense: `nightly-2026-04-22` becomes version 23.dev1.",
        "Let only release tags count: put the setting that is shown into pyproject.toml.",
    ),
    "version/dirty-tree": Meaning(
        "The working tree has uncommitted changes, which the version may show (a date, `+d20261121`).",
        "Commit or stash them before the version is pinned.",
    ),
    "version/shallow-clone": Meaning(
        "The clone is shallow and its HEAD has no version tag: the real version cannot be known.",
        "`git fetch --unshallow --tags`, or accept the fallback with `--allow-fallback`.",
    ),
    "version/no-usable-tag": Meaning(
        "No tag reachable from HEAD is a version, so the backend makes 0.1.devN of it.",
        "`git fetch --tags`, or tag a release.",
    ),
    "version/not-from-git": Meaning(
        "The project is no git repository; its version comes from files that it ships.",
        "Nothing, for an unpacked sdist.",
    ),
    "version/no-repository": Meaning(
        "The project takes its version from git, but is not in a git repository that its backend would look at.",
        "Check out the repository with its .git, or set `root` in the backend's settings.",
    ),
    "version/other-owner": Meaning(
        "git refuses to read a repository that belongs to another user.",
        "`git config --global --add safe.directory DIR`.",
    ),
    "version/not-computable": Meaning(
        "The backend's own library fails on this project even without the unparsable tags, so its build will fail too.",
        "Mend the settings that the message names.",
    ),
    "version/custom-scheme": Meaning(
        "The project computes its version by code of its own, which cannot be run here.",
        "Set the variable yourself, or run ci-doctor where that code can be imported.",
    ),
    "version/setup-script": Meaning(
        "setup.py computes its arguments for setuptools-scm in a way that cannot be read without running it.",
        "Write them as literals, or in pyproject.toml.",
    ),
    "version/backend-missing": Meaning(
        "The build backend's own library is needed to compute this version, and is not installed beside ci-doctor.",
        "Install it as the message says.",
    ),
    "version/unsupported-backend": Meaning(
        "The project takes its version from a tool that is not pinned here.",
        "Do what is suggested for that tool.",
    ),
    "version/unscoped": Meaning(
        "The unscoped variable is set, because the build reads no variable with the project's name in it.",
        "Build other setuptools-scm projects in a step of their own: the unscoped variable gives them this version too.",
    ),
    "version/conflicting-pins": Meaning(
        "Two projects of one environment would need different values of one unscoped variable.",
        "Prepare each in a step of its own, or give get_version() a dist_name.",
    ),
    "version/already-set": Meaning(
        "A person or the pipeline has set the version already; it is kept.",
        "Nothing, if it is meant.",
    ),
    "version/invalid-pretend": Meaning(
        "A pretended version that is set is not valid PEP 440, so the build will fail.",
        "Unset it, or set a valid version.",
    ),
    "version/invalid-pin": Meaning(
        "The backend makes a version that is not valid PEP 440.",
        "Correct version_scheme and local_scheme.",
    ),
    **SERVICE_RULES,
    **RESTART_RULES,
    **PRELOAD_RULES,
}
