# SPDX-License-Identifier: Apache-2.0
"""Pure. The rules of findings about versions, determinism variables and exports."""

from typing import Final

from ci_doctor.model.outcome import Rule, Severity
from ci_doctor.model.words import EVALUATION

NO_EFFECT: Final = Rule(
    id="determinism/no-effect",
    severity=Severity.WARNING,
    meaning="A determinism variable is set that no library reads, or has no effect in serving.",
    remedy="Unset it.",
)
INVALID_VALUE: Final = Rule(
    id="determinism/invalid-value",
    severity=Severity.WARNING,
    meaning="A determinism variable has a value that its library does not accept.",
    remedy="Unset it, or use a documented value.",
)
OVERWRITTEN: Final = Rule(
    id="determinism/overwritten",
    severity=Severity.WARNING,
    meaning=(
        "A determinism variable is set, but the server replaces it in its own process: "
        "the requested value is not the effective one."
    ),
    remedy="Do not rely on it. `/proc/PID/environ` does not show what a process set itself.",
)
CONFLICT: Final = Rule(
    id="determinism/conflict",
    severity=Severity.WARNING,
    meaning="Two determinism settings contradict each other.",
    remedy="Keep one of them.",
)
LEFT_OVER: Final = Rule(
    id="determinism/left-over",
    severity=Severity.WARNING,
    meaning=(
        "A variable that an earlier run exported under another profile stays set: "
        "exports cannot unset."
    ),
    remedy="`unset NAME`, or start the job from a clean environment.",
)
STRICT: Final = Rule(
    id="determinism/strict",
    severity=Severity.NOTE,
    meaning=(
        "The strict profile changes the product under test: "
        "what is compared is not the shipped configuration."
    ),
    remedy="Use it to find a cause, and `--determinism default` for the verdict.",
)
AGENT: Final = Rule(
    id="setup-env/agent",
    severity=Severity.NOTE,
    meaning="`buildkite-agent env set` did not accept the exports.",
    remedy=f"Nothing, if the step evaluates them itself: `{EVALUATION}`.",
)
NOT_PREPARED: Final = Rule(
    id="setup-env/not-prepared",
    severity=Severity.WARNING,
    meaning=(
        "The configuration or the step asks for `setup-env`, and the environment of this command "
        "does not come from it. Its Python died before it could print, the shell went on without "
        "its exports, or they did not reach a container."
    ),
    remedy=(
        f"Write `{EVALUATION}` in front of the command, in the container if there is one. "
        "`if_missing` in `[setup-env]` makes this an error or switches it off."
    ),
)
LOST_EXPORTS: Final = Rule(
    id="setup-env/lost-exports",
    severity=Severity.WARNING,
    meaning=(
        "Variables that `setup-env` exported are gone (a warning), or have another value since "
        "(a note)."
    ),
    remedy="Pass them on to the command, and leave them as they are if it was not intended.",
)
OWN_INTERPRETER: Final = Rule(
    id="setup-env/own-interpreter",
    severity=Severity.NOTE,
    meaning=("The shim went, by default and not by name, into ci-doctor's own interpreter."),
    remedy="Name the job's interpreter with `--venv DIR` or `--python PY`, if it is another one.",
)
NO_PROJECT: Final = Rule(
    id="setup-env/no-project",
    severity=Severity.NOTE,
    meaning="The working directory holds no Python project, so no version was pinned.",
    remedy="Nothing, if the job builds none. Otherwise name its directory with `--project DIR`.",
)
UNPARSABLE_TAG: Final = Rule(
    id="version/unparsable-tag",
    severity=Severity.WARNING,
    meaning=(
        "Tags in the repository are not versions, "
        "and the build backend fails on one of them or would be misled by it."
    ),
    remedy="Use the pin. For a lasting cure put the setting from the report into pyproject.toml.",
)
SUSPICIOUS_TAG: Final = Rule(
    id="version/suspicious-tag",
    severity=Severity.WARNING,
    meaning="The version comes from a tag without a dot, such as `v13`, among releases with one.",
    remedy="Let only release tags count: put the setting from the report into pyproject.toml.",
)
DIRTY_TREE: Final = Rule(
    id="version/dirty-tree",
    severity=Severity.WARNING,
    meaning=(
        "The working tree has uncommitted changes, "
        "and the version may show them (a date, `+d20261121`)."
    ),
    remedy="Commit or stash them before the version is pinned.",
)
SHALLOW_CLONE: Final = Rule(
    id="version/shallow-clone",
    severity=Severity.ERROR,
    meaning=(
        "The clone is shallow, and its history does not reach a version tag: "
        "the real version is unknown."
    ),
    remedy="`git fetch --unshallow --tags`, or accept the fallback with `--allow-fallback`.",
)
MISSING_TAGS: Final = Rule(
    id="version/missing-tags",
    severity=Severity.ERROR,
    meaning=(
        "The tags of the clone differ from those of its remote where the version depends on it, "
        "or the remote does not answer, so the backend may compute another version than that of a "
        "fresh clone: an older release, or 0.1.devN. A clone that an agent keeps gets no new tags by "
        "`git fetch origin BRANCH`."
    ),
    remedy="`git fetch --tags --force`, or accept the version with `--allow-fallback`.",
)
NO_USABLE_TAG: Final = Rule(
    id="version/no-usable-tag",
    severity=Severity.WARNING,
    meaning=(
        "No tag reachable from HEAD is a version, so the backend computes 0.1.devN. "
        "It is a note if the remote answers and has no release either."
    ),
    remedy="Tag a release, or check out a commit with one behind it.",
)
NO_REPOSITORY: Final = Rule(
    id="version/no-repository",
    severity=Severity.ERROR,
    meaning=(
        "The project takes its version from git, "
        "but is not in a git repository that its backend would look at."
    ),
    remedy="Check out the repository with its .git, or set `root` in the backend's settings.",
)
OTHER_OWNER: Final = Rule(
    id="version/other-owner",
    severity=Severity.ERROR,
    meaning="git refuses to read a repository that belongs to another user.",
    remedy="`git config --global --add safe.directory DIR`.",
)
NOT_COMPUTABLE: Final = Rule(
    id="version/not-computable",
    severity=Severity.ERROR,
    meaning=(
        "The backend's own library fails on this project even without the unparsable tags, "
        "so its build will fail too."
    ),
    remedy="Correct the setting or the tag that the message names.",
)
CUSTOM_SCHEME: Final = Rule(
    id="version/custom-scheme",
    severity=Severity.WARNING,
    meaning="The project computes its version by code of its own, which cannot be run here.",
    remedy="Set the variable yourself, or run ci-doctor where that code can be imported.",
)
SETUP_SCRIPT: Final = Rule(
    id="version/setup-script",
    severity=Severity.WARNING,
    meaning=(
        "setup.py computes its arguments for setuptools-scm "
        "in a way that cannot be read without running it."
    ),
    remedy=(
        "Move the options to [tool.setuptools_scm] in pyproject.toml, write them as literals, "
        "or set the version by hand."
    ),
)
UNSUPPORTED_BACKEND: Final = Rule(
    id="version/unsupported-backend",
    severity=Severity.WARNING,
    meaning=(
        "The project takes its version from a tool that ci-doctor does not compute with, "
        "and no build of its metadata could tell the version."
    ),
    remedy="Set the tool's own variable, which the report names, or follow its advice there.",
)
UNSCOPED: Final = Rule(
    id="version/unscoped",
    severity=Severity.NOTE,
    meaning=(
        "The unscoped variable is set, "
        "because the build reads no variable with the project's name in it."
    ),
    remedy=(
        "Build other projects of that tool in a step of their own, because the unscoped variable "
        "gives them this version too; or call get_version(dist_name=...) in setup.py."
    ),
)
CONFLICTING_PINS: Final = Rule(
    id="version/conflicting-pins",
    severity=Severity.ERROR,
    meaning="Two projects of one environment would need different values of one unscoped variable.",
    remedy="Prepare each in a step of its own, or give get_version() a dist_name.",
)
ALREADY_SET: Final = Rule(
    id="version/already-set",
    severity=Severity.NOTE,
    meaning="A person or the pipeline has set the version already; it is kept.",
    remedy="Nothing, if it is intended.",
)
INVALID_PRETEND: Final = Rule(
    id="version/invalid-pretend",
    severity=Severity.ERROR,
    meaning="A pretended version that is set is not valid PEP 440, so the build will fail.",
    remedy="Unset it, or set a valid version.",
)
INVALID_PIN: Final = Rule(
    id="version/invalid-pin",
    severity=Severity.ERROR,
    meaning="The backend computes a version that is not valid PEP 440.",
    remedy="Correct version_scheme and local_scheme.",
)
BROKEN_BUILD: Final = Rule(
    id="version/broken-build",
    severity=Severity.ERROR,
    meaning=(
        "A build of the metadata fails with the pins, or has another version than without the tags "
        "that are not versions. It was tried with the backend that the project requires."
    ),
    remedy="Let the backend consider release tags only, or delete the tags in the job's checkout.",
)
NOT_PROVEN: Final = Rule(
    id="version/not-proven",
    severity=Severity.WARNING,
    meaning="The pin was not proven by a build of the metadata, because nothing could be built.",
    remedy=(
        "Install uv or pip and the build requirements beside ci-doctor, "
        "or accept it with `--verify never`."
    ),
)

RULES: Final[tuple[Rule, ...]] = (
    NO_EFFECT,
    INVALID_VALUE,
    OVERWRITTEN,
    CONFLICT,
    LEFT_OVER,
    STRICT,
    AGENT,
    NOT_PREPARED,
    LOST_EXPORTS,
    OWN_INTERPRETER,
    NO_PROJECT,
    UNPARSABLE_TAG,
    SUSPICIOUS_TAG,
    DIRTY_TREE,
    SHALLOW_CLONE,
    MISSING_TAGS,
    NO_USABLE_TAG,
    NO_REPOSITORY,
    OTHER_OWNER,
    NOT_COMPUTABLE,
    CUSTOM_SCHEME,
    SETUP_SCRIPT,
    UNSUPPORTED_BACKEND,
    UNSCOPED,
    CONFLICTING_PINS,
    ALREADY_SET,
    INVALID_PRETEND,
    INVALID_PIN,
    BROKEN_BUILD,
    NOT_PROVEN,
)
