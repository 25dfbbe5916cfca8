"""The README's picture."""

from pathlib import Path

import matplotlib.image
import numpy as np
from support import ROOT, script


def test_the_picture_is_what_the_recorded_measurement_gives(tmp_path: Path) -> None:
    drawing = script(ROOT / "tests/studies/saif2020/draw_picture.py")
    drawing.draw(tmp_path / "picture.png")
    committed, drawn = (matplotlib.image.imread(path) for path in (drawing.PICTURE, tmp_path / "picture.png"))
    np.testing.assert_array_equal(
        committed, drawn, err_msg="python tests/studies/saif2020/draw_picture.py draws it anew"
    )
