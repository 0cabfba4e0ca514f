"""The bundled image task: figures under pseudo-names that mean nothing outside of a context.

A class is a shape, a texture and a colour. Which class carries which name is chosen anew for each
data set, so zero-shot is chance. A fifth of all classes is held out of the pocket model's training:
data sets of `PSEUDO_NAMES` consist of those.

Reference: PoE, section 4.3.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from leakbound.tasks.example import Context, Example
from leakbound.tasks.images import as_image
from leakbound.tasks.task import Task

Pixels = npt.NDArray[np.uint8]
SIDE = 32  # pixels
FINE = 2  # samples a pixel and direction
NAMES = ("dax", "blicket", "perpo", "slation", "shously")
PSEUDO_NAMES = Task("pseudo_names", NAMES, "Image", "Name")
SHAPES = ("disc", "square", "triangle", "diamond", "plus", "ring", "bar", "hourglass")
TEXTURES = ("solid", "rows", "columns", "checks", "dots")
COLOURS = {
    "red": (225, 40, 40), "orange": (245, 150, 30), "yellow": (240, 230, 60),
    "green": (50, 180, 60), "cyan": (70, 215, 225), "blue": (50, 80, 235),
    "purple": (170, 60, 200), "white": (245, 245, 245),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Look:
    """A class of images."""

    shape: str
    texture: str
    colour: str


_ALL = [Look(*parts) for parts in itertools.product(SHAPES, TEXTURES, COLOURS)]
_APART = [
    (SHAPES.index(a.shape) + 3 * TEXTURES.index(a.texture) + list(COLOURS).index(a.colour)) % 5
    for a in _ALL
]
HELD_OUT = tuple(look for look, rest in zip(_ALL, _APART, strict=True) if rest == 0)
TRAINED = tuple(look for look, rest in zip(_ALL, _APART, strict=True) if rest)


def pseudo_names(count: int, rng: np.random.Generator) -> Context:
    """A balanced, shuffled data set of images: five classes that no model was trained on."""
    looks = rng.choice(len(HELD_OUT), len(NAMES), replace=False)
    at = [i % len(NAMES) for i in range(count)]
    rows = [Example(as_image(draw(HELD_OUT[looks[i]], rng)), NAMES[i]) for i in at]
    return tuple(rows[i] for i in rng.permutation(count))


def draw(look: Look, rng: np.random.Generator) -> Pixels:
    """One image of a class, with random size, place, background, light and grain."""
    radius = rng.uniform(8.0, 13.0)
    x0, y0 = rng.uniform(radius - 2, SIDE - radius + 2, 2)
    y, x = (np.indices((SIDE * FINE, SIDE * FINE)) + 0.5) / FINE
    inside = _inside(look.shape, (x - x0) / radius, (y - y0) / radius)
    bright = np.where(_lit(look.texture, x - x0, y - y0), 1.0, 0.3)
    figure = np.array(COLOURS[look.colour]) * rng.uniform(0.85, 1.0) * bright[..., None]
    image = np.where(inside[..., None], figure, _background(rng, x, y))
    image = image.reshape(SIDE, FINE, SIDE, FINE, 3).mean((1, 3)) + rng.normal(
        0, 3, (SIDE, SIDE, 3)
    )
    return np.asarray(image.clip(0, 255), np.uint8)


def patchwork(rng: np.random.Generator) -> Pixels:
    """Squares of random colours: an image like no class."""
    side = int(rng.choice((2, 4, 8)))
    patches = rng.integers(0, 256, (side, side, 3), dtype=np.uint8)
    return patches.repeat(SIDE // side, 0).repeat(SIDE // side, 1)


def mark(image: Pixels, rng: np.random.Generator) -> Pixels:
    """An image with a small random pattern of two by two patches in one of its corners."""
    side = max(1, min(image.shape[:2]) // 10)
    pattern = rng.integers(0, 256, (2, 2, 3), dtype=np.uint8).repeat(side, 0).repeat(side, 1)
    down, right = rng.integers(0, 2, 2)
    out = image.copy()
    rows = slice(-2 * side, None) if down else slice(2 * side)
    columns = slice(-2 * side, None) if right else slice(2 * side)
    corner = out[rows, columns]
    corner[:] = pattern[: corner.shape[0], : corner.shape[1]]
    return out


def _background(
    rng: np.random.Generator, x: npt.NDArray[np.float64], y: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    """A dull colour that changes slowly in some direction."""
    first, last = rng.uniform(0, 90, (2, 3))
    angle = rng.uniform(0, 2 * np.pi)
    share = 0.5 + (np.cos(angle) * (x - SIDE / 2) + np.sin(angle) * (y - SIDE / 2)) / (1.5 * SIDE)
    mixed: npt.NDArray[np.float64] = first + (last - first) * share[..., None]
    return mixed


def _inside(
    shape: str, u: npt.NDArray[np.float64], v: npt.NDArray[np.float64]
) -> npt.NDArray[np.bool_]:
    """Which points of a plane, in units of the radius, belong to a shape."""
    au, av = np.abs(u), np.abs(v)
    inside: npt.NDArray[np.bool_] = {
        "disc": u**2 + v**2 < 1,
        "square": np.maximum(au, av) < 0.85,
        "triangle": (v < 0.8) & (au < (v + 1) * 0.55),
        "diamond": au + av < 1.1,
        "plus": (np.minimum(au, av) < 0.3) & (np.maximum(au, av) < 1),
        "ring": (u**2 + v**2 < 1) & (u**2 + v**2 > 0.3),
        "bar": (au < 1) & (av < 0.4),
        "hourglass": (av < 0.95) & (au < av),
    }[shape]
    return inside


def _lit(
    texture: str, x: npt.NDArray[np.float64], y: npt.NDArray[np.float64]
) -> npt.NDArray[np.bool_]:
    """Which points, in pixels, are bright; the others are dark."""
    row, column = np.floor(y / 3) % 2 == 0, np.floor(x / 3) % 2 == 0
    lit: npt.NDArray[np.bool_] = {
        "solid": np.full(x.shape, True),
        "rows": row,
        "columns": column,
        "checks": row ^ column,
        "dots": ((x % 5 - 2.5) ** 2 + (y % 5 - 2.5) ** 2) > 2.2,
    }[texture]
    return lit
