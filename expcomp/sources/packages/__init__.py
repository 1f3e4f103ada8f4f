"""Workflow packages: task, rubric, attempts, grades, feedback and loops of one task in one folder."""

from __future__ import annotations

from expcomp.sources.packages.reader import SOURCE

__all__ = ["SOURCE"]
