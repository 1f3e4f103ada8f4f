"""Trials of arms compared: did the treatment help, how far apart are solvers, how many tasks does an answer need."""

from __future__ import annotations
