# SPDX-License-Identifier: Apache-2.0
"""The rules of findings about an experiment, or about collected samples. Pure."""

from collections.abc import Mapping

from ci_doctor.model.facts.launch import FailureKind
from ci_doctor.model.outcome import Rule, Severity, Verdict

# --- the verdict ---

REGRESSION = Rule(
    id="correctness/regression",
    severity=Severity.ERROR,
    meaning="On some requests the candidate gives other answers than the baseline, or the baseline's "
    "in another mix, or it never answers. An exact test over the starts rules out chance.",
    remedy="Look at the divergence with `ci-doctor correctness replay`, and send that request "
    "alone with `--only` and its id. If the answers then agree, the other requests in the batch or the "
    "cache are part of the cause.",
)
FLAKY = Rule(
    id="correctness/flaky",
    severity=Severity.WARNING,
    meaning="Two starts of the baseline itself answer differently, and the candidate shows nothing "
    "that the baseline has not shown.",
    remedy="Nothing here speaks against the change. Two starts can run different kernel plans; the "
    "clusters show how many there are. `ci-doctor setup-env --determinism strict` may make starts "
    "of the baseline differ less.",
)
INCONCLUSIVE = Rule(
    id="correctness/inconclusive",
    severity=Severity.WARNING,
    meaning="The starts that were made do not distinguish a flake of the environment from a fault "
    "of the candidate.",
    remedy="Run the command that the report proposes: it resumes the run with more time "
    "(`--budget`) or more starts (`--max-starts`). Or try to make the baseline steadier with "
    "`ci-doctor setup-env --determinism strict`.",
)
NONDETERMINISTIC = Rule(
    id="correctness/nondeterministic",
    severity=Severity.WARNING,
    meaning="On the requests that differ, the baseline never gives the same answer twice. So the "
    "candidate cannot be required to give the same bytes.",
    remedy="Try to make the baseline steadier with `ci-doctor setup-env --determinism strict`. If that "
    "is not possible, let the step pass with `soft_fail: [{exit_status: 85}]`: only the requests on "
    "which the baseline repeats itself are tested.",
)
VOID = Rule(
    id="correctness/void",
    severity=Severity.WARNING,
    meaning="The evidence proves nothing. There are no answers, every answer is empty, the servers "
    "got different prompts, or a changed prompt changes no answer. Or nothing proves that the "
    "candidate's path ran, or one arm read what the other wrote.",
    remedy="Fix the named cause, then run it again. A void run never counts as a pass.",
)
FAILED = Rule(
    id="correctness/failed",
    severity=Severity.ERROR,
    meaning="An arm failed in every start, so nothing was compared, and nothing proves a cause "
    "outside the change. Both arms may be started from the change's own checkout.",
    remedy="Mend what the log names. Another run is no cure unless the cause lies outside the "
    "change.",
)
INFRA = Rule(
    id="correctness/infra",
    severity=Severity.WARNING,
    meaning="An arm could not be started, each time for a reason that lies outside the change: a port "
    "that another process owns, a full disk, a registry that does not answer.",
    remedy="Free what is named, or run the job again on another machine.",
)
# The verdict's own finding; `pass` has none.
OF_VERDICT: Mapping[Verdict, Rule] = {
    Verdict.REGRESSION: REGRESSION,
    Verdict.FLAKY: FLAKY,
    Verdict.INCONCLUSIVE: INCONCLUSIVE,
    Verdict.NONDETERMINISTIC: NONDETERMINISTIC,
    Verdict.VOID: VOID,
    Verdict.FAILED: FAILED,
    Verdict.INFRA: INFRA,
}

# --- services ---

SERVICE_DIED = Rule(
    id="correctness/service-died",
    severity=Severity.WARNING,
    meaning="A server ended before it was ready, or during the requests. Exit code 0 counts too, "
    "because a server runs until it is stopped.",
    remedy="Read the lines of its log in the report.",
)
SERVICE_NOT_READY = Rule(
    id="correctness/service-not-ready",
    severity=Severity.WARNING,
    meaning="A server was alive and did not become ready in time.",
    remedy="Read its log. Raise `start_timeout` only if it was still making progress.",
)
SERVICE_OUTSIDE = Rule(
    id="correctness/service-outside",
    severity=Severity.WARNING,
    meaning="A server could not start for a reason outside the change: its port is taken, the disk "
    "is full, or there is no memory left.",
    remedy="Free what the message names, or retry on another machine.",
)
OF_FAILURE: Mapping[FailureKind, Rule] = {
    FailureKind.DIED: SERVICE_DIED,
    FailureKind.NOT_READY: SERVICE_NOT_READY,
    FailureKind.OUTSIDE: SERVICE_OUTSIDE,
}
KILLED = Rule(
    id="correctness/killed",
    severity=Severity.NOTE,
    meaning="Processes ignored SIGINT and SIGTERM and had to be killed after the start.",
    remedy="Let the server end on SIGTERM: a deployment that kills it loses what it holds.",
)

# --- answers ---

UNANSWERED = Rule(
    id="correctness/unanswered",
    severity=Severity.WARNING,
    meaning="Some requests got an error, a timeout, or something that is no answer of a model.",
    remedy="Read the error beside each request. An answer that is missing on both sides never "
    "counts as equal.",
)
BLANK_ANSWERS = Rule(
    id="correctness/blank-answers",
    severity=Severity.WARNING,
    meaning="Some answers hold no word: white space alone, or tokens that give no text. Two of them "
    "are easily equal.",
    remedy="Raise `max_tokens`, or look at what the prompts end with.",
)
ONE_ANSWER = Rule(
    id="correctness/one-answer",
    severity=Severity.WARNING,
    meaning=(
        "Different prompts got one and the same answer, so a comparison of them shows little: the "
        "model may not see the prompts, or it is broken on both sides."
    ),
    remedy="Look at some answers in samples.jsonl. Send prompts that have different answers.",
)
OTHER_MODEL = Rule(
    id="correctness/other-model",
    severity=Severity.WARNING,
    meaning="Answers name another model than the request, or than the same request's other arm.",
    remedy=(
        "Check the model in both arms' commands and in the requests. If one model is served under "
        "two names, give it one name (`--served-model-name`)."
    ),
)

CUT_ANSWERS = Rule(
    id="correctness/cut-answers",
    severity=Severity.WARNING,
    meaning="The length ended answers at their first token, though the requests ask for more.",
    remedy="Look at the server's limits: the length of the context (`--max-model-len`), or a "
    "default for `max_tokens`.",
)
NUMBERS_ALONE = Rule(
    id="correctness/numbers-alone",
    severity=Severity.NOTE,
    meaning="The gate is not green, and no word and no token differs: only numbers do. Other batches, "
    "another kernel or reused keys and values round in another way; so does a fault that is small.",
    remedy='If the change may round in another way, let numbers lie apart: `--limit "0.0001 nat"`, '
    "above what the baseline's own batches make (run it against itself). `--compare tokens` finds "
    "only what changes a token.",
)
CONTROL = Rule(
    id="correctness/control",
    severity=Severity.WARNING,
    meaning="A copy of a request with a changed prompt got the same answer as the original, or "
    "none. So equal answers may come from a server that does not read its prompts, or from a cache.",
    remedy="Look at the lines with `control:` in samples.jsonl: they hold the changed prompt and its "
    "answer. Check what stands between ci-doctor and the model: a proxy, a cache, a mock.",
)

INSENSITIVE = Rule(
    id="correctness/insensitive-requests",
    severity=Severity.WARNING,
    meaning="The gate is green, and most copies of the requests with one other word in the prompt got the same "
    "answer. So a fault that puts a wrong word into the context would mostly not be noticed.",
    remedy="Ask for log-probabilities (`logprobs`), for longer answers (`max_tokens`), or ask what "
    "depends on the whole prompt. `ci-doctor correctness --check-requests` measures each request.",
)

# --- the plan ---

BUDGET_SPENT = Rule(
    id="correctness/budget-spent",
    severity=Severity.NOTE,
    meaning="The budget ended before the run was decided, and before `--max-starts` were made.",
    remedy="If the run is undecided, the command that the report proposes resumes it with a larger "
    "`--budget`.",
)
MENDED = Rule(
    id="correctness/mended",
    severity=Severity.NOTE,
    meaning="On some requests the baseline differs from itself, and the candidate always gives the "
    "answer that the baseline gives most often. It mends a flake, or makes that answer permanent: "
    "starts of the two do not tell these apart.",
    remedy="Look whether the one answer is right. Run the candidate against itself, its command as "
    "both arms: a `pass` shows that it is steady. If both hold, merge the change. From then on the "
    "baseline is as steady, and the next run ends with `pass`.",
)
LOCALISED = Rule(
    id="correctness/localised",
    severity=Severity.NOTE,
    meaning="After a difference the arms were started again under smaller conditions: one request "
    "alone, one request at a time, one pass, a shorter prompt. This is the smallest one under which "
    "they still differ.",
    remedy="Run the command that the report gives: it makes that condition again, with a verdict of "
    "its own.",
)
DIFFERENT_ARMS = Rule(
    id="correctness/different-arms",
    severity=Severity.NOTE,
    meaning="The two arms differ in facts that may decide bits: their command lines, variables or "
    "libraries.",
    remedy="Give both arms the same, except for the change under test.",
)
NOT_GREEDY = Rule(
    id="correctness/not-greedy",
    severity=Severity.WARNING,
    meaning="Requests do not ask for temperature 0, so their answers may differ by design.",
    remedy='Put `"temperature": 0` into the body of each request.',
)
DEVICE = Rule(
    id="correctness/device",
    severity=Severity.WARNING,
    meaning="Starts on one device answer a request alike, and those on other devices never so. The "
    "devices were drawn for each pair of starts together with the order, so no difference between "
    "devices counts against the change.",
    remedy="Run `ci-doctor doctor` on that device. Leave it out of `--devices`, or give the arms "
    "one device in turn, until it answers as the others do.",
)
FAN_OUT = Rule(
    id="correctness/fan-out",
    severity=Severity.WARNING,
    meaning="A job that was to make starts left no whole evidence, or evidence was uploaded that is not of this "
    "build, this plan or the job that was asked; or that of a search is of another kind of agent than the first. "
    "None of it counts as agreement.",
    remedy="Look at the log of the step's jobs. A pair of starts is asked for once more. If it is lost "
    "again, the run is undecided: retry its first step.",
)
ARCHIVE_UNREADABLE = Rule(
    id="correctness/archive-unreadable",
    severity=Severity.WARNING,
    meaning="Files of the archive are damaged, or no archived baseline starts. They were not used.",
    remedy="Remove the named files; later builds write new ones. If a store did not answer, look at "
    "its address and credentials.",
)
ARCHIVE_DRIFT = Rule(
    id="correctness/archive-drift",
    severity=Severity.WARNING,
    meaning="Today's baseline starts answer otherwise than the archived ones, although everything "
    "known of both machines is the same. The archived starts do not count in this run.",
    remedy="The first line of each archived file names its build and its commits. If one build is "
    "wrong, remove its files from the archive. If this machine differs in a fact "
    "that the identity lacks (clocks, a kernel chosen by timing), give it an archive of its own.",
)

RULES: tuple[Rule, ...] = (
    *OF_VERDICT.values(),
    *OF_FAILURE.values(),
    UNANSWERED,
    BUDGET_SPENT,
    MENDED,
    LOCALISED,
    DIFFERENT_ARMS,
    DEVICE,
    FAN_OUT,
    ARCHIVE_UNREADABLE,
    ARCHIVE_DRIFT,
    BLANK_ANSWERS,
    ONE_ANSWER,
    OTHER_MODEL,
    CUT_ANSWERS,
    NUMBERS_ALONE,
    CONTROL,
    INSENSITIVE,
    KILLED,
    NOT_GREEDY,
)
