"""Masses and widths, in GeV, of the particles in the course's events.

Source: Particle Data Group, *Review of Particle Physics*, 2026 edition, from the table
"Masses, widths and MC ID numbers" (``mass_width_2026.txt``, https://pdg.lbl.gov).  The
uncertainties are the PDG's; the course uses the central values as if they were exact.
"""

from __future__ import annotations

MUON_MASS = 0.1056583755  # +- 2.3e-9

Z_MASS = 91.1879  # +- 0.0020
Z_WIDTH = 2.4955  # +- 0.0023

JPSI_MASS = 3.096900  # +- 6e-6
JPSI_WIDTH = 92.6e-6  # +- 1.7e-6

UPSILON_1S_MASS = 9.46040  # +- 1.0e-4
UPSILON_1S_WIDTH = 54.0e-6  # +- 1.3e-6

UPSILON_2S_MASS = 10.0234  # +- 5e-4
UPSILON_2S_WIDTH = 32.0e-6  # +- 2.6e-6

UPSILON_3S_MASS = 10.3551  # +- 5e-4
UPSILON_3S_WIDTH = 20.3e-6  # +- 1.9e-6
