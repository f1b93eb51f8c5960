//! Server-side printing: the columns and cells of `meta.k8s.io/v1` Tables.
//! Source: <https://kubernetes.io/docs/reference/using-api/api-concepts/#receiving-resources-as-tables>

use pilothouse_api::Kind;
use serde_json::{Value, json};

/// One column definition. `priority` 0 is always shown, 1 with `-o wide`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    pub name: &'static str,
    /// `string`, `integer`, `date`, `boolean`.
    pub column_type: &'static str,
    /// `name` for the name column, else empty.
    pub format: &'static str,
    pub description: &'static str,
    pub priority: i32,
}

impl Column {
    /// The name column.
    pub const NAME: Self = Self {
        name: "Name",
        column_type: "string",
        format: "name",
        description: "Name of the object, unique among its kind in its namespace.",
        priority: 0,
    };
    /// The age column.
    pub const AGE: Self = Self::string("Age", "Time since creation.");

    /// The column of those kinds that have no columns of their own.
    pub const CREATED_AT: Self = Self {
        column_type: "date",
        ..Self::string("Created At", "When the object was created.")
    };

    /// A column of text.
    pub const fn string(name: &'static str, description: &'static str) -> Self {
        Self {
            name,
            column_type: "string",
            format: "",
            description,
            priority: 0,
        }
    }

    /// A column of whole numbers.
    pub const fn integer(name: &'static str, description: &'static str) -> Self {
        Self {
            column_type: "integer",
            ..Self::string(name, description)
        }
    }

    /// A column of truth values.
    pub const fn boolean(name: &'static str, description: &'static str) -> Self {
        Self {
            column_type: "boolean",
            ..Self::string(name, description)
        }
    }

    /// Shown only with `-o wide`.
    pub const fn wide(self) -> Self {
        Self {
            priority: 1,
            ..self
        }
    }
}

/// Name and age.
pub fn default_columns() -> Vec<Column> {
    vec![Column::NAME, Column::AGE]
}

/// The cells of [`default_columns`].
pub fn default_row<K: Kind>(object: &K, now: jiff::Timestamp) -> Vec<Value> {
    let metadata = object.metadata();
    vec![
        json!(metadata.name),
        json!(age(metadata.creation_timestamp.as_ref(), now)),
    ]
}

/// Name and time of creation.
pub fn created_at_columns() -> Vec<Column> {
    vec![Column::NAME, Column::CREATED_AT]
}

/// The cells of [`created_at_columns`].
pub fn created_at_row<K: Kind>(object: &K) -> Vec<Value> {
    let metadata = object.metadata();
    let created = metadata.creation_timestamp.as_ref();
    vec![
        json!(metadata.name),
        json!(created.map(|time| time.0.to_string())),
    ]
}

/// The age as kubectl shows it: `5s`, `3m12s`, `4h`, `12d`; `<unknown>` without a time.
pub fn age(
    created: Option<&k8s_openapi::apimachinery::pkg::apis::meta::v1::Time>,
    now: jiff::Timestamp,
) -> String {
    match created {
        Some(created) => human_duration(now.as_second() - created.0.as_second()),
        None => "<unknown>".to_owned(),
    }
}

/// A duration in seconds with two significant units while it is short, one when it is long.
pub fn human_duration(seconds: i64) -> String {
    const MINUTE: i64 = 60;
    const HOUR: i64 = 60 * MINUTE;
    const DAY: i64 = 24 * HOUR;
    const YEAR: i64 = 365 * DAY;
    let pair = |whole: i64, unit: &str, rest: i64, rest_unit: &str| match rest {
        0 => format!("{whole}{unit}"),
        rest => format!("{whole}{unit}{rest}{rest_unit}"),
    };
    match seconds {
        i64::MIN..0 => "<invalid>".to_owned(),
        s if s < 2 * MINUTE => format!("{s}s"),
        s if s < 10 * MINUTE => pair(s / MINUTE, "m", s % MINUTE, "s"),
        s if s < 3 * HOUR => format!("{}m", s / MINUTE),
        s if s < 8 * HOUR => pair(s / HOUR, "h", s % HOUR / MINUTE, "m"),
        s if s < 2 * DAY => format!("{}h", s / HOUR),
        s if s < 8 * DAY => pair(s / DAY, "d", s % DAY / HOUR, "h"),
        s if s < 2 * YEAR => format!("{}d", s / DAY),
        s if s < 8 * YEAR => pair(s / YEAR, "y", s % YEAR / DAY, "d"),
        s => format!("{}y", s / YEAR),
    }
}
