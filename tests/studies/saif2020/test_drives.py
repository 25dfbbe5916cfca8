"""Errors of the twins of RR-9319's drives on its tables 2 and 3."""

import numpy as np
from support import ROOT

from iopatterns import twin
from iopatterns.twin import models, ranges
from iopatterns.twin.fitting import published_points, simulate_point


def test_errors_of_fitted_and_held_out_values_are_small() -> None:
    errors: dict[bool, list[float]] = {False: [], True: []}
    for name in ("px02ssf020", "px05smb040", "c400"):
        model = twin.load_model(name)
        for point in published_points(ROOT, model.fit):
            if point.id.startswith("table"):
                errors[point.predicted].append(abs(simulate_point(model, point) / point.value - 1))
    assert (len(errors[False]), len(errors[True])) == (20, 4)
    assert np.mean(errors[False]) <= 0.05
    assert np.mean(errors[True]) <= 0.20


def test_the_description_names_the_claim_that_a_parameter_was_chosen_for() -> None:
    sources = {row[0]: row[3] for row in ranges.parameter_rows(models.load_model("px05smb040"))}
    assert sources["mode_page.FSW"].endswith("; chosen for saif2020/fsw-no-effect")
