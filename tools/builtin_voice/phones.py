"""A phone recogniser on the teacher's speech: it tells the codec what must stay audible."""
import torch
import torch.nn as nn
import torch.nn.functional as F

from dsp import magnitude, mel_bank
from flite import PHONES


class PhoneNet(nn.Module):
    """Log-mel at 100 Hz -> phone logits at 100 Hz, with the features on the way."""

    BANDS = 80

    def __init__(self, d=192):
        super().__init__()
        self.inp = nn.Conv1d(self.BANDS, d, 5, padding=2)
        self.mid = nn.ModuleList([nn.Conv1d(d, d, 5, padding=2 * s, dilation=s) for s in (1, 2, 1)])
        self.out = nn.Conv1d(d, len(PHONES), 1)

    def forward(self, x):
        """[B, n] at 24 kHz -> (logits [B, phones, n/240], list of features)."""
        with torch.autocast(x.device.type, enabled=False):
            m = (mel_bank(512, self.BANDS, x.device) @ magnitude(x, 512, 240))[..., : x.shape[1] // 240]
            h = (m.clamp(min=1e-4).log() + 5) / 3
        h = F.gelu(self.inp(h))
        features = [h]
        for c in self.mid:
            h = h + F.gelu(c(h))
            features.append(h)
        return self.out(h).float(), features


def phone_loss(net, y, x, labels):
    """(cross-entropy of y's phones, distance of y's features from x's); `net` learns nothing from it."""
    net.requires_grad_(False)
    with torch.no_grad():
        _, want = net(x)
    logits, got = net(y)
    net.requires_grad_(True)
    far = sum((a.float() - b.float()).abs().mean() / (b.float().abs().mean() + 1e-3) for a, b in zip(got, want)) / len(want)
    return F.cross_entropy(logits, labels), far
