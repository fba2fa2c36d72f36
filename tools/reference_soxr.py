#!/usr/bin/env python3
"""Writes tests/data/soxr/: a sweep brought to 16 kHz by libsoxr's HQ setting, which the reference implementations use.

Needs numpy and soxr (PyPI). The sweep is repeated in src/audio/read/sinc.rs.
"""
import pathlib

import numpy
import soxr

folder = pathlib.Path(__file__).parent.parent / "tests/data/soxr"
folder.mkdir(exist_ok=True)
for rate in (8_000, 11_025, 22_050, 24_000, 44_100, 48_000):
    t = numpy.arange(rate // 10) / rate
    top = 0.45 * min(rate, 16_000)
    sweep = numpy.sin(numpy.pi * t / 0.1) ** 2
    sweep *= numpy.sin(2 * numpy.pi * (50 * t + 0.5 * (top - 50) / 0.1 * t * t))
    out = soxr.resample(sweep.astype(numpy.float32), rate, 16_000, "HQ")
    out.astype("<f4").tofile(folder / f"{rate}-16000.f32")
