//! Label selectors and what they match.

use std::{collections::BTreeMap, fmt};

use k8s_openapi::apimachinery::pkg::apis::meta::v1;

use super::{SelectorError, parse};
use crate::{
    field::{FieldError, Path},
    object::Header,
    validation::{is_label_key, is_label_value},
};

/// Anything with labels.
pub trait Labels {
    /// The value of a label, if there is one.
    fn label(&self, key: &str) -> Option<&str>;
}

impl Labels for Header {
    fn label(&self, key: &str) -> Option<&str> {
        Self::label(self, key)
    }
}

impl Labels for BTreeMap<String, String> {
    fn label(&self, key: &str) -> Option<&str> {
        self.get(key).map(String::as_str)
    }
}

impl<L: Labels> Labels for Option<L> {
    fn label(&self, key: &str) -> Option<&str> {
        self.as_ref()?.label(key)
    }
}

/// How a requirement relates its key and values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operator {
    In,
    NotIn,
    Equals,
    DoubleEquals,
    NotEquals,
    Exists,
    DoesNotExist,
    GreaterThan,
    LessThan,
}

/// One condition on one label.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Requirement {
    key: String,
    operator: Operator,
    /// As many as the operator allows, sorted and distinct when parsed.
    values: Box<[String]>,
}

impl Requirement {
    /// Refuses wrong keys, values and numbers of values, with the field errors in one text.
    pub fn new(
        key: impl Into<String>,
        operator: Operator,
        values: Vec<String>,
    ) -> Result<Self, SelectorError> {
        let key = key.into();
        let mut errors = Vec::new();
        let messages = is_label_key(&key);
        if !messages.is_empty() {
            let path = Path::new("key");
            errors.push(FieldError::invalid(
                &path,
                key.as_str(),
                &messages.join("; "),
            ));
        }
        let path = Path::new("values");
        if let Some(why) = operator.refuses_count(values.len()) {
            errors.push(FieldError::invalid(&path, values.clone(), why));
        }
        for (index, value) in values.iter().enumerate() {
            if operator.is_comparison() && value.parse::<i64>().is_err() {
                let why = "for 'Gt', 'Lt' operators, the value must be an integer";
                errors.push(FieldError::invalid(&path.index(index), value.as_str(), why));
            }
        }
        for (index, value) in values.iter().enumerate() {
            let messages = is_label_value(value);
            if !messages.is_empty() {
                let path = path.index(index).key(&key);
                errors.push(FieldError::invalid(
                    &path,
                    value.as_str(),
                    &messages.join("; "),
                ));
            }
        }
        match errors.as_slice() {
            [] => Ok(Self {
                key,
                operator,
                values: values.into_boxed_slice(),
            }),
            errors => Err(SelectorError(aggregate(errors))),
        }
    }

    /// The label's key.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The operator.
    pub fn operator(&self) -> Operator {
        self.operator
    }

    /// The values; empty for `Exists` and `DoesNotExist`.
    pub fn values(&self) -> &[String] {
        &self.values
    }

    fn matches(&self, labels: &(impl Labels + ?Sized)) -> bool {
        let value = labels.label(&self.key);
        let listed = |value: &str| self.values.iter().any(|v| v == value);
        match self.operator {
            Operator::In | Operator::Equals | Operator::DoubleEquals => value.is_some_and(listed),
            Operator::NotIn | Operator::NotEquals => !value.is_some_and(listed),
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
            Operator::GreaterThan => self.compares(value, |label, bound| label > bound),
            Operator::LessThan => self.compares(value, |label, bound| label < bound),
        }
    }

    fn compares(&self, value: Option<&str>, holds: fn(i64, i64) -> bool) -> bool {
        let label = value.and_then(|v| v.parse().ok());
        let bound = self.values.first().and_then(|v| v.parse().ok());
        matches!((label, bound), (Some(label), Some(bound)) if holds(label, bound))
    }
}

impl Operator {
    fn is_comparison(self) -> bool {
        matches!(self, Self::GreaterThan | Self::LessThan)
    }

    fn refuses_count(self, count: usize) -> Option<&'static str> {
        let (allowed, why) = match self {
            Self::In | Self::NotIn => (
                count > 0,
                "for 'in', 'notin' operators, values set can't be empty",
            ),
            Self::Equals | Self::DoubleEquals | Self::NotEquals => (
                count == 1,
                "exact-match compatibility requires one single value",
            ),
            Self::Exists | Self::DoesNotExist => (
                count == 0,
                "values set must be empty for exists and does not exist",
            ),
            Self::GreaterThan | Self::LessThan => (
                count == 1,
                "for 'Gt', 'Lt' operators, exactly one value is required",
            ),
        };
        (!allowed).then_some(why)
    }
}

/// Several errors in one text: `[a, b]`.
fn aggregate(errors: &[FieldError]) -> String {
    let texts: Vec<String> = errors
        .iter()
        .map(|e| format!("{}: {}", e.path, e.message))
        .collect();
    match texts.as_slice() {
        [one] => one.clone(),
        many => format!("[{}]", many.join(", ")),
    }
}

/// Requirements joined by AND, sorted by key.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct LabelSelector {
    requirements: Vec<Requirement>,
    /// An absent `metav1.LabelSelector` selects nothing, an empty one everything.
    nothing: bool,
}

impl LabelSelector {
    /// Matches every object.
    pub fn everything() -> Self {
        Self::default()
    }

    /// Matches no object.
    pub fn nothing() -> Self {
        Self {
            nothing: true,
            ..Self::default()
        }
    }

    /// Reads the string form: `a=b,c!=d,e in (x,y),!f,g notin (z),h>3`.
    pub fn parse(text: &str) -> Result<Self, SelectorError> {
        parse::requirements(text).map(Self::new)
    }

    /// From requirements in any order.
    pub fn new(mut requirements: Vec<Requirement>) -> Self {
        requirements.sort_by(|a, b| a.key.cmp(&b.key));
        Self {
            requirements,
            nothing: false,
        }
    }

    /// From `metav1.LabelSelector`; `None` selects nothing.
    pub fn from_meta(selector: Option<&v1::LabelSelector>) -> Result<Self, SelectorError> {
        let Some(selector) = selector else {
            return Ok(Self::nothing());
        };
        let mut requirements = Vec::new();
        for (key, value) in selector.match_labels.iter().flatten() {
            let values = vec![value.clone()];
            requirements.push(Requirement::new(key.as_str(), Operator::Equals, values)?);
        }
        for expression in selector.match_expressions.iter().flatten() {
            let operator = match expression.operator.as_str() {
                "In" => Operator::In,
                "NotIn" => Operator::NotIn,
                "Exists" => Operator::Exists,
                "DoesNotExist" => Operator::DoesNotExist,
                other => {
                    let text = format!("{other:?} is not a valid label selector operator");
                    return Err(SelectorError(text));
                }
            };
            let values = expression.values.clone().unwrap_or_default();
            requirements.push(Requirement::new(expression.key.as_str(), operator, values)?);
        }
        Ok(Self::new(requirements))
    }

    /// From a map of equal labels, as `spec.selector` of services and replication controllers has it; not validated.
    pub fn from_map(labels: &BTreeMap<String, String>) -> Self {
        let requirements = labels.iter().map(|(key, value)| Requirement {
            key: key.clone(),
            operator: Operator::Equals,
            values: Box::new([value.clone()]),
        });
        Self::new(requirements.collect())
    }

    /// Whether the labels meet every requirement.
    pub fn matches(&self, labels: &(impl Labels + ?Sized)) -> bool {
        !self.nothing && self.requirements.iter().all(|r| r.matches(labels))
    }

    /// The value that a label must have, if there is exactly one.
    pub fn exact(&self, key: &str) -> Option<&str> {
        let mut equal = self.requirements.iter().filter(|r| {
            let one = matches!(
                r.operator,
                Operator::Equals | Operator::DoubleEquals | Operator::In
            );
            r.key == key && one && r.values.len() == 1
        });
        equal
            .next()
            .map(|requirement| requirement.values[0].as_str())
    }

    /// Whether it restricts nothing.
    pub fn is_everything(&self) -> bool {
        !self.nothing && self.requirements.is_empty()
    }

    /// The requirements, sorted by key.
    pub fn requirements(&self) -> &[Requirement] {
        &self.requirements
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = &self.key;
        let mut values: Vec<&str> = self.values.iter().map(String::as_str).collect();
        values.sort_unstable();
        let values = values.join(",");
        match self.operator {
            Operator::In => write!(f, "{key} in ({values})"),
            Operator::NotIn => write!(f, "{key} notin ({values})"),
            Operator::Equals => write!(f, "{key}={values}"),
            Operator::DoubleEquals => write!(f, "{key}=={values}"),
            Operator::NotEquals => write!(f, "{key}!={values}"),
            Operator::Exists => f.write_str(key),
            Operator::DoesNotExist => write!(f, "!{key}"),
            Operator::GreaterThan => write!(f, "{key}>{values}"),
            Operator::LessThan => write!(f, "{key}<{values}"),
        }
    }
}

/// The string form, which [`LabelSelector::parse`] reads back. `nothing` has none and shows as an empty text.
impl fmt::Display for LabelSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, requirement) in self.requirements.iter().enumerate() {
            if index > 0 {
                f.write_str(",")?;
            }
            requirement.fmt(f)?;
        }
        Ok(())
    }
}
