"""Train the pocket model from nothing: `python pocket_training/train.py --out FOLDER --minutes 90
--seed 7`.

One sequence holds one context and several turns; a mask lets each turn see the context and itself
only,
so one forward pass teaches every turn. Loss: mean over answer tokens + 0.3 x language-model loss on
a sample
of context tokens. Checkpoints every few minutes; the same command goes on from the last one.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from episodes import Episode, Maker, Texts
from forward import hidden_states
from tokenizer import learn
from tokenizers import Tokenizer
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

POSITIONS = 2048
MIDDLE, KNOWS = (
    3,
    0.5,
)  # after this layer a linear probe (not shipped) must tell presence; weight of its loss
FIRST = 4.0  # weight of an answer's first token


@dataclass(frozen=True)
class Plan:
    steps: int = 6800
    tokens: int = 14336  # per batch
    lr: float = 2e-3
    warmup: int = 300
    lm_weight: float = 0.3
    seed: int = 7
    # share of the run, smallest and largest context of that stage
    stages: tuple[tuple[float, int, int], ...] = (
        (0.3, 40, 160), (0.5, 40, 300), (0.56, 60, 600), (0.74, 40, 160), (0.88, 60, 600),
        (1.0, 60, 1500),
    )  # fmt: skip

    def size(self, progress: float, rng: np.random.Generator) -> int:
        _, low, high = next(s for s in self.stages if progress <= s[0])
        return int(math.exp(rng.uniform(math.log(low), math.log(high))))


def config(vocab: int, layers: int = 4) -> LlamaConfig:
    return LlamaConfig(
        vocab_size=vocab, hidden_size=192, intermediate_size=512, num_hidden_layers=layers,
        num_attention_heads=4, num_key_value_heads=4, max_position_embeddings=POSITIONS,
        tie_word_embeddings=True, rms_norm_eps=1e-5, pad_token_id=0, bos_token_id=1, eos_token_id=2,
        attention_bias=False, initializer_range=0.04,
    )  # fmt: skip


def pieces(tokenizer: Tokenizer) -> list[str]:
    """Printable tokens, for strings of random tokens."""
    texts = [tokenizer.decode([i]) for i in range(3, tokenizer.get_vocab_size())]
    return [t for t in texts if t and t.isprintable() and "\ufffd" not in t and '"' not in t]


@dataclass
class Sequence:
    ids: list[int]
    segment: list[int]  # 0: context, k: turn k
    position: list[int]
    answer: list[bool]  # this token is part of an answer
    known: list[int] = field(
        default_factory=list
    )  # after the text asked about: 1 it is there, 0 it is not; else -1


def encode(ep: Episode, tok: Tokenizer, rng: np.random.Generator) -> Sequence:
    context = tok.encode(ep.context).ids
    newline = tok.token_to_id("Ċ")
    seq = Sequence(
        list(context), [0] * len(context), spread(context, newline, rng), [False] * len(context)
    )
    seq.known += [-1] * len(context)
    start = seq.position[-1] + 1
    for k, (block, answer) in enumerate(ep.turns, 1):
        ask = tok.encode(block, add_special_tokens=False).ids
        reply = tok.encode(f" {answer}\n", add_special_tokens=False).ids
        seq.ids += ask + reply
        seq.segment += [k] * (len(ask) + len(reply))
        seq.position += range(start, start + len(ask) + len(reply))
        seq.answer += [False] * len(ask) + [True] * len(reply)
        canary, member = ep.probes.get(k - 1, ("", False))
        after = (
            len(tok.encode(block.rpartition(canary)[2], add_special_tokens=False).ids)
            if canary
            else 0
        )
        seq.known += [-1] * (len(ask) - after) + [int(member)] * after + [-1] * len(reply)
    return seq


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


@dataclass
class Batch:
    ids: torch.Tensor  # (tokens,), sequences one after the other
    position: torch.Tensor
    lengths: list[int]
    masks: list[torch.Tensor]  # additive, one (length, length) a sequence
    predict: torch.Tensor  # positions whose next token is scored
    answer: torch.Tensor  # of those: part of an answer
    first: torch.Tensor  # of those: the first token of an answer, the one that decides
    known: (
        torch.Tensor
    )  # (tokens,): what the middle of the model should know of the text asked about


def mask_of(seq: Sequence) -> torch.Tensor:
    """Causal; the context is seen by all, a turn by itself only."""
    segment = torch.tensor(seq.segment)
    seen = ((segment[None] == 0) | (segment[None] == segment[:, None])).tril()
    return torch.zeros(seen.shape, dtype=torch.bfloat16).masked_fill_(~seen, -1e9)


def pad(seq: Sequence, multiple: int = 64) -> Sequence:
    """Few distinct lengths: the matrix library prepares each shape once."""
    more = -len(seq.ids) % multiple
    return Sequence(
        seq.ids + [0] * more, seq.segment + [-1] * more, seq.position + [0] * more,
        seq.answer + [False] * more, seq.known + [-1] * more,
    )  # fmt: skip


def collate(seqs: list[Sequence], tokens: int, rng: np.random.Generator) -> Batch:
    rest = tokens - sum(len(s.ids) for s in seqs)
    blank = Sequence([0] * rest, [-1] * rest, [0] * rest, [False] * rest, [-1] * rest)
    rows = [*seqs, blank]
    ids = np.concatenate([s.ids for s in rows]).astype(np.int64)
    segment = np.concatenate(
        [
            np.where(np.array(s.segment, int) < 0, -1, np.array(s.segment, int) + 1000 * i)
            for i, s in enumerate(rows)
        ]
    )
    same = (segment[1:] == segment[:-1]) & (segment[1:] >= 0)
    reply = np.concatenate([s.answer for s in rows])[1:].astype(bool) & same
    start = reply & ~np.concatenate([[False], reply[:-1]])
    context = (segment[1:] % 1000 == 0) & same & (rng.random(len(reply)) < 0.25)
    predict = np.nonzero(reply | context)[0]
    predict = np.sort(
        rng.permutation(predict)[: max(128, len(predict) // 128 * 128)]
    )  # few distinct shapes
    return Batch(
        torch.from_numpy(ids), torch.tensor([p for s in rows for p in s.position]),
        [len(s.ids) for s in seqs], [mask_of(s) for s in seqs], torch.from_numpy(predict),
        torch.from_numpy(reply[predict]), torch.from_numpy(start[predict]),
        torch.tensor([k for s in rows for k in s.known]),
    )  # fmt: skip


def draw(maker: Maker, tok: Tokenizer, plan: Plan, step: int) -> Batch:
    rng = np.random.default_rng([plan.seed, 1, step])
    size = plan.size(step / plan.steps, rng)
    seqs: list[Sequence] = []
    room = plan.tokens
    while True:
        seq = pad(encode(maker.episode(rng, size), tok, rng))
        if len(seq.ids) > 2600 or seq.position[-1] >= POSITIONS:
            continue
        if len(seq.ids) > room:
            return collate(seqs, plan.tokens, rng)
        seqs.append(seq)
        room -= len(seq.ids)


def loss_of(model: LlamaForCausalLM, batch: Batch, lm_weight: float) -> tuple[torch.Tensor, float]:
    taps = {MIDDLE: torch.empty(0)}
    hidden = hidden_states(model, batch.ids, batch.position, batch.lengths, batch.masks, taps=taps)
    logits = hidden[batch.predict].bfloat16() @ model.lm_head.weight.bfloat16().T
    losses = F.cross_entropy(logits.float(), batch.ids[batch.predict + 1], reduction="none")
    first = batch.first[batch.answer]
    answer = (losses[batch.answer] * torch.where(first, FIRST, 1.0)).sum() / torch.where(
        first, FIRST, 1.0
    ).sum()
    rest = losses[~batch.answer].mean() if not bool(batch.answer.all()) else answer * 0
    told = batch.known >= 0
    guess = model.probe(taps[MIDDLE][told])[:, 0]
    knows = F.binary_cross_entropy_with_logits(guess, batch.known[told].float())
    return answer + lm_weight * rest + KNOWS * knows, float(answer.detach())


def save(model: LlamaForCausalLM, tok: Tokenizer, folder: Path) -> None:
    small = LlamaForCausalLM(model.config)
    small.load_state_dict(
        {k: v for k, v in model.state_dict().items() if not k.startswith("probe.")}
    )
    small.to(torch.bfloat16).save_pretrained(folder)
    PreTrainedTokenizerFast(
        tokenizer_object=tok,
        pad_token="<pad>",
        bos_token="<bos>",
        eos_token="<eos>",
        model_max_length=POSITIONS,
    ).save_pretrained(folder)


SECOND = Plan(
    steps=1750,
    tokens=8192,
    lr=1e-3,
    warmup=60,
    stages=((0.78, 40, 160), (0.88, 60, 500), (1.0, 60, 1500)),
)


def grown(folder: Path, layers: int, vocab: int) -> LlamaForCausalLM:
    """The model of a first leg with new layers on top that change nothing yet:

    their outputs start at zero.
    """
    model = LlamaForCausalLM(config(vocab, layers))
    saved = torch.load(folder / "checkpoint.pt", weights_only=True)["model"]
    model.load_state_dict(saved, strict=False)
    for layer in model.model.layers:
        if f"model.layers.{layer.self_attn.layer_idx}.self_attn.o_proj.weight" not in saved:
            torch.nn.init.zeros_(layer.self_attn.o_proj.weight)
            torch.nn.init.zeros_(layer.mlp.down_proj.weight)
    return model


def main() -> None:
    args = argparse.ArgumentParser()
    args.add_argument("--out", type=Path, required=True)
    args.add_argument(
        "--grow",
        type=Path,
        help="folder of the first leg: start the second from it, two layers deeper",
    )
    args.add_argument("--steps", type=int)
    args.add_argument(
        "--minutes", type=float, default=1e9, help="stop with a checkpoint after this long"
    )
    args.add_argument("--threads", type=int, default=0)
    args.add_argument("--seed", type=int, default=Plan.seed)
    opt = args.parse_args()
    if opt.threads:
        torch.set_num_threads(opt.threads)
    plan = SECOND if opt.grow else Plan()
    plan = replace(plan, steps=opt.steps or plan.steps, seed=opt.seed + bool(opt.grow))
    opt.out.mkdir(parents=True, exist_ok=True)
    path = opt.out / "tokenizer-learnt.json"
    if opt.grow:
        path.write_bytes((opt.grow / path.name).read_bytes())
    if not path.exists():
        learn(2048, plan.seed).save(str(path))
    tok = Tokenizer.from_file(str(path))
    torch.manual_seed(plan.seed)
    vocab = tok.get_vocab_size()
    model = grown(opt.grow, 6, vocab) if opt.grow else LlamaForCausalLM(config(vocab))
    run(plan, model, tok, opt.out, opt.minutes)


def run(plan: Plan, model: LlamaForCausalLM, tok: Tokenizer, out: Path, minutes: float) -> None:
    print(f"{sum(p.numel() for p in model.parameters()):,} parameters", flush=True)
    model.probe = torch.nn.Linear(model.config.hidden_size, 1)
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=plan.lr, betas=(0.9, 0.98), weight_decay=0.05
    )
    step, state = 0, out / "checkpoint.pt"
    if state.exists():
        saved = torch.load(state, weights_only=True)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        step = saved["step"]
    maker, begin, smooth, tokens, last = Maker(Texts(pieces(tok))), time.time(), 0.0, 0, time.time()
    while step < plan.steps and time.time() - begin < 60 * minutes:
        batch = draw(maker, tok, plan, step)
        rate = plan.lr * min(1.0, (step + 1) / plan.warmup)
        rate *= 0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * step / plan.steps))
        for group in optimizer.param_groups:
            group["lr"] = rate
        optimizer.zero_grad(set_to_none=True)
        loss, answer = loss_of(model, batch, plan.lm_weight)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        step, tokens = step + 1, tokens + sum(batch.lengths)
        smooth = answer if smooth == 0 else 0.98 * smooth + 0.02 * answer
        if step % 50 == 0:
            speed = tokens / (time.time() - begin)
            print(
                json.dumps(
                    {"step": step, "answer_loss": round(smooth, 4), "tokens_per_s": round(speed)}
                ),
                flush=True,
            )
        if time.time() - last > 240 or step == plan.steps:
            checkpoint(model, optimizer, tok, step, out)
            last = time.time()
    checkpoint(model, optimizer, tok, step, out)


def checkpoint(
    model: LlamaForCausalLM, optimizer: torch.optim.Optimizer, tok: Tokenizer, step: int, out: Path
) -> None:
    partial = out / "checkpoint.partial"
    torch.save(
        {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}, partial
    )
    partial.replace(out / "checkpoint.pt")
    save(model, tok, out / "model")


if __name__ == "__main__":
    main()
