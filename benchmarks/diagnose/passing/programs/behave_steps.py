# SPDX-License-Identifier: Apache-2.0
"""Steps of a feature about errors."""

import socket
import traceback

from behave import then, when


@when("the client connects to a dead port")
def connect(context):
    try:
        socket.create_connection(("127.0.0.1", 1))
    except OSError as error:
        traceback.print_exc()
        context.error = error


@then('it sees the error "{text}"')
def see(context, text):
    assert text in str(context.error)
