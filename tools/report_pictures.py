"""Pictures of reports for the documentation.

    python tools/report_pictures.py [FOLDER]

makes a report of each interface, with a finding and without, and shows them in Chromium. The pictures of the
documentation are written to docs/pictures. With FOLDER, pictures of all reports at 500, 1400 and 1920 pixels, light and
dark, are written there instead, for a look before a change of the page.

It needs Chromium, the extras `arrow` and `kernels`, and for HIP hipcc and ROCm's run-time library.
"""

from __future__ import annotations

import base64
import os
import struct
import sys
import tempfile
import zlib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from tests.trace.browser import Browser  # noqa: E402
from tests.trace.interfaces import INTERFACES, hip, registers, waves  # noqa: E402

PICTURES = ROOT / "docs" / "pictures"
WIDTHS = 500, 1400, 1920
THEMES = "light", "dark"
MOST_BYTES = 300_000
"""The size of a picture in the documentation."""
FIRST_SCREEN = 860
SHOWN = {
    "report-hsa": ("hsa-gfx942-finding", "light", ""),
    "report-refsi": ("refsi-finding", "light", ""),
    "report-acceldev": ("acceldev-finding", "light", ""),
    "report-amdcl2": ("amdcl2-finding", "light", ""),
    "report-fletcher": ("fletcher-finding", "light", ""),
    "report-hip": ("hip-finding", "light", ""),
    "report-dark": ("refsi", "dark", ""),
    "report-code": ("hip", "light", "#code"),
    "report-waves": ("waves", "light", "#timeline"),
    "report-registers": ("registers", "light", "#snapshots"),
}
"""The report and theme of each picture in the documentation, and its part; "" for the first screen."""


def reports(folder: Path) -> Iterator[Path]:
    """Make all reports in `folder`; the paths are relative to it, so that pages do not show where it is."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        for name, make in {**INTERFACES, "hip": hip}.items():
            for has_finding in (True, False):
                page = Path(f"{name}-finding.html" if has_finding else f"{name}.html")
                make(page, has_finding)
                yield folder / page
        for make in (waves, registers):
            make(page := Path(f"{make.__name__}.html"))
            yield folder / page
    finally:
        os.chdir(before)


def show(browser: Browser, page: Path, width: int, theme: str, part: str | None = None) -> bytes:
    """A picture of a report as PNG: of the element that the selector `part` names, else of all of the page."""
    tab = browser.open(page, width=width, height=FIRST_SCREEN, theme=theme)
    if part != "":
        whole = tab("document.documentElement.scrollHeight")
        tab.call("Emulation.setDeviceMetricsOverride", width=width, height=whole, deviceScaleFactor=1, mobile=False)
    tab("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    clip = {}
    if part:
        box = "(({x, y, width, height}) => ({x, y, width, height, scale: 1}))"
        clip = {"clip": tab(f"{box}(document.querySelector('{part}').getBoundingClientRect())")}
    taken = tab.call("Page.captureScreenshot", format="png", **clip)["data"]
    tab.close()
    return compressed(base64.b64decode(taken))


def compressed(png: bytes) -> bytes:
    """The same picture without the chunks that browsers add, and compressed as far as zlib can."""
    pixels, chunks, at = b"", [], 8
    while at < len(png):
        length, kind = struct.unpack_from(">I4s", png, at)
        data = png[at + 8 : at + 8 + length]
        at += 12 + length
        if kind == b"IDAT":
            pixels += data
        elif kind == b"IHDR":
            chunks.append((kind, data))
    chunks += [(b"IDAT", zlib.compress(zlib.decompress(pixels), 9)), (b"IEND", b"")]
    parts = (
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks
    )
    return png[:8] + b"".join(parts)


def main() -> None:
    """Write the pictures."""
    with tempfile.TemporaryDirectory() as temporary:
        pages = {page.stem: page for page in reports(Path(temporary))}
        browser = Browser(Path(temporary) / "profile")
        if sys.argv[1:]:
            out = Path(sys.argv[1])
            out.mkdir(parents=True, exist_ok=True)
            for name, page in pages.items():
                for width in WIDTHS:
                    for theme in THEMES:
                        (out / f"{name}-{width}-{theme}.png").write_bytes(show(browser, page, width, theme))
        else:
            for name, (report, theme, part) in SHOWN.items():
                picture = show(browser, pages[report], 1400, theme, part)
                assert len(picture) < MOST_BYTES, name
                (PICTURES / f"{name}.png").write_bytes(picture)
        browser.close()


if __name__ == "__main__":
    main()
