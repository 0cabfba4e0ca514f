"""The pictures of README and docs, from a real run with the pocket model: `make pictures` writes
docs/*.png (needs chromium, chromedriver).

python bench/pictures.py FOLDER
"""

from __future__ import annotations

import io
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from PIL import Image
from selenium import webdriver

FLAGS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
         "--disable-background-networking", "--disable-component-update", "--disable-sync",
         "--hide-scrollbars")  # fmt: skip
QUESTION = "What is the door code of Marta?"
LARGEST = 150_000  # bytes


def main(folder: Path) -> None:
    with tempfile.TemporaryDirectory() as made:
        leakbound("demo", "--out", f"{made}/demo")
        leakbound(
            "influence",
            "--context",
            "examples/note.txt",
            "--question",
            QUESTION,
            "--ngram",
            "1,8",
            "--out",
            f"{made}/note",
        )
        driver = browser(f"{made}/profile")
        try:
            photograph(
                driver, Path(made, "demo/report.html"), folder / "audit-report.png", height=980
            )
            photograph(
                driver, Path(made, "note/influence.html"), folder / "influence.png", height=1010
            )
        finally:
            driver.quit()


def leakbound(*arguments: str) -> None:
    subprocess.run([sys.executable, "-m", "leakbound", *arguments], check=True)


def browser(profile: str) -> Any:
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    for flag in (*FLAGS, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    return webdriver.Chrome(
        options=options, service=webdriver.ChromeService(shutil.which("chromedriver"))
    )


def photograph(driver: Any, page: Path, picture: Path, height: int, width: int = 1100) -> None:
    """The top of a page in its light colours; the palette is chosen by its largest error, so that
    colours of a heat map stay true.
    """
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride",
                           {"width": width, "height": height, "deviceScaleFactor": 1,
                            "mobile": False})  # fmt: skip
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia",
                           {"features": [{"name": "prefers-color-scheme",
                                          "value": "light"}]})  # fmt: skip
    driver.get(page.resolve().as_uri())
    image = Image.open(io.BytesIO(driver.get_screenshot_as_png())).convert("RGB")
    image.quantize(256, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(
        picture, optimize=True
    )
    size = picture.stat().st_size
    print(f"{picture}: {size} bytes")
    if size > LARGEST:
        raise SystemExit(f"{picture} has {size} bytes; it must have at most {LARGEST}.")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
