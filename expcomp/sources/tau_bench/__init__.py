"""tau-bench v1 results."""

from __future__ import annotations
