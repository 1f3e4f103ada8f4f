"""The contract: vocabularies, tables and row families as declarations. Computes nothing."""

from __future__ import annotations
