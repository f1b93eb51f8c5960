//! The registry: one generic pipeline for all kinds, and per kind a [`strategy::Strategy`].

pub mod allocation;
pub mod erased;
pub mod kinds;
pub mod printing;
pub mod strategy;
