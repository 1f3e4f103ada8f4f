"""Statistics of paired arms: intervals, tests, resampling. The unit is the task or the cluster above it, never the trial.

Conventions of the whole room: a difference is candidate minus baseline; `b` counts tasks that only the candidate passes, `c` those that
only the baseline passes; variances divide by n - 1; intervals are two-sided and equal-tailed. What cannot be computed is refused with a
`StatsError` that says why (or is null in a batch), never returned as a number.
"""

from __future__ import annotations
