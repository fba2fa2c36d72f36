"""Muon on the stacked linears, Adam on the rest, in plain tensor operations, so that a CUDA graph can hold the step."""
import math

import torch


def orthogonal(g):
    """Newton-Schulz: roughly the nearest semi-orthogonal matrix; g [..., N, K]."""
    x = g.bfloat16()
    tall = x.shape[-2] > x.shape[-1]
    if tall:
        x = x.mT
    x = x / (x.float().pow(2).sum((-2, -1), keepdim=True).sqrt() + 1e-7).bfloat16()
    for _ in range(5):
        a = x @ x.mT
        x = 3.4445 * x + (-4.7750 * a + 2.0315 * (a @ a)) @ x
    return x.mT if tall else x


class Muon:
    """`matrices` [(parameter [L, N, K], split of N)]; `rest` learns by Adam.  Rates follow `factor()`."""

    def __init__(self, matrices, rest, lr_matrices, lr_rest, decay):
        self.matrices, self.rest, self.decay, self.base = matrices, rest, decay, (lr_matrices, lr_rest)
        device = rest[0].device
        self.lr_m, self.lr_r, self.t = (torch.zeros((), device=device) for _ in range(3))
        self.momentum = [torch.zeros_like(p) for p, _ in matrices]
        self.m1, self.m2 = [torch.zeros_like(p) for p in rest], [torch.zeros_like(p) for p in rest]
        self.all = [p for p, _ in matrices] + rest

    def factor(self, f):
        self.lr_m.fill_(self.base[0] * f)
        self.lr_r.fill_(self.base[1] * f)

    @torch.no_grad()
    def step(self):
        self.t.add_(1)
        for (p, split), b in zip(self.matrices, self.momentum):
            b.lerp_(p.grad, 0.05)
            u = p.grad.lerp(b, 0.95)
            o = torch.cat([orthogonal(x).float() * (0.2 * math.sqrt(max(x.shape[1:]))) for x in u.split(split, 1)], 1)
            p.mul_(1 - self.lr_m * self.decay).sub_(o * self.lr_m)
        g = [p.grad for p in self.rest]
        torch._foreach_lerp_(self.m1, g, 0.1)
        torch._foreach_mul_(self.m2, 0.96)
        torch._foreach_addcmul_(self.m2, g, g, 0.04)
        c1, c2 = 1 - 0.9 ** self.t, 1 - 0.96 ** self.t
        for p, a, b in zip(self.rest, self.m1, self.m2):
            p.sub_(self.lr_r * (a / c1) / ((b / c2).sqrt() + 1e-8))
