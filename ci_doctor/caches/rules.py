# SPDX-License-Identifier: Apache-2.0
"""The rules of findings about JIT caches. Pure."""

from ci_doctor.model.finding import Rule, Severity

UNAVAILABLE = Rule(
    id="cache/unavailable",
    severity=Severity.WARNING,
    meaning=(
        "The store of caches could not be used, or not in time. The job goes on and compiles. "
        "`--strict` makes it `infra`."
    ),
    remedy="See whether the store is reachable from this agent; `--budget` bounds the time.",
)
REFUSED = Rule(
    id="cache/refused",
    severity=Severity.WARNING,
    meaning=(
        "A saved cache fits, and was not restored: it is not signed by an allowed signer, has "
        "expired, is damaged or above a limit. What is restored is executed. `--strict` makes it "
        "`failed`."
    ),
    remedy=(
        "Save it in a job that has the key. `ci-doctor cache verify` reads the whole store, and "
        "docs/cache.md describes who may sign."
    ),
)
TRUSTED_ANYWAY = Rule(
    id="cache/trusted-anyway",
    severity=Severity.WARNING,
    meaning="A cache was restored that nobody vouches for, or its receipt could not be kept.",
    remedy="Sign what is saved (`--key`), and name the signers with `--allowed-signers`.",
)
NONE_FITS = Rule(
    id="cache/none-fits",
    severity=Severity.NOTE,
    meaning="No saved cache has this machine's identity. The job compiles, and can save the result.",
    remedy="`ci-doctor cache explain` names the facts in which the nearest one differs.",
)
WOULD_BE_INERT = Rule(
    id="cache/would-be-inert",
    severity=Severity.WARNING,
    meaning=(
        "A saved cache fits this machine, and its keys hold paths that differ here. The library "
        "would compile everything again, so it was not restored."
    ),
    remedy=(
        "Give this job the same paths as the one that saves: the same place for the virtual "
        "environment, and the same cache directory."
    ),
)
NOT_SAVED = Rule(
    id="cache/not-saved",
    severity=Severity.WARNING,
    meaning="A cache could not be saved, or not whole. The next job may compile again.",
)
FOR_NOBODY = Rule(
    id="cache/for-nobody",
    severity=Severity.WARNING,
    meaning=(
        "What was saved is not signed, and others can write to the store. No job with the trust of "
        "this one restores it. `--strict` makes it `failed`."
    ),
    remedy=(
        "Make a key with `ci-doctor cache keygen cache-key`. Give the file to the jobs that save on "
        "the default branch (`--key`, or its text in CI_DOCTOR_CACHE_KEY_TEXT). Give the line that "
        "it prints to all jobs (`--allowed-signers`)."
    ),
)
INERT = Rule(
    id="cache/inert",
    severity=Severity.WARNING,
    meaning=(
        "A cache was restored and of no use: the job compiled as if it had none, used another "
        "directory, or read nothing of it."
    ),
    remedy="`ci-doctor cache explain` shows in which facts the two machines differ.",
)
PARTLY = Rule(
    id="cache/partly",
    severity=Severity.NOTE,
    meaning="A cache was restored, and a part of it was compiled again.",
    remedy="Save after this job: the next one finds what was compiled now.",
)
UNPROVEN = Rule(
    id="cache/unproven",
    severity=Severity.NOTE,
    meaning=(
        "A cache was restored, and nothing shows that this job used it. The file system keeps no "
        "times of reading, something read every file, another job of this machine restored it, or "
        "all of it was there before the restore. No saving is claimed."
    ),
    remedy="Name the job's log with `--log`.",
)
IGNORED = Rule(
    id="cache/ignored",
    severity=Severity.NOTE,
    meaning=(
        "A cache was restored, and `ci-doctor correctness` starts its servers without it: with "
        "fresh caches no start depends on what another job compiled."
    ),
    remedy='`caches = "restored"` in [correctness] gives each start a copy.',
)
NOT_COPIED = Rule(
    id="cache/not-copied",
    severity=Severity.NOTE,
    meaning="A start of `ci-doctor correctness` has no copy of a restored cache, and compiles.",
)
CHANGED = Rule(
    id="cache/changed",
    severity=Severity.WARNING,
    meaning=(
        "Files of a restored cache are not as they were installed. Some libraries rewrite a file "
        "of their own; anything else is damage."
    ),
)
DAMAGED_STORE = Rule(
    id="cache/damaged-store",
    severity=Severity.ERROR,
    meaning="An object of the store is not what its name says, or is missing.",
    remedy="Remove the object. Jobs that need it compile again and save it.",
)

# In the order of docs/findings.md.
RULES = (
    UNAVAILABLE,
    REFUSED,
    TRUSTED_ANYWAY,
    NONE_FITS,
    WOULD_BE_INERT,
    NOT_SAVED,
    FOR_NOBODY,
    INERT,
    PARTLY,
    UNPROVEN,
    IGNORED,
    NOT_COPIED,
    CHANGED,
    DAMAGED_STORE,
)
