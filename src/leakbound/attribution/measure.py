"""Influence of context spans on a response, on token ids: one teacher-forced pass per span.

`InfluenceSettings` say what is measured, and how responses are drawn.

Reference: CI, Definitions 3.1 to 3.4.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import numpy.typing as npt

from leakbound._check import positive, whole, within
from leakbound.attribution.ablation_sets import METHODS
from leakbound.attribution.spans import TEMPLATE, Ids, PromptParts, Span, UnitKind
from leakbound.errors import TargetError, UsageError, unknown_name
from leakbound.mechanisms.parts.exponential import largest_lambda, mix_logits
from leakbound.mechanisms.parts.tokens import finite, log_softmax
from leakbound.models import Model, NextLogits, ScoreTokens
from leakbound.stats.counts.bounds import DRAWN

if TYPE_CHECKING:
    from leakbound.models.local import TransformersModel

Removed = tuple[Span, ...]  # spans that are ablated together: disjoint and in order
Floats = npt.NDArray[np.float64]
BYTES = 256 << 20  # of logits held at once: little compared with any model
VOCABULARY = 1 << 17  # tokens assumed before any logits are seen; most models have fewer
AGAIN = 4  # ablated prompts that are asked again, for the numerical tolerance
ROWS = 64  # response tokens whose vocabulary is reduced at once, in float64
WASTE = 1.1  # the most by which padding may enlarge a batch
DRAW = 59  # units: if none of them exceeds the K-th, at 95 % at most 5 % of the others do
MAX_LAMBDA = 1e6  # above it, float32 logits overflow


@dataclass(frozen=True, slots=True)
class TokenDistribution:
    """How the next token is drawn: softmax[(lam l + (1 - lam) l0)/temperature], without bans.

    l and l0 are the logits with and without the context. Bans apply with and without a span.
    Banned tokens keep their place, so no index changes.

    Attributes:
        lam: Weight of the context (lambda), at least 0; 1 is the model's own distribution.
        temperature: Temperature, above 0.
        banned: Token ids that are never drawn.
        banned_early: Token ids that are not drawn among the first `min_tokens` tokens, such as the
            end token.
        min_tokens: Minimum length of a response.

    Raises:
        UsageError: If lam or temperature is out of range.

    Reference:
        CI, Definition 3.4.
    """

    lam: float = 1.0
    temperature: float = 1.0
    banned: Ids = ()
    banned_early: Ids = ()
    min_tokens: int = 0
    lam_per_token: ClassVar[bool] = False  # whether each token has a lambda of its own

    def __post_init__(self) -> None:
        within("lambda", self.lam, 0.0, MAX_LAMBDA)
        positive("temperature", self.temperature)

    @property
    def is_model_own(self) -> bool:
        """Whether this is the model's own distribution."""
        early = self.banned_early and self.min_tokens
        return self.lam == 1 and self.temperature == 1 and not self.banned and not early

    def banned_at(self, position: int) -> Ids:
        """Token ids that are banned at a position of the response, from 0."""
        return self.banned + (self.banned_early if position < self.min_tokens else ())

    def lambdas(self, context: Floats, prior: Floats, first: int = 0) -> Floats:
        """(tokens,) lambda of each token, from the logits that `log_probs` takes."""
        return np.full(len(context), self.lam)

    def log_probs(self, context: Floats, prior: Floats, first: int = 0) -> Floats:
        """ln p of every token of the vocabulary.

        Args:
            context: (tokens, vocabulary) logits with the context.
            prior: (tokens, vocabulary) logits without it.
            first: Position of the first row in the response.

        Returns:
            (tokens, vocabulary) ln p; -inf where banned.
        """
        log_p = mix_logits(context, prior, self.lam, self.temperature)
        bans = [self.banned_at(first + row) for row in range(len(log_p))]
        if not any(bans):
            return log_p
        largest = log_p.shape[1] - 1
        unknown = [one for ids in bans for one in ids if not 0 <= one <= largest]
        if unknown:
            raise UsageError(
                f"the banned token id {unknown[0]} is not one of the model's, which are 0 to "
                f"{largest}; leave it out of --ban."
            )
        for row, ids in zip(log_p, bans, strict=True):
            row[list(ids)] = -np.inf
        return log_softmax(log_p)


@dataclass(frozen=True, slots=True)
class BoundedTokenDistribution(TokenDistribution):
    """Bounded CID: for each token, the largest lambda with |ln p - ln p_prior| <= bound.

    p_prior is p without the context. The maximum is over all tokens that are not banned. If a span
    is ablated, lambda is chosen again from the remaining context, as the mechanism would. The
    influence of the whole context is at most `bound`, and that of any span at most twice that.

    Attributes:
        bound: Largest influence of the context on one token, in nats.

    Reference:
        CI, Algorithm 1.
    """

    bound: float = 1.0
    lam_per_token: ClassVar[bool] = True

    @property
    def is_model_own(self) -> bool:
        """Never the model's own distribution."""
        return False

    def lambdas(self, context: Floats, prior: Floats, first: int = 0) -> Floats:
        """(tokens,) lambda of each token, in [0, lam], from the logits that `log_probs` takes."""
        rows = enumerate(zip(context, prior, strict=True))
        return np.array([self._lambda(*pair, self.banned_at(first + row)) for row, pair in rows])

    def _lambda(self, context: Floats, prior: Floats, banned: Ids) -> float:
        with_context, without = (np.delete(logits, list(banned)) for logits in (context, prior))
        return largest_lambda(with_context, without, self.bound, self.lam, self.temperature)

    def log_probs(self, context: Floats, prior: Floats, first: int = 0) -> Floats:
        """ln p of every token of the vocabulary, each row at its own lambda."""
        bans = self.banned, self.banned_early, self.min_tokens
        rows = [
            TokenDistribution(float(lam), self.temperature, *bans).log_probs(
                context[row : row + 1], prior[row : row + 1], first + row
            )
            for row, lam in enumerate(self.lambdas(context, prior, first))
        ]
        return np.concatenate(rows)


@dataclass(frozen=True, slots=True, repr=False)
class ResponseLogProbs:
    """ln p of the tokens of one response, under several distributions.

    Attributes:
        full: (distributions, tokens) with the context.
        prior: (distributions, tokens) without it.
        ablated: (distributions, spans, tokens) with each span ablated.
        tolerance: (distributions,) numerical tolerance: twice the largest change of ln p when the
            whole prompt and a few ablated ones are asked again, each alone; NaN if not measured.
    """

    full: Floats
    prior: Floats
    ablated: Floats
    tolerance: Floats

    @property
    def signed(self) -> Floats:
        """(distributions, spans, tokens) ln p with the whole context minus ln p without the span.

        Influence (tau) is its absolute value.
        """
        return np.asarray(self.full[:, None] - self.ablated)


def measure(
    model: Model,
    parts: PromptParts,
    response: Ids,
    spans: Sequence[Span],
    distributions: Sequence[TokenDistribution],
    with_tolerance: bool = True,
    rounding: float = 0.0,
    known: Mapping[Removed, Floats] = MappingProxyType({}),
) -> ResponseLogProbs:
    """ln p(y_t | D without span, x, y_<t) for every span, distribution and response token.

    All distributions share the same passes: one for D, one without context, and one per span. The
    whole context needs no pass of its own. Logits are reduced batch by batch, so those of all spans
    are never held at once.

    Args:
        model: A model that answers `NextLogits`, or `ScoreTokens` for its own distribution.
        parts: The prompt (PRIVATE).
        response: Token ids of the response, at least one.
        spans: Spans of the context to ablate.
        distributions: How tokens are drawn.
        with_tolerance: Whether to measure the numerical tolerance, with six more passes.
        rounding: Relative rounding of the model's logits, such as 2**-7 in bfloat16; no numerical
            tolerance is below that of the response's logits.
        known: (distributions, tokens) ln p without sets of spans, which are not measured again.

    Returns:
        Log-probabilities in nats.

    Raises:
        UsageError: If the response is empty or contains a banned token.
        TargetError: If the model gives no logits.

    Reference:
        CI, Definition 3.1.
    """
    if not response:
        raise UsageError(
            "the response has no token; it must have at least one. Give one, or sample with "
            "another seed."
        )
    for distribution in distributions:
        for at, token in enumerate(response):
            if token in distribution.banned_at(at):
                raise UsageError(
                    f"response token {at} has id {token}, which is banned there, so its "
                    "probability is 0 with and without the context; measure a response that can "
                    "be drawn, or ban less."
                )
    reader = ResponseReader(model, parts, response, distributions)
    full = reader.read([parts.without()])[0]
    prior = reader.without_context()
    ablated = reader.ablated([(span,) for span in spans], {**known, (parts.whole,): prior})
    tolerance = np.full(len(full), np.nan)
    if with_tolerance:
        tolerance = reader.tolerance(spans, full, ablated, rounding)
    return ResponseLogProbs(full, prior, ablated, tolerance)


def forget(model: Model) -> None:
    """Drop the keys and values of all prompts from the memory of a local engine."""
    inner: object = model
    while not hasattr(inner, "forget") and hasattr(inner, "model"):
        inner = inner.model
    if hasattr(inner, "forget"):
        inner.forget()


class ResponseReader:
    """Reads ln p of one response after many prompts, under many distributions."""

    def __init__(
        self,
        model: Model,
        parts: PromptParts,
        response: Ids,
        distributions: Sequence[TokenDistribution],
    ) -> None:
        self.model, self.parts, self.response = model, parts, response
        self.distributions = distributions
        self.own = all(d.is_model_own for d in distributions) and ScoreTokens in model.supports
        if not self.own and NextLogits not in model.supports:
            raise TargetError(
                f"{model.name} gives no next-token logits; use a local model (pocket or hf/...)."
            )

    @cached_property
    def _prior(self) -> npt.NDArray[np.floating] | None:
        """(tokens + 1, vocabulary) logits without any context."""
        return None if self.own else self._logits([self.parts.without(self.parts.whole)])[0]

    def read(self, prompts: Sequence[Ids]) -> Floats:
        """(prompts, distributions, tokens) ln p."""
        if self.own:
            scores = self.model.answer([ScoreTokens(prompt, self.response) for prompt in prompts])
            return np.repeat(finite(np.stack(scores))[:, None], len(self.distributions), 1)
        prior = self._prior  # asked first
        return np.stack([self._reduced(logits, prior) for logits in self._logits(prompts)])

    def without_context(self) -> Floats:
        """(distributions, tokens) ln p without any context."""
        if self._prior is None:
            return np.asarray(self.read([self.parts.without(self.parts.whole)])[0])
        return self._reduced(self._prior, self._prior)

    def tolerance(
        self, spans: Sequence[Span], full: Floats, ablated: Floats, rounding: float
    ) -> Floats:
        """(distributions,) twice the change of ln p where prompts are asked alone, or rounding."""
        least = 0.0
        if rounding and NextLogits in self.model.supports:
            logits = finite(self._logits([self.parts.without()])[0][:-1])
            own = logits[np.arange(len(self.response)), list(self.response)]
            least = rounding * float(np.abs(own).max())
            least = max(least, 2 * float(np.finfo(np.float32).eps * np.abs(full).max()))
        some = np.unique(np.linspace(0, len(spans) - 1, AGAIN).astype(int)) if spans else ()
        before = [((), full), *(((spans[at],), ablated[:, at]) for at in some)]
        changes = []
        for removed, found in before:
            forget(self.model)
            alone = self.read([self.parts.without(*removed)])[0]
            changes.append(np.abs(alone - found).max(-1))
        return np.asarray(np.maximum(2 * np.max(changes, axis=0), least))

    def lambdas(self, distribution: TokenDistribution) -> Floats:
        """Lambda of each token under bounded CID; empty if one lambda applies to all tokens."""
        if not distribution.lam_per_token:
            return np.zeros(0)
        replies = self._logits([self.parts.without(), self.parts.without(self.parts.whole)])
        with_context, without = (finite(logits[:-1]) for logits in replies)
        return distribution.lambdas(with_context, without)

    def entropies(self, distribution: TokenDistribution) -> Floats:
        """Entropy of the distribution of each token without the context."""
        if not self.response:
            return np.zeros(0)
        logits = finite(self._logits([self.parts.without(self.parts.whole)])[0][:-1])
        log_p = distribution.log_probs(logits, logits)
        each = np.where(np.isneginf(log_p), 0.0, np.exp(log_p) * log_p)
        return np.asarray(-each.sum(1))

    def _logits(self, prompts: Sequence[Ids]) -> list[npt.NDArray[np.floating]]:
        return self.model.answer([NextLogits(prompt, self.response) for prompt in prompts])

    def _reduced(
        self, logits: npt.NDArray[np.floating], prior: npt.NDArray[np.floating] | None
    ) -> Floats:
        """(distributions, tokens) from (tokens + 1, vocabulary), a few rows at a time."""
        ids, parts = np.asarray(self.response), []
        for first in range(0, len(ids), ROWS):
            rows = slice(first, min(first + ROWS, len(ids)))
            with_context, without = finite(logits[rows]), finite(prior[rows])  # type: ignore[index]
            here, own = np.arange(len(ids[rows])), ids[rows]
            tables = (d.log_probs(with_context, without, first) for d in self.distributions)
            parts.append(np.stack([table[here, own] for table in tables]))
        return np.concatenate(parts, 1)

    def ablated(
        self, removed: Sequence[Removed], known: Mapping[Removed, Floats] = MappingProxyType({})
    ) -> Floats:
        """(distributions, sets, tokens) without sets of spans; those in `known` are as given."""
        if not self.response or not removed:
            return np.zeros((len(self.distributions), len(removed), len(self.response)))
        found = dict(known)
        for batch in self._batches([one for one in dict.fromkeys(removed) if one not in found]):
            rows = self.read([self.parts.without(*spans) for spans in batch])
            found.update(zip(batch, rows, strict=True))
        return np.stack([found[one] for one in removed], 1)

    def _batches(self, removed: Sequence[Removed]) -> Iterator[list[Removed]]:
        """Put sets that begin near each other into one batch."""
        each = 4 * VOCABULARY * len(self.response) if self._prior is None else self._prior.nbytes
        most = max(1, BYTES // each)
        batch: list[Removed] = []
        rest: list[int] = []
        for spans in sorted(removed, reverse=True):
            own = self._own(spans)
            if batch and (len(batch) >= most or own * (len(batch) + 1) > WASTE * (sum(rest) + own)):
                yield batch
                batch, rest = [], []
            batch.append(spans)
            rest.append(own)
        if batch:
            yield batch

    def _own(self, removed: Removed) -> int:
        """Tokens of a row from the first ablated one on, which no other row can share."""
        begin, context = (removed[0][0] if removed else 0), len(self.parts.context)
        less = sum(end - first for first, end in removed)
        return context - begin - less + len(self.parts.tail) + len(self.response)


def sample(
    model: Model,
    tokens: TransformersModel,
    parts: PromptParts,
    distribution: TokenDistribution,
    max_tokens: int,
    rng: np.random.Generator,
    stop: str = "\n",
) -> Ids:
    """Draw a response, token by token.

    Args:
        model: A model that answers `NextLogits`.
        tokens: The same model, as the one that shows its tokens.
        parts: The prompt (PRIVATE).
        distribution: How each token is drawn.
        max_tokens: The most tokens.
        rng: Source of the draws.
        stop: A text that ends the response; "" for none.

    Returns:
        Token ids, without the token that ends the response or completes `stop`.
    """
    response: Ids = ()
    prompts = parts.without(), parts.without(parts.whole)
    while len(response) < max_tokens:
        replies = model.answer([NextLogits(prompt + response) for prompt in prompts])
        with_context, prior = (finite(reply[-1:]) for reply in replies)
        log_p = distribution.log_probs(with_context, prior, len(response))[0]
        token = int((log_p + rng.gumbel(size=log_p.size)).argmax())
        if token in tokens.end_ids() or (stop and stop in tokens.text((*response, token))):
            break
        response = (*response, token)
    return response


@dataclass(frozen=True, slots=True)
class InfluenceSettings:
    """What to measure, and how to draw responses.

    Attributes:
        ngrams: Span sizes in tokens; the whole context is always added.
        stride: Tokens between the starts of windows; None for disjoint blocks.
        lams: Weights of the context (lambda); one reading for each.
        bounded: epsilon of a whole response drawn from bounded CID, shared evenly by `max_tokens`.
            Each lambda is then the largest one. None for plain CID.
        temperature: Temperature, above 0.
        max_tokens: Maximum length of a sampled response.
        min_tokens: Minimum length; end tokens are banned before it is reached.
        banned: Token ids that are never drawn.
        stop: A text that ends a response; "" for none.
        template: The prompt; for a chat model, the user message. It must contain {context} once,
            unless `system` does, and {query} in the place of the query.
        system: The system message, with {context} or {query} in their places; "" for none. If it
            contains the context and the template is the default, the user message is the query.
        seed: Root seed of the draws.
        by: Units of the text that are also ablated: sentence, line, paragraph, document, message,
            chunk:N (characters), tokens:N.
        method: How units are ablated: leave-one-out, or sets of them for shapley or lasso.
        sets: The most sets to measure for shapley or lasso, for each kind of unit.
        top: Of many spans, measure those that may be among the K with the largest influence, and
            `draw` others; None for all.
        draw: The most other spans to draw, which bound what was missed; from 1 to 200.
        entropy: Whether to measure the entropy of the response, which normalizes influence.

    Raises:
        UsageError: If there is no lambda, the bound is not above 0, a unit or method is unknown, an
            option would have no effect, or a number is out of its range.
    """

    ngrams: tuple[int, ...] = (1, 8)
    stride: int | None = None
    lams: tuple[float, ...] = (1.0,)
    bounded: float | None = None
    temperature: float = 1.0
    max_tokens: int = 48
    min_tokens: int = 0
    banned: tuple[int, ...] = ()
    stop: str = "\n"
    template: str = TEMPLATE
    seed: int = 0
    by: tuple[str, ...] = ()
    method: str = METHODS[0]
    sets: int = 1024
    top: int | None = None
    draw: int = DRAW
    entropy: bool = False
    system: str = ""

    def __post_init__(self) -> None:
        if not self.lams:
            raise UsageError("lams must hold at least one number, such as --lam 1.")
        if self.bounded is not None:
            positive("bounded", self.bounded)
        whole("seed", self.seed, 0)
        whole("max_tokens", self.max_tokens)
        if self.method not in METHODS:
            raise unknown_name("the method", self.method, METHODS)
        if self.top is not None:
            whole("top", self.top)
        whole("draw", self.draw, 1, DRAWN)
        kinds = self.unit_kinds  # which refuses unknown ones
        # refuse options that would have no effect
        if self.method != METHODS[0] and self.top is not None:
            raise UsageError(
                f"the method {self.method!r} measures sets of all units, so that --top has no "
                f"effect; leave it out, or take --method {METHODS[0]}."
            )
        if self.method != METHODS[0] and not kinds:
            raise UsageError(
                f"the method {self.method!r} ablates sets of units of the text, and none is named; "
                "give --by, such as --by sentence."
            )

    @property
    def unit_kinds(self) -> tuple[UnitKind, ...]:
        """The kinds of units to find in the text."""
        kinds = [UnitKind.parse(text) for text in self.by]
        return tuple(kind for kind in dict.fromkeys(kinds) if kind.name != "tokens")

    @property
    def span_sizes(self) -> tuple[int, ...]:
        """Span sizes in tokens: those of `ngrams`, and of `tokens:N` in `by`."""
        kinds = [UnitKind.parse(text) for text in self.by]
        return (*self.ngrams, *(kind.size or 1 for kind in kinds if kind.name == "tokens"))

    def distributions(self, end_ids: Iterable[int]) -> tuple[TokenDistribution, ...]:
        """How tokens are drawn, for each lambda.

        Returns:
            One distribution for each of `lams`.
        """
        same = (self.temperature, self.banned, tuple(sorted(end_ids)), self.min_tokens)
        if self.bounded is None:
            return tuple(TokenDistribution(lam, *same) for lam in self.lams)
        each = self.bounded / self.max_tokens / 2  # |ln p| may move by half of the epsilon
        return tuple(BoundedTokenDistribution(lam, *same, each) for lam in self.lams)
