//! The guest SDK: what a plugin written in Rust builds on.

pub mod objects;
