"""Train the pocket vision model from nothing: `python pocket_training/vision/train_vision.py --out
FOLDER`.

Two legs. The eye: the vision tower and the projector learn to tell shape, texture and colour of a
figure, and to give a
thumbnail back, each image token on its own; the heads that are asked are thrown away. The tongue:
with the tower frozen, the
language model and the projector learn to name an image from examples. One sequence holds a context,
whose every label is
asked for, and several turns, each of which sees the context and itself only. A linear map (not
shipped) of the states in the
middle of the model must give back the features of an image where its name is due and where its name
stands, and the attention
behind it begins as a likeness (README.md has what came without either). Checkpoints every few
minutes; the same
command goes on from the last one.
"""

from __future__ import annotations

import argparse
import copy
import json
import math
import re
import time
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from image_episodes import MARK, Bank, Episode, Maker
from image_tokenizer import learn
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer
from transformers import (
    CLIPVisionConfig,
    LlamaConfig,
    LlavaConfig,
    LlavaForConditionalGeneration,
    LlavaProcessor,
    PreTrainedTokenizerFast,
)  # fmt: skip

from leakbound.tasks.synthetic_images import COLOURS, SHAPES, SIDE, TEXTURES, mark, patchwork

POSITIONS = 1024
PATCH = 16
MIDDLE = 2  # layers before the states that the aid reads
TOKENS = (SIDE // PATCH) ** 2  # an image
MEAN, STD = 0.35, 0.28
WEIGHT = {"unknown": 0.3, "member": 2.0, "nonmember": 2.0}  # of an answer; of others 1
FIRST_SEEN, END, MORE = (
    0.2,
    0.05,
    0.3,
)  # of: a class's first row, line ends, later pieces of a label


@dataclass(frozen=True)
class Plan:
    eye_steps: int = 4000
    eye_batch: int = 192
    steps: int = 4000
    tokens: int = 3200  # a batch
    lr: float = 1.5e-3
    warmup: int = 200
    seed: int = 7
    each: int = 120  # images of a class in the bank

    def shape(self, progress: float, rng: np.random.Generator) -> tuple[int, int]:
        """Ways and rows of the episodes of one batch:

        from two classes to five, from short to long.
        """
        if progress < 0.12:
            return 2, int(rng.integers(4, 11))
        if progress < 0.25:
            return int(rng.integers(2, 4)), int(rng.integers(4, 13))
        count = int(rng.integers(0, 21)) if rng.random() < 0.6 else int(rng.integers(1, 7))
        return (5 if rng.random() < 0.6 else int(rng.integers(2, 6))), count


def config(vocab: int) -> LlavaConfig:
    vision = CLIPVisionConfig(
        hidden_size=128, intermediate_size=384, num_hidden_layers=4, num_attention_heads=4,
        image_size=SIDE, patch_size=PATCH, projection_dim=128,
    )  # fmt: skip
    text = LlamaConfig(
        vocab_size=vocab, hidden_size=160, intermediate_size=432, num_hidden_layers=4,
        num_attention_heads=4, num_key_value_heads=4, max_position_embeddings=POSITIONS,
        rms_norm_eps=1e-5, pad_token_id=0, bos_token_id=1, eos_token_id=2, initializer_range=0.04,
        tie_word_embeddings=True,
    )  # fmt: skip
    return LlavaConfig(
        vision_config=vision,
        text_config=text,
        image_token_id=3,
        image_seq_length=TOKENS,
        vision_feature_layer=-1,
        tie_word_embeddings=True,
    )


def normal(images: list[np.ndarray] | np.ndarray) -> torch.Tensor:
    """(n, 3, SIDE, SIDE) as the processor makes them."""
    pixels = torch.from_numpy(np.stack(images)).permute(0, 3, 1, 2).float() / 255
    return (pixels - MEAN) / STD


# --- the eye


def look(model: LlavaForConditionalGeneration, pixels: torch.Tensor) -> torch.Tensor:
    """(n, TOKENS, tower width) what the projector gets."""
    return model.model.vision_tower(pixels, output_hidden_states=True).hidden_states[-1][:, 1:]


def eye_batch(
    bank: Bank, size: int, rng: np.random.Generator
) -> tuple[list[np.ndarray], torch.Tensor]:
    looks = rng.integers(0, len(bank.looks), size)
    images = [bank.one(i, rng) for i in looks]
    targets = bank.targets()[looks]
    for at in range(size):
        if at % 8 == 0:
            images[at], targets[at] = patchwork(rng), -1
        elif at % 8 == 1:
            images[at] = mark(images[at], rng)
    return images, torch.from_numpy(targets)


def train_eye(plan: Plan, model: LlavaForConditionalGeneration, bank: Bank, begin: float) -> None:
    sizes = (len(SHAPES), len(TEXTURES), len(COLOURS))
    heads = torch.nn.Linear(model.config.text_config.hidden_size, sum(sizes) + 192)
    eye = [
        *model.model.vision_tower.parameters(),
        *model.model.multi_modal_projector.parameters(),
        *heads.parameters(),
    ]
    optimizer = torch.optim.AdamW(eye, lr=plan.lr, betas=(0.9, 0.98), weight_decay=0.05)
    for step in range(plan.eye_steps):
        rng = np.random.default_rng([plan.seed, 2, step])
        images, targets = eye_batch(bank, plan.eye_batch, rng)
        pixels = normal(images)
        set_rate(optimizer, plan.lr, step, plan.warmup, plan.eye_steps)
        with torch.autocast("cpu", torch.bfloat16):
            out = heads(model.model.multi_modal_projector(look(model, pixels))).float()
        *parts, thumb = out.split([*sizes, 192], -1)
        loss, right = torch.tensor(0.0), []
        for part, truth in zip(parts, targets.T, strict=True):
            wide = truth[:, None].expand(-1, TOKENS)
            loss = loss + F.cross_entropy(part.transpose(1, 2), wide, ignore_index=-1)
            right.append(
                round(float((part.mean(1).argmax(-1) == truth)[truth >= 0].float().mean()), 3)
            )
        small = F.avg_pool2d(pixels, SIDE // 8).flatten(1)[:, None].expand(-1, TOKENS, -1)
        pixel_loss = F.mse_loss(thumb, small)
        descend(optimizer, loss + pixel_loss, eye)
        if step % 100 == 99:
            print(
                json.dumps(
                    {
                        "eye": step + 1,
                        "right": right,
                        "thumb": round(float(pixel_loss.detach()), 4),
                        "s": round(time.time() - begin),
                    }
                ),
                flush=True,
            )


# --- the tongue


@dataclass
class Sequence:
    ids: list[int]
    segment: list[int]  # 0: context, k: turn k
    position: list[int]
    weight: list[float]  # of the loss of predicting this token
    kind: list[str]
    images: list[np.ndarray]
    about: list[tuple[int, int]] = field(
        default_factory=list
    )  # (position, which image its state must know)


def encode(ep: Episode, tok: Tokenizer) -> Sequence:
    """The tokens of an episode, `TOKENS` placeholders an image; a context ends before the line ends
    of its last row.
    """
    text = ep.head + "".join(ep.rows)
    context = spread(tok.encode(text.rstrip("\n")).ids)
    seq = Sequence(
        context,
        [0] * len(context),
        list(range(len(context))),
        [0.0] * len(context),
        [""] * len(context),
        list(ep.images),
    )
    rows = iter(zip(ep.labels, ep.known, strict=True))
    for image, at in enumerate(
        i for i, token in enumerate(context) if token == 3 and context[i + 1] != 3
    ):
        label, known = next(rows)
        score(
            seq,
            image,
            field_end(tok, seq.ids, at),
            tok.encode(f" {label}", add_special_tokens=False).ids,
            1.0 if known else FIRST_SEEN,
            "row" if known else "",
        )
    for k, turn in enumerate(ep.turns, 1):
        ask = spread(tok.encode("\n\n" + turn.text, add_special_tokens=False).ids)
        answer = tok.encode(f" {turn.answer}", add_special_tokens=False).ids
        reply = [*answer, *tok.encode("\n", add_special_tokens=False).ids]
        start, base = len(context), len(seq.ids)
        seq.ids += ask + reply
        seq.segment += [k] * (len(ask) + len(reply))
        seq.position += range(start, start + len(ask) + len(reply))
        seq.weight += [0.0] * (len(ask) + len(reply))
        seq.kind += [""] * (len(ask) + len(reply))
        seq.images += turn.images
        score(
            seq, len(seq.images) - 1, base + len(ask), answer, WEIGHT.get(turn.kind, 1.0), turn.kind
        )
        seq.weight[-1] = END
    return seq


def spread(ids: list[int]) -> list[int]:
    return [token for i in ids for token in ([i] * TOKENS if i == 3 else [i])]


def field_end(tok: Tokenizer, ids: list[int], at: int) -> int:
    """Where the answer of the row whose image ends at `at` begins: behind the field name."""
    colon = next(i for i in range(at + 1, len(ids)) if tok.id_to_token(ids[i]).endswith(":"))
    return colon + 1


def score(
    seq: Sequence, image: int, start: int, answer: list[int], weight: float, kind: str
) -> None:
    assert seq.ids[start : start + len(answer)] == answer, "an answer is not where it should be"
    seq.weight[start] = weight
    seq.about += [(start - 1, image), (start, image)]
    seq.kind[start] = kind
    for i in range(start + 1, start + len(answer)):
        seq.weight[i] = MORE


def draw(maker: Maker, tok: Tokenizer, plan: Plan, step: int) -> list[Sequence]:
    rng = np.random.default_rng([plan.seed, 3, step])
    ways, count = plan.shape(step / plan.steps, rng)
    seqs = [encode(maker.episode(rng, ways, count), tok)]
    while len(seqs) < max(8, plan.tokens // len(seqs[0].ids)) and len(seqs) < 64:
        seqs.append(encode(maker.episode(rng, ways, count), tok))
    return seqs


def match_alike(model: LlavaForConditionalGeneration) -> None:
    """Let the attention behind the middle begin as a likeness:

    keys are made as queries are, so like states find one another.
    """
    for layer in model.model.language_model.layers[MIDDLE:]:
        with torch.no_grad():
            layer.self_attn.q_proj.weight.mul_(1.5)
            layer.self_attn.k_proj.weight.copy_(layer.self_attn.q_proj.weight)


class Aid(torch.nn.Module):
    """The projector as the eye left it, and the map that must give its features back.

    Not shipped.
    """

    def __init__(self, model: LlavaForConditionalGeneration) -> None:
        super().__init__()
        width = model.config.text_config.hidden_size
        self.first = copy.deepcopy(model.model.multi_modal_projector).requires_grad_(False)
        self.map = torch.nn.Linear(width, width)

    def loss(self, middle: torch.Tensor, seen: torch.Tensor, seqs: list[Sequence]) -> torch.Tensor:
        """middle: (rows, length, width) states; seen:

        (images, TOKENS, tower width), of all sequences in order.
        """
        first, places = 0, []
        for row, s in enumerate(seqs):
            places += [(row, at, first + image) for at, image in s.about]
            first += len(s.images)
        rows, columns, images = torch.tensor(places).T
        with torch.no_grad():
            target = F.layer_norm(self.first(seen).mean(1), (middle.shape[-1],))
        return F.mse_loss(self.map(middle[rows, columns]).float(), target[images].float())


def forward(
    model: LlavaForConditionalGeneration, seqs: list[Sequence]
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """(rows, length, width) last and middle hidden states, what the tower saw, padded ids."""
    length = -(-max(len(s.ids) for s in seqs) // 16) * 16

    def table(name: str, fill: int) -> torch.Tensor:
        return torch.tensor([[*getattr(s, name), *[fill] * (length - len(s.ids))] for s in seqs])

    ids, segment, position = table("ids", 0), table("segment", -1), table("position", 0)
    seen = ((segment[:, None] == 0) | (segment[:, None] == segment[:, :, None])).tril()
    with torch.no_grad():
        seen_images = look(model, normal([image for s in seqs for image in s.images]))
    features = model.model.multi_modal_projector(seen_images).flatten(0, 1)
    x = model.get_input_embeddings()(ids)
    x = x.masked_scatter((ids == 3)[..., None], features.to(x.dtype))
    mask = torch.zeros(seen.shape).masked_fill_(~seen, -1e9)[:, None].to(torch.bfloat16)
    out = model.model.language_model(
        inputs_embeds=x.bfloat16(),
        attention_mask=mask,
        position_ids=position,
        use_cache=False,
        output_hidden_states=True,
    )
    return out.last_hidden_state, out.hidden_states[MIDDLE], seen_images, ids


def loss_of(
    model: LlavaForConditionalGeneration, aid: Aid, seqs: list[Sequence]
) -> tuple[torch.Tensor, torch.Tensor, dict[str, list[bool]]]:
    with torch.autocast("cpu", torch.bfloat16):
        hidden, middle, seen, ids = forward(model, seqs)
        knows = aid.loss(middle, seen, seqs)
        at = [(r, i) for r, s in enumerate(seqs) for i, weight in enumerate(s.weight) if weight]
        rows, columns = torch.tensor(at).T
        logits = hidden[rows, columns - 1] @ model.lm_head.weight.T
    truth = ids[rows, columns]
    weight = torch.tensor([seqs[r].weight[i] for r, i in at])
    losses = F.cross_entropy(logits.float(), truth, reduction="none")
    right: dict[str, list[bool]] = {}
    for (r, i), hit in zip(at, (logits.argmax(-1) == truth).tolist(), strict=True):
        right.setdefault(seqs[r].kind[i], []).append(hit)
    return (losses * weight).sum() / weight.sum(), knows, right


def set_rate(
    optimizer: torch.optim.Optimizer, lr: float, step: int, warmup: int, steps: int
) -> None:
    rate = (
        lr
        * min(1.0, (step + 1) / warmup)
        * (0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * step / steps)))
    )
    for group in optimizer.param_groups:
        group["lr"] = rate


def descend(
    optimizer: torch.optim.Optimizer, loss: torch.Tensor, parameters: list[torch.nn.Parameter]
) -> None:
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(parameters, 1.0)
    optimizer.step()


def train_tongue(
    plan: Plan,
    model: LlavaForConditionalGeneration,
    bank: Bank,
    tok: Tokenizer,
    out: Path,
    minutes: float,
) -> None:
    begin = last = time.time()
    parameters = [
        *model.model.language_model.parameters(),
        *model.model.multi_modal_projector.parameters(),
    ]
    match_alike(model)
    aid = Aid(model)
    parameters += aid.map.parameters()
    optimizer = torch.optim.AdamW(parameters, lr=plan.lr, betas=(0.9, 0.98), weight_decay=0.05)
    step, state = 0, out / "tongue.pt"
    if state.exists():
        saved = torch.load(state, weights_only=True)
        model.load_state_dict(saved["model"])
        aid.load_state_dict(saved["aid"])
        optimizer.load_state_dict(saved["optimizer"])
        step = saved["step"]
    maker, smooth = Maker(bank), {}
    while step < plan.steps and time.time() - begin < 60 * minutes:
        set_rate(optimizer, plan.lr, step, plan.warmup, plan.steps)
        maker.hard = min(0.5, step / plan.steps)
        loss, knows, right = loss_of(model, aid, draw(maker, tok, plan, step))
        descend(optimizer, loss + knows, parameters)
        step += 1
        for kind, hits in right.items():
            smooth[kind] = 0.95 * smooth.get(kind, np.mean(hits)) + 0.05 * np.mean(hits)
        if step % 50 == 0:
            shown = {kind: round(float(smooth[kind]), 3) for kind in sorted(smooth) if kind}
            print(
                json.dumps(
                    {
                        "step": step,
                        "loss": round(float(loss.detach()), 4),
                        "aid": round(float(knows.detach()), 3),
                        **shown,
                        "s": round(time.time() - begin),
                    }
                ),
                flush=True,
            )
        if time.time() - last > 180 or step == plan.steps:
            checkpoint(model, aid, optimizer, tok, step, out)
            last = time.time()
    checkpoint(model, aid, optimizer, tok, step, out)


def checkpoint(
    model: LlavaForConditionalGeneration,
    aid: Aid,
    optimizer: torch.optim.Optimizer,
    tok: Tokenizer,
    step: int,
    out: Path,
) -> None:
    partial = out / "tongue.partial"
    torch.save(
        {
            "model": model.state_dict(),
            "aid": aid.state_dict(),
            "optimizer": optimizer.state_dict(),
            "step": step,
        },
        partial,
    )
    partial.replace(out / "tongue.pt")
    save(model, tok, out / "model")


def save(model: LlavaForConditionalGeneration, tok: Tokenizer, folder: Path) -> None:
    from transformers import CLIPImageProcessorPil  # not in the oldest releases

    small = LlavaForConditionalGeneration(model.config)
    small.load_state_dict(model.state_dict())
    small.to(torch.bfloat16).save_pretrained(folder)
    # newer releases of transformers write names without `vision_model`, and read both
    file = folder / "model.safetensors"
    own = {
        re.sub(r"vision_tower\.(vision_model\.)?", "vision_tower.vision_model.", name): value
        for name, value in load_file(file).items()
    }
    save_file(own, file, {"format": "pt"})
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=tok, pad_token="<pad>", bos_token="<bos>", eos_token="<eos>",
        model_max_length=POSITIONS, extra_special_tokens={"image_token": MARK},
    )  # fmt: skip
    eye = CLIPImageProcessorPil(
        size={"shortest_edge": SIDE},
        crop_size={"height": SIDE, "width": SIDE},
        image_mean=[MEAN] * 3,
        image_std=[STD] * 3,
    )
    LlavaProcessor(
        eye,
        tokenizer,
        patch_size=PATCH,
        vision_feature_select_strategy="default",
        image_token=MARK,
        num_additional_image_tokens=1,
    ).save_pretrained(folder)


def main() -> None:
    args = argparse.ArgumentParser()
    args.add_argument("--out", type=Path, required=True)
    args.add_argument("--steps", type=int)
    args.add_argument("--eye-steps", type=int)
    args.add_argument(
        "--minutes",
        type=float,
        default=1e9,
        help="stop the second leg with a checkpoint after this long",
    )
    args.add_argument("--seed", type=int, default=Plan.seed)
    opt = args.parse_args()
    plan = replace(
        Plan(),
        steps=opt.steps or Plan.steps,
        eye_steps=opt.eye_steps or Plan.eye_steps,
        seed=opt.seed,
    )
    opt.out.mkdir(parents=True, exist_ok=True)
    begin, path = time.time(), opt.out / "tokenizer-learnt.json"
    if not path.exists():
        learn(1024, plan.seed).save(str(path))
    tok = Tokenizer.from_file(str(path))
    torch.manual_seed(plan.seed)
    model = LlavaForConditionalGeneration(config(tok.get_vocab_size()))
    model.model.language_model.set_attn_implementation(
        "eager"
    )  # on few cores faster than the fused one
    print(f"{sum(p.numel() for p in model.parameters()):,} parameters", flush=True)
    bank, eye = Bank(plan.each, plan.seed), opt.out / "eye.pt"
    if eye.exists():
        model.load_state_dict(torch.load(eye, weights_only=True))
    else:
        train_eye(plan, model, bank, begin)
        torch.save(model.state_dict(), eye)
    train_tongue(plan, model, bank, tok, opt.out, opt.minutes)


if __name__ == "__main__":
    main()
