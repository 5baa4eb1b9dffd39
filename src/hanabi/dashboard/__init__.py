"""The dashboard: see and operate a cluster, Hanabi's or Apache's, in a browser.

Above `admin`, so it speaks RocketMQ's protocol and nothing else. Pages are made by this process; a browser without
JavaScript can read all of them.
"""
