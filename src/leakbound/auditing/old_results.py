"""Results of schema version 1, which the package wrote under its former name, read as version 2."""

from __future__ import annotations

import math
from typing import Any, TypeAlias

from leakbound.attacks import SCORES
from leakbound.auditing.prepare.rows import load_data
from leakbound.auditing.result.audit_result import power_of
from leakbound.auditing.spec.audit_spec import Design
from leakbound.estimators import ESTIMATORS, Claim, Estimator, TrialDesign, threshold_rule
from leakbound.privacy import Gaussian, Guarantee, NonPrivate
from leakbound.stats import BestOnSameData, Bonferroni, Fixed, Split
from leakbound.tasks.datasets import fingerprint

Json: TypeAlias = dict[str, Any]
VERDICTS = {"consistent": "no_violation"}
QUERIES = {"inquiry": "membership"}
NAMES = {"said_member": "predicted_member"}
COUNTS = {"simulated_releases": "simulated_outputs"}
METHODS = {
    "e_process": ("e_process", "e_process_mu"),
    "clopper_pearson": ("clopper_pearson", "gdp"),
    "vote_band": ("vote_band",),
    "joint_votes": ("joint_votes",),
}
RETIRED = {"joint_votes": "vote_band"}  # what it was the better of, at half of the error
ONLY_MU = ("gdp", "e_process_mu")  # their epsilon is implied by mu, and no bound by itself
PARTITIONED = ("report_noisy_max", "embedding_mean", "keyword_mean", "synthetic_shots")
SAME = (
    "data", "data_dir", "input_field", "label_field", "input_template", "task", "model", "embedder",
    "trust_remote_code", "insertion", "access", "epsilon", "delta", "answers", "pairs", "shots",
    "confidence", "threshold", "seed", "store_text", "simulations", "batch_pairs",
)  # fmt: skip  # keys of a spec that kept their names and meanings


def upgraded(found: Json) -> Json:
    """A result as version 2 holds it."""
    if found.get("schema_version") != 1:
        return found
    old, spec = found["spec"], _spec(found["spec"])
    attack = {**found["attack"], "query": _query(found["attack"]["query"])}
    attack["score"] = NAMES.get(attack["score"], attack["score"])
    design = _design(found, spec, attack["score"])
    name = old["estimator"]
    estimator: Estimator = ESTIMATORS[RETIRED.get(name, name)]()
    used = found["counts"]["pairs"]
    largest = estimator.largest_certifiable(design, used)
    counts = {COUNTS.get(name, name): count for name, count in found["counts"].items()}
    verdict = found["decision"]["verdict"]
    return {
        "schema_version": 2,
        "name": found["name"],
        "verdict": VERDICTS.get(verdict, verdict),
        "reason": "too_few_trials" if verdict == "inconclusive" else None,
        "sentences": found["decision"]["reasons"],
        "claim": found["claim"],
        "guarantee": found["guarantee"],
        "attack": attack,
        "counts": {**counts, "tested_pairs": estimator.tested_pairs(design, used)},
        "decided_by": METHODS[old["estimator"]],
        "estimates": [_estimate(one) for one in found["estimates"]],
        "largest_certifiable": {"epsilon": largest.epsilon, "mu": largest.mu},
        "power": power_of(estimator, design, used),
        "threshold": _threshold(design),
        "e_values": _path(found.get("wealth")),
        "profile": found.get("profile"),
        "curves": _curves(found["curves"]),
        "example_prompt": found["example_prompt"],
        "warnings": found["warnings"],
        "handed": _handed(found),
        "spec": spec,
        "provenance": found["provenance"],
    }


def _query(name: str) -> str:
    return QUERIES.get(name, name)


def _spec(old: Json) -> Json:
    """Flat keys; what belonged to one component stands in it."""
    score = old.get("score")
    return {
        "mechanism": _mechanism(old),
        "address": old.get("system"),
        "query": _asked(old),
        "canary": _canary(old),
        "score": None if score is None else {"kind": NAMES.get(score, score)},
        "estimator": {"kind": old["estimator"]},
        "stop_when_rejected": old.get("stop_when_refuted", False),
        "answers": 1,  # the first results do not name it
        **{key: old[key] for key in SAME if key in old},
    }


def _mechanism(old: Json) -> Json:
    kind = old["mechanism"]
    found: Json = {"kind": kind}
    if kind == "prompt_defense":
        found["level"] = old.get("level", 1)
    if kind in PARTITIONED:
        found.update(partitions=old["partitions"], calibration=old["calibration"])
    return {**found, **old.get("options", {})}


def _asked(old: Json) -> Json:
    kind = _query(old["attack"])
    if kind != "given":
        return {"kind": kind}
    return {"kind": kind, "text": old["query_text"], "labelled": old["query_labelled"]}


def _canary(old: Json) -> Json:
    kind = old["canary"]
    if kind == "hex":
        return {"kind": kind, "digits": old["digits"]}
    keys = {"text": "canary_text", "image": "canary_image", "label": "canary_label"}
    given = {key: old[name] for key, name in keys.items() if old.get(name)}
    return {"kind": kind, **(given if kind == "given" else {})}


# Mechanisms that answer once; a system stands there as few_shot, the default.
ONE_ANSWER = {"few_shot", "prompt_defense", "judge_defense"}


def _design(found: Json, spec: Json, score: str) -> TrialDesign:
    """What the estimators knew beforehand."""
    old, mu = found["spec"], found["guarantee"]["mu"]
    claim = Claim(**found["claim"])
    guarantee: Guarantee = NonPrivate(claim.relation)
    if mu is not None:
        guarantee = Gaussian(mu, 1.0, claim.relation)
    kind = SCORES[score]()
    voters = int(spec["mechanism"].get("subsamples", old["partitions"]))
    votes = old["mechanism"] == "report_noisy_max" and mu is not None
    return TrialDesign(
        claim=claim,
        guarantee=guarantee,
        confidence=old["confidence"],
        pairs=old["pairs"],
        pilot=max(1, old["pairs"] // 5) if kind.learns else 0,
        levels=tuple(kind.levels(voters).tolist()),
        rule=threshold_rule(old["threshold"], kind.threshold),
        early_stop=old.get("stop_when_refuted", False),
        answers=old.get("answers", 1),
        sigma=math.sqrt(2 * old.get("answers", 1)) / mu if votes else None,
        voters=None if old["mechanism"] in ONE_ANSWER else voters,
    )


def _threshold(design: TrialDesign) -> str:
    kinds = {Fixed: "fixed", Split: "split", Bonferroni: "bonferroni", BestOnSameData: "best"}
    return kinds[type(design.rule)]


def _estimate(old: Json) -> Json:
    """What mu implies stands in the details."""
    if old["method"] not in ONLY_MU:
        return old
    details = {**old["details"], "implied_epsilon": old["epsilon"]}
    return {**old, "epsilon": None, "details": details}


def _path(old: Json | None) -> Json | None:
    if old is None:
        return None
    return {
        "tested": old["promise"],
        "level": old["level"],
        "rejected_at": old.get("refuted_at", old.get("rejected_at")),
        "pairs": old["pairs"],
        "log_e_values": old["log_wealth"],
    }


def _curves(old: Json) -> Json:
    return {("outputs" if key == "releases" else key): value for key, value in old.items()}


def _handed(found: Json) -> list[str]:
    """Python objects were not noted in version 1: their names differ from those of the spec."""
    old = found["spec"]
    if old.get("system") is not None:
        return []
    objects = {
        "mechanism": found["attack"]["mechanism"] != old["mechanism"],
        "model": found["provenance"]["model"] != old["model"],
        "rows": _rows_were_handed(found),
    }
    return [name for name, handed in objects.items() if handed]


def _rows_were_handed(found: Json) -> bool:
    """Without a source of data, the rows are the bundled ones, or were handed over."""
    old = found["spec"]
    if old.get("data") or old.get("data_dir") or old.get("task") not in (None, "help_desk"):
        return False
    rows, _ = load_data(Design(seed=old["seed"]))
    return bool(fingerprint(rows) != found["provenance"]["data_fingerprint"])
