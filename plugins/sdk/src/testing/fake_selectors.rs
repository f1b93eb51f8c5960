//! Selectors in their query form, for lists of the fake cluster.

use serde_json::Value;

use crate::{
    cluster::{ListOptions, Status},
    controller::ObjectExt,
};

pub(super) fn matches(object: &Value, options: &ListOptions) -> Result<bool, Status> {
    for requirement in split(&options.label_selector) {
        if !label_matches(object, requirement.trim())? {
            return Ok(false);
        }
    }
    for requirement in options
        .field_selector
        .split(',')
        .filter(|r| !r.trim().is_empty())
    {
        if !field_matches(object, requirement.trim())? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// At commas outside parentheses.
fn split(selector: &str) -> Vec<&str> {
    let (mut parts, mut depth, mut start) = (Vec::new(), 0, 0);
    for (at, c) in selector.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&selector[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&selector[start..]);
    parts.retain(|part| !part.trim().is_empty());
    parts
}

fn label_matches(object: &Value, requirement: &str) -> Result<bool, Status> {
    if let Some((left, values)) = requirement.split_once('(') {
        let values: Vec<&str> = values
            .trim_end_matches(')')
            .split(',')
            .map(str::trim)
            .collect();
        let mut words = left.split_whitespace();
        return match (words.next(), words.next()) {
            (Some(key), Some("in")) => Ok(object.label(key).is_some_and(|v| values.contains(&v))),
            (Some(key), Some("notin")) => {
                Ok(object.label(key).is_none_or(|v| !values.contains(&v)))
            }
            _ => Err(invalid(requirement)),
        };
    }
    if let Some((key, value)) = requirement.split_once("!=") {
        return Ok(object.label(key.trim()) != Some(value.trim()));
    }
    if let Some((key, value)) = requirement.split_once('=') {
        return Ok(object.label(key.trim()) == Some(value.trim_start_matches('=').trim()));
    }
    match requirement.strip_prefix('!') {
        Some(key) => Ok(object.label(key.trim()).is_none()),
        None => Ok(object.label(requirement).is_some()),
    }
}

fn field_matches(object: &Value, requirement: &str) -> Result<bool, Status> {
    let (path, value, equal) = match requirement.split_once("!=") {
        Some((path, value)) => (path, value, false),
        None => match requirement.split_once('=') {
            Some((path, value)) => (path, value.trim_start_matches('='), true),
            None => return Err(invalid(requirement)),
        },
    };
    let pointer = format!("/{}", path.trim().replace('.', "/"));
    Ok((object.str_at(&pointer) == value.trim()) == equal)
}

fn invalid(requirement: &str) -> Status {
    Status::new(
        400,
        "BadRequest",
        format!("unable to parse requirement {requirement:?}"),
    )
}
