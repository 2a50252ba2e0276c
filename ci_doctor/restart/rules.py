# SPDX-License-Identifier: Apache-2.0
"""The rules of findings about a restart. Pure."""

from ci_doctor.model.outcome import Rule, Severity

OTHER_DIED = Rule(
    id="restart-check/other-died",
    severity=Severity.ERROR,
    meaning=(
        "Another service of the group ended because the killed one was gone, or because it came "
        "back."
    ),
    remedy="Let it live without the killed service, and find that again when it is back.",
)
HUNG_REQUESTS = Rule(
    id="restart-check/hung-requests",
    severity=Severity.ERROR,
    meaning=(
        "Requests neither succeeded nor failed within `request_timeout`, counted from the moment "
        "in which each was sent. A request may fail at once; it may not hang."
    ),
    remedy=(
        "Give every call to the killed service a deadline of its own, and fail what waits for it "
        "when its connection breaks."
    ),
)
PORT_NOT_RELEASED = Rule(
    id="restart-check/port-not-released",
    severity=Severity.ERROR,
    meaning=(
        "A process still listened on the killed service's port after `release_timeout`. The next "
        "start cannot bind it, or shares it with a process that should be gone."
    ),
    remedy=(
        "See which process is named. A worker that outlives its parent needs a parent-death signal "
        "(prctl PR_SET_PDEATHSIG), or a pipe whose end it notices."
    ),
)
TREE_NOT_RELEASED = Rule(
    id="restart-check/tree-not-released",
    severity=Severity.ERROR,
    meaning=(
        "Processes of the killed service still lived after `release_timeout`, or it did not end by "
        "the signal at all. They were killed then, so that the check could go on."
    ),
    remedy="Let the workers end with their parent; handle the signal.",
)
MEMORY_NOT_RELEASED = Rule(
    id="restart-check/memory-not-released",
    severity=Severity.ERROR,
    meaning=(
        "Memory of the killed service is still taken although no process uses it any more. It is "
        "a file in /dev/shm (mapped or not), a System V segment, or memory of the GPU."
    ),
    remedy=(
        "Unlink what an earlier start has left, at the start of the next one. If it is kept on "
        "purpose, set `shared_memory = false`."
    ),
)
NOT_RECOVERED = Rule(
    id="restart-check/not-recovered",
    severity=Severity.ERROR,
    meaning=(
        "The service did not come back within `recovery_timeout`. It died again, its own probe "
        "failed, or a condition of `recovered` did not hold. Or it was not ready any more after "
        "the last load."
    ),
    remedy=(
        "Read the log of its second start. A condition that counts workers shows the one that did "
        "not register again. Raise `recovery_timeout` only if it made progress."
    ),
)
LOST_AFTER = Rule(
    id="restart-check/lost-after",
    severity=Severity.ERROR,
    meaning=(
        "Requests failed although the service had recovered by its own probe and by every "
        "condition of `recovered`."
    ),
    remedy=(
        "See what still uses the old connection, registration or address. A condition in "
        "`recovered` that covers it makes clients wait instead."
    ),
)
SLOWER = Rule(
    id="restart-check/slower",
    severity=Severity.ERROR,
    meaning=(
        "The best pass of the load after the restart answers fewer requests a second than "
        "`throughput` allows, compared with the best pass before, also without the time in which threads "
        "waited for a CPU. The load was sent again before this was reported."
    ),
    remedy=(
        "See whether every worker is back and whether caches are used again. On a shared machine, "
        "raise `passes` or lower `throughput`."
    ),
)
BUSY_MACHINE = Rule(
    id="restart-check/busy-machine",
    severity=Severity.WARNING,
    meaning=(
        "The load was answered slower after the restart than `throughput` allows. A thread of the services or of "
        "ci-doctor was ready to run and waited for a CPU meanwhile; without that time the load was fast enough."
    ),
    remedy="Run the check on a machine that no other job uses, or with fewer threads than CPUs.",
)
DIFFERENT_OUTPUTS = Rule(
    id="restart-check/different-outputs",
    severity=Severity.ERROR,
    meaning=(
        "With `same_outputs`: an answer since the kill is not the one that the baseline always "
        "gave. Answers during the outage count too."
    ),
    remedy=(
        "Look at the texts from their first difference: the second start may run under other "
        "settings, or what stands in for the killed service answers otherwise."
    ),
)
LOST_ANSWERS = Rule(
    id="restart-check/lost-answers",
    severity=Severity.ERROR,
    meaning=(
        "Requests that always got words before the kill got an answer without any word since: "
        "HTTP says 200, and the client has nothing. Or the answers after the restart are no "
        "answers to the requests: all are the same, where many differed before, or all have less "
        "than half of their length. Sampling explains none of these."
    ),
    remedy=(
        "Send one of the requests by hand after a restart. See whether the weights were loaded "
        "again, and what the service returns while its engine is not ready."
    ),
)
OTHER_MODEL = Rule(
    id="restart-check/other-model",
    severity=Severity.ERROR,
    meaning="After the restart the answers name a model that no answer named before.",
    remedy="See by which command the service is started again, and which model it loads then.",
)
UNKEPT_ANSWERS = Rule(
    id="restart-check/unkept-answers",
    severity=Severity.ERROR,
    meaning=(
        "Requests got one and the same text in every control start and in every pass before the kill, "
        "and another one in every pass after it. Fresh starts give the same answers, so the restart "
        "after the kill lost or changed what they are made of: a key, a value, a setting."
    ),
    remedy=(
        "Compare the two texts of a request. See what the service writes to disk before it answers, and "
        "what it reads again at its start."
    ),
)
LOST_WRITES = Rule(
    id="restart-check/lost-writes",
    severity=Severity.ERROR,
    meaning=(
        "The command `load` printed writes as acknowledged, and after the restart the command `verify` "
        "says that some of them are not there."
    ),
    remedy=(
        "Write to stable storage (fsync) before a write is acknowledged, or acknowledge it later. "
        "`acknowledged.txt` in the report's directory holds every acknowledged line."
    ),
)
CHANGED_ANSWERS = Rule(
    id="restart-check/changed-answers",
    severity=Severity.WARNING,
    meaning=(
        "Requests that got one and the same text in every pass before the kill got another one "
        "after it. `same_outputs` is off, so this is no failure. Control starts differed too, or were "
        "not made, or not every pass after the kill differs."
    ),
    remedy=(
        "Set `same_outputs = true` if the server is deterministic; the report then shows the "
        "texts. Look at some answers by hand otherwise: noise looks the same from outside."
    ),
)
STARTS_DIFFER = Rule(
    id="restart-check/starts-differ",
    severity=Severity.WARNING,
    meaning=(
        "Requests got one text in every pass of the baseline, and another one in a control start. So fresh "
        "starts differ without a kill, and no answer of these requests can show what the kill lost."
    ),
    remedy=(
        "If the service stores data, compare an answer before and after an orderly restart: it may lose "
        "some. If it computes answers, fix its seeds and what it chooses at its start."
    ),
)
ONE_ANSWER = Rule(
    id="restart-check/one-answer",
    severity=Severity.WARNING,
    meaning="Different requests got one and the same answer, before the kill already.",
    remedy="See whether the load reaches the model, and send prompts with different answers.",
)
BLANK_ANSWERS = Rule(
    id="restart-check/blank-answers",
    severity=Severity.WARNING,
    meaning="Answers hold no text, or white space alone. They show little of what a restart lost.",
    remedy="Raise `max_tokens`, or change the prompts.",
)
UNSTABLE_OUTPUTS = Rule(
    id="restart-check/unstable-outputs",
    severity=Severity.WARNING,
    meaning=(
        "Some requests got different answers in the baseline itself, so nothing can be concluded "
        "from theirs later."
    ),
    remedy=(
        "Make the server steadier (`ci-doctor correctness` measures how steady it is), or set "
        "`concurrency = 1`."
    ),
)
BASELINE_FAILED = Rule(
    id="restart-check/baseline-failed",
    severity=Severity.ERROR,
    meaning=(
        "Before anything was killed, requests were not answered or a condition of `recovered` did "
        "not hold. A restart would prove nothing, and nothing was killed."
    ),
    remedy="Mend the load or `recovered` first: send one request by hand, as in `curl -i`.",
)
MOMENT_NOT_REACHED = Rule(
    id="restart-check/moment-not-reached",
    severity=Severity.ERROR,
    meaning="The moment for the signal did not come, or `setup` failed. Nothing was killed, and nothing is proven.",
    remedy="See what is named: lower `at`, or correct `saving`, `setup` or `stop_signal`.",
)
PROVES_NOTHING = Rule(
    id="restart-check/proves-nothing",
    severity=Severity.ERROR,
    meaning="The service was killed and came back, but what was measured is empty.",
    remedy="Mend what is named as missing. A void run must never count as a pass.",
)
BUDGET_SPENT = Rule(
    id="restart-check/budget-spent",
    severity=Severity.ERROR,
    meaning="The budget ended before the check did, and no promise was broken until then.",
    remedy="Raise `--budget`, or lower `--outage`, `passes` and the number of requests.",
)

RULES = (
    OTHER_DIED,
    HUNG_REQUESTS,
    PORT_NOT_RELEASED,
    TREE_NOT_RELEASED,
    MEMORY_NOT_RELEASED,
    NOT_RECOVERED,
    LOST_AFTER,
    SLOWER,
    DIFFERENT_OUTPUTS,
    LOST_ANSWERS,
    OTHER_MODEL,
    UNKEPT_ANSWERS,
    LOST_WRITES,
    CHANGED_ANSWERS,
    STARTS_DIFFER,
    ONE_ANSWER,
    BLANK_ANSWERS,
    BUSY_MACHINE,
    UNSTABLE_OUTPUTS,
    BASELINE_FAILED,
    MOMENT_NOT_REACHED,
    PROVES_NOTHING,
    BUDGET_SPENT,
)
