"""What is wrong with a cluster, and what to do about it: ours, or Apache's 4.9 and 5.x.

    async with Admin(namesrv="127.0.0.1:9876") as admin:
        diagnosis = await examine(admin)

`examine` asks and writes down what it heard (`snapshot.py`); the rules (`reach.py`, `machines.py`, `groups.py`,
`topics.py`) are functions of that alone. Nothing is changed anywhere, no group is joined.
"""

from hanabi.doctor.diagnosis import Diagnosis, diagnose
from hanabi.doctor.examination import examine
from hanabi.doctor.findings import Finding, Severity
from hanabi.doctor.snapshot import Snapshot

__all__ = ["Diagnosis", "Finding", "Severity", "Snapshot", "diagnose", "examine"]
