# SPDX-License-Identifier: Apache-2.0
"""PORT [BUSY]: serves 200 on every path, after BUSY answers of 503; /exit/N ends it with exit code N."""

import itertools
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tests.support.programs import small_http
else:
    import small_http

busy = int(sys.argv[2]) if len(sys.argv) > 2 and sys.argv[2].isdigit() else 0
count = itertools.count()


class Handler(small_http.Handler):
    def get(self) -> None:
        if self.path.startswith("/exit/"):
            os._exit(int(self.path.removeprefix("/exit/")))
        self.reply(200 if next(count) >= busy else 503)


small_http.Server(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
