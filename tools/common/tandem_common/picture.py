"""Pictures by matplotlib, as small files: a palette of at most 256 colours, a quarter of the size."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from .whole import written_whole

COMMON = 64  # colours that are taken because they are frequent; the others because they are far from all of these


def palette(colours, counts, size: int = 256) -> list[int]:
    """Which of the colours (n rows of red, green, blue) to keep: a rare one that looks like no other stays, too."""
    import numpy

    kept = list(numpy.argsort(-counts, kind="stable")[:COMMON])
    distance = numpy.full(len(colours), numpy.inf)
    for one in kept:
        distance = numpy.minimum(distance, ((colours - colours[one]) ** 2).sum(1))
    while len(kept) < size and distance.max() > 0:
        kept.append(int(distance.argmax()))
        distance = numpy.minimum(distance, ((colours - colours[kept[-1]]) ** 2).sum(1))
    return kept


def drawing() -> Any:
    """matplotlib's pyplot, for files alone; imported when something is drawn, which takes a second."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    return pyplot


def panels(count: int, across: int = 3, wide: float = 4.8, high: float = 3.9, least_width: float = 0.0, **shared: Any) -> tuple[Any, list[Any]]:
    """A figure of so many panels of `wide` x `high` inches, at most `across` to a line, and they in reading order. `shared`: sharex, sharey."""
    columns = min(across, count)
    rows = -(-count // columns)
    figure, axes = drawing().subplots(rows, columns, squeeze=False, constrained_layout=True, figsize=(max(least_width, wide * columns), high * rows), **shared)
    for place in axes.flat[count:]:
        place.set_visible(False)
    return figure, list(axes.flat[:count])


def save(figure, path: Path, dpi: int = 130) -> None:
    """Writes the figure as PNG."""
    import numpy
    from PIL import Image

    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=dpi, facecolor="white")
    pixels = numpy.asarray(Image.open(buffer).convert("RGB"))
    # As one number each, which sorts as the rows do: many times as fast as by rows.
    packed = pixels.reshape(-1, 3).astype(numpy.uint32) @ numpy.array([1 << 16, 1 << 8, 1], dtype=numpy.uint32)
    packed, place, counts = numpy.unique(packed, return_inverse=True, return_counts=True)
    colours = numpy.stack([packed >> 16, packed >> 8 & 255, packed & 255], axis=1).astype(int)
    kept = colours[palette(colours, counts)]
    nearest = numpy.array([((kept - colour) ** 2).sum(1).argmin() for colour in colours], dtype=numpy.uint8)
    picture = Image.fromarray(nearest[place].reshape(pixels.shape[:2]), mode="P")
    picture.putpalette(kept.astype(numpy.uint8).tobytes())
    with written_whole(path) as fresh:
        picture.save(fresh, "PNG", optimize=True)
