//! Label selectors as `metav1.LabelSelector` and as plain maps, and their query form.
//! Source: <https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/>

use std::{collections::BTreeMap, fmt};

use serde_json::Value;

use super::Error;

/// A parsed selector: every requirement must hold. Without requirements it selects everything, unless it is `nothing`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selector {
    requirements: Vec<Requirement>,
    nothing: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Requirement {
    key: String,
    operator: Operator,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Operator {
    In(Vec<String>),
    NotIn(Vec<String>),
    Exists,
    DoesNotExist,
}

impl Selector {
    /// Selects no object.
    pub fn nothing() -> Self {
        Self {
            requirements: Vec::new(),
            nothing: true,
        }
    }

    /// Selects every object.
    pub fn everything() -> Self {
        Self {
            requirements: Vec::new(),
            nothing: false,
        }
    }

    /// From a `metav1.LabelSelector`; null selects nothing, `{}` everything.
    pub fn from_label_selector(selector: &Value) -> Result<Self, Error> {
        if selector.is_null() {
            return Ok(Self::nothing());
        }
        let mut requirements = equalities(&selector["matchLabels"]);
        let expressions = selector["matchExpressions"].as_array();
        for expression in expressions.into_iter().flatten() {
            requirements.push(requirement(expression)?);
        }
        Ok(Self {
            requirements,
            nothing: false,
        })
    }

    /// From a map of labels, as Services and ReplicationControllers have it; null or empty selects nothing.
    pub fn from_map(labels: &Value) -> Self {
        let requirements = equalities(labels);
        Self {
            nothing: requirements.is_empty(),
            requirements,
        }
    }

    /// Whether there is no requirement, so that everything is selected.
    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty() && !self.nothing
    }

    /// Whether an object with these labels is selected.
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        !self.nothing && self.requirements.iter().all(|r| r.matches(labels))
    }
}

impl Requirement {
    fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        let value = labels.get(&self.key);
        match &self.operator {
            Operator::In(values) => value.is_some_and(|v| values.contains(v)),
            Operator::NotIn(values) => value.is_none_or(|v| !values.contains(v)),
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
        }
    }
}

/// The query form; of a selector that selects nothing it is one that no object can meet.
impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.nothing {
            return f.write_str("none,!none");
        }
        for (i, Requirement { key, operator }) in self.requirements.iter().enumerate() {
            if i > 0 {
                f.write_str(",")?;
            }
            match operator {
                Operator::In(values) if values.len() == 1 => write!(f, "{key}={}", values[0])?,
                Operator::In(values) => write!(f, "{key} in ({})", values.join(","))?,
                Operator::NotIn(values) => write!(f, "{key} notin ({})", values.join(","))?,
                Operator::Exists => f.write_str(key)?,
                Operator::DoesNotExist => write!(f, "!{key}")?,
            }
        }
        Ok(())
    }
}

fn equalities(labels: &Value) -> Vec<Requirement> {
    let pairs = labels.as_object().into_iter().flatten();
    pairs
        .map(|(key, value)| Requirement {
            key: key.clone(),
            operator: Operator::In(vec![value.as_str().unwrap_or_default().to_owned()]),
        })
        .collect()
}

fn requirement(expression: &Value) -> Result<Requirement, Error> {
    let values: Vec<String> = expression["values"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|value| value.as_str().unwrap_or_default().to_owned())
        .collect();
    let operator = match expression["operator"].as_str().unwrap_or_default() {
        "In" if !values.is_empty() => Operator::In(values),
        "NotIn" if !values.is_empty() => Operator::NotIn(values),
        "Exists" if values.is_empty() => Operator::Exists,
        "DoesNotExist" if values.is_empty() => Operator::DoesNotExist,
        other => {
            return Err(Error::other(format!(
                "invalid selector operator {other:?} with {} values",
                values.len()
            )));
        }
    };
    Ok(Requirement {
        key: expression["key"].as_str().unwrap_or_default().to_owned(),
        operator,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        let owned = pairs
            .iter()
            .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()));
        owned.collect()
    }

    #[test]
    fn selectors_match_and_are_written_as_queries() {
        let web = labels(&[("app", "web"), ("tier", "1")]);
        for (selector, matches, query) in [
            (json!({}), true, ""),
            (json!(null), false, "none,!none"),
            (json!({"matchLabels": {"app": "web"}}), true, "app=web"),
            (json!({"matchLabels": {"app": "db"}}), false, "app=db"),
            (
                expression("app", "In", &["a", "web"]),
                true,
                "app in (a,web)",
            ),
            (
                expression("app", "NotIn", &["web"]),
                false,
                "app notin (web)",
            ),
            (
                expression("other", "NotIn", &["web"]),
                true,
                "other notin (web)",
            ),
            (expression("tier", "Exists", &[]), true, "tier"),
            (expression("tier", "DoesNotExist", &[]), false, "!tier"),
        ] {
            let parsed = Selector::from_label_selector(&selector).unwrap();
            assert_eq!(parsed.matches(&web), matches, "{selector}");
            assert_eq!(parsed.to_string(), query);
        }
        for (operator, values) in [("In", vec![]), ("Exists", vec!["x"]), ("Like", vec!["x"])] {
            assert!(Selector::from_label_selector(&expression("a", operator, &values)).is_err());
        }
    }

    #[test]
    fn a_plain_map_that_is_empty_selects_nothing() {
        assert!(!Selector::from_map(&json!({})).matches(&labels(&[])));
        assert!(Selector::from_map(&json!({"app": "web"})).matches(&labels(&[("app", "web")])));
        assert!(Selector::everything().is_empty() && !Selector::nothing().is_empty());
    }

    fn expression(key: &str, operator: &str, values: &[&str]) -> Value {
        json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]})
    }
}
