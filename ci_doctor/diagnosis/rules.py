# SPDX-License-Identifier: Apache-2.0
"""The rules of findings that a diagnosis makes: one a class of failures. Pure.

They are not the log rules, which recognise lines (`rules/*.toml`); a finding's facts name its log
rule.
"""

from typing import Final

from ci_doctor.model.cause import POLICIES, FailureClass
from ci_doctor.model.outcome import Meaning, Rule, Severity
from ci_doctor.model.words import EVALUATION

_MEANINGS: Final[dict[str, Meaning]] = {
    FailureClass.GPU_OUT_OF_MEMORY: Meaning(
        "A GPU had too little free memory.",
        "If another process held it, wait for that process or use another GPU. Otherwise lower "
        "what the job takes: `--gpu-memory-utilization`, the batch, the context length.",
    ),
    FailureClass.HOST_OUT_OF_MEMORY: Meaning(
        "The machine or the container had no memory left, and a process was killed or refused.",
        "Compare the job's peak memory with the limit of its container. Fewer workers take less.",
    ),
    FailureClass.PORT_IN_USE: Meaning(
        "A server could not listen, because another process has its port.",
        "Let ci-doctor choose a free port: `{port}` in a service's command. A "
        "server that an earlier step left is ended by `ci-doctor launch`.",
    ),
    FailureClass.IMPORT_RACE: Meaning(
        "An import failed because another thread imported the same module at that moment.",
        "`ci-doctor import-race probe MODULE:NAME` tests it, and `ci-doctor import-race --confirm "
        "-- CMD` finds both imports and the rule that cures the race.",
    ),
    FailureClass.API_DRIFT: Meaning(
        "The code calls a library in a way that its installed version does not know.",
        "Compare the installed version with the one that the code was written for. Then change "
        "the call, or pin the version.",
    ),
    FailureClass.MISSING_DEPENDENCY: Meaning(
        "A package, a library or a program is not installed where it is needed.",
        "Install it in the step that needs it, or declare it as a dependency.",
    ),
    FailureClass.ABI_MISMATCH: Meaning(
        "A compiled library does not fit the libraries or the interpreter that it is loaded with.",
        "Build it against the installed versions, or install the versions that it was built for.",
    ),
    FailureClass.CUDA_ERROR: Meaning(
        "A call of CUDA failed. The line that reports it may be later than the faulty kernel.",
        "Run it again with `CUDA_LAUNCH_BLOCKING=1` to see the call. `nvidia-smi -q` and the "
        "kernel's log show whether the GPU itself is faulty.",
    ),
    FailureClass.GPU_HARDWARE: Meaning(
        "The driver reports a fault of a GPU (an Xid).",
        "Take the machine out of the queue, and run the job on another one.",
    ),
    FailureClass.RENDEZVOUS: Meaning(
        "The processes of a distributed job did not find each other, or lost each other.",
        "Look for the first process that died: the others report only that it is gone. "
        "`NCCL_DEBUG=INFO` shows the interfaces.",
    ),
    FailureClass.NETWORK: Meaning(
        "A host could not be reached, or a connection to it broke.",
        "Run it again. If it fails again, check the address, the proxy and the firewall.",
    ),
    FailureClass.REGISTRY: Meaning(
        "A registry or a download server refused or limited the request (429, 5xx).",
        "Run it later, with a token that has a higher limit, or through a mirror.",
    ),
    FailureClass.DISK: Meaning(
        "A disk is full, read-only or faulty.",
        "Free some space on that machine, or send its jobs elsewhere.",
    ),
    FailureClass.SHARED_MEMORY: Meaning(
        "The shared memory of the container (/dev/shm) is too small, or a segment is gone.",
        "Start the container with a larger `--shm-size`, or with `--ipc=host`.",
    ),
    FailureClass.RESOURCE_LIMIT: Meaning(
        "A limit of the user, the container or the step is reached: processes, threads, open files, "
        "the size of a file.",
        "Compare `ulimit -a` in the step with what it needs. If more is needed in each run, look "
        "for what is never closed or ended.",
    ),
    FailureClass.TIMEOUT: Meaning(
        "A limit of time ended work that was still making progress.",
        "Find out what became slower before the limit is raised.",
    ),
    FailureClass.STALLED: Meaning(
        "A limit of time ended work that had stopped making progress.",
        "Look at the last line before the silence. `py-spy dump --pid PID` shows where a Python "
        "process hangs.",
    ),
    FailureClass.AGENT_LOST: Meaning(
        "The machine or the agent that ran the job went away.",
        "Run it again: `retry: {automatic: [{exit_status: -1}]}` in a Buildkite step.",
    ),
    FailureClass.SCM_VERSION: Meaning(
        "A build could not tell its own version from the repository's tags.",
        f"`{EVALUATION}` pins it before the build.",
    ),
    FailureClass.CONFIGURATION: Meaning(
        "An option, a variable or a file of the job has a value that the program refuses.",
        "Correct the value that the line names.",
    ),
    FailureClass.COMPILE_ERROR: Meaning(
        "The source does not compile, or does not link.",
        "Mend the first error: those after it often follow from it.",
    ),
    FailureClass.LINT: Meaning(
        "A linter, a formatter or a type checker found fault with the source.",
        "Mend what it names, or run its own fixer.",
    ),
    FailureClass.TEST_ASSERTION: Meaning(
        "A test compared two things, and they differ.",
        "Run that test alone, with and without the change.",
    ),
    FailureClass.CODE_BUG: Meaning(
        "The program raised an exception or crashed.",
        "Begin at the innermost frame in the project's own code.",
    ),
}

NO_CAUSE: Final = Rule(
    id="diagnose/no-cause",
    severity=Severity.NOTE,
    meaning="No line of the logs names a cause with enough weight. The place that is shown is the "
    "best one to begin reading, and no answer.",
    remedy="Give all logs of the job (server, worker, client, step), and those of a good run with "
    "`--baseline`. If a line does name the cause, write a rule for it, and test it by `ci-doctor diagnose rules --check FILE`.",
)
UNCLASSIFIED: Final = Rule(
    id="diagnose/unclassified",
    severity=Severity.ERROR,
    meaning="A line names a cause by a rule that belongs to no class of failures.",
    remedy="Read the line. A rule of a repository gets its class by `class = …`.",
)
UNREADABLE_LOG: Final = Rule(
    id="diagnose/unreadable-log",
    severity=Severity.WARNING,
    meaning="A log could not be read, or not whole. The cause may stand in what is missing.",
    remedy="Correct the name or the permissions, and run the diagnosis again.",
)
RULE_MISTAKE: Final = Rule(
    id="diagnose/rule-mistake",
    severity=Severity.ERROR,
    meaning="A rule of a rules file is wrong: an example that does not match, a matching line "
    "without a literal, a regex that the engine does not read.",
    remedy="Correct the rule, and test it by `ci-doctor diagnose rules --check FILE`.",
)


def _of_class(class_: str) -> Rule:
    meaning = _MEANINGS[class_]
    return Rule(
        id=f"diagnose/{class_}",
        severity=Severity.ERROR,
        meaning=meaning.meaning,
        remedy=meaning.remedy,
    )


BY_CLASS: Final = {class_: _of_class(class_) for class_ in POLICIES}
RULES = (*BY_CLASS.values(), UNCLASSIFIED, NO_CAUSE, UNREADABLE_LOG, RULE_MISTAKE)


def rule_of(class_: str | None) -> Rule:
    """The rule of a finding about a cause of this class; None is a cause without one."""
    if class_ is None:
        return UNCLASSIFIED
    return BY_CLASS[class_]
