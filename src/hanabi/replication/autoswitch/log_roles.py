"""Log of a broker in controller mode, which becomes the log of a master, or of a slave.

    begin                     after a start
    take_over ─> serve        to master: leave the master, begin an epoch; then let slaves follow
    step_down                 to slave: let no slave follow; `slave.follow` comes next

The order matters: an epoch begins before a byte of it can be written, and no slave connects before that.
"""

from hanabi.replication.autoswitch.epochs import Epoch, appended, cut, dropped_before
from hanabi.replication.autoswitch.follower import CutLog
from hanabi.replication.autoswitch.master import AutoSwitchMaster
from hanabi.replication.rules.sync_set import SyncSet
from hanabi.replication.slave import Slave


class LogRoles:
    """The log, the port for slaves, and the connection to a master."""

    def __init__(self, log: CutLog, master: AutoSwitchMaster, slave: Slave) -> None:
        self._log, self._master, self._slave = log, master, slave

    def begin(self) -> None:
        """Drop epochs behind the ends of the log: a crash may have left them."""
        epochs = self._master.epochs
        epochs.use(dropped_before(cut(epochs.epochs, self._log.end_offset), self._log.min_offset))

    def take_over(self, epoch: int) -> None:
        """Follow no master any more, and begin *epoch* at the end of the last whole record.

        The connections of slaves are closed: each of them compares its log with this one again.
        """
        self._master.is_master = False
        self._slave.follow(None)
        self._master.close_connections()
        self._log.cut_partial_record()
        epochs = self._master.epochs
        epochs.use(appended(epochs.epochs, Epoch(epoch, self._log.end_offset)))

    def serve(self, broker_id: int, sync_set: SyncSet) -> None:
        """Let slaves follow."""
        self._master.in_sync.begin(broker_id, sync_set)
        self._master.is_master = True

    def step_down(self) -> None:
        """Let no slave follow: the waiting puts end, and may be lost."""
        self._master.is_master = False
        self._master.close_connections()
        self._master.in_sync.end()
        self._slave.follow(None)
