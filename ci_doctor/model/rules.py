# SPDX-License-Identifier: Apache-2.0
"""Every rule that a finding may name: what it means and what to do. docs/findings.md says the same, rule by rule."""

from ci_doctor.model.meaning import Meaning
from ci_doctor.model.preload_rules import PRELOAD_RULES
from ci_doctor.model.restart_rules import RESTART_RULES
from ci_doctor.model.service_rules import SERVICE_RULES

RULES: dict[str, Meaning] = {
    "correctness/regression": Meaning(
        "On some requests the candidate never gives an answer of the baseline (or never answers), and an exact test over the "
        "starts says that chance does not explain it.",
        "Look at the divergence with `ci-doctor correctness replay`, and ask that request alone with `--only ID`: where it "
        "then agrees, the other requests in the batch or the cache are part of the cause.",
    ),
    "correctness/flaky": Meaning(
        "Two starts of the baseline itself answer differently, and the candidate shows nothing that the baseline has not shown.",
        "This is not the change's doing. Two starts can run different kernel plans; see the clusters for how many there are.",
    ),
    "correctness/inconclusive": Meaning(
        "The starts that were made do not tell a flake of the environment from a fault of the candidate.",
        "Do what the report names as settling it: go on with `--resume DIR`, or make more starts (`--retries`, `--budget`); "
        "or make the baseline steadier (`setup-env --determinism strict`).",
    ),
    "correctness/nondeterministic": Meaning(
        "The baseline never repeats itself where it matters, so equality of bytes cannot be asked of the candidate.",
        "Make the baseline steadier (`setup-env --determinism strict`), or let the step pass with "
        "`soft_fail: [{exit_status: 85}]`: only the requests on which the baseline repeats itself are tested.",
    ),
    "correctness/void": Meaning(
        "The evidence proves nothing: nothing was answered, every answer is empty, the servers were not asked the same, or "
        "nothing shows that the candidate's path ran.",
        "See what is said to be missing. A void run must never count as a pass.",
    ),
    "correctness/infra": Meaning(
        "The baseline itself could not be started, or the cause lies plainly outside the change (port, disk, memory).",
        "See the log shown, and run the job again on a healthy machine.",
    ),
    "correctness/service-died": Meaning(
        "A server ended before it was ready, or while it was asked; exit code 0 counts too, since a server runs until it is stopped.",
        "Read the lines of its log that are shown.",
    ),
    "correctness/service-not-ready": Meaning(
        "A server lived and did not become ready in time.",
        "Read its log; raise `start_timeout` only if it was still making progress.",
    ),
    "correctness/service-outside": Meaning(
        "A server could not start for a reason outside the change: its port is taken, the disk is full, there is no memory left.",
        "Free what is named, or retry on another machine.",
    ),
    "correctness/unanswered": Meaning(
        "Some requests got an error, a time-out or something that is no answer of a model.",
        "See the error beside each request; an answer that is missing on both sides is never taken for equal.",
    ),
    "correctness/budget-spent": Meaning(
        "The budget ended before every start of the schedule was made.",
        "Go on with `--resume DIR` and another `--budget`, or lower `--retries`.",
    ),
    "correctness/different-arms": Meaning(
        "The two arms differ in facts that may decide bits: their command lines, variables, libraries.",
        "Give both arms the same, but for the change under test.",
    ),
    "correctness/archive-unreadable": Meaning(
        "Files of the archive are damaged, or no archived baseline starts; they were not used.",
        "Remove the files that are named; later builds write new ones.",
    ),
    "correctness/throttled": Meaning(
        "The server told some requests to come again later (HTTP 429), and answered them then.",
        "Lower `--concurrency`: requests that come again come in another order and in other batches.",
    ),
    "correctness/empty-answers": Meaning(
        "Some answers hold no text at all.",
        "Check `max_tokens` and the prompts; an empty answer compares equal to any other.",
    ),
    "correctness/killed": Meaning(
        "Processes ignored SIGINT and SIGTERM and had to be killed after the start.",
        "Let the server end on SIGTERM: a deployment that kills it loses what it holds.",
    ),
    "correctness/not-greedy": Meaning(
        "Requests do not ask for temperature 0, so their answers may differ by design.",
        'Put `"temperature": 0` into the body of each request.',
    ),
    "correctness/different-determinism": Meaning(
        "The two arms run under different determinism variables, which are then part of what is compared.",
        "Give both arms the same, unless that is the change under test.",
    ),
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
