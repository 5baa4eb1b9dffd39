"""Costs, ours and Apache's side by side: `python -m benches`, or one: `python -m benches.route_scale`."""
