//! Label and field selectors: parsed once, matched many times without allocating.
//! Source: <https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#label-selectors> and
//! <https://kubernetes.io/docs/concepts/overview/working-with-objects/field-selectors/>
//!
//! Invariants: a parsed selector holds valid keys and values only; requirements are joined by AND; an empty selector matches
//! everything.

mod field;
mod label;
mod lexer;
mod parse;
#[cfg(test)]
mod tests;

pub use field::{FieldSelector, escape_value};
pub use label::{LabelSelector, Labels, Operator, Requirement};

use crate::status::Status;

/// Why a selector cannot be read; the text is what clients see.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SelectorError(pub String);

impl From<SelectorError> for Status {
    fn from(error: SelectorError) -> Self {
        Self::bad_request(error.0)
    }
}
