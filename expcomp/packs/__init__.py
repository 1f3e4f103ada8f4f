"""Packs: what an agent can use at run time and an evaluator can score with, from evidence only."""

from __future__ import annotations
