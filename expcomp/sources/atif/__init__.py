"""ATIF trajectories."""

from __future__ import annotations
