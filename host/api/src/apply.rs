//! Server-side apply and `metadata.managedFields`.
//! Source: <https://kubernetes.io/docs/reference/using-api/server-side-apply/>
//!
//! ```text
//!  old ─┐                      changed, removed          entries of others lose them
//!  new ─┴─ compare ─ scope ──────────┬──────────────────── the writer's gains changed
//!                                    │ (apply: conflicts with others' entries first)
//!  live + config ─ merge ─ prune ── new
//! ```
//!
//! Invariants: no I/O, no clock; documents are walked without their managed fields, which stay text until an entry has to be
//! looked into; equal documents change no entry; what [`Schema`] calls atomic is owned as a whole.

mod compare;
mod conflict;
mod document;
mod fields_v1;
mod last_applied;
mod managed;
mod merge;
mod operation;
mod ownership;
mod path;
mod remove;
mod schema;
mod set;
#[cfg(test)]
mod tests;
mod value;
mod walk;

pub use compare::{Changes, compare};
pub use document::{join, split};
pub use managed::same_but_times;
pub use operation::{Applied, Apply};
pub use ownership::{Converted, OneVersion, Scope, Versions, Writer, created, updated};
pub use path::PathElement;
pub use schema::{BuiltIn, Child, Scalar, Schema, Shape, empty_object};
pub use set::FieldSet;
pub use value::{Map, Value};
pub use walk::{field_set, type_errors};
