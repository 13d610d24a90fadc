"""Links to files that are no pages, such as ``models/program.py``: the site has a copy to download.

MyST takes every file whose name ends as a page's may for a page, and notebooks may end in ``.py``.
"""

import os

from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform


class Downloads(SphinxTransform):
    """Turn links to documents that do not exist into downloads of the files that do."""

    default_priority = 400

    def apply(self, **_: object) -> None:
        """Go through the links of a page."""
        here = self.env.doc2path(self.env.docname).parent
        for link in list(self.document.findall(addnodes.pending_xref)):
            target = link.get("reftarget", "")
            if link.get("refdomain") != "doc" or target in self.env.found_docs:
                continue
            for path in self.env.srcdir.glob(f"{target}.*"):
                given = {
                    **link.attributes,
                    "refdomain": None,
                    "reftarget": os.path.relpath(path, here),
                }
                download = addnodes.download_reference("", "", *link.children, **given)
                link.replace_self(download)
                break


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the transform."""
    app.add_transform(Downloads)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
