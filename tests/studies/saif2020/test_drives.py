"""The twins of the drives of RR-9319: their errors on its tables 2 and 3."""

import numpy as np
from support import ROOT

from iopatterns import twin
from iopatterns.twin import models
from iopatterns.twin.fitting import published_points, simulate_point


def test_errors_of_the_fitted_and_the_predicted_values_of_tables_2_and_3_are_small() -> None:
    errors: dict[bool, list[float]] = {False: [], True: []}
    for name in ("px02ssf020", "px05smb040", "c400"):
        model = twin.load_model(name)
        for point in published_points(ROOT, model.fit):
            if point.id.startswith("table"):
                errors[point.predicted].append(abs(simulate_point(model, point) / point.value - 1))
    assert (len(errors[False]), len(errors[True])) == (20, 4)
    assert np.mean(errors[False]) <= 0.05
    assert np.mean(errors[True]) <= 0.20


def test_what_a_parameter_was_chosen_for_is_described() -> None:
    sources = {row[0]: row[3] for row in models.parameter_rows(models.load_model("px05smb040"))}
    assert sources["mode_page.FSW"].endswith("; chosen for saif2020/fsw-no-effect")
