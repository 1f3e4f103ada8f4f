"""Terminal-Bench 0.2 runs and tables."""

from __future__ import annotations
