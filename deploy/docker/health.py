"""Health check of the server in this container, for HEALTHCHECK: the image has no curl.

python health.py [PATH]      /health by default; /ready checks whether it should receive traffic
"""

import os
import sys
import urllib.error
import urllib.request

PORT = os.environ.get("METRICS_PORT", "9464")


def main(path: str = "/health") -> int:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{PORT}{path}", timeout=2) as answer:
            return 0 if answer.status == 200 else 1
    except (urllib.error.URLError, OSError) as error:
        sys.stderr.write(f"{path}: {error}\n")
        return 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:2]))
