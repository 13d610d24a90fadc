"""The site of the documentation is built as `make docs` builds it: a warning is an error."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    pytest.importorskip("sphinx", reason="sh .ci/venv.sh docs puts it into .venv")
    folder = tmp_path_factory.mktemp("site")
    places = [
        "--conf-dir",
        "docs",
        "--doctree-dir",
        str(folder / "trees"),
        ".",
        str(folder / "html"),
    ]
    done = subprocess.run(
        [sys.executable, "-m", "sphinx", "--fail-on-warning", "--keep-going", "--quiet", *places],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return folder / "html"


@pytest.mark.slow
def test_every_link_within_the_site_is_there(site):
    pages = {path: path.read_text(encoding="utf-8") for path in site.rglob("*.html")}
    ids = {path: set(re.findall(r'\bid="([^"]+)"', text)) for path, text in pages.items()}
    missing = []
    for page, text in pages.items():
        for target in re.findall(r'<(?:a|img)\b[^>]*\b(?:href|src)="([^"]+)"', text):
            if re.match(r"\w+:|//", target):
                continue
            place, _, anchor = target.partition("#")
            file = (page.parent / place.partition("?")[0]).resolve() if place else page
            found = file.exists() and (not anchor or file not in ids or anchor in ids[file])
            if not found:
                missing.append(f"{page.relative_to(site)}: {target}")
    assert not missing


@pytest.mark.slow
def test_no_page_asks_another_site_for_anything(site):
    """A page is read without a network: its scripts, styles, fonts and formulas are in the site."""
    wanted = (
        r'<(?:script|img|iframe)\b[^>]*\bsrc="(?:https?:)?//|<link\b[^>]*\bhref="(?:https?:)?//'
    )
    for page in site.rglob("*.html"):
        assert not re.search(wanted, page.read_text(encoding="utf-8")), page
