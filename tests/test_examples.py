"""Every example runs as it stands."""

import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).parent.parent / "examples"


def test_the_demo_shows_a_route_coming_changing_and_going() -> None:
    done = subprocess.run(
        [sys.executable, EXAMPLES / "name_server_demo.py"], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    seen = done.stdout
    assert seen.startswith("ready namesrv 127.0.0.1:")
    assert "haServerAddr=127.0.0.1:10912, masterAddr=127.0.0.1:10911" in seen
    assert seen.index("rw ") < seen.index("r- ")
    assert "No topic route info in name server for the topic: Orders" in seen
    assert seen.endswith("the name server stopped with exit code 0\n")
