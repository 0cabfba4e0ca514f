"""How to measure each table or figure. A recipe names a measure of MEASURES and its options."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from leakbound_lab.reproduce.measures import contextleak, influence, poetry, tight, tight_exact
from leakbound_lab.reproduce.values import MeasuredValue

__all__ = ["MEASURES", "Measure"]

Measure = Callable[..., Iterable[MeasuredValue]]  # called with a RecipeContext and the options

MEASURES: Mapping[str, Measure] = {
    measure.__name__: measure
    for measure in (
        contextleak.log_odds_and_bounds,
        contextleak.defense_levels,
        contextleak.canaries_by_queries,
        contextleak.tuned_query,
        contextleak.leakage_by_epsilon,
        contextleak.privacy_and_utility,
        contextleak.privacy_and_utility_by_model,
        contextleak.examples_and_partitions,
        contextleak.spread_of_reruns,
        influence.top_tokens,
        influence.settings_of_study,
        influence.positions_of_study,
        influence.positions_by_model,
        influence.models_sizes_and_positions,
        tight.attacks_and_baselines,
        tight.partitions,
        tight.examples_per_partition,
        tight.simulated_trials,
        tight.numbers_of_pairs,
        tight.temperatures,
        tight.models,
        tight.utility_by_partitions,
        tight_exact.bootstrap_audits,
        tight_exact.signal_distances,
        tight_exact.signal_losses,
        tight_exact.voting_noise,
        tight_exact.vote_places,
        tight_exact.mean_sensitivity,
        poetry.text_classification,
        poetry.accuracy_by_examples,
        poetry.vision,
        poetry.membership_attack,
        poetry.answer_cost,
        poetry.expert_likelihoods,
        poetry.clipping_bounds,
        poetry.exact_loss_of_poe,
        tight_exact.convergence_of_experts,
        tight_exact.influence_and_pmi,
    )
}
