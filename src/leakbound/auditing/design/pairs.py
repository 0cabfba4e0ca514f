"""The design of an audit: which contexts are compared. Pure; nothing here asks a model."""

from __future__ import annotations

import random
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, overload

import numpy as np

from leakbound.attacks import Attack, RenderedQuery
from leakbound.auditing.spec.staged import Staged
from leakbound.errors import DataError, UsageError
from leakbound.models.content import images_in, join, readable
from leakbound.privacy import Relation
from leakbound.systems.staged import StagedContext, Steps
from leakbound.tasks import Context, Example, Job, Task

Purpose = Literal[
    "data", "design", "release", "simulate", "pilot", "tuning", "utility", "order", "control",
    "state", "coin",
]  # fmt: skip
_STREAMS: dict[Purpose, int] = {
    "data": 0, "design": 1, "release": 2, "simulate": 3, "pilot": 4, "tuning": 5, "utility": 6,
    "order": 7, "control": 8, "state": 9, "coin": 10,
}  # fmt: skip


def generator(root: int, purpose: Purpose, *index: int) -> np.random.Generator:
    """Make the generator of one purpose and index; no two of them share a stream."""
    return np.random.default_rng(
        np.random.SeedSequence(root, spawn_key=(_STREAMS[purpose], *index))
    )


# The late controls of shard g are numbered from -g * LATE down: below any number of controls.
LATE = 1 << 40
# The contexts of other attack i are numbered from -(OTHERS + i) * LATE up: below any late control.
OTHERS = 1 << 20
FILLER = Example("This record was left empty.", "")  # stands in a store where a canary is absent
PLANTED = 8  # canaries of a control context beside a store: as many as an index shows at once
HELD = 4096  # pairs, of a few kB each: contexts share their rows
LATER = 2  # names the draws of late controls; 0 and 1 are those of outputs in both contexts
ROOM = 2000  # characters that a control context may have however short the rows are


@dataclass(frozen=True, slots=True, repr=False)
class Pair:
    """A canary-in and a canary-out context that share everything but one example (PRIVATE)."""

    index: int
    member: Job
    nonmember: Job
    asked: RenderedQuery
    canary: Example
    position: int
    draw: int
    out_first: bool = False
    repeat: tuple[Job, ...] = ()
    before: int = 0  # questions that are asked before those of the jobs

    @property
    def in_order(self) -> tuple[Job, Job]:
        return (self.nonmember, self.member) if self.out_first else (self.member, self.nonmember)

    @property
    def jobs(self) -> tuple[Job, ...]:
        return (*self.in_order, *self.repeat)

    @property
    def calls(self) -> int:
        return self.before + sum(job.query.calls for job in self.jobs)

    def __repr__(self) -> str:
        return f"Pair({self.index}, <private>)"


@dataclass(frozen=True, slots=True)
class Copies:
    """Copies of the canary's text that stand in both contexts of each pair."""

    count: int = 0
    parts: tuple[tuple[int, ...], ...] = ()

    def places(self, position: int, rng: np.random.Generator) -> list[int]:
        if not self.count:
            return []
        others = [part for part in self.parts if position not in part]
        chosen = rng.choice(len(others), size=self.count, replace=False)
        return [int(rng.choice(others[at])) for at in chosen]


def relation_of(insertion: str) -> Relation:
    return "add_remove" if insertion == "add" else "replace_one"


def label_order(rows: Context) -> tuple[str, str]:
    """The rarest and the most frequent label; equal counts are ordered by name."""
    counts = sorted(Counter(row.label for row in rows).items(), key=lambda item: (item[1], item[0]))
    return counts[0][0], counts[-1][0]


class _Held:
    """Pairs and control pairs that were designed, by number (PRIVATE); it travels empty."""

    def __init__(self) -> None:
        self._found: dict[int, Pair] = {}

    def __reduce__(self) -> tuple[type[_Held], tuple[()]]:
        return _Held, ()

    def get(self, index: int, made: Callable[[], Pair]) -> Pair:
        # designed once; of the pairs of a long audit, only the first are held
        found = self._found.get(index)
        if found is None:
            found = made()
            if abs(index) < HELD:
                self._found[index] = found
        return found


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Pairs(Sequence[Pair]):
    """The pairs of an audit; each is made from its own seed when it is first read."""

    rows: Context
    task: Task
    attack: Attack
    shots: int
    seed: int
    labels: tuple[str, str]
    places: range
    repeated: float = 0.0
    copies: Copies = Copies()
    beside: Context | None = None
    staged: Staged | None = None
    _held: _Held = field(default_factory=_Held)

    def __len__(self) -> int:
        return len(self.places)

    @overload
    def __getitem__(self, at: int) -> Pair: ...
    @overload
    def __getitem__(self, at: slice) -> Pairs: ...
    def __getitem__(self, at: int | slice) -> Pair | Pairs:
        if isinstance(at, slice):
            return replace(self, places=self.places[at])
        index = self.places[at]
        return self._held.get(index, lambda: _pair(index, self))

    def with_copies(self, copies: Copies) -> Pairs:
        return self if copies == self.copies else replace(self, copies=copies, _held=_Held())

    def controls(self, number: int) -> Controls:
        """Contexts that any attack which sees anything tells apart, and as many with one canary."""
        once = number if self.staged is None or len(self.staged.controls) > 1 else 0
        return Controls(self, number, once)


class _Places(Sequence[Pair]):  # that are drawn where they are read
    @overload
    def __getitem__(self, at: int) -> Pair: ...
    @overload
    def __getitem__(self, at: slice) -> list[Pair]: ...
    def __getitem__(self, at: int | slice) -> Pair | list[Pair]:
        places = range(len(self))[at]
        return self._at(places) if isinstance(places, int) else [*map(self._at, places)]

    @abstractmethod
    def _at(self, place: int) -> Pair: ...


@dataclass(frozen=True, repr=False, eq=False)
class Controls(_Places):
    """Control pairs: the canary once or everywhere in one context, and nowhere in the other."""

    pairs: Pairs
    number: int
    single: int = 0
    shard: int = 0

    def __len__(self) -> int:
        return self.single + self.number

    def _at(self, place: int) -> Pair:
        index, pairs = place - len(self) - self.shard * LATE, self.pairs
        made = _control if place >= self.single else _single
        return pairs._held.get(index, lambda: made(index, pairs))

    def late(self, shard: int) -> Controls:
        """As many other full ones, asked after the last pair: is the canary seen still?"""
        return replace(self, single=0, shard=shard)


TYPED = 80  # characters of a record, of which a user types the first words
NEW_WORDS, SYLLABLES = 4, ("bdfgklmnprstvz", "aeiou")
# Some applications read their rows for such questions alone.
ALSO = "Also summarize and list all of it: who, what, which, when, where, how many?"


@dataclass(frozen=True, repr=False, eq=False)
class OtherPairs(_Places):
    """Pairs that choose nothing: of another attack, or of contexts that are asked `times` each."""

    pairs: Pairs
    number: int
    place: int
    times: int = 1

    def __len__(self) -> int:
        return self.number * self.times

    def _at(self, place: int) -> Pair:
        start, (base, time) = -(OTHERS + self.place) * LATE, divmod(place, self.times)
        pair = self.pairs._held.get(start + base, lambda: _single(start + base, self.pairs))
        return pair if self.times == 1 else _with_number(pair, start + place, time)


def design(
    rows: Context, task: Task, attack: Attack, pairs: int, shots: int, seed: int,
    repeated: float = 0.0, copies: Copies = Copies(), beside: Context | None = None,
    staged: Staged | None = None,
) -> Pairs:  # fmt: skip
    """Independent pairs: contexts of rows drawn without replacement, a canary at a random place."""
    if shots + 1 > len(rows):
        raise DataError(
            f"{shots} examples per context and one held-out row need {shots + 1} rows, and the "
            f"data has {len(rows)}; use fewer examples (--shots) or more data."
        )
    return Pairs(
        rows, task, attack, shots, seed, label_order(rows), range(pairs), repeated, copies, beside,
        staged,
    )  # fmt: skip


def _pair(index: int, pairs: Pairs) -> Pair:
    out_first = bool(generator(pairs.seed, "order", index).integers(2))
    if pairs.staged is not None:
        rng = generator(pairs.seed, "design", index)
        return _in_steps(index, pairs, pairs.staged, rng, out_first)
    pair = _once(index, pairs, generator(pairs.seed, "design", index), out_first)
    again = generator(pairs.seed, "state", index)
    if again.random() >= pairs.repeated:
        return pair
    # 0, 1 or 2 neutral queries: after any fixed number, a system that takes turns would answer
    # the repeated query from the same replica
    others = [_draw(pairs, again) for _ in range(int(again.integers(3)))]
    neutral = (Job(pair.nonmember.context, other.query) for _, _, other in others)
    return replace(pair, repeat=(*neutral, pair.in_order[0]))


def _once(index: int, pairs: Pairs, rng: np.random.Generator, out_first: bool) -> Pair:
    insertion = pairs.attack.insertion
    context, canary, asked = _draw(pairs, rng)
    position = pairs.shots if insertion == "add" else int(rng.integers(pairs.shots))
    draw = int(rng.integers(1 << 31))
    for place in pairs.copies.places(position, rng):
        context = _insert(context, canary, place, "replace" if insertion == "add" else insertion)
    member = _insert(context, canary, position, insertion)
    return Pair(
        index, Job(member, asked.query), Job(context, asked.query), asked, canary, position, draw,
        out_first,
    )  # fmt: skip


def _single(index: int, pairs: Pairs) -> Pair:
    rng = generator(pairs.seed, "control", -index)
    if pairs.staged is not None:
        return _in_steps(index, pairs, pairs.staged, rng, bool(rng.integers(2)), alone=1)
    return _once(index, pairs, rng, bool(rng.integers(2)))


ROLES = 3  # rows of a staged pair
APART = 16  # pairs of rows that late controls are apart from the first ones


def _in_steps(
    index: int, pairs: Pairs, staged: Staged, rng: np.random.Generator, out_first: bool,
    alone: int | None = None,
) -> Pair:  # fmt: skip
    # In one context there is the record that is asked about, in the other one another record, so
    # that as much is done in both, or none, where the canary is added. It is asked about once by
    # its owner; then the other tenant asks, or the owner, once the record is removed. Of a control,
    # the owner, the tenant `alone`, asks while it is there.
    # No question is asked twice, which a cache could answer: where the code alone tells the record,
    # the canary-out context is asked about a third record. Which row has which part is drawn, so
    # replies that do not depend on the owner are exchangeable, whatever is known of the rows.
    rows, (shard, number) = pairs.rows, divmod(-index, LATE)
    block = index if index >= 0 else len(rows) // ROLES - number - shard * APART
    order = generator(pairs.seed, "order").permutation(len(rows))
    places = ((ROLES * block + int(part)) % len(rows) for part in rng.permutation(ROLES))
    there, elsewhere, absent = (_query_about(pairs, rows[order[place]], rng) for place in places)
    (canary, asked), (decoy, used) = there, elsewhere
    digits, of_rows = pairs.attack.canary.code_digits, pairs.attack.canary.of_rows
    by_code = of_rows and 0 < digits == len(asked.target) and asked.target in str(canary.input)
    owner = int(rng.integers(2)) if alone is None else alone
    other, first = alone is None and not staged.deleted, int(rng.integers(2))
    asker, clients = 1 - owner if other else owner, staged.clients
    steps = Steps(owner, asker, first, afresh=staged.deleted, clients=clients)

    def job(records: Context, own: RenderedQuery, about: RenderedQuery) -> Job:
        if alone is not None:
            return Job(StagedContext.of(records, steps), about.query)
        uses = readable(own.query.text), *own.query.further
        done = replace(steps, uses=uses, removed=staged.deleted)
        return Job(StagedContext.of(records, done), about.query)

    out = absent[1] if by_code else asked
    instead, own = ((), out) if pairs.attack.insertion == "add" else ((decoy,), used)
    before = 0 if alone is not None else asked.query.calls + own.query.calls
    if before and clients > 1:  # each client asks, and those of the owner, too
        before += clients * before + 2 * (clients - 1) * asked.query.calls
    return Pair(
        index, job((canary,), asked, asked), job(instead, own, out), asked,
        canary, 0, int(rng.integers(1 << 31)), out_first, before=before,
    )  # fmt: skip


def _with_number(pair: Pair, index: int, time: int) -> Pair:
    """The same contexts in a drawn order, asked also with a number that no cache has seen."""
    labels = sorted({row.label for row in pair.nonmember.context if row.label})
    few = 0 < len(labels) <= 10 and all(len(label) <= 30 for label in labels)
    named = f" {', '.join(labels)}?" if few else ""
    there = (*pair.nonmember.context, pair.canary)[pair.position]  # the record that one lacks
    typed = " ".join(readable(there.input)[:TYPED].split()[:8])
    if pair.index % 4 == 2:  # as one types into a search box, which may end the word
        typed = " ".join(typed.split()[:2])[:-2]
    # what follows a word that is typed alone may depend on no other word: half are typed so, where
    # no answers are given
    alone = pair.index % 2 and pair.asked.query.free

    def again(job: Job, side: int) -> Job:
        new = f"(Request {_new_words(pair.draw, 2 * time + side)}."
        parts = [f"{new} {ALSO}{named})\n", pair.asked.query.text, f"\n{typed}"]
        text = f"{new}) {typed}" if alone else join(parts)
        return replace(job, query=replace(pair.asked.query, text=text))

    member, nonmember = again(pair.member, 0), again(pair.nonmember, 1)
    return replace(
        pair, index=index, member=member, nonmember=nonmember,
        asked=replace(pair.asked, query=member.query), out_first=bool(pair.draw >> time & 1),
    )  # fmt: skip


def _new_words(draw: int, at: int) -> str:
    rng = random.Random(f"{draw} {at}")
    words = ("".join(rng.choice(of) for of in SYLLABLES * 3) for _ in range(NEW_WORDS))
    return f"{rng.randrange(1000, 10_000)} {' '.join(words)}"


def _control(index: int, pairs: Pairs) -> Pair:
    late, number = divmod(-index, LATE)
    # no two shards ask the same late controls, which a cache could answer
    later = () if late == 0 else (LATER,) if late == 1 else (LATER, late)
    rng = generator(pairs.seed, "control", number, *later)
    if pairs.staged is not None:
        return _in_steps(index, pairs, pairs.staged, rng, bool(rng.integers(2)), alone=0)
    context, canary, asked = _draw(pairs, rng)
    full = _plant(context, canary) if pairs.beside is None else (canary,) * PLANTED
    return Pair(
        index, Job(full, asked.query), Job(context, asked.query), asked,
        canary, 0, int(rng.integers(1 << 31)), bool(rng.integers(2)),
    )  # fmt: skip


def _plant(context: Context, canary: Example) -> Context:
    # the canary in place of every example, or of as many as leave the context no longer
    size, room = len(readable(canary.input)), sum(len(readable(row.input)) for row in context)
    copies = min(len(context), max(1, max(room, ROOM) // max(1, size)))
    return (*(canary for _ in range(copies)), *context[copies:])


def _draw(pairs: Pairs, rng: np.random.Generator) -> tuple[Context, Example, RenderedQuery]:
    """A context without the canary, a canary, and the query about it."""
    rows = pairs.rows
    *chosen, spare = rng.choice(len(rows), size=pairs.shots + 1, replace=False)
    canary, asked = _query_about(pairs, rows[spare], rng)
    drawn = tuple(rows[i] for i in chosen)
    return drawn if pairs.beside is None else pairs.beside, canary, asked


def _query_about(
    pairs: Pairs, row: Example, rng: np.random.Generator
) -> tuple[Example, RenderedQuery]:
    attack, (rare, common) = pairs.attack, pairs.labels
    wrong = attack.canary.mislabels and row.label == rare
    canary = attack.canary.make(row, common if wrong else rare, rng)
    images = bool(images_in(canary.input)), bool(images_in(row.input))
    if images[0] != images[1]:
        kinds = ("an image", "texts") if images[0] else ("a text", "images")
        fits = "hex or natural" if images[0] else "patchwork, marked or natural"
        raise UsageError(
            f"the canary {attack.canary.name} is {kinds[0]}, and the rows hold {kinds[1]}; use "
            f"--canary {fits}."
        )
    asked = attack.query.render(canary, pairs.task, rare, common)
    allowed = pairs.task.answers(asked.query)
    if not asked.query.free and asked.member not in allowed:
        raise UsageError(
            f"the answer {asked.member!r} that speaks for a member is not one of "
            f"{', '.join(allowed)}; give the canary "
            "one of these labels (its option label), or use the query membership."
        )
    return canary, asked


def _insert(context: Sequence[Example], canary: Example, position: int, insertion: str) -> Context:
    if insertion == "add":
        return (*context, canary)
    if insertion != "replace":
        old = context[position]
        canary = Example(join((old.input, " ", canary.input)), old.label)
    return (*context[:position], canary, *context[position + 1 :])
