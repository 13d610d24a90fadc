"""Draw the picture of a report: ``python docs/report_figure.py``.

It needs Chromium and its driver. The page is that of the clicks that come with the library, on a
desk and on a phone.
"""

import base64
import io
import shutil
import tempfile
from pathlib import Path

import jax
from PIL import Image
from selenium import webdriver

import bayesdice_ppl as bd

TARGET = Path(__file__).parent / "images" / "report.png"
DESK, PHONE, HEIGHT = 900, 390, 1400
GAP, COLORS = 40, 200


def main() -> None:
    """Make the page, and put its two pictures side by side."""
    logs, policies, *_ = bd.datasets.open_bandit()
    belief = bd.fit(logs, policies, gamma=0.0, rng_key=jax.random.key(1))
    page = bd.report(belief, bd.scores.regret(k=2))
    options = webdriver.ChromeOptions()
    for word in ("--headless=new", "--no-sandbox", "--hide-scrollbars"):
        options.add_argument(word)
    driver = webdriver.Chrome(options, webdriver.ChromeService(shutil.which("chromedriver")))
    with tempfile.TemporaryDirectory() as folder:
        url = page.save(Path(folder) / "report.html").as_uri()
        shown = [picture(driver, url, width) for width in (DESK, PHONE)]
    driver.quit()
    whole = Image.new("RGB", (DESK + GAP + PHONE, HEIGHT), "#b6bec7")
    whole.paste(shown[0], (0, 0))
    whole.paste(shown[1], (DESK + GAP, 0))
    whole.quantize(COLORS).save(TARGET, optimize=True)
    print(f"{TARGET}: {TARGET.stat().st_size:,} bytes")


def picture(driver: webdriver.Chrome, url: str, width: int) -> Image.Image:
    """The top of a page at a width."""
    size = {"width": width, "height": HEIGHT, "deviceScaleFactor": 1, "mobile": width == PHONE}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    driver.get(url)
    taken = driver.execute_cdp_cmd("Page.captureScreenshot", {"format": "png"})
    return Image.open(io.BytesIO(base64.b64decode(taken["data"]))).convert("RGB")


if __name__ == "__main__":
    main()
