//! The hub room from outside: models come from a stand-in hub into a cache, whatever goes wrong on the way.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod cache;
mod command;
mod download;
mod offline;
mod refusals;
mod stand_in;
