"""Images from files: what cannot be used gets a sentence, and of what can be used the pixels alone
are kept.
"""

from __future__ import annotations

import io
import json
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pil = pytest.importorskip("PIL.Image")

from leakbound.errors import DataError  # noqa: E402
from leakbound.models.content import Image, Parts, images_in  # noqa: E402
from leakbound.tasks import images  # noqa: E402
from leakbound.tasks.images import MAX_PIXELS, as_image, pixels  # noqa: E402
from leakbound.tasks.rows.datasets import fingerprint, load_rows  # noqa: E402

PICTURE = np.random.default_rng(0).integers(0, 256, (6, 9, 3), dtype=np.uint8)


def saved(form: str, picture: Any = None, **options: Any) -> bytes:
    out = io.BytesIO()
    (picture or pil.fromarray(PICTURE)).save(out, form, **options)
    return out.getvalue()


def test_path_bytes_array_and_picture_are_one_image(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(saved("PNG"))
    made = [
        as_image(source)
        for source in (
            tmp_path / "a.png",
            saved("PNG"),
            saved("BMP"),
            PICTURE,
            pil.fromarray(PICTURE),
        )
    ]
    assert len(set(made)) == 1
    assert made[0].size == (9, 6)
    np.testing.assert_array_equal(pixels(made[0]), PICTURE)
    assert as_image(made[0]) is made[0]


def test_exif_is_neither_obeyed_nor_kept() -> None:
    exif = pil.Exif()
    exif[0x0112], exif[0x010E] = 6, "a secret place"  # turned by a quarter; a description
    turned = as_image(saved("JPEG", exif=exif))
    assert turned == as_image(saved("JPEG"))
    assert b"secret" not in turned.png


def test_grey_palette_and_transparent_pictures_become_colours() -> None:
    for mode in ("1", "L", "P", "RGBA", "LA"):
        assert pixels(
            as_image(
                saved(
                    "PNG",
                    pil.fromarray(PICTURE)
                    .convert("RGB")
                    .convert("L" if mode == "LA" else mode)
                    .convert(mode),
                )
            )
        ).shape == (6, 9, 3)


def claimed(width: int, height: int) -> bytes:
    """A PNG file of a few bytes that says it is so large."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return (
            struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        )

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", head)
        + chunk(b"IDAT", zlib.compress(b"\0" * 100))
        + chunk(b"IEND", b"")
    )


BAD: dict[str, tuple[Callable[[], bytes], str]] = {
    "broken": (lambda: saved("PNG")[:60], "cannot be read"),
    "no image": (lambda: b"plain text", "cannot be read"),
    "zero bytes": (lambda: b"", "zero bytes"),
    "postscript": (lambda: b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 1 1\n", "cannot be read"),
    "animated": (lambda: saved("GIF", save_all=True, append_images=[pil.fromarray(255 - PICTURE)]),
                 "several frames"),
    "CMYK": (lambda: saved("JPEG", pil.fromarray(PICTURE).convert("CMYK")), "in the colours CMYK"),
    "16 bits": (lambda: saved("PNG", pil.fromarray(PICTURE[..., 0].astype(np.uint16))),
                "in the colours I;16"),
    "large": (lambda: claimed(5000, 4000), "5,000 x 4,000 pixels; it may have 16,777,216"),
    "bomb": (lambda: claimed(100_000, 2_000), "of too many pixels"),
    "warned of": (lambda: claimed(10_000, 10_000), "of too many pixels"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_what_cannot_be_used_gets_a_sentence(name: str, tmp_path: Path) -> None:
    make, why = BAD[name]
    (tmp_path / "dax").mkdir()
    (tmp_path / "dax" / "a.png").write_bytes(make())
    with pytest.raises(DataError, match=why) as refused:
        load_rows(tmp_path)
    assert "a.png" in str(refused.value)


@pytest.mark.parametrize(
    "source", ["a.png", None, 7, PICTURE.astype(float), PICTURE[..., 0], PICTURE[:0]]
)
def test_what_is_no_image_gets_a_sentence(source: Any) -> None:
    with pytest.raises(DataError, match="must be a pathlib"):
        as_image(source)


def test_a_file_of_too_many_bytes_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(images, "MAX_BYTES", 40)
    with pytest.raises(DataError, match="must have at most 40"):
        as_image(saved("PNG"))


def test_the_own_limit_is_below_the_one_of_pillow() -> None:
    assert pil.MAX_IMAGE_PIXELS > MAX_PIXELS


def tree(folder: Path) -> Path:
    for label, shade in (("dax", 10), ("wug", 200)):
        (folder / label).mkdir(parents=True)
        for i in range(3):
            (folder / label / f"{i}.png").write_bytes(
                saved("PNG", pil.fromarray(np.full((4, 4, 3), shade + i, np.uint8)))
            )
    return folder


def test_a_folder_of_folders_is_a_data_set(tmp_path: Path) -> None:
    rows = load_rows(tree(tmp_path / "data"))
    assert [row.label for row in rows] == ["dax"] * 3 + ["wug"] * 3
    assert [int(pixels(images_in(row.input)[0])[0, 0, 0]) for row in rows] == [
        10,
        11,
        12,
        200,
        201,
        202,
    ]
    assert all(isinstance(row.input, Image) for row in rows)
    assert fingerprint(rows) != fingerprint(rows[::-1])


def test_a_folder_must_hold_folders_of_images(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="holds no folders"):
        load_rows(tmp_path)
    (tree(tmp_path) / "dax" / "notes.txt").write_text("x")
    with pytest.raises(DataError, match=r"'notes\.txt', which is not an image"):
        load_rows(tmp_path)


@pytest.mark.parametrize("suffix", [".jsonl", ".csv"])
def test_a_column_image_holds_paths_below_the_file(suffix: str, tmp_path: Path) -> None:
    tree(tmp_path / "pictures")
    rows = [
        {"image": f"pictures/{label}/0.png", "text": f"seen {label}", "label": label}
        for label in ("dax", "wug")
    ]
    file = tmp_path / f"rows{suffix}"
    table = ["image,text,label", *(",".join(row.values()) for row in rows)]
    file.write_text("\n".join(map(json.dumps, rows) if suffix == ".jsonl" else table))
    both = load_rows(file)
    assert [type(row.input) for row in both] == [Parts, Parts]
    assert both[1].input.parts[1] == "\nseen wug"  # type: ignore[union-attr]
    assert [type(row.input) for row in load_rows(file, input_field="image")] == [Image, Image]
    assert [row.input for row in load_rows(file, input_field="text")] == ["seen dax", "seen wug"]
    (mixed, _) = load_rows(file, input_template="{text}: {image}")
    assert mixed.input.parts[0] == "seen dax: "  # type: ignore[union-attr]


def test_paths_do_not_lead_out_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "secret.png").write_bytes(saved("PNG"))
    inside = tree(tmp_path / "data")
    for escape in ("../secret.png", str(tmp_path / "secret.png"), "dax/link.png"):
        (inside / "dax" / "link.png").unlink(missing_ok=True)
        (inside / "dax" / "link.png").symlink_to(tmp_path / "secret.png")
        (inside / "rows.jsonl").write_text(json.dumps({"image": escape, "label": "dax"}) + "\n")
        with pytest.raises(DataError, match="is not below"):
            load_rows(inside / "rows.jsonl")
    with pytest.raises(DataError, match="is not below"):
        load_rows(inside)


def test_a_row_without_its_image_gets_a_sentence(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    for value, why in (
        ("none.png", "holds no such file"),
        ("", "empty field"),
        (7, "cannot|no such|must"),
        ({"bytes": 1}, "must be text"),
    ):
        file.write_text(json.dumps({"image": value, "label": "dax"}) + "\n")
        with pytest.raises(DataError, match=why):
            load_rows(file)
