"""Judges of rows: the port, the rules, and a model behind an endpoint that the user names."""

from __future__ import annotations
