//! Codes or latents to samples, whole and streaming.

pub mod audiovae;
pub mod mimi;
