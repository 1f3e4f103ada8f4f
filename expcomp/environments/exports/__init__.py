"""Packages for other systems: each export is a thin file around the core, tools, reset, step, state and score."""

from __future__ import annotations
