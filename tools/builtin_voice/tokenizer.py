"""tokenizer.json: bytes as tokens (a BPE without merges), then the units, then the audio marks."""
import backbone


def tokenizer(ids):
    """The file as a dict."""
    def token(i, content, special):
        return {"id": i, "content": content, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": special}

    def template(*parts):
        return [{"SpecialToken": {"id": "<BOS_TOKEN>", "type_id": k}} if p == "bos" else {"Sequence": {"id": p, "type_id": k}} for k, p in parts]

    vocabulary = {t: i for i, t in enumerate(backbone.SPECIALS)}
    for b in range(256):
        vocabulary[backbone.BYTE_CHAR[b]] = backbone.BYTE_ID[b]
    added = [token(i, t, True) for i, t in enumerate(backbone.SPECIALS)]
    added += [token(ids.first + c * ids.q + q, f"<{c}_{q}>", False) for c in range((ids.last + 1 - ids.first) // ids.q) for q in range(ids.q)]
    added += [token(ids.last + 1 + i, t, True) for i, t in enumerate(backbone.AFTER)]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "normalizer": {"type": "NFC"},
            "pre_tokenizer": byte_level,
            "post_processor": {"type": "TemplateProcessing", "single": template((0, "bos"), (0, "A")), "pair": template((0, "bos"), (0, "A"), (1, "bos"), (1, "B")),
                               "special_tokens": {"<BOS_TOKEN>": {"id": "<BOS_TOKEN>", "ids": [ids.bos], "tokens": ["<BOS_TOKEN>"]}}},
            "decoder": {**byte_level, "add_prefix_space": True},
            "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None, "end_of_word_suffix": None,
                      "fuse_unk": False, "byte_fallback": False, "ignore_merges": False, "vocab": vocabulary, "merges": []}}
