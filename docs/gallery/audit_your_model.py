"""Audit your model: run the fit with and without one record many times, and see what can be told apart.

An audit refutes wrong claims; it proves nothing. Here an honest fit, and one that claims an ε it does not have.
"""

import os
import warnings
from pathlib import Path

import dpopt
import numpy as np
from dpopt import audit

out = Path(os.environ.get("DPOPT_GALLERY_OUT", "gallery-out"))
out.mkdir(parents=True, exist_ok=True)
runs = 800 if "DPOPT_GALLERY_SMALL" in os.environ else 4000

# The worst record for a mean of numbers in [0, 1]: the one at the border. Without it the record contributes nothing: under
# zero-out that is the middle of the range.
others = np.full((9, 1), 0.5)
with_record, without_record = np.vstack([others, [[1.0]]]), np.vstack([others, [[0.5]]])


def release(epsilon):
    def run(data):
        return dpopt.MeanEstimator(epsilon=epsilon, delta=1e-5, bounds=(0, 1)).fit(data).mean_[0]

    return run


warnings.simplefilter("ignore", dpopt.PrivacyWarning)  # δ above 1/n is no matter on ten made-up rows

honest = audit.audit(release(1.0), with_record, without_record, runs=runs, epsilon=1.0, delta=1e-5)
print("honest:", honest)
lying = audit.audit(release(12.0), with_record, without_record, runs=runs, epsilon=1.0, delta=1e-5)
print("lying: ", lying)
honest.save(out / "audit_honest.svg")
lying.save(out / "audit_lying.svg")
# A true claim is blamed with probability 1e-6 at most, which is 1 - `confidence`; this false one falls after 170 ± 30 runs.
assert not honest.violated and lying.violated
