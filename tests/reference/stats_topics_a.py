"""Topics of the worked examples, part A: each calls a public function and renames what it gives."""

from __future__ import annotations

from expcomp.stats.binary import mcnemar, risk_difference
from expcomp.stats.bootstrap import bootstrap_exhaustive_clusters, bootstrap_exhaustive_mean, bootstrap_monte_carlo
from expcomp.stats.clusters import clustered_se
from expcomp.stats.exact import cluster_sign_flip, exact_paired_tests
from expcomp.stats.means import mean_se
from expcomp.stats.noninferiority import noninferiority_binary, noninferiority_mean
from expcomp.stats.paired import paired_clustered, paired_difference
from expcomp.stats.proportions import proportion_ci
from expcomp.stats.trials import tasks_with_trials


def renamed(result, **names):
    """Attributes of a result under the names of the examples; None is left out, as the examples leave it out."""
    values = {key: getattr(result, attribute) for key, attribute in names.items()}
    return {k: v for k, v in values.items() if v is not None}


def of_mean(scores, confidence):
    r = mean_se(scores, confidence=confidence)
    return renamed(r, n="n", mean="mean", var_ddof1="variance", se="se", ci_normal="normal", ci_t="t")


CLUSTERED = {
    "n": "n",
    "clusters": "clusters",
    "mean": "mean",
    "se_clt": "se_clt",
    "se_miller": "se_miller",
    "se_cr0": "se_cr0",
    "se_cr1": "se_cr1",
    "deff_cr1": "deff",
    "ci_cr1_t": "t",
    "df": "df",
    "ms_between": "ms_between",
    "ms_within": "ms_within",
    "n0": "n0",
    "icc_anova": "icc",
}


def of_clusters(scores, clusters, confidence):
    return renamed(clustered_se(scores, clusters, confidence=confidence), **CLUSTERED)


def of_pairs(baseline, candidate, confidence):
    return renamed(
        paired_difference(baseline, candidate, confidence=confidence),
        n="n",
        mean_diff="mean",
        sd_diff="sd",
        se_paired="se",
        se_unpaired="se_unpaired",
        corr="correlation",
        t="statistic",
        df="df",
        p_two_sided="p_two_sided",
        p_greater="p_greater",
        ci_t="t",
        ci_normal="normal",
        cohens_dz="dz",
    )


def of_clustered_pairs(baseline, candidate, clusters, confidence):
    r = paired_clustered(baseline, candidate, clusters, confidence=confidence)
    estimate = renamed(r.estimate, **CLUSTERED)
    test = renamed(r, t="statistic", p_two_sided="p_two_sided", p_greater="p_greater")
    return {**estimate, **test, "mean_diff": estimate["mean"]}


def of_trials(baseline_trials, candidate_trials, confidence, **planned):
    r = tasks_with_trials(
        baseline_trials, candidate_trials, confidence=confidence, predict=planned.get("predict_K", ())
    )
    out = renamed(
        r,
        tasks="tasks",
        trials="trials",
        task_mean_diff="task_differences",
        mean_diff_task_weighted="mean",
        se_task="se",
        df="df",
        ci_t="t",
        p_two_sided="p_two_sided",
        mean_within_var="within_variance",
        noise_var_of_task_diff="noise_variance",
        omega2_between="between_variance",
        mean_diff_trial_weighted="trial_weighted_mean",
        se_trial_weighted_cr1="trial_weighted_se",
    )
    return {
        **out,
        "task_mean_diff": out["task_mean_diff"].tolist(),
        "predicted_se_at_K": {str(k): v for k, v in r.predicted_se.items()},
    }


def of_proportion(successes, n, confidence):
    return renamed(
        proportion_ci(successes, n, confidence=confidence),
        k="successes",
        n="n",
        p="rate",
        normal="normal",
        agresti_coull="agresti_coull",
        clopper_pearson="clopper_pearson",
        wilson="wilson",
        jeffreys="jeffreys",
        wilson_cc="wilson_corrected",
    )


def of_mcnemar(b_candidate_only, c_baseline_only, both_pass, both_fail):
    return renamed(
        mcnemar(b_candidate_only, c_baseline_only),
        b="b",
        c="c",
        discordant="discordant",
        p_exact_two_sided="p_exact",
        p_mid="p_mid",
        p_exact_greater="p_greater",
        prob_b_gt_c_uniform_prior="probability_better",
        chi2="chi2",
        p_chi2="p_chi2",
        chi2_cc="chi2_corrected",
        p_chi2_cc="p_chi2_corrected",
    )


def of_table(both_pass, b_candidate_only, c_baseline_only, both_fail, confidence):
    return renamed(
        risk_difference(both_pass, b_candidate_only, c_baseline_only, both_fail, confidence=confidence),
        n="n",
        rd="difference",
        wald="wald",
        bonett_price="bonett_price",
        tango="tango",
        newcombe_square_add_cc="newcombe_corrected",
        newcombe_square_add="newcombe",
        phi_cc="phi_corrected",
        phi="phi",
        exact_conditional="exact_conditional",
    )


FLIP = {"units": "units", "observed_mean": "mean", "p_greater": "p_greater", "p_two_sided": "p_two_sided"}


def of_exact(differences):
    r = exact_paired_tests(differences)
    flip = renamed(r.flip, **FLIP)
    tests = renamed(
        r,
        positive="positive",
        negative="negative",
        ties="ties",
        sign_p_two_sided="sign_p_two_sided",
        sign_p_greater="sign_p_greater",
        wilcoxon_W_plus="w_plus",
        wilcoxon_p_greater="rank_p_greater",
        wilcoxon_p_two_sided="rank_p_two_sided",
    )
    # The distribution of the flips is symmetric: twice the smaller tail, as scipy has it, is the two-sided share.
    return {**flip, **tests, "scipy_permutation_two_sided": flip["p_two_sided"]}


def of_cluster_flip(differences, clusters):
    return renamed(cluster_sign_flip(differences, clusters), **FLIP)


BOOTSTRAP = {
    "theta_hat": "estimate",
    "n_resamples": "resamples",
    "boot_se_ddof0": "se",
    "percentile": "percentile",
    "basic": "basic",
    "z0": "z0",
    "acceleration": "acceleration",
    "bca_levels": "bca_levels",
    "bca": "bca",
}


def of_all_resamples(differences, confidence, statistic):
    assert statistic == "mean"
    return renamed(bootstrap_exhaustive_mean(differences, confidence=confidence), **BOOTSTRAP)


def of_all_cluster_resamples(cluster_sums_and_sizes, confidence, statistic):
    assert statistic == "sum/sum"
    sums, sizes = zip(*cluster_sums_and_sizes, strict=True)
    return renamed(bootstrap_exhaustive_clusters(sums, sizes, confidence=confidence), **BOOTSTRAP)


def of_random_resamples(differences, confidence):
    return renamed(
        bootstrap_monte_carlo(differences, confidence=confidence, resamples=100_000),
        percentile="percentile",
        basic="basic",
        bca="bca",
        standard_error="se",
        mean="estimate",
        acceleration="acceleration",
    )


def of_noninferior_mean(baseline, candidate, margin, confidence_one_sided):
    return renamed(
        noninferiority_mean(baseline, candidate, margin=margin, confidence=confidence_one_sided),
        n="n",
        mean_diff="mean",
        se="se",
        t_noninferior="statistic",
        p_noninferior="p",
        lower_one_sided="lower",
        noninferior="noninferior",
        tost_p="p_equivalent",
        equivalent="equivalent",
    )


def of_noninferior_table(both_pass, b_candidate_only, c_baseline_only, both_fail, margin, confidence_one_sided):
    return renamed(
        noninferiority_binary(
            both_pass, b_candidate_only, c_baseline_only, both_fail, margin=margin, confidence=confidence_one_sided
        ),
        n="n",
        rd="difference",
        score_z="statistic",
        p_noninferior="p",
        lower_one_sided="lower",
        noninferior="noninferior",
    )


def taking(function):
    """The function of an example's `inputs`, given as one dict."""
    return lambda inputs: function(**inputs)


TOPICS = {
    "mean_se": taking(of_mean),
    "clustered_se": taking(of_clusters),
    "paired_difference": taking(of_pairs),
    "paired_clustered": taking(of_clustered_pairs),
    "tasks_with_trials": taking(of_trials),
    "proportion_ci": taking(of_proportion),
    "mcnemar": taking(of_mcnemar),
    "paired_risk_difference": taking(of_table),
    "paired_exact_tests": taking(of_exact),
    "cluster_sign_flip": taking(of_cluster_flip),
    "bootstrap_exhaustive_mean": taking(of_all_resamples),
    "bootstrap_exhaustive_clusters": taking(of_all_cluster_resamples),
    "bootstrap_monte_carlo": taking(of_random_resamples),
    "noninferiority_mean": taking(of_noninferior_mean),
    "noninferiority_binary": taking(of_noninferior_table),
}
