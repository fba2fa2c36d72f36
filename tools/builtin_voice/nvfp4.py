"""NVFP4 as modelopt writes it: 4-bit weights, an E4M3 scale for every 16, one float32 second scale a matrix group."""
import torch

E2M1 = torch.tensor([0, .5, 1, 1.5, 2, 3, 4, 6, -0., -.5, -1, -1.5, -2, -3, -4, -6])


def second_scale(weights):
    """The shared second scale of a group of matrices."""
    return torch.stack([w.abs().max() for w in weights]).max().float() / 2688.0      # 2688 = 448 * 6


def block_scales(b, ws2):
    """E4M3 scales of blocks b [..., 16]."""
    s = b.abs().amax(-1) / (6.0 * ws2)
    return torch.where(s == 0, torch.ones_like(s), s).clamp(2.0 ** -9, 448.0).to(torch.float8_e4m3fn)


def fake(w, ws2):
    """w [..., N, K] packed and unpacked again, float32; ws2 broadcasts against the blocks."""
    b = w.float().reshape(*w.shape[:-1], -1, 16)
    s = block_scales(b, ws2).float() * ws2
    x = b / s.unsqueeze(-1)
    a = x.abs()
    r = torch.where(a < 2, (a * 2).round() / 2, torch.where(a < 4, a.round(), ((a / 2).round() * 2).clamp(max=6)))
    return (torch.sign(x) * r * s.unsqueeze(-1)).reshape(w.shape)


def codes(x):
    """The nearest E2M1 code, ties to even; uint8 with the sign in bit 3."""
    a, n = x.abs(), torch.zeros_like(x, dtype=torch.uint8)
    for bound, strict in ((.25, True), (.75, False), (1.25, True), (1.75, False), (2.5, True), (3.5, False), (5., True)):
        n += ((a > bound) if strict else (a >= bound)).to(torch.uint8)
    return n | ((x < 0).to(torch.uint8) << 3)


def pack(w, ws2):
    """(two codes a byte [N, K/2], scales [N, K/16])."""
    b = w.float().reshape(w.shape[0], -1, 16)
    s = block_scales(b, ws2)
    n = codes(b / (s.float() * ws2).unsqueeze(-1)).reshape(w.shape)
    return (n[:, 0::2] | (n[:, 1::2] << 4)).contiguous(), s.contiguous()


def unpack(packed, scales, ws2):
    """float32 [N, K]."""
    x = E2M1[torch.stack([packed & 15, packed >> 4], -1).reshape(packed.shape[0], -1).long()]
    return (x.reshape(*scales.shape, 16) * scales.float()[..., None]).reshape(x.shape) * ws2.float()


def fake_activations(x, amax):
    """x rounded as W4A4 does: static second scale from the calibrated amax, a block scale for every 16."""
    ws2 = torch.as_tensor(amax, dtype=torch.float32) / 2688.0
    b = x.float().reshape(*x.shape[:-1], -1, 16)
    s = (b.abs().amax(-1) / (6.0 * ws2)).clamp(max=448.0).to(torch.float8_e4m3fn).float() * ws2
    y = torch.where(s.unsqueeze(-1) > 0, b / s.unsqueeze(-1), torch.zeros_like(b)).clamp(-6, 6)
    a = y.abs()
    r = torch.where(a < 2, (a * 2).round() / 2, torch.where(a < 4, a.round(), ((a / 2).round() * 2).clamp(max=6)))
    return (torch.sign(y) * r * s.unsqueeze(-1)).reshape(x.shape)
