"""Harbor jobs, trials and tasks."""

from __future__ import annotations
