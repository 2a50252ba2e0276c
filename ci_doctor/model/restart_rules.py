# SPDX-License-Identifier: Apache-2.0
"""The rules of findings about a restart: what each means and what to do. Pure."""

from ci_doctor.model.meaning import Meaning

RESTART_RULES: dict[str, Meaning] = {
    "restart-check/other-died": Meaning(
        "Another service of the group ended because the killed one was gone, or because it came back.",
        "Let it live without the killed service, and find that again when it is back.",
    ),
    "restart-check/hung-requests": Meaning(
        "Requests neither succeeded nor failed within `request_timeout`, counted from the moment in which each was sent.",
        "Give every call to the killed service a deadline of its own, and fail what waits for it when its connection "
        "breaks. A request that fails at once is allowed, one that hangs is not.",
    ),
    "restart-check/port-not-released": Meaning(
        "Somebody still listened on the killed service's port when `release_timeout` was over: the next start cannot bind "
        "it, or shares it with a process that should be gone.",
        "See which process is named. A worker that outlives its parent needs a parent-death signal "
        "(prctl PR_SET_PDEATHSIG), or a pipe whose end it notices.",
    ),
    "restart-check/tree-not-released": Meaning(
        "Processes of the killed service lived on when `release_timeout` was over, or it did not end by the signal at "
        "all. They were killed then, so that the check could go on.",
        "Let the workers end with their parent; handle the signal.",
    ),
    "restart-check/memory-not-released": Meaning(
        "Memory of the killed service is still taken although no process uses it any more: shared memory in /dev/shm, or "
        "memory of the GPU.",
        "Unlink what an earlier start has left, at the start of the next one. Where it is kept on purpose, set "
        "`shared_memory = false`.",
    ),
    "restart-check/not-recovered": Meaning(
        "The service did not come back within `recovery_timeout`: it died again, its own probe failed, a condition of "
        "`recovered` did not hold, or it fell ill again under the last load.",
        "Read the log of its second start. A condition that counts workers shows the one that did not register again.",
    ),
    "restart-check/same-identity": Meaning(
        "The service has the pid and the start time that it had before the kill: what was killed is not what serves.",
        "See what the service's command starts; name its `pidfile` where it goes into the background.",
    ),
    "restart-check/lost-after": Meaning(
        "Requests failed although the service had recovered by its own probe and by every condition of `recovered`.",
        "See what still uses the old connection, registration or address. A condition in `recovered` that covers it makes "
        "clients wait instead.",
    ),
    "restart-check/slower": Meaning(
        "Each side's best pass of the load is compared, and after the restart fewer requests a second are answered than "
        "`throughput` allows; the load was sent again before this was said.",
        "See whether every worker is back and whether caches are used again. On a machine that is shared, raise `passes` "
        "or lower `throughput`.",
    ),
    "restart-check/different-outputs": Meaning(
        "`same_outputs` was asked, and an answer since the kill is not the one that the baseline always gave. Answers "
        "given during the outage count too.",
        "Look at the texts from where they part: the second start may run under other settings, or what stands in for "
        "the killed service answers otherwise.",
    ),
    "restart-check/unstable-outputs": Meaning(
        "Some requests got different answers in the baseline itself, so that nothing can be said about theirs later.",
        "Make the server steadier (`ci-doctor correctness` finds out how steady it is), or set `concurrency = 1`.",
    ),
    "restart-check/baseline-failed": Meaning(
        "Before anything was killed, requests were not answered or a condition of `recovered` did not hold. A restart "
        "would prove nothing, and nothing was killed.",
        "Mend the load, the services or the condition first.",
    ),
    "restart-check/proves-nothing": Meaning(
        "The service was killed and came back, but what was measured is empty.",
        "See what is said to be missing. A void run must never count as a pass.",
    ),
    "restart-check/budget-spent": Meaning(
        "The budget ended before the check did, and no promise was broken until then.",
        "Raise `--budget`, or lower `--outage`, `passes` and the number of requests.",
    ),
}
