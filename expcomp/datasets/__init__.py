"""Datasets: rows of a compile as the files that trainers load and train on."""

from __future__ import annotations
