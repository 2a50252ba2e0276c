# SPDX-License-Identifier: Apache-2.0
"""Tasks that fail, some of them until they are tried again; their worker lives on."""

from celery import Celery

app = Celery("failing_tasks", broker="filesystem://", backend="cache+memory://")
app.conf.broker_transport_options = {
    "data_folder_in": "queue",
    "data_folder_out": "queue",
    "control_folder": "control",
}


@app.task
def divide(by: int) -> float:
    return 1 / by


def answer(attempt: int) -> None:
    if attempt < 2:
        raise ConnectionRefusedError("[Errno 111] Connection refused")


@app.task(bind=True, max_retries=3)
def connect(self) -> str:
    try:
        answer(self.request.retries)
    except ConnectionRefusedError as error:
        raise self.retry(exc=error, countdown=1) from error
    return "connected"


if __name__ == "__main__":
    divide.delay(0)
    divide.delay(2)
    connect.delay()
