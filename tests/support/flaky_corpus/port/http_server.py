"""A test starts a server on a fixed port."""

import http.server
import threading
import urllib.request


def test_serves() -> None:
    handler = http.server.SimpleHTTPRequestHandler
    with http.server.ThreadingHTTPServer(("127.0.0.1", 47000), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with urllib.request.urlopen("http://127.0.0.1:47000/", timeout=10) as answer:
            assert answer.status == 200
        server.shutdown()
