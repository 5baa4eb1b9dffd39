"""Shared by all tests: nothing yet but the folder on the path, so that tests import `golden_frames`."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
