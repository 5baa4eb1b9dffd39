"""Diagnosis of a cluster, Hanabi's or Apache's 4.9 and 5.x: problems, and their remedies.

    async with Admin(namesrv="127.0.0.1:9876") as admin:
        diagnosis = await examine(admin)

`examine` queries the cluster and records the answers (`snapshot.py`); the rules (`reach.py`, `machines.py`,
`replication.py`, `groups.py`, `topics.py`) are functions of that record. It changes nothing and joins no group.
"""

from hanabi.doctor.diagnosis import Diagnosis, diagnose
from hanabi.doctor.examination import examine
from hanabi.doctor.findings import Finding, Severity
from hanabi.doctor.snapshot import Snapshot

__all__ = ["Diagnosis", "Finding", "Severity", "Snapshot", "diagnose", "examine"]
