"""Signals: 16 kHz to 24 kHz, magnitude spectra, mel banks.  Everything runs on the device of its input."""
import math

import numpy as np
import torch
import torch.nn.functional as F

RATE = 24000
FRAME = 1920                                                       # samples of a codec frame: 12.5 Hz

_kept = {}


def _keep(key, make):
    if key not in _kept:
        _kept[key] = make()
    return _kept[key]


def to_24k(x):
    """[B, n] at 16 kHz -> [B, 3n/2] at 24 kHz, by a Kaiser-windowed sinc."""
    zeros = 32                                                     # zero crossings on each side

    def kernel():
        t = torch.arange(-3 * zeros, 3 * zeros + 1, dtype=torch.float64)
        w = torch.special.i0(9.0 * torch.sqrt((1 - (t / (3 * zeros + 1)) ** 2).clamp(min=0))) / torch.special.i0(torch.tensor(9.0, dtype=torch.float64))
        return (torch.sinc(t / 3 * 0.97) * 0.97 * w).to(x)[None, None]

    h = _keep(("sinc", x.device, x.dtype), kernel)
    up = torch.zeros(x.shape[0], x.shape[1], 3, device=x.device, dtype=x.dtype)
    up[:, :, 0] = x
    y = F.conv1d(up.reshape(x.shape[0], 1, -1), h, stride=2, padding=h.shape[-1] // 2)
    return y[:, 0, : x.shape[1] * 3 // 2]


def mel_bank(size, bands, device):
    """[bands, size/2 + 1] triangles of unit sum, 0 to 12 kHz."""
    def make():
        points = 700 * (10 ** (np.linspace(0, 2595 * np.log10(1 + RATE / 2 / 700), bands + 2) / 2595) - 1)
        f = np.linspace(0, RATE / 2, size // 2 + 1)
        up = (f[None] - points[:-2, None]) / (points[1:-1] - points[:-2])[:, None]
        down = (points[2:, None] - f[None]) / (points[2:] - points[1:-1])[:, None]
        w = np.maximum(0, np.minimum(up, down))
        total = w.sum(1, keepdims=True)
        total[total == 0] = 1
        return torch.tensor(w / total, dtype=torch.float32, device=device)
    return _keep(("mel", size, bands, device), make)


def spectrum(x, size, hop):
    """Complex short-time spectrum [B, size/2 + 1, n/hop + 1]."""
    window = _keep(("hann", size, x.device), lambda: torch.hann_window(size, device=x.device))
    return torch.stft(x, size, hop, size, window, center=True, pad_mode="constant", return_complex=True)


def magnitude(x, size, hop):
    """Its magnitude, scaled by 1/sqrt(size), with a gradient everywhere."""
    s = spectrum(x, size, hop)
    return torch.sqrt(s.real ** 2 + s.imag ** 2 + 1e-10) / math.sqrt(size)
