//! Licences of the models that ask to be shown to whoever uses them. The weights are never part of this program.

use crate::checkpoint::{Checkpoint, Layout, architecture};

/// The notice to show for a checkpoint, where one is known: rumik-oss-1 and its quantised copies.
pub fn licence(checkpoint: &Checkpoint) -> Option<&'static str> {
    if checkpoint.layout() != Layout::TinyAya {
        return None;
    }
    // The quantised copies go by another architecture; the speakers are the same.
    let named = architecture(checkpoint.config()).is_some_and(|name| name.to_ascii_lowercase().contains("rumik"));
    let speakers = checkpoint.config().opt_strings("speakers").ok().flatten().unwrap_or_default();
    let theirs = ["Ira", "Aisha", "Siya", "Zoya"];
    (named || theirs.iter().all(|name| speakers.iter().any(|speaker| speaker == name))).then_some(
        "rumik-oss-1 © Rumik AI, CC BY-NC 4.0 with acceptable-use addendum \
         (https://cohere.com/cohere-labs-cc-by-nc-license): non-commercial use only. Codec: Mimi © Kyutai, CC BY 4.0. \
         Say that generated speech is synthetic.",
    )
}
