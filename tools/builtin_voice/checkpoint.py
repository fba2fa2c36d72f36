"""Reading a packed checkpoint back, from its files alone."""
import json
import os
import wave

import torch
from safetensors.torch import load_file

import backbone as B
import codec as C
import nvfp4


def tensors(folder):
    """model.safetensors with the linears unpacked, float32; and the input maxima of the linears."""
    t, out, most = load_file(os.path.join(folder, "model.safetensors")), {}, {}
    for k, v in t.items():
        if k.endswith(".input_scale"):
            most[k.removesuffix(".input_scale")] = float(v) * 2688.0
        elif not k.endswith((".weight_scale", ".weight_scale_2")):
            out[k] = nvfp4.unpack(v, t[k + "_scale"], t[k + "_scale_2"]) if v.dtype == torch.uint8 else v.float()
    return out, most


def load_backbone(folder):
    """(model, config, tensors, input maxima)."""
    with open(os.path.join(folder, "config.json"), encoding="utf8") as f:
        cfg = json.load(f)
    w, most = tensors(folder)
    m = B.Backbone(dict(hidden=cfg["hidden_size"], layers=cfg["num_hidden_layers"], heads=cfg["num_attention_heads"], kv=cfg["num_key_value_heads"],
                        head_dim=cfg["head_dim"], inter=cfg["intermediate_size"], theta=cfg["rope_parameters"]["rope_theta"], eps=cfg["layer_norm_eps"],
                        codebook=cfg["codebook_size"], q=cfg["num_quantizers"], max_pos=cfg["max_position_embeddings"], logit_scale=cfg["logit_scale"])).eval()
    with torch.no_grad():
        m.embed.copy_(w["model.embed_tokens.weight"])
        m.norm.copy_(w["model.norm.weight"])
        for l in range(m.c["layers"]):
            def g(n):
                return w[f"model.layers.{l}.{n}.weight"]
            m.ln[l].copy_(g("input_layernorm"))
            m.w_in[l].copy_(torch.cat([g(n) for n in B.INPUTS]))
            m.w_o[l].copy_(g("self_attn.o_proj"))
            m.w_d[l].copy_(g("mlp.down_proj"))
        m.stop.load_state_dict({k.removeprefix("stop_predictor."): v for k, v in w.items() if k.startswith("stop_predictor.")})
    return m, cfg, w, most


def rounded_inputs(model, most):
    """A `linear` for the model that rounds its input to NVFP4 too (W4A4); calls come in the order of layers and groups."""
    L, G = model.c["layers"], len(B.GROUPS)
    amax = [most[f"model.layers.{i // G}.{B.GROUPS[i % G][0]}"] for i in range(L * G)]
    call = [0]

    def linear(x, w):
        a = amax[call[0] % len(amax)]
        call[0] += 1
        return torch.nn.functional.linear(nvfp4.fake_activations(x, a), w)

    return linear


def load_codec(folder):
    """codes [F, 8] (int64) -> samples."""
    with open(os.path.join(folder, "codec", "config.json"), encoding="utf8") as f:
        d = json.load(f)
    codec = C.Codec(dict(C.CFG, hidden=d["hidden_size"], filters=d["num_filters"], layers=d["num_hidden_layers"], heads=d["num_attention_heads"],
                         head_dim=d["head_dim"], inter=d["intermediate_size"], window=d["sliding_window"])).eval()
    codec.load(load_file(os.path.join(folder, "codec", "model.safetensors")), {})
    return lambda codes: codec.dec(codec.rvq.lookup(codes[None]))[0]


def write_wav(path, x):
    """16-bit WAV at 24 kHz of float samples."""
    with wave.open(path, "wb") as f:
        f.setnchannels(1)
        f.setsampwidth(2)
        f.setframerate(24000)
        f.writeframes((x.clamp(-1, 1) * 32767).to(torch.int16).numpy().tobytes())
