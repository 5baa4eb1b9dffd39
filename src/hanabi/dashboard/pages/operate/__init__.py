"""Pages that change a cluster: resets, settings, dead letters, and the jobs of the dashboard."""
