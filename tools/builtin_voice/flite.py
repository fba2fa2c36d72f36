"""flite in process, through ctypes: speech of the two teacher voices with the phone of every 10 ms."""
import ctypes
import os

import numpy as np

SPEAKERS = {"Clara": "cmu_us_slt", "Ross": "cmu_us_rms"}          # names in prompts -> flite voices
RATE = 16000
LABEL = RATE // 100                                                # samples a phone label covers
LOUDNESS = 0.085                                                   # RMS of the voiced part, of full scale
PHONES = ("pau aa ae ah ao aw ax ay b ch d dh eh er ey f g hh ih iy jh k l m n ng ow oy p r s sh t th uh uw v w y z zh").split()
PHONE_ID = {p: i for i, p in enumerate(PHONES)}


class Wave(ctypes.Structure):
    """cst_wave."""
    _fields_ = [("type", ctypes.c_char_p), ("sample_rate", ctypes.c_int), ("num_samples", ctypes.c_int),
                ("num_channels", ctypes.c_int), ("samples", ctypes.POINTER(ctypes.c_short))]


class Voice(ctypes.Structure):
    """The head of cst_voice."""
    _fields_ = [("name", ctypes.c_char_p), ("features", ctypes.c_void_p)]


class Flite:
    """The teacher.  `folder` holds libflite*.so.1 and libasound.so.2."""

    def __init__(self, folder):
        for n in ("libasound.so.2", "libflite.so.1", "libflite_usenglish.so.1", "libflite_cmulex.so.1"):
            path = os.path.join(folder, n)
            lib = ctypes.CDLL(path if os.path.exists(path) else n, mode=ctypes.RTLD_GLOBAL)
            if n == "libflite.so.1":
                self.lib = lib
        p, s = ctypes.c_void_p, ctypes.c_char_p
        for name, result, arguments in (
                ("flite_init", ctypes.c_int, []), ("flite_synth_text", p, [s, p]), ("utt_wave", ctypes.POINTER(Wave), [p]),
                ("utt_relation", p, [p, s]), ("relation_head", p, [p]), ("item_next", p, [p]), ("item_feat_string", s, [p, s]),
                ("item_feat_float", ctypes.c_float, [p, s]), ("delete_utterance", None, [p]),
                ("flite_feat_set_float", None, [p, s, ctypes.c_float])):
            f = getattr(self.lib, name)
            f.restype, f.argtypes = result, arguments
        self.lib.flite_init()
        self.voices = {}
        for speaker, voice in SPEAKERS.items():
            register = getattr(ctypes.CDLL(os.path.join(folder, f"libflite_{voice}.so.1")), f"register_{voice}")
            register.restype, register.argtypes = p, [p]
            self.voices[speaker] = register(None)

    def say(self, text, speaker, stretch=1.0):
        """(int16 samples, phone ids of every 10 ms)."""
        lib, voice = self.lib, self.voices[speaker]
        lib.flite_feat_set_float(ctypes.cast(voice, ctypes.POINTER(Voice)).contents.features, b"duration_stretch", stretch)
        utterance = lib.flite_synth_text(text.encode("ascii", "ignore"), voice)
        wave = lib.utt_wave(utterance).contents
        x = np.ctypeslib.as_array(wave.samples, (wave.num_samples,)).copy()
        ends, ids, item = [], [], lib.relation_head(lib.utt_relation(utterance, b"Segment"))
        while item:
            ids.append(PHONE_ID.get(lib.item_feat_string(item, b"name").decode(), 0))
            ends.append(lib.item_feat_float(item, b"end"))
            item = lib.item_next(item)
        lib.delete_utterance(utterance)
        at = np.searchsorted(np.array(ends), (np.arange(-(-len(x) // LABEL)) + 0.5) * LABEL / RATE)
        return x, np.array(ids + [0], np.uint8)[np.minimum(at, len(ids))]


def trim(x, phones, lead=0.04, tail=0.12):
    """Cut silence at both ends (on whole labels) and bring to a common loudness; None when there is nothing to hear."""
    f = x.astype(np.float32) / 32768
    n = len(f) // 80
    if n < 10:
        return None
    e = np.sqrt((f[:n * 80].reshape(n, 80) ** 2).mean(1) + 1e-12)
    loud = np.nonzero(e > 0.012 * max(e.max(), 1e-3) + 1e-4)[0]
    if len(loud) < 5:
        return None
    a = max(0, loud[0] * 80 - int(lead * RATE)) // LABEL
    b = min(len(f), (loud[-1] + 1) * 80 + int(tail * RATE))
    f = f[a * LABEL:b] * (LOUDNESS / np.sqrt((e[e > 0.1 * e.max()] ** 2).mean()))
    peak = np.abs(f).max()
    if peak > 0.95:
        f *= 0.95 / peak
    return (f * 32767).astype(np.int16), phones[a:a - (-len(f) // LABEL)]
