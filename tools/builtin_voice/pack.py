#!/usr/bin/env python3
"""Write a trained codec and backbone as a checkpoint in the TinyAya layout, NVFP4 as modelopt packs it.

    pack.py TRAINED CHECKPOINT [--temperature 0.6] [--top-k 30] [--longest 180]

TRAINED is OUT of train.py.  The last three are the defaults that the checkpoint recommends (key "rtts" of config.json).
"""
import argparse
import json
import os

import numpy as np
import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer

import backbone as B
import codec as C
import nvfp4
from flite import SPEAKERS
from tokenizer import tokenizer

HERE = os.path.dirname(os.path.abspath(__file__))
LARGEST = 16_000_000                                               # bytes of all files together


def load_backbone(folder):
    """(model with bfloat16 weights as float32, packed linears of the float32 masters)."""
    state = torch.load(os.path.join(folder, "backbone_1.pt"), weights_only=False)
    model = B.Backbone(state.pop("cfg")).eval()
    state.update(torch.load(os.path.join(folder, "backbone_0.pt")))
    model.load_state_dict({k: v.float() for k, v in state.items()})
    return model, torch.load(os.path.join(folder, "backbone_packed.pt"), weights_only=False)


@torch.no_grad()
def input_maxima(model, sequences):
    """[layers, groups]: the largest input of every group of linears, with rounded weights."""
    model.gate.fill_(1)
    most, calls = torch.zeros(model.c["layers"], len(B.GROUPS)), []

    def linear(x, w):
        calls.append(x.abs().max())
        return torch.nn.functional.linear(x, w)

    for s in sequences:
        calls.clear()
        model.hidden(torch.tensor([s]), linear)
        most = torch.maximum(most, torch.stack(calls).reshape(most.shape))
    return most


def calibration(ids, teacher):
    """Prompts with the teacher's codes: the development sentences in both voices."""
    with open(os.path.join(HERE, "eval", "dev.txt"), encoding="utf8") as f:
        lines = [l.split(" | ")[0].strip() for l in f if l.strip()]
    z = np.load(teacher)
    return [ids.prompt(s, "", line) + ids.units(z[f"dev-{s}_{i:02d}"]).tolist() for s in SPEAKERS for i, line in enumerate(lines)]


def backbone_tensors(model, packed, most):
    """The tensors of model.safetensors."""
    linears = {f"model.layers.{l}.{n}": (l, g) for l in range(model.c["layers"]) for g, names in enumerate(B.GROUPS) for n in names}
    out = {k: v.to(torch.bfloat16) for k, v in model.named().items() if k.removesuffix(".weight") not in linears}
    for name, (l, g) in linears.items():
        codes, scales, second = packed[name]
        out.update({name + ".weight": codes, name + ".weight_scale": scales, name + ".weight_scale_2": second.clone(),
                    name + ".input_scale": (most[l, g].float() / 2688.0).clone()})
    return {k: v.contiguous() for k, v in sorted(out.items())}


def backbone_config(model, defaults):
    c, ids = model.c, model.ids
    act = {"dynamic": False, "num_bits": 4, "type": "float", "group_size": 16}
    kinds = ["full_attention" if (i + 1) % 4 == 0 else "sliding_attention" for i in range(c["layers"])]
    return {"architectures": ["TinyAyaForCausalLM"], "model_type": "cohere2", "_sliding_window_pattern": 4, "attention_bias": False, "attention_dropout": 0.0,
            "bos_token_id": ids.bos, "eos_token_id": 3, "pad_token_id": 0, "cache_implementation": "hybrid", "dtype": "bfloat16", "head_dim": c["head_dim"],
            "hidden_act": "silu", "hidden_size": c["hidden"], "initializer_range": 0.02, "intermediate_size": c["inter"], "layer_norm_eps": c["eps"],
            "layer_switch": 4, "layer_types": kinds, "logit_scale": c["logit_scale"], "max_position_embeddings": c["max_pos"],
            "num_attention_heads": c["heads"], "num_hidden_layers": c["layers"], "num_key_value_heads": c["kv"],
            "order_of_interleaved_layers": "local_attn_first", "position_embedding_type": "rope_gptj", "rotary_pct": 1.0, "sliding_window": 4096,
            "sliding_window_pattern": 4, "use_cache": True, "use_embedding_sharing": True, "use_gated_activation": True, "use_parallel_block": True,
            "use_parallel_embedding": False, "use_qk_norm": False, "vocab_size": ids.vocab, "num_quantizers": c["q"], "codebook_size": c["codebook"],
            "first_unit_id": ids.first, "last_unit_id": ids.last, "text_start_token_id": ids.text, "audio_start_token_id": ids.audio,
            "audio_end_token_id": ids.end, "frame_rate_hz": 12.5, "speakers": list(SPEAKERS), "tie_word_embeddings": True,
            "rope_parameters": {"rope_theta": c["theta"], "rope_type": "default"}, "rtts": defaults,
            "quantization_config": {"config_groups": {"group_0": {"input_activations": act, "weights": dict(act), "targets": ["Linear"]}},
                                    "ignore": ["lm_head", "model.embed_tokens", "stop_predictor*"], "quant_algo": "NVFP4",
                                    "producer": {"name": "modelopt", "version": "builtin"}, "quant_method": "modelopt"}}


def codec_config(k):
    return {"architectures": ["MimiModel"], "model_type": "mimi", "attention_dropout": 0.0, "normalize": False, "rope_theta": k["theta"], "torch_dtype": "bfloat16",
            "audio_channels": 1, "codebook_dim": k["vq_dim"], "codebook_size": k["codebook"], "compress": 2, "dilation_growth_rate": 2, "frame_rate": 12.5,
            "head_dim": k["head_dim"], "hidden_act": "gelu", "hidden_size": k["hidden"], "initializer_range": 0.02, "intermediate_size": k["inter"],
            "kernel_size": 7, "last_kernel_size": 3, "layer_scale_initial_scale": 0.01, "max_position_embeddings": 8000, "norm_eps": k["eps"],
            "num_attention_heads": k["heads"], "num_filters": k["filters"], "num_hidden_layers": k["layers"], "num_key_value_heads": k["heads"],
            "num_quantizers": k["quantizers"], "num_residual_layers": 1, "num_semantic_quantizers": 1, "pad_mode": "constant", "residual_kernel_size": 3,
            "sampling_rate": 24000, "sliding_window": k["window"], "trim_right_ratio": 1.0, "upsample_groups": k["hidden"],
            "upsampling_ratios": list(k["ratios"]), "use_cache": False, "use_causal_conv": True, "use_conv_shortcut": False,
            "vector_quantization_hidden_dimension": k["vq_dim"]}


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("trained")
    ap.add_argument("checkpoint")
    ap.add_argument("--temperature", type=float, default=0.6)
    ap.add_argument("--top-k", type=int, default=30)
    ap.add_argument("--longest", type=int, default=180)
    a = ap.parse_args()
    os.makedirs(os.path.join(a.checkpoint, "codec"), exist_ok=True)

    def write(name, value, **how):
        with open(os.path.join(a.checkpoint, name), "w", encoding="utf8") as f:
            f.write(json.dumps(value, ensure_ascii=False, **(how or {"indent": 2})) + "\n")

    model, packed = load_backbone(a.trained)
    most = input_maxima(model, calibration(model.ids, os.path.join(a.trained, "teacher.npz")))
    save_file(backbone_tensors(model, packed, most), os.path.join(a.checkpoint, "model.safetensors"), metadata={"format": "pt"})
    config = backbone_config(model, {"temperature": a.temperature, "top_k": a.top_k, "longest_text": a.longest, "words_only": True})
    write("config.json", config)
    q = config["quantization_config"]
    write("hf_quant_config.json", {"producer": q["producer"], "quantization": {"quant_algo": "NVFP4", "kv_cache_quant_algo": None, "group_size": 16, "exclude_modules": q["ignore"]}})
    write("tokenizer.json", tokenizer(model.ids), separators=(",", ":"))
    special = {"bos_token": "<BOS_TOKEN>", "eos_token": "<|END_OF_TURN_TOKEN|>", "pad_token": "<PAD>", "unk_token": "<UNK>"}
    write("special_tokens_map.json", special)
    write("tokenizer_config.json", {"add_bos_token": True, "add_eos_token": False, **special, "clean_up_tokenization_spaces": False,
                                    "model_max_length": 1000000000000000019884624838656, "tokenizer_class": "CohereTokenizer"})
    flat = torch.load(os.path.join(a.trained, "codec_dec.pt"), weights_only=False)
    save_file({n: v.to(torch.bfloat16).contiguous() for n, v in sorted(flat.items())}, os.path.join(a.checkpoint, "codec", "model.safetensors"), metadata={"format": "pt"})
    write("codec/config.json", codec_config(C.CFG))
    write("codec/preprocessor_config.json", {"feature_extractor_type": "EncodecFeatureExtractor", "feature_size": 1, "padding_side": "right", "padding_value": 0.0,
                                             "return_attention_mask": True, "sampling_rate": 24000})

    tok = Tokenizer.from_file(os.path.join(a.checkpoint, "tokenizer.json"))
    for speaker, description, text in (("Clara", "happy, Hindi accent, steady pace", "Hello there, it's 10:45. caf\u00e9!"), ("Ross", "", "  two   spaces\nand more")):
        d = f'<description="{description}"> ' if description else ""
        assert tok.encode(f"<text>{speaker}: {d}{text}<audio>").ids == model.ids.prompt(speaker, description, text), text
    total = 0
    for root, _, files in os.walk(a.checkpoint):
        for name in files:
            if name.endswith((".json", ".safetensors")):
                n = os.path.getsize(os.path.join(root, name))
                total += n
                print(f"{n:>10} {os.path.relpath(os.path.join(root, name), a.checkpoint)}")
    print(f"{total:>10} bytes in all")
    assert total <= LARGEST, total


if __name__ == "__main__":
    main()
