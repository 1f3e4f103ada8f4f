"""Runs of a benchmark: classified by rules that are data."""

from __future__ import annotations
