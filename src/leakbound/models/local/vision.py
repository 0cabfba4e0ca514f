"""Image-text-to-text models. In a row of token ids, an image is a run of special ids.

The placeholder tokens of an image get negative ids derived from its hash. So rows share a prefix
only if they show the same images, and keys and values are reused as for text. Each such id refers
to a row of the image's features, which are computed once per image.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar, cast

import numpy as np
import torch
from PIL import Image as Pil

from leakbound.errors import TargetError
from leakbound.models.content import Chat, Image, Parts, images_in
from leakbound.models.local.engine.prefixes import Ids
from leakbound.models.local.hugging_face import CausalModel, Processor
from leakbound.models.local.model import TransformersModel
from leakbound.models.local.text_ids import UNKNOWN, TextIds
from leakbound.models.request import Complete, NextLogits, Prompt, Request, ScoreLabels


class _VisionTexts(TextIds):
    """Token ids of prompts and responses, with the chat template of a processor."""

    def __init__(self, processor: Processor) -> None:
        super().__init__(processor.tokenizer)
        self.processor = processor

    @property
    def chat(self) -> bool:
        return bool(getattr(self.processor, "chat_template", None))

    def _render(self, turns: list[dict[str, str]]) -> str:
        made = [{**turn, "content": turn_content((turn["content"],))} for turn in turns]
        return render(self.processor, made)


def render(processor: Processor, turns: Sequence[Mapping[str, object]]) -> str:
    return str(processor.apply_chat_template(turns, add_generation_prompt=True, tokenize=False))


def turn_content(parts: Sequence[str | Image]) -> list[dict[str, str]]:
    """The content of a turn in the form that processors expect."""
    return [{"type": "text", "text": p} if isinstance(p, str) else {"type": "image"} for p in parts]


R = TypeVar("R")
TOGETHER = 16  # images per pass of the tower: more save no time and need memory
SHARE = 8  # features may use this fraction of what is kept between calls
# difference of logits that rounding may cause, as a share of their spread
CLOSE = {torch.float32: 1e-3}
COARSE = 0.1  # the same in 16 bits


@dataclass(repr=False)
class _Seen:
    """An image (PRIVATE)."""

    image: Image
    ids: Ids
    inputs: dict[str, torch.Tensor] | None = None
    features: torch.Tensor | None = None

    @property
    def tokens(self) -> int:
        return sum(i < 0 for i in self.ids)


# exceptions that a model's code may raise if it is used in an unexpected way
FOREIGN = (RuntimeError, ValueError, TypeError, LookupError, AttributeError, TargetError)


class _Eye:
    """Images as token ids and features."""

    def __init__(self, model: CausalModel, processor: Processor, budget: int) -> None:
        self.model, self.processor, self.budget = model, processor, budget
        self._place = int(getattr(model.config, "image_token_id", -1))
        self.clear()

    def clear(self) -> None:
        self._seen: dict[str, _Seen] = {}
        self._slots: dict[int, tuple[str, int]] = {}
        self._waiting = 0  # bytes of the tower's next inputs
        self.towered = 0  # number of images that went through the tower

    def ids(self, image: Image) -> Ids:
        """The tokens that represent an image in a prompt. The tower does not run."""
        if image.sha256 not in self._seen:
            row, inputs = self._read(image)
            places = iter(range(len(row)))
            ids = tuple(
                self._slot(image, next(places)) if token == self._place else token for token in row
            )
            size = sum(t.nbytes for t in inputs.values())
            room = self._waiting + size <= self.budget  # else too many wait for the tower already
            self._waiting += size if room else 0
            self._seen[image.sha256] = _Seen(image, ids, inputs if room else None)
        return self._seen[image.sha256].ids

    def look(self, images: Sequence[Image], together: int = TOGETHER) -> None:
        """Compute the features of images that have none. Images of one size share a pass."""
        for image in images:
            self.ids(image)
        forms: dict[tuple[int, int], list[_Seen]] = {}
        for key in dict.fromkeys(image.sha256 for image in images):
            if (seen := self._seen[key]).features is not None:
                continue
            forms.setdefault(seen.image.size, []).append(seen)
        for group in forms.values():
            for first in range(0, len(group), together):
                self._tower(group[first : first + together])

    def trim(self) -> None:
        seen = self._seen.values()
        kept = [(one, one.features.nbytes) for one in seen if one.features is not None]
        size = sum(nbytes for _, nbytes in kept)
        for one, nbytes in kept:
            if size <= self.budget:
                return
            size, one.features = size - nbytes, None

    def embed(self, ids: torch.Tensor) -> torch.Tensor:
        """Embeddings of tokens, and features of images at negative ids."""
        out: torch.Tensor = self.model.get_input_embeddings()(ids.clamp(min=0))
        where = ids < 0
        if bool(where.any()):
            values, back = torch.unique(ids[where], return_inverse=True)
            places = [self._slots[slot] for slot in values.tolist()]
            self.look([self._seen[key].image for key, _ in places])
            rows = [cast(torch.Tensor, self._seen[key].features)[at] for key, at in places]
            out = out.masked_scatter(where[..., None], torch.stack(rows).to(out.dtype)[back])
        return out

    def _slot(self, image: Image, at: int) -> int:
        slot = -1 - int.from_bytes(
            hashlib.sha256(f"{image.sha256} {at}".encode()).digest()[:7], "big"
        )
        self._slots[slot] = (image.sha256, at)
        return slot

    def _tower(self, group: list[_Seen]) -> None:
        inputs = [seen.inputs or self._read(seen.image)[1] for seen in group]
        self._waiting -= sum(
            t.nbytes for seen in group if seen.inputs for t in seen.inputs.values()
        )
        cat = {name: torch.cat([i[name] for i in inputs]) for name in inputs[0]}
        kinds = {
            name: self.model.dtype if t.is_floating_point() else t.dtype for name, t in cat.items()
        }
        placed = {name: t.to(self.model.device, kinds[name]) for name, t in cat.items()}
        found = self.model.get_image_features(**placed)
        found = getattr(found, "pooler_output", found)
        each = found if isinstance(found, list | tuple) else [found]
        rows = torch.cat([t.flatten(0, -2) for t in each])
        for seen, features in zip(group, torch.split(rows, [s.tokens for s in group]), strict=True):
            seen.features, seen.inputs = features.clone(), None
        self.towered += len(group)

    def _read(self, image: Image) -> tuple[list[int], dict[str, torch.Tensor]]:
        """Token ids of the image from the model's processor, and the inputs of the tower."""
        found = self.processor(
            text=self.processor.image_token,
            images=[decode_image(image)],
            return_tensors="pt",
            add_special_tokens=False,
        )
        tensors = {name: value for name, value in found.items() if isinstance(value, torch.Tensor)}
        row = tensors.pop("input_ids")[0].tolist()
        tensors.pop("attention_mask", None)
        return row, tensors


class VisionModel(TransformersModel):
    reads = _VisionTexts
    texts: _VisionTexts

    def _begin(self) -> None:
        self.processor = self.texts.processor
        self.eye = _Eye(self.model, self.processor, self.passes.budget.kept // SHARE)
        self.passes.embed = self.eye.embed
        self.blind = ""
        self.blind = self._difference()

    def encode(self, prompt: Prompt) -> Ids:
        """Token ids of a prompt, through the chat template of a chat model."""
        if isinstance(prompt, tuple):
            return prompt
        if isinstance(prompt, Parts) and self.blind:
            raise TargetError(
                f"{self.name} cannot read images here: {self.blind}. Serve it behind an "
                "OpenAI-compatible endpoint (openai/...), or use another model, such as one of "
                "LLaVA's form."
            )
        found = self.texts.encoded(self._shown(prompt)).prompt
        return self._with_images(found or (self.texts.first(),), prompt)

    def _with_images(self, ids: Ids, prompt: Prompt) -> Ids:
        images = iter(images_in(prompt))
        mark = self.tokenizer.convert_tokens_to_ids(self.processor.image_token)
        runs = (self.eye.ids(next(images)) if token == mark else (token,) for token in ids)
        return tuple(i for run in runs for i in run)

    def _most(self, request: Request[object]) -> float:
        """Unknown: the processor adds its own tokens around a text."""
        return UNKNOWN

    def joined(self, prompt: Prompt, response: Prompt) -> tuple[Ids, Ids]:
        """Token ids of a prompt, possibly with images, and of its continuation."""
        ids = self.encode(prompt)
        if isinstance(prompt, tuple) or not isinstance(response, str) or not response:
            return ids, self.encode_response(response, ids)
        found = self.texts.encoded(self._shown(prompt), response)
        return self._with_images(found.prompt or (self.texts.first(),), prompt), found.response

    def answer(self, requests: Sequence[Request[R]], /) -> list[R]:
        """Answer a batch. Each distinct image goes through the vision tower once."""
        prompts = [getattr(request, "prompt", "") for request in requests]
        kinds = (Complete, ScoreLabels, NextLogits)
        alone = any(isinstance(request, kinds) and request.alone for request in requests)
        with torch.inference_mode():
            images = [image for prompt in prompts for image in images_in(prompt)]
            self.eye.look(images, 1 if alone else TOGETHER)
        try:
            return super().answer(requests)
        finally:
            self.eye.trim()

    def forget(self) -> None:
        """Drop keys, values, images and features of earlier prompts (PRIVATE)."""
        super().forget()
        self.eye.clear()

    def _shown(self, prompt: str | Parts | Chat) -> str:
        sign = self.processor.image_token
        parts = prompt.parts if isinstance(prompt, Parts) else (prompt,)
        texts = [part for part in parts if isinstance(part, str)]
        if isinstance(prompt, Chat):
            texts = [message.content for message in prompt.messages]
        if any(sign in text for text in texts):
            raise TargetError(
                f"a text holds {sign!r}, which {self.name} reads as an image; remove it from the "
                "rows."
            )
        if not isinstance(prompt, Parts):
            return self.texts.shown(prompt)
        if not self.texts.chat:
            return "".join(part if isinstance(part, str) else sign for part in prompt.parts)
        return render(self.processor, [{"role": "user", "content": turn_content(prompt.parts)}])

    def _difference(self) -> str:
        """How this engine differs from the model's own code on two images, in words."""
        try:
            images = [_pattern(24, 24, 1), _pattern(40, 24, 2)]
            prompt = Parts(("One: ", images[0], " two: ", images[1], " three:"))
            with torch.inference_mode():
                own = self._reference(prompt).float()
            here = torch.from_numpy(self.answer([NextLogits(prompt)])[0][-1])
        except FOREIGN as error:
            return f"its images could not be taken apart ({type(error).__name__})"
        finally:
            self.forget()
        near = CLOSE.get(self.model.dtype, COARSE) * float(own.max() - own.min())
        same = own.shape == here.shape and float((own.cpu() - here).abs().max()) <= near
        return "" if same else "its positions or masks treat images apart from text"

    def _reference(self, prompt: Parts) -> torch.Tensor:
        """(vocabulary,) logits after a prompt, from the model's own code."""
        pictures = [decode_image(image) for image in images_in(prompt)]
        how = {"return_tensors": "pt", "add_special_tokens": not self.texts.chat}
        inputs = self.processor(text=self._shown(prompt), images=pictures, **how)
        logits: torch.Tensor = self.model(**inputs.to(self.model.device, self.model.dtype)).logits
        return logits[0, -1]


def decode_image(image: Image) -> Pil.Image:
    with Pil.open(io.BytesIO(image.png)) as file:
        return file.convert("RGB")


def _pattern(width: int, height: int, seed: int) -> Image:
    pixels = np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)
    out = io.BytesIO()
    Pil.fromarray(pixels).save(out, "PNG")
    return Image(hashlib.sha256(out.getvalue()).hexdigest(), out.getvalue())
