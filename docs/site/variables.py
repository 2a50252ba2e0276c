# SPDX-License-Identifier: Apache-2.0
"""Pure. The environment variables that ci-doctor reads, besides those of configuration keys.

tests/unit/docs/test_variables.py compares the table with what the code reads.
"""

from types import MappingProxyType
from typing import Final, NamedTuple


class VariableMeaning(NamedTuple):
    """What a variable does, and the commands that read it: their first words, none for all."""

    meaning: str
    commands: tuple[str, ...] = ()


_PYTHONS: Final = ("setup-env", "run", "preload", "doctor", "env", "cache", "pytest", "import-race")
_BUILDS: Final = ("build", "history")

# A person or a pipeline sets them.
SWITCHES: Final = MappingProxyType(
    {
        "CI_DOCTOR_REPORT_DIR": VariableMeaning(
            "Each command writes its report into a folder of its own below this one."
        ),
        "CI_DOCTOR_STATE_DIR": VariableMeaning(
            "Where the processes of one machine meet: else `$XDG_RUNTIME_DIR/ci-doctor`, else `/tmp/ci-doctor-UID`.",
            ("cache", "correctness"),
        ),
        "CI_DOCTOR_TASK": VariableMeaning(
            "What a job of `--fan-out` is asked for; ci-doctor sets it in the steps that it uploads.",
            ("correctness",),
        ),
        "CI_DOCTOR_CACHE_KEY_TEXT": VariableMeaning(
            "The private key to sign caches and archived baselines with, in place of the file that `--key` names.",
            ("cache", "correctness"),
        ),
        "CI_DOCTOR_PRELOAD": VariableMeaning("Read by a preload shim: `0` switches it off."),
        "CI_DOCTOR_PRELOAD_TRACE": VariableMeaning(
            "Read by a preload shim: `1` prints each preloaded module and its "
            "time on stderr; a file gets the same lines."
        ),
        "CI_DOCTOR_PRELOAD_TIMEOUT": VariableMeaning(
            "Read by a preload shim: after so many seconds all stacks are "
            "printed, and the import goes on."
        ),
        "_CI_DOCTOR_COMPLETE": VariableMeaning(
            "Prints a script of shell completion, or completes a line."
        ),
        "NO_COLOR": VariableMeaning("If it is not empty, nothing has a colour."),
        "TERM": VariableMeaning("With `dumb`, nothing has a colour and no line is drawn again."),
        "BUILDKITE_API_TOKEN": VariableMeaning("The token for Buildkite's REST API.", _BUILDS),
        "BUILDKITE_REST_API_ENDPOINT": VariableMeaning(
            "Another address of Buildkite's REST API.", _BUILDS
        ),
        "VIRTUAL_ENV": VariableMeaning(
            "The virtual environment that is meant if none is named.", _PYTHONS
        ),
    }
)

# A CI system sets them, for a job.
OF_THE_JOB: Final = MappingProxyType(
    {
        "BUILDKITE": "`true` in a job of Buildkite: log groups, annotations, artifacts.",
        "BUILDKITE_AGENT_JOB_API_SOCKET": "The agent's job API: exports reach later hooks.",
        "BUILDKITE_AGENT_META_DATA_QUEUE": "The agent's queue, for reports.",
        "BUILDKITE_AGENT_NAME": "The agent's name, for reports.",
        "BUILDKITE_ARTIFACT_PATHS": "What the step uploads: `correctness --fan-out`.",
        "BUILDKITE_BRANCH": "The branch: reports, the history, and which caches a job may write.",
        "BUILDKITE_BUILD_CHECKOUT_PATH": "The checkout.",
        "BUILDKITE_BUILD_ID": "The id of the build.",
        "BUILDKITE_BUILD_NUMBER": "The number of the build.",
        "BUILDKITE_BUILD_URL": "The page of the build.",
        "BUILDKITE_COMMAND": "The command of the step.",
        "BUILDKITE_COMMAND_EXIT_STATUS": "How the command ended.",
        "BUILDKITE_COMMIT": "The commit.",
        "BUILDKITE_ENV_FILE": "The job's variables as Buildkite sent them: what a retry of the job shares with it.",
        "BUILDKITE_GIT_SUBMODULES": "`false` if the agent fetches no submodules.",
        "BUILDKITE_JOB_CANCELLED": "`true` if the job was cancelled.",
        "BUILDKITE_JOB_ID": "The id of the job.",
        "BUILDKITE_JOB_LOG_TMPFILE": "The job's log as a file.",
        "BUILDKITE_JOB_TIMED_OUT": "`true` if the job's time was up.",
        "BUILDKITE_LABEL": "The label of the step.",
        "BUILDKITE_LAST_HOOK_EXIT_STATUS": "How the last hook ended.",
        "BUILDKITE_ORGANIZATION_SLUG": "The organisation.",
        "BUILDKITE_PARALLEL_JOB": "The number of this job among the parallel ones of a step.",
        "BUILDKITE_PARALLEL_JOB_COUNT": "How many parallel jobs the step has.",
        "BUILDKITE_PIPELINE_DEFAULT_BRANCH": "The default branch: whose caches and baselines count.",
        "BUILDKITE_PIPELINE_SLUG": "The pipeline.",
        "BUILDKITE_PLUGINS": "The plugins of the step: a container's variables and paths.",
        "BUILDKITE_PLUGIN_CONFIGURATION": "The options of this plugin.",
        "BUILDKITE_PULL_REQUEST": "The number of the pull request, or `false`.",
        "BUILDKITE_REDACTED_VARS": "More patterns of names whose values are secret.",
        "BUILDKITE_REPO": "The repository, for reports.",
        "BUILDKITE_RETRY_COUNT": "How often the job was retried.",
        "BUILDKITE_STEP_ID": "The id of the step.",
        "BUILDKITE_STEP_KEY": "The key of the step.",
        "BUILDKITE_TIMEOUT": "The minutes of the step: the budget of `correctness` ends before.",
        "CI": "Not empty: progress is printed line by line.",
        "GITHUB_ACTIONS": "`true` in a job of GitHub Actions: log groups, annotations.",
        "GITHUB_STEP_SUMMARY": "GitHub Actions: the file of the job's summary, which gets report.md.",
        "GITLAB_CI": "`true` in a job of GitLab: log groups.",
    }
)

# Read by the hooks of the Buildkite plugin, which are shell programs.
OF_THE_PLUGIN: Final = MappingProxyType(
    {
        "CI_DOCTOR_HOOK_SECONDS": "After so many seconds a hook ends ci-doctor; 120 without it.",
        "CI_DOCTOR_CACHE_SECONDS": "The same while caches are saved; 300 without it.",
        "CI_DOCTOR_INSTALL_SECONDS": "After so many seconds an installation ends; 900 without it.",
        "CI_DOCTOR_CACHE_DIR": "Where the plugin installs ci-doctor, if `install-dir` does not say.",
        "CI_DOCTOR_INSTALLED": "Set by a hook for the next ones: what was installed, and where.",
    }
)

# Paths and settings of the machine, which ci-doctor uses as other programs do.
OF_THE_MACHINE: Final = MappingProxyType(
    {
        "PATH": "Where programs are looked for.",
        "HOME": "The home directory: caches of libraries, settings of git.",
        "TMPDIR": "The directory of temporary files.",
        "XDG_CACHE_HOME": "The directory of caches, `~/.cache` without it.",
        "XDG_RUNTIME_DIR": "Where the processes of one machine meet.",
        "XDG_STATE_HOME": "Where it is noted which environments hold a shim, `~/.local/state` without it.",
        "BROWSER": "What shows a page (`report --open`).",
        "DISPLAY": "Whether a browser has a place to show one.",
        "WAYLAND_DISPLAY": "Whether a browser has a place to show one.",
    }
)

# ci-doctor sets them for processes that it starts. Nobody else needs to.
OWN: Final = MappingProxyType(
    {
        "CI_DOCTOR_PREPARED": "By `setup-env`: the job that it prepared, and a digest of `[setup-env]`.",
        "CI_DOCTOR_EXPORTS": "By `setup-env`: the names of its own exports.",
        "CI_DOCTOR_INJECT": "By `run --preload` and `import-race`: what else is injected into a Python.",
        "CI_DOCTOR_PRELOAD_RULES": "By `run --preload`: the rules for CMD.",
        "CI_DOCTOR_IMPORT_RACE": "By `import-race`: where a Python records its imports.",
        "CI_DOCTOR_IMPORT_RACE_HOLD": "By `import-race --confirm`: which import waits.",
        "CI_DOCTOR_PYTEST_PLAN": "By `pytest`: what the recorder does.",
        "CI_DOCTOR_PYTEST_RECORD": "By `pytest`: where the recorder writes each attempt.",
        "CI_DOCTOR_TRIAL": "By `pytest --explain-flaky`: the conditions of a run.",
        "CI_DOCTOR_TRIAL_ID": "By `pytest --explain-flaky`: which processes belong to a run.",
        "CI_DOCTOR_STACKS": "By `run --watch --stacks`: where a Python writes its stacks.",
        "CI_DOCTOR_WATCHER": "By the plugin's `watch`: the words that ci-doctor is started by.",
        "CI_DOCTOR_BASH_ENV": "By the plugin's `watch`: what BASH_ENV was before.",
        "CI_DOCTOR_COMMAND_STATUS": "By the plugin: the status that a hook has chosen.",
        "CI_DOCTOR_HOST_REPORT_DIR": "By the plugin: the report directory outside the container.",
        "CI_DOCTOR_VARIABLES": "By the plugin: which variables a container gets.",
    }
)

# Variables of other programs: facts of an identity or a snapshot, or the subject of a check.
OF_OTHER_PROGRAMS: Final = MappingProxyType(
    {
        "ATEN_CPU_CAPABILITY": "PyTorch's instruction set: a fact of a cache.",
        "CUDA_HOME": "The CUDA toolkit: a fact of a cache.",
        "CUDA_PATH": "The same.",
        "CUDA_VISIBLE_DEVICES": "Which GPUs the job may use.",
        "CXX": "The C++ compiler: a fact of a cache.",
        "FLASHINFER_CUBIN_DIR": "Kernels that FlashInfer has downloaded.",
        "FLASHINFER_WORKSPACE_BASE": "The directory of FlashInfer.",
        "GIT_CONFIG_COUNT": "How many settings of git the environment holds.",
        "GIT_LFS_SKIP_SMUDGE": "Whether git LFS leaves pointers.",
        "HF_HOME": "The directory of Hugging Face: downloads, the served model.",
        "HF_HUB_CACHE": "The directory of its downloads.",
        "HUGGINGFACE_HUB_CACHE": "The older name of HF_HUB_CACHE.",
        "LANG": "The locale.",
        "LC_ALL": "The locale.",
        "LC_CTYPE": "The locale.",
        "LD_LIBRARY_PATH": "Where libraries are looked for.",
        "OMP_NUM_THREADS": "How many threads a library starts.",
        "PYTHONDONTWRITEBYTECODE": "Whether a Python writes bytecode.",
        "PYTHONHASHSEED": "The seed of a run that explains a flaky test.",
        "PYTHONHOME": "Another standard library.",
        "PYTHONNOUSERSITE": "Whether a Python reads the user's packages.",
        "PYTHONOPTIMIZE": "Whether a Python runs `assert`.",
        "PYTHONPATH": "Further directories of modules.",
        "PYTHONUSERBASE": "Where the user's packages lie.",
        "TORCH_EXTENSIONS_DIR": "Where PyTorch builds extensions.",
        "TZ": "The time zone.",
        "VLLM_BATCH_INVARIANT": "What vLLM sets by itself.",
    }
)
