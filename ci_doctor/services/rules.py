# SPDX-License-Identifier: Apache-2.0
"""The rules of findings about services. Pure."""

from ci_doctor.model.finding import Severity
from ci_doctor.model.rule import Rule

DIED = Rule(
    id="services/died",
    severity=Severity.ERROR,
    meaning=(
        "A service ended by itself, before it was ready or while it was in use. Exit code 0 counts "
        "too, since a server runs until it is stopped."
    ),
    remedy="Read the excerpt of its log; the line marked with `>` is the nearest to the cause.",
)
DESCENDANT_DIED = Rule(
    id="services/descendant-died",
    severity=Severity.ERROR,
    meaning=(
        "A signal ended a process below a service (a worker, an engine), and the service itself "
        "lived on without it."
    ),
    remedy=(
        'Read the excerpt of the log. If such an end is wanted, set `descendants = "ignore"` for '
        "that service."
    ),
)
OOM_KILLED = Rule(
    id="services/oom-killed",
    severity=Severity.ERROR,
    meaning=(
        "The kernel killed a process because memory ran out: the limit of its cgroup, or the whole "
        "machine's. The latter lies outside the change."
    ),
    remedy=("Raise the memory limit of the step or container, or lower what the service takes."),
)
FATAL_LINE = Rule(
    id="services/fatal-line",
    severity=Severity.ERROR,
    meaning=(
        "A service wrote a line that its `fatal` pattern names, and did not end: a server that "
        "serves no more may live on."
    ),
    remedy="Read the line; make the pattern narrower if it means no end.",
)
NOT_READY = Rule(
    id="services/not-ready",
    severity=Severity.ERROR,
    meaning="A service lived and did not become ready in time.",
    remedy=(
        "Read its log and the last answer of its probe. Raise `start_timeout` or `--timeout` only "
        "if it still made progress."
    ),
)
OUTSIDE = Rule(
    id="services/outside",
    severity=Severity.ERROR,
    meaning=(
        "A service could not serve for a reason outside the change: its port is taken, the disk is "
        "full, no memory is left."
    ),
    remedy="Free what is named, or retry on another machine.",
)
CLIENT_FAILED = Rule(
    id="services/client-failed",
    severity=Severity.ERROR,
    meaning="Every service was ready and lived; the command that ran under them failed by itself.",
    remedy="Read what the command printed. ci-doctor exits with the same status.",
)
ENDED_WITH_CLIENT = Rule(
    id="services/ended-with-client",
    severity=Severity.WARNING,
    meaning=(
        "A service ended by itself in the moment in which the command that used it ended well."
    ),
    remedy="Nothing, if the command asks its server to end; else read the log.",
)
KILLED = Rule(
    id="services/killed",
    severity=Severity.NOTE,
    meaning="Processes ignored every request to end and had to be killed.",
    remedy="Let the server end on SIGTERM: a deployment that kills it loses what it holds.",
)
SURVIVOR = Rule(
    id="services/survivor",
    severity=Severity.WARNING,
    meaning=(
        "A process outlived even SIGKILL: it is held in the kernel (often by a device or a network "
        "file system), or belongs to another user."
    ),
    remedy=(
        "Look at it with `ps -o pid,user,stat,wchan,args -p PID`; the machine may need a restart."
    ),
)
NOT_RELEASED = Rule(
    id="services/not-released",
    severity=Severity.WARNING,
    meaning=(
        "A condition of `released` did not hold in time after the stop: a port or GPU memory is "
        "still taken."
    ),
    remedy="Find who holds it, or raise `release_timeout`.",
)
STOP_FAILED = Rule(
    id="services/stop-failed",
    severity=Severity.WARNING,
    meaning=(
        "Something went wrong while the services were stopped, such as a `stop_command` that "
        "failed."
    ),
    remedy="Run the named command by hand; what it should have stopped may still run.",
)
LEFT_BEHIND = Rule(
    id="services/left-behind",
    severity=Severity.WARNING,
    meaning=(
        "Something that a service's own processes made or held is still there after the stop: "
        'shared memory, a semaphore, a temporary file, a socket, a port. With `leaks = "strict"` '
        "it is an error. Nothing is removed: it may be meant to stay."
    ),
    remedy=(
        "Let the server remove it when it ends; what may stay goes into `leaks_allowed`. The "
        "command shown removes it by hand."
    ),
)
UNSEEN = Rule(
    id="services/leaks-unseen",
    severity=Severity.ERROR,
    meaning=(
        'A service is to leave nothing behind (`leaks = "strict"`), and this could not be checked. '
        "Its processes belong to another user, or a place such as /dev/shm could not be read."
    ),
    remedy="Run ci-doctor as the user of the service, or as root. Mend the reason that is named.",
)
LOG_CUT = Rule(
    id="services/log-cut",
    severity=Severity.NOTE,
    meaning="A log grew beyond its limit, so its middle was cut out; the log marks the cut.",
    remedy="Raise `log_limit` for that service, or make it write less.",
)

RULES = (
    DIED,
    DESCENDANT_DIED,
    OOM_KILLED,
    FATAL_LINE,
    NOT_READY,
    OUTSIDE,
    CLIENT_FAILED,
    ENDED_WITH_CLIENT,
    KILLED,
    SURVIVOR,
    NOT_RELEASED,
    STOP_FAILED,
    LEFT_BEHIND,
    UNSEEN,
    LOG_CUT,
)
