//! A model name becomes a local snapshot folder: the shared hub cache, download, resume, offline.
