"""What a reader should know before believing a comparison: one line a caveat, each with its condition."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from expcomp.io.counts import Count

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


class Note(NamedTuple):
    """A caveat: when it holds, and its text with the facts filled in."""

    holds: Callable[[Mapping[str, Any]], bool]
    text: str


NOTES = (
    Note(lambda f: not f["n_units"], "no task has a usable trial of both arms"),
    Note(
        lambda f: 0 < f["n_units"] < 6,
        "{n_units:task|tasks}: below 6 no two-sided sign test reaches 0.05, whatever the results",
    ),
    Note(
        lambda f: 6 <= f["n_units"] < f["min_units"],
        "{n_units:task|tasks}, below min_units={min_units}: skew cannot be seen; the exact sign test gives p = {sign_p:.3g}",
    ),
    Note(
        lambda f: f["n_clusters"] is not None and 1 < f["n_clusters"] < 10,
        "{n_clusters:cluster|clusters}: below about 10 the clustered interval is too narrow",
    ),
    Note(lambda f: f["n_clusters"] == 1, "one cluster: nothing tells how clusters differ, so there is no interval"),
    Note(
        lambda f: f["repeated_clusters"] > 0,
        "{repeated_clusters:cluster holds|clusters hold} more than one task; cluster='cluster' takes them as the unit",
    ),
    Note(
        lambda f: (f["tie_share"] or 0) >= 0.9,
        "{better:task|tasks} better and {worse} worse; no difference in the other {ties}",
    ),
    Note(
        lambda f: f["method"] is not None and f["low"] is None and f["n_units"] > 1 and f["n_clusters"] != 1,
        "all differences are the same: no interval",
    ),
    Note(lambda f: not f["scaled"], "scores have no known scale: means and differences are in units of the score"),
    Note(
        lambda f: f["baseline_infra"] + f["treatment_infra"] > 0,
        "lost to infrastructure: {baseline_infra} of {baseline_trials:trial|trials} of the baseline, "
        "{treatment_infra} of {treatment_trials} of the treatment",
    ),
    Note(
        lambda f: f["baseline_missing"] + f["treatment_missing"] > 0,
        "without a score: {baseline_missing:trial|trials} of the baseline, {treatment_missing} of the treatment",
    ),
    Note(lambda f: f["no_baseline_trial"] > 0, "{no_baseline_trial:task has|tasks have} no trial of the baseline"),
    Note(lambda f: f["no_treatment_trial"] > 0, "{no_treatment_trial:task has|tasks have} no trial of the treatment"),
    Note(
        lambda f: f["no_usable_baseline_trial"] + f["no_usable_treatment_trial"] > 0,
        "left out for lost trials: {no_usable_baseline_trial:task|tasks} of the baseline, {no_usable_treatment_trial} of the treatment",
    ),
    Note(
        lambda f: f["benchmarks"] > 1,
        "tasks of {benchmarks} benchmarks, every task weighing the same; slices='benchmark' takes them apart",
    ),
    Note(lambda f: not f["robust"], "the decision depends on what lost trials count as: see sensitivity"),
    Note(lambda f: f["exceeded"] != "", "guards exceeded: {exceeded}"),
    Note(
        lambda f: f["attempts_left_out"] > 0,
        "{attempts_left_out:attempt of the source is|attempts of the source are} left out, no trials: see left_out",
    ),
)


def notes_of(facts: Mapping[str, Any]) -> tuple[str, ...]:
    """The caveats that hold, in order."""
    told = {k: Count(v) if isinstance(v, int) and not isinstance(v, bool) else v for k, v in facts.items()}
    return tuple(note.text.format(**told) for note in NOTES if note.holds(facts))
