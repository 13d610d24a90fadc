"""Does a procedure cover on logs like these? Simulated logs with known values, and what they say.

A belief claims that its 90 % intervals hold the truth in 90 % of logs. `calibrate` makes logs like
the user's own whose true values are known, fits each, and counts. `recalibrate` moves and widens a
belief by its own record, and says so in it.
"""

from bayesdice_ppl.calibration.calibrate import calibrate
from bayesdice_ppl.calibration.calibration import Calibration
from bayesdice_ppl.calibration.recalibrate import recalibrate

__all__ = ["Calibration", "calibrate", "recalibrate"]
