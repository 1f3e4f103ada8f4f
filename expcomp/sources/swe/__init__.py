"""SWE-agent and mini-swe-agent trajectories, SWE-bench reports, and the join of both."""

from __future__ import annotations
