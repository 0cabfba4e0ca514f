"""Episodes as numbers: tokens, what each of them is worth, and what the probes must tell there."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from episodes import KINDS, Episode
from tokenizers import Tokenizer

POSITIONS = 2048
FIRST = 4.0  # weight of an answer's first token
LONG = 12  # from here on the tokens of an answer weigh less, so that long answers do not rule
SHOWN = 1.0  # weight of the label of an example whose meaning was shown before
WIDTH = 48  # of the directions of meaning


@dataclass
class Sequence:
    """One context and its turns.

    Attributes:
        ids: Tokens.
        segment: 0 for the context, k for turn k, -1 for padding.
        position: Position of each token.
        weight: How much its loss counts; 0 where it is no answer.
        kind: Number of the turn's kind at the first token of an answer, else -1.
        known: Within a text asked about: 1 while it agrees with a text of the context; behind it:
            1 if it is there. 0 for the contrary, -1 elsewhere.
        meanings: Tokens at which the direction of a text must be known, and the direction.
    """

    ids: list[int]
    segment: list[int]
    position: list[int]
    weight: list[float]
    kind: list[int]
    known: list[int]
    meanings: list[tuple[int, np.ndarray]]


@dataclass
class Batch:
    """Sequences one behind the other; all arrays but `lengths` are tensors.

    Attributes:
        ids: (tokens,).
        segment: (tokens,), as in Sequence.
        position: (tokens,).
        lengths: Tokens of each sequence.
        predict: Tokens whose next token is scored.
        weight: (predict,) weights of answers; 0 for text of a context.
        kind: (predict,) kinds of first tokens of answers, else -1.
        known: (tokens,).
        at: Tokens at which a direction must be known.
        meaning: (at, WIDTH) directions.
    """

    ids: torch.Tensor
    segment: torch.Tensor
    position: torch.Tensor
    lengths: list[int]
    predict: torch.Tensor
    weight: torch.Tensor
    kind: torch.Tensor
    known: torch.Tensor
    at: torch.Tensor
    meaning: torch.Tensor

    def to(self, device: str) -> Batch:
        moved = {k: v.to(device) for k, v in vars(self).items() if isinstance(v, torch.Tensor)}
        return Batch(lengths=self.lengths, **moved)


def encode(ep: Episode, tok: Tokenizer, rng: np.random.Generator) -> Sequence:
    context = tok.encode(ep.context)
    size, newline = len(context.ids), tok.token_to_id("Ċ")
    seq = Sequence(
        list(context.ids), [0] * size, spread(context.ids, newline, rng), [0.0] * size,
        [-1] * size, [-1] * size, [],
    )  # fmt: skip
    ends = np.array([end for _, end in context.offsets])
    for start, end in ep.labels:
        first, last = np.searchsorted(ends, (start + 1, end))
        seq.weight[first : last + 1] = [SHOWN] + [SHOWN / 4] * (last - first)
    for at, meaning in ep.meanings:
        seq.meanings.append((int(np.searchsorted(ends, at)), meaning))
    start = seq.position[-1] + 1
    for k, (block, answer) in enumerate(ep.turns):
        turn(seq, tok, ep, k, block, answer, start)
    return seq


def turn(
    seq: Sequence, tok: Tokenizer, ep: Episode, k: int, block: str, answer: str, start: int
) -> None:
    asked = tok.encode(block, add_special_tokens=False)
    reply = tok.encode(f" {answer}\n", add_special_tokens=False).ids
    asks, replies = len(asked.ids), len(reply)
    if k in ep.asked:
        seq.meanings.append((len(seq.ids) + asks - 1, ep.asked[k]))
    seq.ids += asked.ids + reply
    seq.segment += [k + 1] * (asks + replies)
    seq.position += range(start, start + asks + replies)
    tail = min(1.0, LONG / replies)
    seq.weight += [0.0] * asks + [FIRST] + [tail] * (replies - 1)
    seq.kind += [-1] * asks + [KINDS.index(ep.kinds[k])] + [-1] * (replies - 1)
    probes = ep.probes.get(k, [])
    seq.known += agreement(block, asked.offsets, probes, ep.inputs) + [-1] * replies


def agreement(
    block: str, offsets: list[tuple[int, int]], probes: list[tuple[str, bool]], inputs: list[str]
) -> list[int]:
    """Within a text asked about: does it agree so far with a text of the context? Behind a single
    one: is it there?"""
    known = [-1] * len(offsets)
    for text, member in probes:
        start = block.rfind(text)
        if start < 0 or not text:
            continue
        agrees = True
        for i, (_, end) in enumerate(offsets):
            if start < end <= start + len(text):
                part = block[start:end]
                agrees = agrees and (member or any(part in row for row in inputs))
                known[i] = int(agrees)
            elif end > start + len(text) and len(probes) == 1:
                known[i] = int(member)
    return known


def spread(ids: list[int], newline: int, rng: np.random.Generator) -> list[int]:
    """Positions with gaps at line ends in half of the cases, so that short contexts teach long
    distances.
    """
    steps = np.ones(len(ids), int)
    room = POSITIONS - 400 - len(ids)
    lines = [i for i, t in enumerate(ids) if t == newline]
    if rng.random() < 0.5 and room > 0 and lines:
        total = int(rng.integers(0, room))
        steps[rng.choice(lines, size=min(4, len(lines)), replace=False)] += total // 4
    return (np.cumsum(steps) - 1).tolist()


def mask_of(segment: torch.Tensor, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    """Additive; causal, the context is seen by all, a turn by itself only."""
    seen = ((segment[None] == 0) | (segment[None] == segment[:, None])).tril()
    return torch.zeros(seen.shape, dtype=dtype, device=segment.device).masked_fill_(~seen, -1e9)


def pad(seq: Sequence, multiple: int = 64) -> Sequence:
    """Few distinct lengths: the matrix library prepares each shape once."""
    more = -len(seq.ids) % multiple
    return Sequence(
        seq.ids + [0] * more, seq.segment + [-1] * more, seq.position + [0] * more,
        seq.weight + [0.0] * more, seq.kind + [-1] * more, seq.known + [-1] * more, seq.meanings,
    )  # fmt: skip


def collate(seqs: list[Sequence], tokens: int, rng: np.random.Generator) -> Batch:
    """Sequences and padding, `tokens` in all; a quarter of the context's text is scored as well."""
    rest = tokens - sum(len(s.ids) for s in seqs)
    blank = Sequence(
        [0] * rest, [-1] * rest, [0] * rest, [0.0] * rest, [-1] * rest, [-1] * rest, []
    )
    rows = [*seqs, blank]
    ids, segment, weight, kind, known, position = (
        np.concatenate([np.asarray(getattr(s, name), form) for s in rows])
        for name, form in (
            ("ids", np.int64), ("segment", np.int64), ("weight", np.float32), ("kind", np.int64),
            ("known", np.int64), ("position", np.int64),
        )
    )  # fmt: skip
    owner = np.repeat(np.arange(len(rows)), [len(s.ids) for s in rows])
    same = (segment[1:] == segment[:-1]) & (owner[1:] == owner[:-1]) & (segment[1:] >= 0)
    context = (segment[1:] == 0) & same & (rng.random(tokens - 1) < 0.25)
    predict = np.nonzero(((weight[1:] > 0) & same) | context)[0]
    few = rng.permutation(predict)[: max(128, len(predict) // 128 * 128)]  # few distinct shapes
    predict = np.sort(few)
    starts = np.cumsum([0, *(len(s.ids) for s in seqs)])
    meanings = [(int(starts[i]) + at, v) for i, s in enumerate(seqs) for at, v in s.meanings]
    return Batch(
        torch.from_numpy(ids), torch.from_numpy(segment), torch.from_numpy(position),
        [len(s.ids) for s in seqs], torch.from_numpy(predict),
        torch.from_numpy(weight[predict + 1]), torch.from_numpy(kind[predict + 1]),
        torch.from_numpy(known), torch.tensor([at for at, _ in meanings], dtype=torch.long),
        torch.from_numpy(np.array([v for _, v in meanings], np.float32).reshape(-1, WIDTH)),
    )  # fmt: skip
