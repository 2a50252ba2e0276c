# SPDX-License-Identifier: Apache-2.0
"""The kinds of flakiness: what each means, and how it is mended. Pure.

Victim, brittle, polluter and state-setter are the words of Shi et al., "iFixFlakies: a framework
for automatically fixing order-dependent flaky tests" (ESEC/FSE 2019, doi:10.1145/3338906.3338925).
The other kinds follow the root causes of Luo et al., "An empirical analysis of flaky tests" (FSE
2014, doi:10.1145/2635868.2635920).
"""

from enum import StrEnum

from msgspec import Struct


class FlakyKind(StrEnum):
    """What decides between passing and failing.

    The first six are victims: another test leaves something behind.
    """

    STATE = "state"
    ENVIRONMENT = "environment"
    DIRECTORY = "directory"
    CONCURRENCY = "concurrency"
    PROCESS = "process"
    FILE = "file"
    IMPORT = "import"
    BRITTLE = "brittle"
    EARLIER_RUN = "earlier-run"
    HASH_SEED = "hash-seed"
    RANDOM_SEED = "random-seed"
    TIME_ZONE = "time-zone"
    CLOCK = "clock"
    LOAD = "load"
    PORT = "port"
    NETWORK = "network"


class KindMeaning(Struct, frozen=True, kw_only=True):
    """What a kind is, in a sentence, which runs show it, and how to mend it.

    command: the form of the command that shows it. PLUGIN stands for the variables and the option
    that bring in our plugin with the conditions of a trial.
    """

    meaning: str
    shown_by: str
    mend: str
    command: str


_AFTER = "It fails after the polluter. It passes without it, and if the item is put back."

_ORDER = "pytest POLLUTER TEST"

MEANINGS: dict[FlakyKind, KindMeaning] = {
    FlakyKind.STATE: KindMeaning(
        meaning="Another test changes a variable, an attribute or a cache that this test reads.",
        shown_by=_AFTER,
        mend="Let the polluter change it through `monkeypatch.setattr`, or reset it in a fixture.",
        command=_ORDER,
    ),
    FlakyKind.ENVIRONMENT: KindMeaning(
        meaning="Another test sets or removes an environment variable that this test reads.",
        shown_by=_AFTER,
        mend="Let the polluter use `monkeypatch.setenv` or `monkeypatch.delenv`.",
        command=_ORDER,
    ),
    FlakyKind.DIRECTORY: KindMeaning(
        meaning="Another test changes the working directory, and this test uses relative paths.",
        shown_by=_AFTER,
        mend="Let the polluter use `monkeypatch.chdir`.",
        command=_ORDER,
    ),
    FlakyKind.CONCURRENCY: KindMeaning(
        meaning="Another test leaves a thread running, or an event loop closed or replaced.",
        shown_by="It passes if the polluter starts no thread, or if the event loop is put back.",
        mend="Join the thread, or close the loop, in the polluter's fixture.",
        command=_ORDER,
    ),
    FlakyKind.PROCESS: KindMeaning(
        meaning="Another test leaves a process running that this test meets.",
        shown_by="It passes after the polluter if that process is ended first.",
        mend="End the process and wait for it in the polluter's fixture.",
        command=_ORDER,
    ),
    FlakyKind.FILE: KindMeaning(
        meaning="Another test leaves, changes or removes a file that this test finds.",
        shown_by="It passes after the polluter if the file is put back.",
        mend="Let the polluter write below `tmp_path`.",
        command=_ORDER,
    ),
    FlakyKind.IMPORT: KindMeaning(
        meaning="Importing another test file changes something that this test reads.",
        shown_by="It fails if that file is only collected, and passes if it is not.",
        mend="Move what the file does when it is imported into a fixture.",
        command="PLUGIN pytest FILE TEST",
    ),
    FlakyKind.BRITTLE: KindMeaning(
        meaning="It passes only after another test that sets up what it needs.",
        shown_by="It passes after the state-setter and fails without it.",
        mend="Let a fixture of this test set up what it needs.",
        command="pytest SETTER TEST passes, pytest TEST fails",
    ),
    FlakyKind.EARLIER_RUN: KindMeaning(
        meaning="An earlier run of this test leaves something that the next run meets.",
        shown_by="A second run fails where the first one passes.",
        mend="Write below `tmp_path`, or remove it in a fixture, before the test as well.",
        command="pytest TEST; pytest TEST",
    ),
    FlakyKind.HASH_SEED: KindMeaning(
        meaning="It depends on the order of a set, or on a hash of a string.",
        shown_by="The same PYTHONHASHSEED always fails, another one always passes.",
        mend="Sort before comparing, or compare sets.",
        command="PYTHONHASHSEED=N pytest TEST",
    ),
    FlakyKind.RANDOM_SEED: KindMeaning(
        meaning="It depends on numbers drawn from a random generator that nobody seeds.",
        shown_by="The same seed always fails, another one always passes.",
        mend="Pass a generator with a fixed seed, or assert what holds for each draw.",
        command="PLUGIN (seed) pytest TEST",
    ),
    FlakyKind.TIME_ZONE: KindMeaning(
        meaning="It depends on the time zone, or on the date in it.",
        shown_by="It fails in one time zone and passes in another.",
        mend="Use aware datetimes in UTC, and pass the present time as an argument.",
        command="TZ=ZONE pytest TEST",
    ),
    FlakyKind.CLOCK: KindMeaning(
        meaning="It fails if a second or a day begins while it runs.",
        shown_by="It fails if it begins just before that moment.",
        mend="Read the clock once, and pass the time as an argument.",
        command="PLUGIN (boundary) pytest TEST",
    ),
    FlakyKind.LOAD: KindMeaning(
        meaning="It waits too short, or races, if the machine is busy.",
        shown_by="It fails if its processes stand still for most of the time, as under load.",
        mend="Wait for the event itself (a join, a future, a condition), with a generous limit.",
        command="PLUGIN (slow) pytest TEST",
    ),
    FlakyKind.PORT: KindMeaning(
        meaning="It binds a fixed port that something else may hold.",
        shown_by="It fails as it did in the suite if the port is taken.",
        mend="Bind port 0 and read the port that the kernel chose.",
        command="PLUGIN (occupy) pytest TEST",
    ),
    FlakyKind.NETWORK: KindMeaning(
        meaning="It asks a service outside the test for something.",
        shown_by="It fails as it did in the suite if that service cannot be reached.",
        mend="Start the service in a fixture, or replace it by recorded answers.",
        command="PLUGIN (is_offline) pytest TEST",
    ),
}
