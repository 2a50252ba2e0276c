# SPDX-License-Identifier: Apache-2.0
"""The rules of findings about services: what each means and what to do. Pure."""

from ci_doctor.model.meaning import Meaning

SERVICE_RULES: dict[str, Meaning] = {
    "services/died": Meaning(
        "A service ended by itself, before it was ready or while it was in use; exit code 0 counts too, since a server "
        "runs until it is stopped.",
        "Read the lines of its log that are shown; the one marked with `>` is the nearest to the cause.",
    ),
    "services/descendant-died": Meaning(
        "A signal ended a process below a service (a worker, an engine) while the service itself lived on without it.",
        'Read the lines of the log. Where such an end is wanted, set `descendants = "ignore"` for that service.',
    ),
    "services/oom-killed": Meaning(
        "The kernel killed a process because memory ran out: the limit of its cgroup, or the whole machine's.",
        "Raise the limit of the step or container, or lower what the service takes. Where the whole machine ran out, the "
        "cause lies outside the change.",
    ),
    "services/fatal-line": Meaning(
        "A service wrote a line that its `fatal` pattern names, and went on living: what serves no more need not end.",
        "Read the line; make the pattern narrower where it means no end.",
    ),
    "services/not-ready": Meaning(
        "A service lived and did not become ready in time.",
        "Read its log and what the probe saw last; raise `start_timeout` or `--timeout` only if it still made progress.",
    ),
    "services/outside": Meaning(
        "A service could not serve for a reason outside the change: its port is taken, the disk is full, there is no "
        "memory left.",
        "Free what is named, or retry on another machine.",
    ),
    "services/client-failed": Meaning(
        "Every service was ready and lived; the command that was run under them failed by itself.",
        "Read what the command printed. ci-doctor ends with the same exit code.",
    ),
    "services/ended-with-client": Meaning(
        "A service ended by itself in the very moment in which the command that used it ended well.",
        "Nothing, where the command asks its server to end; else read the log.",
    ),
    "services/killed": Meaning(
        "Processes ignored every request to end and had to be killed.",
        "Let the server end on SIGTERM: a deployment that kills it loses what it holds.",
    ),
    "services/survivor": Meaning(
        "A process outlived even SIGKILL: it is held in the kernel (often by a device or a network file system), or "
        "belongs to another user.",
        "Look at it with `ps -o pid,user,stat,wchan,args -p PID`; the machine may need a restart.",
    ),
    "services/not-released": Meaning(
        "A condition that was to hold after the stop did not hold in time: a port or GPU memory is still taken.",
        "Find who holds it, or raise `release_timeout`.",
    ),
    "services/stop-failed": Meaning(
        "Something went wrong while the services were stopped, such as a `stop_command` that failed.",
        "Run what is named by hand; what it should have stopped may still run.",
    ),
    "services/log-cut": Meaning(
        "A log grew beyond its limit, so that its middle was cut out; the cut is marked in it.",
        "Raise `log_limit` for that service, or let it say less.",
    ),
}
