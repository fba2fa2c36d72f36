//! The CPU backend: the reference for every other one.
