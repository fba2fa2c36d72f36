#!/usr/bin/env python3
"""Record what the official AudioVAE computes, block by block, on a checkpoint's weights.

    audiovae_reference.py CHECKPOINT OUT.safetensors

OUT gets latents and the samples of decoding them, samples and the latents of encoding them, the outputs of every block
on the way, `[channels, time]`, the samples of decoding for another output rate, and some weights as torch folds them.
Needs torch, safetensors and the voxcpm package's `modules/audiovae/audio_vae_v2.py`.
"""
import importlib.util
import json
import pathlib
import sys

import torch
from safetensors.torch import save_file

FOLDED = ("decoder.model.3.block.1", "decoder.model.3.block.2.block.1", "encoder.block.2.block.4")

package = next(p for p in map(pathlib.Path, sys.path) if (p / "voxcpm/modules/audiovae").is_dir())
spec = importlib.util.spec_from_file_location("vae", package / "voxcpm/modules/audiovae/audio_vae_v2.py")
module = importlib.util.module_from_spec(spec)
sys.modules["vae"] = module
spec.loader.exec_module(module)

checkpoint, out = map(pathlib.Path, sys.argv[1:])
settings = json.loads((checkpoint / "config.json").read_text())["audio_vae_config"]
state = torch.load(checkpoint / "audiovae.pth", weights_only=True)["state_dict"]
vae = module.AudioVAE(module.AudioVAEConfig(**settings)).eval()
vae.load_state_dict(state)
random = torch.Generator().manual_seed(11)
kept = {}
with torch.inference_mode():
    latents = torch.randn(1, vae.latent_dim, 3, generator=random)
    samples = 0.3 * torch.randn(1, 2 * 640, generator=random)
    kept["decoded_at_24000"] = vae.decode(latents, torch.tensor([24000], dtype=torch.int32))[0, 0].clone()
    kept["encoded_cut"] = vae.encode(samples[:, :1000], 16000)[0].clone()
    for part, layers in (("decoder", vae.decoder.model), ("encoder", vae.encoder.block)):
        for i, layer in enumerate(layers):
            layer.register_forward_hook(lambda _m, _i, o, name=f"{part}/{i}": kept.__setitem__(name, o[0].clone()))
    kept["latents"] = latents[0].clone()
    kept["decoded"] = vae.decode(latents)[0, 0].clone()
    kept["samples"] = samples[0].clone()
    kept["encoded"] = vae.encode(samples, 16000)[0].clone()
    for name in FOLDED:
        kept[f"folded/{name}"] = torch._weight_norm(state[f"{name}.weight_v"], state[f"{name}.weight_g"], 0).clone()
save_file({name: tensor.contiguous() for name, tensor in kept.items()}, out)
for name, tensor in kept.items():
    print(name, tuple(tensor.shape), float(tensor.std()))
