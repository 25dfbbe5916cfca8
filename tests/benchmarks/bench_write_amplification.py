"""Write amplification of simulated drives, against closed forms.

Run it as ``python tests/benchmarks/bench_write_amplification.py``. The drive has uniform random writes of 4 KiB, is
overwritten twice from its steady state, and is measured over the second time.
"""

import math

import numpy as np
import pandas as pd
from scipy.special import lambertw

from iopatterns import twin
from iopatterns.twin.trace_replay import ReplaySession

SIZE_BYTES = 4 * 2**30
UNIT_BYTES = 4096
DIES = 16
BLOCK_PAGES = 128
RESERVE = 3
SETTINGS = (
    f"capacity.size={SIZE_BYTES}B",
    "flash.channels=16",
    "flash.dies_per_channel=1",
    "flash.planes=1",
    f"flash.page={UNIT_BYTES}B",
    f"flash.pages_per_block={BLOCK_PAGES}",
    f"page_mapping.unit={UNIT_BYTES}B",
    f"page_mapping.gc_reserve={RESERVE}",
    "ftl.initial_state=random",
)


def greedy(spare: float, pages: int) -> float:
    """Return the write amplification of collecting the block with the fewest valid pages.

    ``spare`` is physical over logical space, ``pages`` those of a block. After P. Desnoyers, Analytic modeling of SSD
    write performance, SYSTOR 2012, section 4.
    """
    scale = 1 + 1 / (2 * pages)
    valid = 0.5 - pages / spare * lambertw(-scale * spare * math.exp(-scale * spare)).real
    return float(pages / (pages - (valid - 1)))


def oldest(spare: float) -> float:
    """Return the write amplification of collecting the oldest block, as cost-benefit does for uniform writes.

    After P. Desnoyers, as above, section 3.
    """
    return float(spare / (spare + lambertw(-spare * math.exp(-spare)).real))


def overwrites(seed: int) -> pd.DataFrame:
    """Return one random write for each unit of the drive."""
    units = SIZE_BYTES // UNIT_BYTES
    blocks = np.random.Generator(np.random.PCG64(seed)).integers(0, units, units, dtype=np.uint64)
    size_bytes = np.full(units, UNIT_BYTES, np.uint64)
    return pd.DataFrame(
        {"operation": np.full(units, 1, np.uint8), "offset_bytes": blocks * size_bytes, "size_bytes": size_bytes}
    )


def measured(policy: str, over_provisioning: float) -> float:
    """Return the number of programmed units per unit that the host wrote."""
    model = twin.load_model("px05smb040").overridden(
        [*SETTINGS, f"ftl.over_provisioning={over_provisioning}", f"page_mapping.gc_policy={policy}"]
    )
    session = ReplaySession(model, depth=64)
    counts = [session.counters() for _ in session.run(overwrites(seed) for seed in (1, 2))]
    before, after = counts[:2]
    return (after["units_programmed"] - before["units_programmed"]) / (after["units_host"] - before["units_host"])


def main() -> None:
    """Measure both policies at over-provisioning of 7, 28 and 40 %."""
    for policy in ("greedy", "cost_benefit"):
        for over_provisioning in (0.07, 0.28, 0.40):
            blocks = SIZE_BYTES / UNIT_BYTES / BLOCK_PAGES
            physical = math.ceil(blocks * (1 + over_provisioning) / DIES) * DIES
            spare = (physical - RESERVE * DIES) / blocks
            closed = greedy(spare, BLOCK_PAGES) if policy == "greedy" else oldest(spare)
            found = measured(policy, over_provisioning)
            print(
                f"{policy}, over-provisioning {over_provisioning:.0%} ({spare - 1:.1%} without the reserve):"
                f" write amplification {found:.3f}, closed form {closed:.3f}, {found / closed - 1:+.1%}"
            )


if __name__ == "__main__":
    main()
