"""Pages in a real browser: nothing on its console, nothing asked of a network, no sideways scroll.

They need Chromium and its driver, and are left out, with the reason, where these are not installed.
"""

import json
import shutil
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise

import jax
import numpy as np
import pytest

import bayesdice_ppl as bd
from tests.reporting.reported import HOSTILE, belief_of

pytestmark = pytest.mark.slow
BROWSER = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
DRIVER = shutil.which("chromedriver")
PHONE, DESK = 390, 1280
MOST = 3_000_000


@pytest.fixture(scope="module")
def browser():
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
    if BROWSER is None or DRIVER is None:
        pytest.skip("Chromium and its driver are not installed (apt-get install chromium-driver)")
    options = webdriver.ChromeOptions()
    options.binary_location = BROWSER
    for word in ("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"):
        options.add_argument(word)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    yield driver
    driver.quit()


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A folder, and where a web server of this machine shows it."""
    folder = tmp_path_factory.mktemp("site")

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *arguments):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield folder, f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def fitted(n, plain):
    """A belief of many candidates, as `fit` makes it."""
    logs, policies = plain.log(0, n_episodes=40), plain.policies(1, n)
    return bd.fit(logs, policies, gamma=0.9, rng_key=jax.random.key(0), draws=1000)


def several(_):
    rng = np.random.default_rng(0)
    belief = belief_of("abcde", rewards=["quality", "cost"])
    group = belief["posterior"].to_dataset()
    group["quality"] = group["value"]
    group["cost"] = group["value"].copy(data=rng.normal(size=group["value"].shape))
    belief["posterior"] = type(belief)(group)
    return belief


BELIEFS = {
    "3": (partial(fitted, 3), 2),
    "60": (partial(fitted, 60), 3),
    "500": (partial(fitted, 500), 5),
    "hostile": (lambda _: belief_of(HOSTILE), 3),
    "several": (several, 2),
}


@pytest.fixture(scope="module", params=BELIEFS)
def page(request, site, plain):
    """The name of a page that is in the folder."""
    make, k = BELIEFS[request.param]
    found = bd.report(make(plain), bd.scores.regret(k=k))
    path = found.save(site[0] / f"{request.param}.html")
    assert path.stat().st_size < MOST
    return path


def show(browser, url, width, **media):
    """Open a page, and give what it asked for and what it said."""
    mobile = width == PHONE
    size = {"width": width, "height": 844, "deviceScaleFactor": 1, "mobile": mobile}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    features = [{"name": name.replace("_", "-"), "value": value} for name, value in media.items()]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    for kind in ("browser", "performance"):
        browser.get_log(kind)
    browser.get(url)
    told = [json.loads(each["message"])["message"] for each in browser.get_log("performance")]
    asked = [
        each["params"]["request"]["url"]
        for each in told
        if each["method"] == "Network.requestWillBeSent"
    ]
    return asked, browser.get_log("browser")


@pytest.mark.parametrize("width", [PHONE, DESK])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_page_is_quiet_and_fits_its_width(browser, page, site, width, scheme):
    for url in (page.as_uri(), f"{site[1]}/{page.name}"):
        asked, said = show(browser, url, width, prefers_color_scheme=scheme)
        assert [each for each in asked if not each.startswith("data:")] == [url]
        assert said == []
    # All that is folded is open, so that it has to fit too.
    browser.execute_script("document.querySelectorAll('details').forEach(d => d.open = true)")
    wide = browser.execute_script("return document.documentElement.scrollWidth")
    assert wide <= width
    beyond = browser.execute_script(
        "return [...document.querySelectorAll('main *')].filter(e => !e.closest('svg') && "
        "e.getBoundingClientRect().right > innerWidth + 1).map(e => e.outerHTML.slice(0, 80))"
    )
    assert beyond == []


def test_no_name_is_run(browser, site):
    found = bd.report(belief_of(HOSTILE), bd.scores.regret(k=3))
    path = found.save(site[0] / "names.html", overwrite=True)
    browser.execute_cdp_cmd(
        "Page.addScriptToEvaluateOnNewDocument",
        {"source": "window.ran = false; window.alert = () => { window.ran = true; }"},
    )
    show(browser, path.as_uri(), DESK)
    assert browser.execute_script("return window.ran") is False
    assert browser.execute_script("return document.querySelectorAll('img, script').length") == 0


def test_names_do_not_overlap_in_figures(browser, page):
    for width in (PHONE, DESK):
        show(browser, page.as_uri(), width)
        boxes = browser.execute_script(
            "return [...document.querySelectorAll('figure')].map(f => [...f.querySelectorAll("
            "'.row > .name, .bars > .name')].map(e => e.getBoundingClientRect()).filter("
            "b => b.height > 0).map(b => [b.top, b.bottom]))"
        )
        for rows in boxes:
            for (_, bottom), (top, _) in pairwise(rows):
                assert bottom <= top + 1


def test_settings_are_printed_though_they_are_folded(browser, page):
    show(browser, page.as_uri(), DESK)
    shown = (
        "return [...document.querySelectorAll('details.printed')].map(e => "
        "getComputedStyle(e, '::details-content').contentVisibility)"
    )
    assert set(browser.execute_script(shown)) <= {"hidden"}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    assert set(browser.execute_script(shown)) <= {"visible"}


def test_a_printed_page_is_no_wider_than_paper(browser, page):
    show(browser, page.as_uri(), DESK)
    printed = browser.execute_cdp_cmd("Page.printToPDF", {"paperWidth": 8.27, "paperHeight": 11.7})
    assert len(printed["data"]) > 10_000
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    # A4 less its margins, at 96 dots per inch.
    size = {"width": 688, "height": 1000, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    assert browser.execute_script("return document.documentElement.scrollWidth") <= 688
