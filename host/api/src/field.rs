//! Field paths and field errors: how validation says what is wrong and where.
//! Texts follow <https://kubernetes.io/docs/reference/using-api/api-concepts/> and kubectl's expectations:
//! `spec.containers[0].name: Required value: …`.

use std::fmt;

use crate::status::Cause;

/// A path into an object: `spec.containers[0].ports[1].name`, `metadata.labels[app]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Path(String);

impl Path {
    /// A top-level field.
    pub fn new(field: &str) -> Self {
        Self(field.to_owned())
    }

    /// A field below this one.
    #[must_use]
    pub fn child(&self, field: &str) -> Self {
        match self.0.as_str() {
            "" => Self(field.to_owned()),
            parent => Self(format!("{parent}.{field}")),
        }
    }

    /// An element of the list at this path.
    #[must_use]
    pub fn index(&self, index: usize) -> Self {
        Self(format!("{}[{index}]", self.0))
    }

    /// An entry of the map at this path.
    #[must_use]
    pub fn key(&self, key: &str) -> Self {
        Self(format!("{}[{key}]", self.0))
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Why a field is refused; the names are the causes' reasons.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorType {
    Required,
    Invalid,
    NotSupported,
    Duplicate,
    Forbidden,
    TooLong,
    TooMany,
    NotFound,
    Internal,
    TypeInvalid,
}

impl ErrorType {
    /// The cause's `reason`.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Required => "FieldValueRequired",
            Self::Invalid => "FieldValueInvalid",
            Self::NotSupported => "FieldValueNotSupported",
            Self::Duplicate => "FieldValueDuplicate",
            Self::Forbidden => "FieldValueForbidden",
            Self::TooLong => "FieldValueTooLong",
            Self::TooMany => "FieldValueTooMany",
            Self::NotFound => "FieldValueNotFound",
            Self::Internal => "InternalError",
            Self::TypeInvalid => "FieldValueTypeInvalid",
        }
    }
}

/// One refused field. `message` is the whole text after the path: `Invalid value: "x": must be …`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldError {
    pub error_type: ErrorType,
    pub path: Path,
    pub message: String,
}

/// All that is wrong with an object; empty means valid.
pub type ErrorList = Vec<FieldError>;

impl FieldError {
    /// `Required value[: why]`.
    pub fn required(path: &Path, why: &str) -> Self {
        Self::build(ErrorType::Required, path, "Required value".to_owned(), why)
    }

    /// `Invalid value: <value>: <why>`; strings are quoted.
    pub fn invalid(path: &Path, value: impl Into<serde_json::Value>, why: &str) -> Self {
        Self::build(
            ErrorType::Invalid,
            path,
            format!("Invalid value: {}", value.into()),
            why,
        )
    }

    /// `Invalid value: <value>: <why>`, of a value that is of the wrong kind altogether.
    pub fn type_invalid(path: &Path, value: impl Into<serde_json::Value>, why: &str) -> Self {
        Self {
            error_type: ErrorType::TypeInvalid,
            ..Self::invalid(path, value, why)
        }
    }

    /// `Unsupported value: <value>: supported values: "A", "B"`.
    pub fn not_supported(
        path: &Path,
        value: impl Into<serde_json::Value>,
        supported: &[&str],
    ) -> Self {
        let supported: Vec<String> = supported.iter().map(|s| format!("{s:?}")).collect();
        let why = match supported.is_empty() {
            true => String::new(),
            false => format!("supported values: {}", supported.join(", ")),
        };
        Self::build(
            ErrorType::NotSupported,
            path,
            format!("Unsupported value: {}", value.into()),
            &why,
        )
    }

    /// `Duplicate value: <value>`.
    pub fn duplicate(path: &Path, value: impl Into<serde_json::Value>) -> Self {
        Self::build(
            ErrorType::Duplicate,
            path,
            format!("Duplicate value: {}", value.into()),
            "",
        )
    }

    /// `Forbidden: <why>`.
    pub fn forbidden(path: &Path, why: &str) -> Self {
        Self::build(ErrorType::Forbidden, path, "Forbidden".to_owned(), why)
    }

    /// `Too long: may not be more than N bytes`.
    pub fn too_long(path: &Path, max_bytes: usize) -> Self {
        let why = format!("may not be more than {max_bytes} bytes");
        Self::build(ErrorType::TooLong, path, "Too long".to_owned(), &why)
    }

    /// `Too many: <actual>: must have at most N items`.
    pub fn too_many(path: &Path, actual: usize, max: usize) -> Self {
        let why = format!("must have at most {max} items");
        Self::build(
            ErrorType::TooMany,
            path,
            format!("Too many: {actual}"),
            &why,
        )
    }

    /// `Not found: <value>`.
    pub fn not_found(path: &Path, value: impl Into<serde_json::Value>) -> Self {
        Self::build(
            ErrorType::NotFound,
            path,
            format!("Not found: {}", value.into()),
            "",
        )
    }

    fn build(error_type: ErrorType, path: &Path, head: String, why: &str) -> Self {
        let message = match why {
            "" => head,
            why => format!("{head}: {why}"),
        };
        Self {
            error_type,
            path: path.clone(),
            message,
        }
    }
}

impl From<FieldError> for Cause {
    fn from(error: FieldError) -> Self {
        Self {
            reason: error.error_type.reason().to_owned(),
            message: error.message,
            field: error.path.0,
        }
    }
}
