#!/usr/bin/env python3
"""Compare a packed checkpoint with the transformers library: hidden states of the backbone, samples of the codec.

    check.py CHECKPOINT TEACHER.npz
"""
import argparse
import json
import os

import numpy as np
import torch
from safetensors.torch import load_file
from transformers import Cohere2Config, Cohere2ForCausalLM, MimiConfig, MimiModel

import checkpoint as K


def library_backbone(cfg, w):
    keys = ("vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "max_position_embeddings",
            "layer_norm_eps", "logit_scale", "sliding_window", "layer_types", "bos_token_id", "eos_token_id", "pad_token_id", "tie_word_embeddings", "head_dim")
    c = Cohere2Config(rope_parameters=cfg["rope_parameters"], **{k: cfg[k] for k in keys})
    c._attn_implementation = "eager"
    m = Cohere2ForCausalLM(c).eval().float()
    missing, unexpected = m.load_state_dict({k: v for k, v in w.items() if not k.startswith("stop")}, strict=False)
    assert set(missing) <= {"lm_head.weight"} and not unexpected, (missing, unexpected)
    return m


def library_codec(folder):
    with open(os.path.join(folder, "codec", "config.json"), encoding="utf8") as f:
        d = json.load(f)
    c = MimiConfig(**{k: v for k, v in d.items() if k not in ("architectures", "model_type", "torch_dtype")})
    c._attn_implementation = "eager"
    m = MimiModel(c).eval().float()
    flat = {k: v.float() for k, v in load_file(os.path.join(folder, "codec", "model.safetensors")).items()}

    def old(k):
        for new, was in (("decoder.decoder_seanet.", "decoder."), ("decoder.decoder_transformer.", "decoder_transformer."), ("decoder.upsample.", "upsample.")):
            if k.startswith(new):
                return was + k[len(new):]
        return k

    own = m.state_dict()
    given = {k: flat[old(k)].reshape(v.shape) for k, v in own.items() if old(k) in flat}
    assert {old(k) for k in given} == set(flat)
    needed = [k for k in own if not k.startswith(("encoder", "downsample")) and "input_proj" not in k and k not in given]
    assert not needed, needed
    m.load_state_dict(given, strict=False)
    for x in m.modules():
        if hasattr(x, "_embed"):
            x._embed = None                                        # made anew from the loaded sums
    return m


@torch.inference_mode()
def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("checkpoint")
    ap.add_argument("teacher")
    ap.add_argument("--threads", type=int, default=2)
    a = ap.parse_args()
    torch.set_num_threads(a.threads)
    model, cfg, w, _ = K.load_backbone(a.checkpoint)
    z = np.load(a.teacher)
    names = sorted(z)[::40]
    ids = torch.tensor([model.ids.prompt("Clara", "slow pace", "Good morning.") + model.ids.units(z[names[0]]).tolist()])
    theirs, own = library_backbone(cfg, w).model(input_ids=ids, use_cache=False).last_hidden_state, model.hidden(ids)
    print("backbone: largest difference", float((theirs - own).abs().max()), "of", float(theirs.abs().max()))
    assert (theirs - own).abs().max() < 1e-3
    mimi, decode, worst = library_codec(a.checkpoint), K.load_codec(a.checkpoint), 0
    for n in names:
        c = torch.tensor(z[n].astype(np.int64))
        worst = max(worst, float((mimi.decode(c.T[None]).audio_values[0, 0] - decode(c)).abs().max()))
    print("codec: largest difference", worst)
    assert worst < 1e-4


if __name__ == "__main__":
    main()
