"""Parts of a running dashboard that pages share."""

from collections.abc import Callable

import msgspec

from hanabi.client.config import ClientConfig
from hanabi.dashboard.alerts.watch import Watch
from hanabi.dashboard.bodies.book import FormBook
from hanabi.dashboard.cluster.accounts import Accounts
from hanabi.dashboard.cluster.view import ClusterView
from hanabi.dashboard.config import DashboardConfig
from hanabi.dashboard.history.ring import Ring
from hanabi.dashboard.history.sampler import Sampler
from hanabi.dashboard.jobs.jobs import Jobs
from hanabi.dashboard.render.pages import Pages
from hanabi.dashboard.security.audit import Audit
from hanabi.dashboard.security.sessions import Sessions
from hanabi.dashboard.security.throttle import Throttle
from hanabi.dashboard.security.users import Users


class Parts(msgspec.Struct, frozen=True, kw_only=True):
    """What pages work with."""

    config: DashboardConfig
    cluster: ClusterView
    accounts: Accounts
    pages: Pages
    forms: FormBook
    users: Users
    sessions: Sessions
    throttle: Throttle
    audit: Audit
    jobs: Jobs
    ring: Ring
    sampler: Sampler
    watch: Watch
    client: ClientConfig  # for producers
    live: set[object]  # open live tails
    now_ms: Callable[[], int]
