//! Text before the model: splitting into utterances and normalising.
