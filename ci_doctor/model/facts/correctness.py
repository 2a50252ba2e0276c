# SPDX-License-Identifier: Apache-2.0
"""Pure. The facts of `ci-doctor correctness` and the commands below it."""

from enum import StrEnum

from msgspec import Struct, field

from ci_doctor.model.facts import Facts
from ci_doctor.model.facts.launch import LeftBehind


class StartColumn(Struct, frozen=True, kw_only=True):
    """One start: `A1` of the baseline, `B2` of the candidate; `archived` is of an earlier build.

    `answered` counts the requests with an answer in all passes, `in_part` those with one in some only.
    """

    name: str
    arm: str = ""
    archived: bool = False
    ok: bool = True
    answered: int | None = None
    in_part: int = 0


class RequestRow(Struct, frozen=True, kw_only=True):
    """One request; `classes` has an entry for each start.

    An entry is the number of its answer among the request's different answers, from 0; None is no
    answer in at least one pass.
    """

    id: str
    kind: str = "unknown"
    classes: tuple[int | None, ...] = ()


class AnswerMatrix(Struct, frozen=True, kw_only=True):
    """Requests against starts; `left_out` requests are not in the rows."""

    starts: tuple[StartColumn, ...] = ()
    requests: tuple[RequestRow, ...] = ()
    left_out: int = 0


class DivergencePositions(Struct, frozen=True, kw_only=True):
    """Where answers diverge, in `unit`s from their beginning, sorted; one position a request."""

    unit: str = "position"
    positions: tuple[float | None, ...] = ()
    min: float | None = None
    median: float | None = None
    max: float | None = None


class NumbersApart(Struct, frozen=True, kw_only=True):
    """How far two lists of `count` numbers (a vector, scores) lie apart.

    They differ at `places` places, the `first` from 0 on. `largest` is the greatest difference of
    two numbers, `ulp` the greatest in units in the last place of float32. `cosine` is the cosine
    distance, None for a single number and for a vector of zeros.
    """

    count: int
    places: int
    first: int
    largest: float
    ulp: int
    cosine: float | None = None

    @property
    def words(self) -> str:
        """`differs at 3 places, cosine distance 2e-07, largest 4 ULP`."""
        if self.count == 1:
            return f"differs by {self.largest:.2g}, {self.ulp:,} ULP"
        noun = "place" if self.places == 1 else "places"
        words = f"differs at {self.places:,} {noun}"
        if self.cosine is not None:
            words = f"{words}, cosine distance {self.cosine:.2g}"
        return f"{words}, largest {self.ulp:,} ULP"


# A token and its log-probability in nat.
TokenNumber = tuple[str, float | None]


class LogProbRow(Struct, frozen=True, kw_only=True):
    """Log-probabilities at one position, each side's own token first; a side may end before it.

    `ulp` is the distance of the two own tokens' in units in the last place of float32, None if they
    are different tokens.
    """

    at: int
    left: tuple[TokenNumber, ...] = ()
    right: tuple[TokenNumber, ...] = ()
    ulp: float | None = None


class PositionUnit(StrEnum):
    """What a position counts, from 0."""

    TOKEN = "token"  # noqa: S105
    CHARACTER = "character"


class Hardness(StrEnum):
    """What kind of difference it is; the hardest first."""

    # The other side's token is outside the most probable ones, or too far away for rounding.
    HARD = "hard"
    # One answer is the beginning of the other, or they stopped for different reasons.
    LENGTH = "length"
    # No log-probabilities at this token.
    UNKNOWN = "unknown"
    # One side has no answer, or not this choice.
    MISSING = "missing"
    # The same words; only log-probabilities differ.
    NUMBERS = "numbers"
    # Each side's token is among the other's most probable ones, and rounding may flip them.
    NEAR_TIE = "near-tie"


class Divergence(Struct, frozen=True, kw_only=True):
    """Where two outputs diverge: in `field` of choice number `choice` at `position`.

    `field` is `text`, `content` …, `logprobs` if only numbers differ, or a path
    (`choices[0].finish_reason`). `position` counts `unit`s, None if no position can be named. `before`
    is the text that both share, `left` and `right` what follows in each, all three cut short. `gap` is
    how far apart both sides' tokens are, in nat, or at least, if a token is not listed. `ulp` is the
    greatest distance of the log-probabilities of the last tokens before, in units in the last place
    of float32. `apart` is set if the answers are numbers (vectors, scores), and only those differ.
    """

    field: str = "text"
    hardness: Hardness = Hardness.UNKNOWN
    unit: PositionUnit = PositionUnit.CHARACTER
    position: int | None = None
    choice: int = 0
    before: str = ""
    left: str = ""
    right: str = ""
    gap: float | None = None
    ulp: int | None = None
    apart: NumbersApart | None = None


class AlignedAnswers(Divergence, frozen=True, kw_only=True):
    """A request whose answers differ, and the pair that shows most of it, with its log-probabilities.

    `starts` are those of both sides, `pass_` (`pass` in JSON) the pass of both.
    """

    request: str
    kind: str = ""
    starts: tuple[str, ...] = ()
    pass_: int | None = field(default=None, name="pass")
    logprobs: tuple[LogProbRow, ...] = ()


class LevelFacts(Struct, frozen=True, kw_only=True):
    """The verdict at one level (`words`, `tokens`, `numbers`) over the starts of a run.

    The `gate` is the level that decides. `differing` requests have more than one outcome, within
    the `limit` if there is one. `apart` requests hold numbers that are not the same; the largest
    distances are those in the first `read` of them, in nat (of vectors: absolute) and in units in
    the last place of float32.
    """

    level: str
    gate: bool = False
    verdict: str = "unknown"
    limit: str | None = None
    differing: int = 0
    apart: int = 0
    read: int = 0
    largest_nat: float | None = None
    largest_ulp: int | None = None


class InterimLook(Struct, frozen=True, kw_only=True):
    """One look at the evidence, at which a regression may be declared.

    It comes after `starts` starts of both arms. `limit` is the p-value at which it declares one:
    what the spending function allows by then, less what the earlier looks have spent. `p` is None
    before the look.
    """

    starts: int
    limit: float
    p: float | None = None


class RequestBound(Struct, frozen=True, kw_only=True):
    """What a green verdict excludes on one request.

    The candidate gave an answer of its own in `differed` of `starts` starts. A fault on the request
    that shows in less than the share `bound` (0 to 1) of all starts is not excluded.
    """

    request: str
    differed: int
    starts: int
    bound: float


class PermutationTest(Struct, frozen=True, kw_only=True):
    """The result of the permutation test at the last look (correctness/verdict/mix_test.py).

    `disputed` are the requests whose mix of answers differs most between the arms. `p` is the share
    of the `labelings` whose largest difference is as large; `smallest_p` is the least that this
    many starts can reach. A regression is declared at `level` and below (see `InterimLook.limit`); `alpha`
    holds over all `looks`.
    """

    disputed: tuple[str, ...]
    p: float
    smallest_p: float
    labelings: int
    alpha: float
    level: float
    looks: tuple[InterimLook, ...] = ()


class ArchiveDrift(Struct, frozen=True, kw_only=True):
    """Today's baseline answers `request` otherwise than the archive, in `today` starts.

    `p` is the p-value of the exact test; None if they share no answer at all.
    """

    request: str
    today: int
    p: float | None


class ArchiveUseFacts(Struct, frozen=True, kw_only=True):
    """The archived `starts` beside those of a run, and how many independent `builds` made them.

    `unknown_builds` of the starts name no build; these count as one build together. With a `drift`
    the archive is off.
    """

    starts: int
    builds: int
    unknown_builds: int
    drift: ArchiveDrift | None


class AnswerFacts(Facts, frozen=True, kw_only=True):
    """What starts answered, whether a run made them or their samples were collected.

    `starts` counts by arm, `kinds` requests by kind of difference, `differing` requests by pair of
    starts (`A1/B1`), `within` by start the requests that vary between its passes, `differences_by`
    differing requests by hardness. `clusters` are names of starts that answered everything alike.
    `aligned` are the hardest differences. `archived` counts what was used of an archive. `levels`
    holds the verdict at each level.
    """

    requests: int
    starts: dict[str, int]
    kinds: dict[str, int]
    clusters: tuple[tuple[str, ...], ...]
    matrix: AnswerMatrix
    differing: dict[str, int]
    within: dict[str, int]
    divergence: DivergencePositions | None
    differences_by: dict[str, int]
    aligned: tuple[AlignedAnswers, ...]
    test: PermutationTest | None
    risk: str | None
    settle: str | None
    suspects: tuple[str, ...] = ()
    archived: ArchiveUseFacts | None = None
    levels: tuple[LevelFacts, ...] = ()


class LocalisationTrial(Struct, frozen=True, kw_only=True):
    """What one pair of fresh starts was sent, and its `result`.

    That is `differs`, `equal` or `not tried` (`why` has the reason). `sent` holds the names of the
    requests, group after group, `at_once` of a group under way together; `pause_s` is the time
    without a request before the last group. `differing` are the places, from 1, of those to which the
    candidate answered otherwise, of the `compared` ones. Of those `untold` nobody knows: without an
    answer, or one that ends before a difference would show. Of a `foretold` trial the cause of the
    localisation has said before what it would show.
    """

    condition: str
    result: str
    sent: tuple[tuple[str, ...], ...] = ()
    at_once: int = 1
    pause_s: float = 0.0
    differing: tuple[int, ...] = ()
    compared: int = 0
    untold: tuple[int, ...] = ()
    foretold: bool = False
    why: str | None = None


class LocalisationStart(Struct, frozen=True, kw_only=True):
    """A start that was made to localise a difference (`A5`), with its duration in seconds."""

    start: str
    duration_s: float
    log: str | None = None
    failure: str | None = None
    cut_short: bool = False


class LocalisationFacts(Struct, frozen=True, kw_only=True):
    """Where the arms differ: the `cause` that fits all `conditions`, and the `rivals` that fit as well.

    `foretold` is how many further sends the cause was tested on, `foretold_differing` how many of them
    differ as it said. `foretold_otherwise` were not as it said, at once with others in an unknown order.
    What fits, and was not tested so that chance is excluded, is `untested`, and no cause.
    In the experiment `differing_pairs` of the `pairs` of starts, one of each arm, differ on
    `request`. `smallest` is the smallest condition that differed again, `command` makes it, and in
    those of `without` the difference was gone. `stopped` says why the search ended early.
    `by_rate` is what the rates show where no cause fits, or one that names requests. `noise` says how
    often the difference came, if not in every start: of these the cause fits those with a difference.
    """

    request: str
    pairs: int
    differing_pairs: int
    cause: str | None = None
    untested: str | None = None
    foretold: int = 0
    foretold_differing: int = 0
    foretold_otherwise: int = 0
    rivals: tuple[str, ...] = ()
    by_rate: str | None = None
    noise: str | None = None
    conditions: tuple[LocalisationTrial, ...] = ()
    smallest: str | None = None
    without: tuple[str, ...] = ()
    command: str | None = None
    starts: tuple[LocalisationStart, ...] = ()
    stopped: str | None = None
    notes: tuple[str, ...] = ()


class SampleFile(Struct, frozen=True, kw_only=True):
    """A file of samples; `format` is a name that `--format` takes."""

    path: str
    format: str


class ExaminedRequests(Struct, frozen=True, kw_only=True):
    """How many requests differ, and how many of them were read again to find where."""

    differing: int
    read: int


class CompareFacts(AnswerFacts, frozen=True, kw_only=True):
    """What two sides of collected samples hold, and what the verdict rests on.

    `aligned_by` is what matches the answers: `id` or `line`. `files`, `answered` and `errors` are by
    start; `errors` holds the first ones, by request.
    """

    aligned_by: str
    passes: int
    files: dict[str, SampleFile]
    answered: dict[str, int]
    examined: ExaminedRequests
    errors: dict[str, dict[str, str]]


class ReplayFacts(Facts, frozen=True, kw_only=True):
    """One request of a run: the digest of each start's answer by pass, None for no answer.

    `unreadable_lines` of the samples were left out. The rest describes the two answers that were
    put side by side. It is empty, or None, if they are the same.
    """

    request: str
    kind: str
    answers: dict[str, dict[str, str | None]]
    unreadable_lines: int = 0
    starts: tuple[str, ...] = ()
    passes: tuple[int, ...] = ()
    divergence: Divergence | None = None
    logprobs: tuple[LogProbRow, ...] = ()


class FactDifference(Struct, frozen=True, kw_only=True):
    """A fact that is not the same in all starts; `values` is by start."""

    fact: str
    values: dict[str, str | None] = {}


class IdentityFacts(Struct, frozen=True, kw_only=True):
    """What was installed, loaded and effective, what is unknown of it, and what differs.

    `differences` are between starts. `arms` leads from a fact to its value in the baseline and in
    the candidate if these differ; None is absent. `why_unknown` gives the reasons for `unknown`.
    """

    facts: dict[str, str | None] = {}
    unknown: tuple[str, ...] = ()
    why_unknown: dict[str, str] = {}
    differences: tuple[FactDifference, ...] = ()
    arms: dict[str, tuple[str | None, str | None]] = {}


class RepositoryFacts(Struct, frozen=True, kw_only=True):
    """The commit, its branch (None if HEAD is detached), and whether tracked files differ."""

    commit: str
    branch: str | None
    dirty: bool


class ScheduleFacts(Struct, frozen=True, kw_only=True):
    """The planned order of arms (`A B A`), and the names of the starts that were made (`A1 B1`).

    The order is random by `seed`; `max_starts` ends the run.
    """

    order: str
    made: str
    seed: int | None = None
    max_starts: int | None = None


class BudgetFacts(Struct, frozen=True, kw_only=True):
    """The wall clock of the whole experiment in seconds."""

    seconds: float


class ProofReading(Struct, frozen=True, kw_only=True):
    """One condition of the proof of a start (`B1`), and what was read for it.

    Of a counter: its `metric` with the values `before` and `after` the requests (None if /metrics
    does not have it), and `above`, what the rise must exceed. `idle` is how far it rose between two
    readings while no request was under way, `unread`: the page before them could not be read. Of a `log` pattern: the 1-based
    `line` of the first match and its `text` (None if no line matches).
    """

    start: str = ""
    service: str
    met: bool
    metric: str | None = None
    before: float | None = None
    after: float | None = None
    above: float = 0.0
    idle: float = 0.0
    unread: bool = False
    log: str | None = None
    line: int | None = None
    text: str | None = None

    @property
    def subject(self) -> str:
        """The name of the counter, or the pattern between slashes."""
        return self.metric if self.metric is not None else f"/{self.log}/"

    def in_words(self) -> str:
        """`0 -> 128, rose by 128 (> 0)`, or the line that matches."""
        verdict = "" if self.met else "; not met"
        if self.metric is None:
            if self.line is None:
                return f"no line matches{verdict}"
            return f"line {self.line}: {self.text}{verdict}"
        if self.after is None:
            return f"absent{verdict}"
        # A counter with labels appears with its first count.
        before = self.before or 0.0
        first = "absent" if self.before is None else _number(before)
        rise = f"rose by {_number(self.after - before)} (> {_number(self.above)})"
        if self.idle > 0:
            rise = f"{rise}, and by {_number(self.idle)} without a request"
        return f"{first} -> {_number(self.after)}, {rise}{verdict}"


def _number(value: float) -> str:
    """Whole numbers in full: a counter of tokens has many digits."""
    return f"{value:.0f}" if float(value).is_integer() else f"{value:g}"


class SharedRead(Struct, frozen=True, kw_only=True):
    """A start has opened the file `path` for reading, which changed while the start `writer` ran."""

    path: str
    writer: str


class SharedUse(Struct, frozen=True, kw_only=True):
    """What a start (`A1`) did with files outside its own directories.

    `written` changed while it ran, a few of them, and `count` is their number; `own` are those of them
    that its processes held, or that lie where its commands say. `read` are those that it read of the
    other arm's. `unseen`: why a reading might have been missed, in words.
    """

    start: str = ""
    written: tuple[str, ...] = ()
    own: tuple[str, ...] = ()
    count: int = 0
    read: tuple[SharedRead, ...] = ()
    unseen: tuple[str, ...] = ()


class ControlResult(StrEnum):
    """What a control shows of a server."""

    # A changed prompt changed the answer.
    CHANGED = "changed"
    # No changed prompt changed the answer.
    SAME = "same"
    # A changed prompt changed the answer, and one with the same length and the same ends did not.
    PARTLY = "partly"
    # The answer is the same, and so short or so restricted that it may be so by chance.
    UNDECIDED = "undecided"
    # No control was answered.
    UNANSWERED = "unanswered"
    # No request has a prompt that can be changed.
    IMPOSSIBLE = "impossible"


class ControlOutcome(Struct, frozen=True, kw_only=True):
    """The result, the id of the request on which it rests, and the error of one without an answer."""

    start: str = ""
    result: ControlResult
    request: str = ""
    error: str | None = None

    @property
    def is_decisive(self) -> bool:
        """Whether another start of the arm needs no control."""
        return self.result in {ControlResult.CHANGED, ControlResult.SAME, ControlResult.PARTLY}

    def in_words(self) -> str:
        """What the control showed, as a part of a sentence."""
        match self.result:
            case ControlResult.CHANGED:
                return f"{self.request} with a changed prompt got another answer"
            case ControlResult.SAME:
                return (
                    f"the server gives {self.request} and a changed prompt the same answer: "
                    "it does not read the prompt, or a cache answers for it"
                )
            case ControlResult.PARTLY:
                return (
                    f"{self.request} with other words inside its prompt gets an answer that was given "
                    "before: the server reads no more than the length or the ends of a prompt"
                )
            case ControlResult.UNDECIDED:
                return (
                    f"{self.request} and a changed prompt got the same answer, "
                    "which is too short or too restricted to mean anything"
                )
            case ControlResult.UNANSWERED:
                return f"{self.request} with a changed prompt got no answer: {self.error}"
            case ControlResult.IMPOSSIBLE:
                return "no request has a prompt that can be changed, so no control was sent"


class PromptRegion(StrEnum):
    """A part of a prompt: what other prompts begin with too, and what follows it."""

    SHARED = "shared"
    OWN = "own"


class AlteredAnswer(Struct, frozen=True, kw_only=True):
    """Whether one other word in a region of the prompt of `request` changed its words, tokens, numbers.

    Each level holds those before it: tokens differ if words do.
    """

    request: str
    region: PromptRegion
    words: bool
    tokens: bool
    numbers: bool


class SensitivityFacts(Struct, frozen=True, kw_only=True):
    """Of `answers` to prompts with one other word in a region, how many changed at a level.

    `low` and `high` are the 95 % limits of the share, from 0 to 1 (Clopper & Pearson, 1934). Requests
    whose answer varied at that level between starts of one arm are left out.
    """

    region: PromptRegion
    level: str
    answers: int
    changed: int
    low: float
    high: float


class DeviceFacts(Struct, frozen=True, kw_only=True):
    """The value of CUDA_VISIBLE_DEVICES that was drawn for a start (`A1`)."""

    start: str
    devices: str


class CorrectnessFacts(AnswerFacts, frozen=True, kw_only=True):
    """What the starts of a run answered, and what the verdict rests on.

    `rare_bug_bound` is the rate of a fault on
    one request that is not excluded, from 0 to 1; None unless the verdict is green. `bounds` holds it
    by request, the hundred largest first. `archive` are sentences, `left_behind` is what stayed on the machine, `proof`, `shared` and `control` are by start,
    `devices` too, if they were drawn. `sensitivity` is what one other word in a prompt changed. `localisation` is None if there was nothing to localise.
    `repository` and what follows are None, or empty, if the run ended before they were known.
    """

    rare_bug_bound: float | None
    identity: IdentityFacts
    ending: str
    repository: RepositoryFacts | None = None
    schedule: ScheduleFacts | None = None
    caches: str | None = None
    budget: BudgetFacts | None = None
    archive: tuple[str, ...] = ()
    left_behind: LeftBehind | None = None
    bounds: tuple[RequestBound, ...] = ()
    proof: tuple[ProofReading, ...] = ()
    shared: tuple[SharedUse, ...] = ()
    control: tuple[ControlOutcome, ...] = ()
    sensitivity: tuple[SensitivityFacts, ...] = ()
    devices: tuple[DeviceFacts, ...] = ()
    localisation: LocalisationFacts | None = None


class SearchPoint(Struct, frozen=True, kw_only=True):
    """What was started: a commit or some settings, in how many starts, and in how many of them it differed.

    `broken`: why it could not be built or started.
    """

    label: str
    starts: int = 0
    differing: int = 0
    broken: str = ""


class SearchAnswerFacts(Struct, frozen=True, kw_only=True):
    """A possible answer, by its names, and its probability: 0 as long as it is not ruled out that nothing makes a difference."""

    names: tuple[str, ...]
    probability: float


class SearchFacts(Facts, frozen=True, kw_only=True):
    """What a search for settings or for a commit came to.

    `ending` is `found`, `equal` (the ends do not differ), `unsure` (if they do), `starts` (they are used up),
    `exhausted` (no further start tells anything) or `open`; `stopped` says why it is open. `answers` are the likeliest, the
    best first, given the model of docs/localise-bisect.md. `rates_good` and `rates_bad` are the least and the
    greatest share of starts that may differ without the fault and with it. `noisy` requests are not looked
    at, because the good end does not repeat its answers, nor `unanswered` ones, which no start of it answered.
    `commands` differ in one thing.
    """

    subject: str
    ending: str
    stopped: str = ""
    starts: int
    answers: tuple[SearchAnswerFacts, ...] = ()
    rates_good: tuple[float, float]
    rates_bad: tuple[float, float]
    noisy: int = 0
    unanswered: int = 0
    points: tuple[SearchPoint, ...] = ()
    commands: tuple[str, ...] = ()
