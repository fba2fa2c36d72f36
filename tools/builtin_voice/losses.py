"""Spectral distances and the spectrogram discriminators of the codec."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

from dsp import RATE, magnitude, mel_bank, spectrum

MEL = {2048: (160, 1.0), 1024: (100, 1.0), 512: (64, 1.0), 256: (32, 1.3), 128: (16, 1.3)}   # window: (bands, weight); short ones hear bursts
LINEAR = (2048, 1024, 512)                                         # windows whose bins below 5 kHz count by themselves: harmonics


def spectral_loss(y, x):
    """(log-mel distance, linear distance) of y from x, both [B, n]."""
    mel = lin = 0
    for n, (bands, weight) in MEL.items():
        my, mx = magnitude(y, n, n // 4), magnitude(x, n, n // 4)
        b = mel_bank(n, bands, x.device)
        mel = mel + weight * ((b @ my).clamp(min=3e-5).log10() - (b @ mx).clamp(min=3e-5).log10()).abs().mean()
        if n in LINEAR:
            k = int(5000 / RATE * n)
            a, c = my[:, :k], mx[:, :k]
            lin = lin + (a.clamp(min=1e-4).log10() - c.clamp(min=1e-4).log10()).abs().mean()
            lin = lin + ((a - c).pow(2).sum((1, 2)) / (c.pow(2).sum((1, 2)) + 1e-3)).sqrt().mean() * 0.3
    return mel / sum(w for _, w in MEL.values()), lin / len(LINEAR)


class Scale(nn.Module):
    """One discriminator, on the complex spectrum below 8 kHz."""

    def __init__(self, size, channels=32):
        super().__init__()
        self.size = size
        norm = nn.utils.parametrizations.weight_norm
        self.c = nn.ModuleList([norm(nn.Conv2d(2, channels, (9, 3), padding=(4, 1)))] +
                               [norm(nn.Conv2d(channels, channels, (9, 3), (2, 1), padding=(4, d), dilation=(1, d))) for d in (1, 2, 4)] +
                               [norm(nn.Conv2d(channels, channels, (3, 3), padding=1))])
        self.o = norm(nn.Conv2d(channels, 1, (3, 3), padding=1))

    def forward(self, x):
        with torch.autocast(x.device.type, enabled=False):
            s = spectrum(x.float(), self.size, self.size // 4)[:, : self.size // 3 + 1] * (4 / math.sqrt(self.size))
            h = torch.stack([s.real, s.imag], 1)
        features = []
        for c in self.c:
            h = F.leaky_relu(c(h), 0.1)
            features.append(h)
        return self.o(h), features


class Discriminator(nn.Module):
    def __init__(self, sizes=(2048, 1024, 512, 256)):
        super().__init__()
        self.d = nn.ModuleList([Scale(n) for n in sizes])

    def forward(self, x):
        return [d(x) for d in self.d]


def discriminator_loss(real, fake):
    return sum(((1 - a[0].float()) ** 2).mean() + (b[0].float() ** 2).mean() for a, b in zip(real, fake))


def generator_loss(real, fake):
    """(adversarial, feature matching)."""
    adversarial = sum(((1 - b[0].float()) ** 2).mean() for b in fake)
    matching = sum(sum((u.float() - v.float()).abs().mean() / (u.float().abs().mean() + 1e-3) for u, v in zip(a[1], b[1])) / len(a[1])
                   for a, b in zip(real, fake))
    return adversarial, matching
