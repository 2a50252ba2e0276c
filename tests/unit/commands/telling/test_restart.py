# SPDX-License-Identifier: Apache-2.0
from ci_doctor.commands.progress import RestartSource
from ci_doctor.model.facts.restart_check import Phase
from ci_doctor.restart.answers import RestartProgress
from tests.unit.commands.events import READY, live, taken


def test_everything_stays_behind_its_phase() -> None:
    source = RestartSource()
    sent = RestartProgress(phase=Phase.KILL, text="SIGKILL to vllm")
    happened = RestartProgress(phase=Phase.RECOVERY, event=READY)
    assert taken(source, sent, happened) == [
        ("kept", "kill      SIGKILL to vllm"),
        ("kept", "recovery  vllm ready after 3.0 s at http://127.0.0.1:81"),
    ]
    assert live(source) == []
