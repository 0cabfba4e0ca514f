"""What an attribution measures, and how responses are drawn."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from leakbound._check import positive, whole
from leakbound.attribution.ablation_sets import METHODS
from leakbound.attribution.measure import BoundedTokenDistribution, TokenDistribution
from leakbound.attribution.spans import DOCUMENT, TEMPLATE, UnitKind
from leakbound.errors import UsageError, unknown_name


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
        top_documents: How many documents to open. Other units are measured only inside the
            documents with the largest influence; None for all documents.
        entropy: Whether to measure the entropy of the response, which normalizes influence.

    Raises:
        UsageError: If there is no lambda, the bound is not above 0, a unit or method is unknown, or
            a method or top documents are given without units.
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
    top_documents: int | None = None
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
        # refuse options that would have no effect
        if self.top_documents is not None and self.top_documents < 1:
            raise UsageError(f"top_documents is {self.top_documents}; it must be at least 1.")
        kinds = self.unit_kinds
        if self.method != METHODS[0] and not kinds:
            raise UsageError(
                f"the method {self.method!r} ablates sets of units of the text, and none is named; "
                "give --by, such as --by sentence."
            )
        if self.top_documents is not None and len(kinds) < 2:
            raise UsageError(
                "top documents are opened to measure other units in them, and no unit is named; "
                "give --by, such as --by sentence."
            )

    @property
    def unit_kinds(self) -> tuple[UnitKind, ...]:
        """The kinds of units to find in the text.

        Documents come first if only the top ones are opened.
        """
        kinds = [UnitKind.parse(text) for text in self.by]
        found = [kind for kind in dict.fromkeys(kinds) if kind.name != "tokens"]
        if self.top_documents is not None:
            return (UnitKind(DOCUMENT), *(kind for kind in found if kind.name != DOCUMENT))
        return tuple(found)

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
