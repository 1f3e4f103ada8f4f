"""Agent Data Protocol rows."""

from __future__ import annotations
