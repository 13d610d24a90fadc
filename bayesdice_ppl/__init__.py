"""Choose among policies that cannot be tried: beliefs from logs, rankings from beliefs.

Logs of one policy at work become a joint posterior over the values of candidate policies that
were never run (BayesDICE, as a NumPyro program), and that belief with the user's own score
becomes a ranking with its expected loss. Everything is imported on first use.
"""

import lazy_loader as _lazy

from bayesdice_ppl._version import __version__

__getattr__, __dir__, __all__ = _lazy.attach_stub(__name__, __file__)
__all__ = [*__all__, "__version__"]
