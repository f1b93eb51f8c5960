//! Kinds, metadata, selectors, quantities, patches and `Status`: everything about the Kubernetes API that needs no I/O.
//!
//! Invariants: nothing here blocks, reads a clock or draws a random number; a decoder refuses what it cannot keep.

pub mod apply;
pub mod facts;
pub mod field;
pub mod gvk;
pub mod kind;
pub mod object;
pub mod openapi;
pub mod patch;
pub mod plugin_kind;
pub mod protobuf;
pub mod quantity;
pub mod resource;
pub mod selector;
pub mod status;
pub mod strict;
pub mod validation;

pub use gvk::{GroupResource, GroupVersionKind, GroupVersionResource};
pub use kind::Kind;
pub use object::{Header, Object, OwnerReference, Revision, SharedObject};
pub use quantity::Quantity;
pub use resource::{ResourceInfo, SelectableField};
pub use selector::{FieldSelector, LabelSelector};
pub use status::{Cause, Details, Status};
