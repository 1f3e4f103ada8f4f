"""Codex CLI rollouts."""

from __future__ import annotations
