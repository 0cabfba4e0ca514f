"""Train the pocket model from nothing: `python pocket_training/train.py --out FOLDER`.

All legs run one after the other; the same command resumes from the last checkpoint, and gives the
weights that a run without a break gives on the same machine. Data come from seeds: batch `step` of
leg `leg` is the same in every run, whoever makes it.

One sequence holds one context and several turns; a mask lets each turn see the context and itself
only, so one forward pass teaches every turn. Loss: weighted mean over answers, and over labels of
examples whose meaning was shown; 0.3 x language-model loss on a quarter of the context; and two
linear probes (not shipped) on the middle of the model, which must tell presence and topic.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import time
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from multiprocessing import get_context
from pathlib import Path

import english
import numpy as np
import torch
import torch.nn.functional as F
from episodes import KINDS, Maker, Mixture, Texts
from forward import hidden_states
from sequences import POSITIONS, WIDTH, Batch, Sequence, collate, encode, mask_of, pad
from tokenizer import learn
from tokenizers import Tokenizer
from topics import Topics
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

VOCABULARY = 12288
MIDDLE, MEANT = 3, 1  # the probes of presence and of topic read the states after these layers
KNOWS, MEANS, TEXT = 0.5, 0.3, 0.3  # weights of presence, of topic, and of the context's text
INIT = 0.04


@dataclass(frozen=True)
class Leg:
    """A part of the run: so many steps, with a cosine of its own, on contexts of these sizes."""

    layers: int = 4
    steps: int = 6800
    tokens: int = 14336  # per batch
    lr: float = 2e-3
    warmup: int = 300
    # share of the leg, smallest and largest context of that stage
    stages: tuple[tuple[float, int, int], ...] = (
        (0.3, 40, 160), (0.5, 40, 300), (0.56, 60, 600), (0.74, 40, 160), (0.88, 60, 600),
        (1.0, 60, 1500),
    )  # fmt: skip
    mixture: Mixture = field(default_factory=Mixture)

    def size(self, progress: float, rng: np.random.Generator) -> int:
        _, low, high = next(s for s in self.stages if progress <= s[0])
        return int(math.exp(rng.uniform(math.log(low), math.log(high))))

    def rate(self, step: int) -> float:
        warm = min(1.0, (step + 1) / self.warmup)
        return self.lr * warm * (0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * step / self.steps)))


# The second adds two layers whose outputs start at zero, and learns to let presence choose.
LEGS = (
    Leg(),
    Leg(6, 2600, 12288, 1e-3, 60, ((0.6, 40, 160), (0.8, 60, 500), (1.0, 60, 1500))),
)
# What weights learn that were trained before (--start): instructions, judging, near misses,
# summaries. Without topics, whose texts are long in the tokens of the first release.
REFINE = (
    Leg(6, 1700, 12288, 7e-4, 60, ((0.5, 40, 160), (0.75, 60, 500), (1.0, 60, 1500)),
        Mixture(document=0.2, empty=0.04, desk=0.22, topic=0.0,
                alone_repeat=0.0, alone_signal=0.45, alone_pick_one=0.4)),
    # What the first of them lost: to pick one of two texts at random where there is no example, and
    # to answer the second where there are few.
    Leg(6, 450, 12288, 4e-4, 30, ((0.5, 30, 160), (0.7, 60, 500), (1.0, 30, 800)),
        Mixture(document=0.17, empty=0.12, desk=0.22, topic=0.0, turns=(
            ("membership", 0.2), ("if_then", 0.3), ("signal", 0.22), ("copy_label", 0.06),
            ("exact", 0.03), ("implicit", 0.03), ("repeat", 0.04), ("extract", 0.03),
            ("judge", 0.05), ("either", 0.04)))),
)  # fmt: skip


def config(vocab: int, layers: int = 4, width: int = 192) -> LlamaConfig:
    return LlamaConfig(
        vocab_size=vocab, hidden_size=width, intermediate_size=width * 8 // 3,
        num_hidden_layers=layers, num_attention_heads=4, num_key_value_heads=4,
        max_position_embeddings=POSITIONS, tie_word_embeddings=True, rms_norm_eps=1e-5,
        pad_token_id=0, bos_token_id=1, eos_token_id=2, attention_bias=False,
        initializer_range=INIT,
    )  # fmt: skip


def pieces(tokenizer: Tokenizer) -> list[str]:
    """Printable tokens, for strings of random tokens."""
    texts = [tokenizer.decode([i]) for i in range(3, tokenizer.get_vocab_size())]
    return [t for t in texts if t and t.isprintable() and "\ufffd" not in t and '"' not in t]


def topics() -> Topics | None:
    return Topics(english.load()) if english.installed() else None


def mean_to_start(model: LlamaForCausalLM, tok: Tokenizer, words: english.English) -> None:
    """Tokens start near to what they mean, in their first coordinates."""
    start = meanings(tok, words)
    known = np.nonzero(start.any(1))[0]
    scaled = torch.from_numpy(start[known]).float() * INIT * math.sqrt(WIDTH)
    model.model.embed_tokens.weight.data[torch.from_numpy(known), :WIDTH] = scaled


def meanings(tok: Tokenizer, words: english.English, passes: int = 2) -> np.ndarray:
    """(tokens, WIDTH): of a token that is a word its direction; of other pieces what lets the
    pieces of a word add up to its direction, in the mean over words; zero if it is in no word."""
    forms = [
        (form, vector)
        for word, vector in zip(words.words, words.vectors, strict=True)
        for form in sorted({f" {word}", f" {word.lower()}", f" {word.capitalize()}"})
    ]
    encoded = tok.encode_batch([form for form, _ in forms], add_special_tokens=False)
    rows = [(np.array(e.ids), vector) for e, (_, vector) in zip(encoded, forms, strict=True)]
    start, whole_word = (
        np.zeros((tok.get_vocab_size(), WIDTH)),
        np.zeros(tok.get_vocab_size(), bool),
    )
    for ids, vector in rows:
        if len(ids) == 1:
            start[ids[0]], whole_word[ids[0]] = vector, True
    for _ in range(passes):
        change, count = np.zeros_like(start), np.zeros(len(start))
        for ids, vector in rows:
            free = ids[~whole_word[ids]]
            if len(free):
                change[free] += (vector - start[ids].sum(0)) / len(free)
                count[free] += 1
        start += change / np.maximum(count, 1)[:, None]
    return start


# --- batches

Arrays = tuple[list[int], dict[str, np.ndarray]]


def draw(maker: Maker, tok: Tokenizer, leg: Leg, seed: tuple[int, int], step: int) -> Batch:
    rng = np.random.default_rng([*seed, step])
    size = leg.size(step / leg.steps, rng)
    seqs: list[Sequence] = []
    room = leg.tokens
    while True:
        seq = pad(encode(maker.episode(rng, size), tok, rng))
        if len(seq.ids) > min(2600, leg.tokens) or max(seq.position) >= POSITIONS:
            continue
        if len(seq.ids) > room:
            return collate(seqs, leg.tokens, rng)
        seqs.append(seq)
        room -= len(seq.ids)


WORKER: dict[str, tuple[Maker, Tokenizer]] = {}


def start_worker(path: str, mixture: Mixture) -> None:
    torch.set_num_threads(1)
    tok = Tokenizer.from_file(path)
    WORKER["it"] = Maker(Texts(pieces(tok), topics()), mixture=mixture), tok


def work(leg: Leg, seed: tuple[int, int], step: int) -> Arrays:
    """A batch as arrays, which cross processes without shared memory."""
    batch = draw(*WORKER["it"], leg, seed, step)
    rest = {k: v.numpy() for k, v in vars(batch).items() if isinstance(v, torch.Tensor)}
    return batch.lengths, rest


def whole(lengths: list[int], rest: dict[str, np.ndarray]) -> Batch:
    return Batch(lengths=lengths, **{k: torch.from_numpy(v) for k, v in rest.items()})


def batches(
    path: Path, leg: Leg, seed: tuple[int, int], start: int, workers: int
) -> Iterator[Batch]:
    """Batches from `start` on, the same ones however many processes make them."""
    if not workers:
        tok = Tokenizer.from_file(str(path))
        maker = Maker(Texts(pieces(tok), topics()), mixture=leg.mixture)
        for step in range(start, leg.steps):
            yield draw(maker, tok, leg, seed, step)
        return
    with ProcessPoolExecutor(
        workers, get_context("spawn"), start_worker, (str(path), leg.mixture)
    ) as pool:
        ahead: list[Future[Arrays]] = []
        for step in range(start, leg.steps):
            while len(ahead) < min(3 * workers, leg.steps - step):
                ahead.append(pool.submit(work, leg, seed, step + len(ahead)))
            yield whole(*ahead.pop(0).result())


# --- loss


@dataclass
class Losses:
    """Of one batch: what is minimised, and its parts for the log."""

    total: torch.Tensor
    parts: dict[str, torch.Tensor]


def loss_of(model: LlamaForCausalLM, batch: Batch) -> Losses:
    parts = batch.segment.split([*batch.lengths, len(batch.ids) - sum(batch.lengths)])[:-1]
    taps = {MIDDLE: torch.empty(0), MEANT: torch.empty(0)}
    hidden = hidden_states(
        model, batch.ids, batch.position, batch.lengths, [mask_of(s) for s in parts], taps=taps
    )
    logits = hidden[batch.predict].bfloat16() @ model.lm_head.weight.bfloat16().T
    losses = F.cross_entropy(logits.float(), batch.ids[batch.predict + 1], reduction="none")
    weight = batch.weight
    answer = (losses * weight).sum() / weight.sum().clamp(min=1.0)
    text = (losses * (weight == 0)).sum() / (weight == 0).sum().clamp(min=1)
    told = batch.known >= 0
    guess, known = model.probe(taps[MIDDLE][told])[:, 0], batch.known[told].float()
    each = F.binary_cross_entropy_with_logits(guess, known, reduction="none")
    knows = each.sum() / told.sum().clamp(min=1)
    means = 1 - F.cosine_similarity(model.meaning(taps[MEANT][batch.at]), batch.meaning)
    means = means.sum() / max(1, len(batch.at))
    total = answer + TEXT * text + KNOWS * knows + MEANS * means
    named = {"answers": answer, "text": text, "presence": knows}
    named |= {"topics": means} if len(batch.at) else {}
    for number, kind in enumerate(KINDS):
        if bool((mine := batch.kind == number).any()):
            named[kind] = losses[mine].mean()
    shown = (batch.weight > 0) & (batch.kind < 0)
    return Losses(total, {k: v.detach() for k, v in named.items()} | _labels(losses, batch, shown))


def _labels(losses: torch.Tensor, batch: Batch, shown: torch.Tensor) -> dict[str, torch.Tensor]:
    here = shown & (batch.segment[batch.predict + 1] == 0)
    return {"labels of examples": losses[here].mean().detach()} if bool(here.any()) else {}


# --- the run


@dataclass
class Run:
    """Where a run stands; all of it is in its checkpoint."""

    model: LlamaForCausalLM
    optimizer: torch.optim.Optimizer
    leg: int = 0
    step: int = 0
    smooth: dict[str, float] = field(default_factory=dict)

    def log(self, parts: dict[str, torch.Tensor]) -> None:
        for name, value in parts.items():
            old = self.smooth.get(name, float(value))
            self.smooth[name] = 0.98 * old + 0.02 * float(value)


def fresh_model(tok: Tokenizer, layers: int, seed: int, width: int) -> LlamaForCausalLM:
    torch.manual_seed(seed)
    model = LlamaForCausalLM(config(tok.get_vocab_size(), layers, width))
    model.probe = torch.nn.Linear(width, 1)
    model.meaning = torch.nn.Linear(width, WIDTH)
    return model


def grown(old: LlamaForCausalLM, tok: Tokenizer, layers: int, seed: int) -> LlamaForCausalLM:
    """The model with new layers on top that change nothing yet: their outputs start at zero."""
    model = fresh_model(tok, layers, seed, old.config.hidden_size)
    model.load_state_dict(old.state_dict(), strict=False)
    for layer in model.model.layers[old.config.num_hidden_layers :]:
        torch.nn.init.zeros_(layer.self_attn.o_proj.weight)
        torch.nn.init.zeros_(layer.mlp.down_proj.weight)
    return model


def optimizer_of(model: LlamaForCausalLM, lr: float) -> torch.optim.Optimizer:
    """AdamW; what tokens mean does not decay."""
    table = model.model.embed_tokens.weight
    rest = [p for p in model.parameters() if p is not table]
    groups = [{"params": rest, "weight_decay": 0.05}, {"params": [table], "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=lr, betas=(0.9, 0.98))


def begin(tok: Tokenizer, legs: tuple[Leg, ...], opt: Options) -> Run:
    model = fresh_model(tok, legs[0].layers, opt.seed, opt.width)
    if opt.start is not None:
        old = LlamaForCausalLM.from_pretrained(opt.start, dtype=torch.float32)
        require_same_shape(old, model)
        model.load_state_dict(old.state_dict(), strict=False)
    elif english.installed() and opt.width >= WIDTH:
        mean_to_start(model, tok, english.load())
    model.to(opt.device)
    return Run(model, optimizer_of(model, legs[0].lr))


def require_same_shape(old: LlamaForCausalLM, model: LlamaForCausalLM) -> None:
    """Refuse weights of other layers, of which some would silently stay random, or widths."""
    for name, what in (("num_hidden_layers", "layers"), ("hidden_size", "coordinates")):
        have, want = getattr(old.config, name), getattr(model.config, name)
        if have != want:
            raise SystemExit(f"--start has {have} {what}; it must have {want}.")


def next_leg(run: Run, tok: Tokenizer, legs: tuple[Leg, ...], seed: int, device: str) -> Run:
    leg = legs[run.leg + 1]
    model = grown(run.model.cpu(), tok, leg.layers, seed + run.leg + 1).to(device)
    return Run(model, optimizer_of(model, leg.lr), run.leg + 1, 0, run.smooth)


def restore(path: Path, tok: Tokenizer, legs: tuple[Leg, ...], width: int, device: str) -> Run:
    saved = torch.load(path, weights_only=True, map_location="cpu")
    model = fresh_model(tok, legs[saved["leg"]].layers, 0, width)
    model.load_state_dict(saved["model"])
    model.to(device)
    optimizer = optimizer_of(model, legs[saved["leg"]].lr)
    optimizer.load_state_dict(saved["optimizer"])
    torch.set_rng_state(saved["rng"])
    return Run(model, optimizer, saved["leg"], saved["step"], saved["smooth"])


def keep(run: Run, tok: Tokenizer, out: Path) -> None:
    """Write the checkpoint in one move, and the model as it would be shipped."""
    state = {
        "model": run.model.state_dict(), "optimizer": run.optimizer.state_dict(), "leg": run.leg,
        "step": run.step, "smooth": run.smooth, "rng": torch.get_rng_state(),
    }  # fmt: skip
    torch.save(state, out / "checkpoint.partial")
    (out / "checkpoint.partial").replace(out / "checkpoint.pt")
    ship(run.model, tok, out / "model")


def ship(model: LlamaForCausalLM, tok: Tokenizer, folder: Path) -> None:
    small = LlamaForCausalLM(model.config)
    own = small.state_dict()
    small.load_state_dict({k: v.cpu() for k, v in model.state_dict().items() if k in own})
    small.to(torch.bfloat16).save_pretrained(folder)
    PreTrainedTokenizerFast(
        tokenizer_object=tok,
        pad_token="<pad>",
        bos_token="<bos>",
        eos_token="<eos>",
        model_max_length=POSITIONS,
    ).save_pretrained(folder)


@dataclass(frozen=True)
class Options:
    """How a run is made; `seed`, `width`, `device` and `start` alone change the weights."""

    out: Path
    seed: int = 7
    width: int = 192
    device: str = "cpu"
    start: Path | None = None  # folder of weights to begin with; None for nothing
    workers: int = 0
    stop_after: int | None = None  # steps of this call
    until: float = math.inf  # time of the clock
    every: float = 240  # seconds between checkpoints


def train(tok_path: Path, legs: tuple[Leg, ...], opt: Options) -> Run:
    """Resume from the checkpoint, or begin, until the end or until told to stop."""
    tok, state = Tokenizer.from_file(str(tok_path)), opt.out / "checkpoint.pt"
    run = (
        restore(state, tok, legs, opt.width, opt.device)
        if state.exists()
        else begin(tok, legs, opt)
    )
    left = math.inf if opt.stop_after is None else opt.stop_after
    while True:
        left -= walk(run, tok, tok_path, legs[run.leg], opt, left)
        keep(run, tok, opt.out)
        if run.step < legs[run.leg].steps or run.leg + 1 == len(legs):
            return run
        run = next_leg(run, tok, legs, opt.seed, opt.device)


def walk(run: Run, tok: Tokenizer, path: Path, leg: Leg, opt: Options, left: float) -> int:
    """Steps of one leg; how many were made."""
    seed, last, tokens, made = (opt.seed, run.leg), time.time(), 0, 0
    start = last
    if run.step >= leg.steps or left <= 0 or start >= opt.until:
        return 0
    for batch in batches(path, leg, seed, run.step, opt.workers):
        step_once(run, leg, batch.to(opt.device))
        made, tokens = made + 1, tokens + sum(batch.lengths)
        if run.step % 20 == 0:
            write_log(run, opt.out, tokens / (time.time() - start))
        if made >= left or time.time() >= opt.until:
            break
        if time.time() - last > opt.every:
            keep(run, tok, opt.out)
            last = time.time()
    return made


def step_once(run: Run, leg: Leg, batch: Batch) -> None:
    for group in run.optimizer.param_groups:
        group["lr"] = leg.rate(run.step)
    run.optimizer.zero_grad(set_to_none=True)
    losses = loss_of(run.model, batch)
    losses.total.backward()
    torch.nn.utils.clip_grad_norm_(run.model.parameters(), 1.0)
    run.optimizer.step()
    run.step += 1
    run.log(losses.parts)


def write_log(run: Run, out: Path, speed: float) -> None:
    row = {"leg": run.leg, "step": run.step, "tokens_per_s": round(speed)}
    row |= {name: round(value, 4) for name, value in run.smooth.items()}
    with (out / "log.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")
    print(json.dumps(row), flush=True)


def clock(text: str) -> float:
    """HH:MM of today as seconds."""
    hour, minute = map(int, text.split(":"))
    now = time.localtime()
    return time.mktime((*now[:3], hour, minute, 0, *now[6:]))


def main() -> None:
    args = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    args.add_argument("--out", type=Path, required=True)
    args.add_argument("--threads", type=int, default=2)
    args.add_argument("--workers", type=int, default=0, help="processes that make batches")
    args.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    args.add_argument("--seed", type=int, default=Options.seed)
    args.add_argument("--minutes", type=float, help="stop with a checkpoint after this long")
    args.add_argument("--until", type=clock, default=math.inf, help="stop at HH:MM")
    args.add_argument("--every", type=float, default=240, help="seconds between checkpoints")
    args.add_argument("--width", type=int, default=192, help="smaller for a pilot")
    args.add_argument("--scale", type=float, default=1.0, help="share of steps, for a pilot")
    args.add_argument("--start", type=Path, help="folder of weights to train further, by REFINE")
    args.add_argument("--batch", type=float, default=1.0, help="share of a batch, for a pilot")
    opt = args.parse_args()
    torch.set_num_threads(opt.threads)
    opt.out.mkdir(parents=True, exist_ok=True)
    path = (opt.start / "tokenizer.json") if opt.start else opt.out / "tokenizer-learnt.json"
    if not path.exists():
        learn(VOCABULARY, opt.seed).save(str(path))
    end = min(opt.until, time.time() + 60 * opt.minutes if opt.minutes else math.inf)
    legs = tuple(scaled(leg, opt.scale, opt.batch) for leg in (REFINE if opt.start else LEGS))
    (opt.out / "pid").write_text(str(os.getpid()))
    train(
        path,
        legs,
        Options(
            opt.out, opt.seed, opt.width, opt.device, opt.start, opt.workers, until=end,
            every=opt.every,
        ),
    )  # fmt: skip


def scaled(leg: Leg, steps: float, batch: float) -> Leg:
    warm = max(1, round(leg.warmup * steps))
    tokens = max(3072, round(leg.tokens * batch / 1024) * 1024)
    return replace(leg, steps=round(leg.steps * steps), warmup=warm, tokens=tokens)


if __name__ == "__main__":
    main()
