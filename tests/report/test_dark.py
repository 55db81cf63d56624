"""Pictures for dark pages."""

import io

import numpy as np
from PIL import Image

from federico.report.dark import CARD, contrast, darkened

BLUE = (0, 114, 178)
PINK = (204, 121, 167)


def test_a_picture_that_cannot_be_drawn_again_is_turned_dark() -> None:
    picture = Image.new("RGB", (4, 1), "white")
    picture.putpixel((1, 0), (0, 0, 0))
    picture.putpixel((2, 0), BLUE)
    picture.putpixel((3, 0), PINK)
    buffer = io.BytesIO()
    picture.save(buffer, "PNG")

    with Image.open(io.BytesIO(darkened(buffer.getvalue()))) as dark:
        paper, ink, blue, pink = np.asarray(dark.convert("RGB"))[0].tolist()
    assert "#{:02X}{:02X}{:02X}".format(*paper) == CARD
    assert contrast("#{:02X}{:02X}{:02X}".format(*ink), CARD) > 7
    assert blue[2] > blue[1] > blue[0], "its hue stays"
    assert contrast("#{:02X}{:02X}{:02X}".format(*blue), CARD) > 3
    assert contrast("#{:02X}{:02X}{:02X}".format(*pink), CARD) > 3
