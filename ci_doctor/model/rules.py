# SPDX-License-Identifier: Apache-2.0
"""Every rule that a finding may name: what it means and what to do. docs/findings.md says the same, rule by rule."""

from ci_doctor.model.import_rules import IMPORT_RULES
from ci_doctor.model.meaning import Meaning
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
    **SERVICE_RULES,
    **RESTART_RULES,
    **IMPORT_RULES,
}
