//! Codes or latents to samples, whole and streaming.
