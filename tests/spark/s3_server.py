"""moto's S3 on a port. Requests come one at a time: then "only if there is none" holds as S3 promises it."""

import sys
import threading
from collections.abc import Iterable
from typing import Any

from moto.server import DomainDispatcherApplication, create_backend_app  # type: ignore[import-not-found]
from werkzeug.serving import run_simple  # type: ignore[import-not-found]


def main(port: int) -> None:
    serve = DomainDispatcherApplication(create_backend_app)
    alone = threading.Lock()

    def one_at_a_time(environ: Any, start_response: Any) -> Iterable[bytes]:
        with alone:
            return list(serve(environ, start_response))

    run_simple("127.0.0.1", port, one_at_a_time, threaded=True)


main(int(sys.argv[1]))
