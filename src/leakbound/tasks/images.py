"""Pictures from outside become images of examples.

They are checked, decoded once, and kept as plain PNG without anything but pixels.
"""

from __future__ import annotations

import hashlib
import io
import warnings
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, TypeAlias, Union

import numpy as np
import numpy.typing as npt

from leakbound._install import install_hint
from leakbound.errors import DataError
from leakbound.models.content import Image

if TYPE_CHECKING:
    from PIL.Image import Image as Picture

Source: TypeAlias = Union[Image, Path, bytes, npt.NDArray[np.uint8], "Picture"]
MAX_BYTES = 64 << 20  # of a file: no still photograph is larger
MAX_PIXELS = 4096 * 4096  # 48 MB decoded; no model of this kind sees more
# no format whose reader starts another program
FORMATS = ("PNG", "JPEG", "GIF", "BMP", "WEBP", "TIFF")
SUFFIXES = (".png", ".jpg", ".jpeg", ".gif", ".bmp", ".webp", ".tif", ".tiff")
# 8 bits a colour, in grey or in red, green and blue
MODES = ("1", "L", "LA", "P", "PA", "RGB", "RGBA", "RGBX")


def as_image(source: Source, place: str = "the image") -> Image:
    """An image of an example, without its rotation, comments (EXIF) and transparency."""
    if isinstance(source, Image):
        return source
    if isinstance(source, bytes | Path):
        return _encode(_decode(_bytes(source, place), place))
    pil = _pillow()
    picture: object = source
    if isinstance(source, np.ndarray) and source.dtype == np.uint8 and source.size:
        colours = source.ndim == 3 and source.shape[2] == 3
        picture = pil.fromarray(source) if colours else source
    if not isinstance(picture, pil.Image):
        raise DataError(
            f"{place} is a {type(source).__name__}; it must be a pathlib.Path, the bytes of a "
            "file, a PIL image, or an array of 8-bit integers with the shape (height, width, 3)."
        )
    return _encode(_plain(picture, place))


def image_below(folder: Path, name: str, place: str) -> Image:
    file, root = (folder / name).resolve(), folder.resolve()
    if not file.is_relative_to(root):
        raise DataError(
            f"{place} names the image {name!r}, which is not below {str(folder)!r}; put it there."
        )
    if not file.is_file():
        raise DataError(
            f"{place} names the image {name!r}, and {str(folder)!r} holds no such file; give its "
            "path from there."
        )
    return as_image(file, place)


def pixels(image: Image) -> npt.NDArray[np.uint8]:
    with _pillow().open(io.BytesIO(image.png)) as file:
        return np.asarray(file.convert("RGB"))


def _bytes(source: bytes | Path, place: str) -> bytes:
    if isinstance(source, Path):
        if not source.is_file():
            raise DataError(
                f"{place} cannot be read: {str(source)!r} is not a file; give the path of an image."
            )
        size = source.stat().st_size
        found = source.read_bytes() if size <= MAX_BYTES else b""
    else:
        size, found = len(source), source
    if not size:
        raise DataError(
            f"{place} is an image of zero bytes; drop the row, or save the image again."
        )
    if size > MAX_BYTES:
        raise DataError(
            f"{place} is an image of {size:,} bytes; it must have at most {MAX_BYTES:,}. Make it "
            "smaller."
        )
    return found


def _decode(found: bytes, place: str) -> Picture:
    pil = _pillow()
    with warnings.catch_warnings():
        warnings.simplefilter("error", pil.DecompressionBombWarning)
        try:
            with pil.open(io.BytesIO(found), formats=FORMATS) as file:
                return _plain(file, place)
        except DataError:
            raise
        except (pil.DecompressionBombWarning, pil.DecompressionBombError):
            raise _too_large(place) from None
        except Exception:  # broken files raise whatever a format's reader raises
            raise DataError(
                f"{place} is an image that cannot be read; it must be a whole file of the form "
                f"{', '.join(FORMATS)}. Save it again."
            ) from None


def _plain(file: Picture, place: str) -> Picture:
    width, height = file.size
    if width * height > MAX_PIXELS:
        raise _too_large(place, f" of {width:,} x {height:,}")
    if _moves(file):
        raise DataError(
            f"{place} is an image of several frames; it must be a still one. Save one frame of it."
        )
    if file.mode not in MODES:
        raise DataError(
            f"{place} is an image in the colours {file.mode}; it must be in RGB or grey, 8 bits "
            "each. Convert it first."
        )
    whole = file.convert("RGBA") if "transparency" in file.info else file
    return whole.convert("RGB")


def _moves(file: Picture) -> bool:
    try:
        file.seek(1)
    except EOFError:  # there is no second frame
        return False
    return True


def _encode(picture: Picture) -> Image:
    out = io.BytesIO()
    picture.info.clear()
    picture.save(out, "PNG")
    return Image(hashlib.sha256(out.getvalue()).hexdigest(), out.getvalue())


def _too_large(place: str, size: str = " of too many") -> DataError:
    return DataError(
        f"{place} is an image{size} pixels; it may have {MAX_PIXELS:,} in all. Make it smaller."
    )


def _pillow() -> ModuleType:
    try:
        from PIL import Image as pil
    except ImportError:
        raise DataError(f"images need Pillow; install it with: {install_hint('vision')}.") from None
    return pil
