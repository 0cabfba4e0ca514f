"""HTML pages from templates: one file each, readable offline, with all text escaped."""

from __future__ import annotations

import base64
import functools
import hashlib
import html
import importlib.resources
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jinja2 import Environment

UNSEEN = re.compile(r"<(style|script|head)\b.*?</\1>|<[^>]*>", flags=re.S)


@dataclass(frozen=True, slots=True)
class Term:
    name: str
    meaning: str
    also: tuple[str, ...] = ()
    pattern: re.Pattern[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        forms = "|".join((re.escape(self.name) + "s?", *self.also))
        object.__setattr__(self, "pattern", re.compile(rf"(?<!\w)(?:{forms})(?!\w)", re.I))


GLOSSARY = (
    Term("canary", "A made-up record that the audit puts into a context, or leaves out of it, to "
         "see whether answers tell the difference.", ("canaries",)),
    Term("context", "What the system reads beside the query: examples, documents or memory. It is "
         "the private part. A canary-in context has the canary; a canary-out context does not."),
    Term("paired trial", "Two contexts that differ in the canary alone, one canary-in and one "
         "canary-out, asked the same query."),
    Term("query", "What the attacker asks the system.", ("queries",)),
    Term("score", "The number that the attack reads from an answer; a larger one says “canary”."),
    Term("ε", "Epsilon, the amount of leakage. An answer multiplies anybody's odds that a record "
         "is in the context by at most e^ε, so 0 is none, and 1 is a factor of 2.7.",
         ("epsilon",)),
    Term("δ", "Delta, the small probability with which the factor e^ε may be exceeded.",
         ("delta",)),
    Term("μ", "Mu, the amount of leakage under Gaussian differential privacy: two contexts are as "
         "hard to tell apart as two normal distributions whose means lie μ standard deviations "
         "apart.", ("mu",)),
    Term("claim", "What the operator states about the system, to be tested: ε at a δ.",
         ("claimed",)),
    Term("guarantee", "What a mechanism is proven to satisfy, whatever an attack does.",
         ("guaranteed",)),
    Term("violation", "The verdict that the claim is rejected at the stated confidence."),
    Term("no violation", "The verdict that this attack did not reject the claim. It does not prove "
         "the claim."),
    Term("inconclusive", "The verdict that the audit could not have found a violation, or not "
         "reliably; the reason stands beside it."),
    Term("lower bound", "A number that the true leakage is at least, with the stated confidence."),
    Term("point estimate", "A best guess without confidence. It decides nothing."),
    Term("e-value", "Evidence against the claim that may be looked at after every paired trial: if "
         "the claim is true, it ever exceeds 20 with a probability of at most 1 in 20."),
    Term("positive control", "A canary that is planted where the attack must see it, so that an "
         "attack that sees nothing is noticed.", ("control canary", "control canaries")),
    Term("ROC curve", "The true-positive rate of an attack against its false-positive rate, over "
         "all thresholds. AUROC, the area below it, is 0.5 for guessing.", ("AUROC",)),
    Term("TPR", "True-positive rate: how often the attack says “canary” where it was there. FPR, "
         "the false-positive rate: how often it says so where it was not.",
         ("FPR", "true-positive rate", "false-positive rate")),
    Term("black box", "An attack that sees answers alone, or beside them the probabilities that "
         "an endpoint reports. A white-box attack sees votes, scores or embeddings before the "
         "answer.",
         ("black_box", "white_box", "white[ -]box")),
    Term("model call", "One request to the language model."),
    Term("influence", "How much ln p of a response changes, token by token, when a part of the "
         "context is removed; in nats, summed without signs."),
    Term("ex-post privacy loss", "What this very response tells about a part of its context: the "
         "change of ln p of the whole response."),
    Term("leave-one-out", "Removing one part at a time.", ("one at a time",)),
    Term("Shapley value", "The mean change that a part makes over all sets of the other parts."),
    Term("top-attributed", "With the largest influence."),
    Term("λ", "Lambda, the weight of the context when the next token is chosen: 1 is the model as "
         "it is, 0 leaves the context out."),
    Term("PMI", "Pointwise mutual information: ln p with the context minus ln p without it."),
    Term("zero-shot", "Without any example: the accuracy that needs no private data."),
    Term("non-private", "With all examples and no noise: the accuracy at most.",
         ("non-private upper bound",)),
    Term("privacy profile", "δ as a function of ε."),
)  # fmt: skip


def terms_on(page: str) -> tuple[Term, ...]:
    """The words of the glossary that stand on a page."""
    text = html.unescape(UNSEEN.sub(" ", page))
    return tuple(term for term in GLOSSARY if term.pattern.search(text))


WORDS = "<!-- words -->"  # where a page lists the words of the glossary that stand on it


def render(
    template: str, *, script: str = "", package: str = "leakbound.report", **values: object
) -> str:
    """Fill a template of a package, which may use those of this one."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    found = _environment(package).get_template(template)
    page = found.render(script=script, digest=digest, **values)
    if WORDS not in page:
        return page
    words = _environment("leakbound.report").get_template("words.html.j2")
    return page.replace(WORDS, words.render(terms=terms_on(page)), 1)


def script_file(path: str) -> str:
    return (importlib.resources.files("leakbound.report") / path).read_text(encoding="utf-8")


@functools.cache
def _environment(package: str) -> Environment:
    from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

    loaders = [PackageLoader(one, ".") for one in dict.fromkeys((package, "leakbound.report"))]
    return Environment(loader=ChoiceLoader(loaders), autoescape=True, undefined=StrictUndefined)
