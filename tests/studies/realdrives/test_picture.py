"""The picture of README.md."""

from pathlib import Path

import matplotlib.image
import numpy as np
from support import ROOT, script


def test_the_picture_shows_the_recorded_measurements(tmp_path: Path) -> None:
    drawing = script(ROOT / "tests/studies/realdrives/draw_picture.py")
    drawing.draw(tmp_path / "picture.png")
    committed, drawn = (matplotlib.image.imread(path) for path in (drawing.PICTURE, tmp_path / "picture.png"))
    remedy = "python tests/studies/realdrives/draw_picture.py draws the picture again"
    np.testing.assert_array_equal(committed, drawn, err_msg=remedy)
