"""What to cite: the paper that the method is from, and this library."""

from __future__ import annotations

from typing import NamedTuple, final

from bayesdice_ppl._version import __version__


@final
class Citation(NamedTuple):
    """A work to cite.

    Attributes
    ----------
    what
        What it is, in words.
    bibtex
        Its entry for BibTeX.
    """

    what: str
    bibtex: str


PAPER = Citation(
    "The method",
    """@inproceedings{yang2022offline,
  title = {Offline Policy Selection under Uncertainty},
  author = {Yang, Mengjiao and Dai, Bo and Nachum, Ofir and Tucker, George
    and Schuurmans, Dale},
  booktitle = {International Conference on Artificial Intelligence and Statistics},
  year = {2022},
  note = {arXiv:2012.06919},
}""",
)
LIBRARY = Citation(
    "This library",
    f"""@software{{bayesdice_ppl,
  title = {{bayesdice-ppl: offline policy selection under uncertainty
    as probabilistic programming}},
  version = {{{__version__}}},
}}""",
)


def citations(method: str) -> tuple[Citation, ...]:
    """What to cite for a belief.

    Parameters
    ----------
    method
        Name of the baseline that made it; empty for BayesDICE, which alone is the paper's.
    """
    return (LIBRARY,) if method else (PAPER, LIBRARY)
