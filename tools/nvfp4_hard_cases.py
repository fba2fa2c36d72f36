#!/usr/bin/env python3
"""Blocks on which the order of the quantisers' f32 operations shows, with what the packages make of them.

    nvfp4_hard_cases.py OUT.json

Runs nvidia-modelopt's and compressed-tensors' own code for weights, and vLLM's rule in exact f32 divisions for
activations. Random blocks are kept where some other order of the same operations gives other bytes.
"""
import json
import sys

import torch
from compressed_tensors.compressors.nvfp4 import NVFP4PackedCompressor
from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme
from compressed_tensors.quantization.utils.helpers import calculate_qparams
from modelopt.torch.quantization.qtensor.nvfp4_tensor import NVFP4QTensor

F32, E4M3 = torch.float32, torch.float8_e4m3fn
KEEP = 6
BOUNDS = torch.tensor([.25, .75, 1.25, 1.75, 2.5, 3.5, 5.])
random = torch.Generator().manual_seed(3)


def byte(x):
    return x.clamp(max=448.0).to(E4M3)


def codes(v):
    a = v.abs().unsqueeze(-1)
    up = torch.tensor([False, True, False, True, False, True, False])
    n = ((a > BOUNDS) | (up & (a == BOUNDS))).sum(-1).to(torch.uint8)
    return n | (torch.signbit(v).to(torch.uint8) << 3)


def pack(c):
    return (c[..., 0::2] | c[..., 1::2] << 4).flatten().tolist()


def nudged(values):
    """One of the three floats around each value, so that ties are hit and just missed."""
    step = torch.randint(-1, 2, values.shape, generator=random)
    away = torch.where(step > 0, torch.tensor(float("inf")), torch.tensor(0.0))
    return torch.where(step == 0, values, torch.nextafter(values, away))


def block(scale):
    """Sixteen values whose largest asks for a scale byte on or beside a tie, the others codes likewise.
    `scale` turns e2m1 times e4m3 into values."""
    raw = int(torch.randint(8, 126, (), generator=random))
    low, high = (torch.tensor([raw, raw + 1], dtype=torch.uint8).view(E4M3).to(F32))
    amax = nudged(((low + high) / 2 * 6 * scale).reshape(1)) if torch.rand((), generator=random) < 0.5 else low.reshape(1) * 6 * scale
    s = byte(amax / 6 / scale).to(F32)
    x = nudged(BOUNDS[torch.randint(0, 7, (16,), generator=random)] * s * scale)
    x = torch.minimum(x, amax) * (1 - 2 * torch.randint(0, 2, (16,), generator=random).to(F32))
    x[int(torch.randint(0, 16, (), generator=random))] = amax[0]
    return x


def activations(x, input_scale, scale_order=0, code_order=0):
    gs, sixth = 1.0 / input_scale, torch.tensor(1.0 / 6.0, dtype=F32)
    amax = x.abs().max()
    sf = byte([gs * (amax * sixth), (gs * amax) * sixth, gs * (amax / 6)][scale_order])
    s = sf.to(F32)
    inv = [1.0 / (s * (1.0 / gs)), gs / s, 1.0 / (s * input_scale)][code_order]
    return sf.view(torch.uint8).item(), pack(codes(x * inv))


def modelopt(x, ws2, scale_order=0, code_order=0):
    if scale_order == code_order == 0:
        q, sf, _ = NVFP4QTensor.quantize(x.reshape(1, 16).clone(), 16, weights_scaling_factor_2=ws2)
        return sf.view(torch.uint8).item(), q._quantized_data.flatten().tolist()
    amax = x.abs().max()
    sf = [amax / (6.0 * ws2), amax / 6.0 / ws2][scale_order].clamp(2 ** -9, 448).to(E4M3)
    s = sf.to(F32)
    return sf.view(torch.uint8).item(), pack(codes([x / (s * ws2), x * (1 / (s * ws2)), x / s / ws2][code_order]))


ARGS = QuantizationArgs(num_bits=4, type="float", strategy="tensor_group", group_size=16, symmetric=True, scale_dtype=E4M3)
SCHEME = QuantizationScheme(targets=["Linear"], weights=ARGS)


def compressed(x, gs, scale_order=0, code_order=0):
    if scale_order == code_order == 0:
        x, g = x.reshape(1, 16), gs.reshape(1)
        scale, _ = calculate_qparams(x.amin(-1, keepdim=True), x.amax(-1, keepdim=True), ARGS, global_scale=g)
        state = {"weight": x.clone(), "weight_scale": scale, "weight_global_scale": g}
        out = NVFP4PackedCompressor.compress(state, SCHEME)
        return out["weight_scale"].view(torch.uint8).item(), out["weight_packed"].flatten().tolist()
    amax = x.abs().max()
    sf = byte([gs * (amax / 6), (gs * amax) / 6][scale_order])
    s = sf.to(F32)
    return sf.view(torch.uint8).item(), pack(codes([x / (s / gs), x * (gs / s), x / (s * (1 / gs))][code_order]))


def bits(t):
    return [f"0x{v & 0xffffffff:08x}" for v in t.reshape(-1).contiguous().view(torch.int32).tolist()]


def search(quantise, scale_of, variants):
    """Blocks that tell each variant from the real thing."""
    found = []
    for order in variants:
        kept = 0
        while kept < KEEP:
            stored = torch.rand((), generator=random) * 0.01 + 1e-5
            stored = scale_of(stored)
            x = block(stored if stored < 1 else 1 / stored)
            real = quantise(x, stored)
            other = quantise(x, stored, *order)
            if real != other:
                kept += 1
                found.append({"stored_bits": bits(stored)[0], "x_bits": bits(x), "scale": real[0], "codes": real[1]})
    return found


def main():
    torch.set_num_threads(1)
    same, reciprocal = (lambda v: v), (lambda v: 1 / v)
    out = {
        "generator": "tools/nvfp4_hard_cases.py, nvidia-modelopt 0.47.0, compressed-tensors 0.20.1, torch " + torch.__version__,
        "activations": search(activations, same, [(1, 0), (2, 0), (0, 1), (0, 2)]),
        "modelopt": search(modelopt, same, [(1, 0), (0, 1), (0, 2)]),
        "compressed_tensors": search(compressed, reciprocal, [(1, 0), (0, 1), (0, 2)]),
    }
    with open(sys.argv[1], "w") as f:
        json.dump(out, f, separators=(",", ":"))
        f.write("\n")


if __name__ == "__main__":
    main()
