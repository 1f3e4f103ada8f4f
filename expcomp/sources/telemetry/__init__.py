"""Telemetry: five dialects over one span model."""

from __future__ import annotations
