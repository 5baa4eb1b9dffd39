"""Users, sessions and the checks of each request of the dashboard. Independent of the pages."""
