//! Query parameters, and the options that Kubernetes reads from them.
//! Source: <https://kubernetes.io/docs/reference/kubernetes-api/common-parameters/common-parameters/>

use std::time::Duration;

use http::{HeaderMap, header};
use pilothouse_api::{
    Cause, Status,
    field::{ErrorList, FieldError, Path},
    validation::validate_field_manager,
};

/// The most that a field manager's name may have.
const MAX_MANAGER_BYTES: usize = 128;

/// The decoded query string in its order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    /// Decodes what follows the `?`.
    pub(crate) fn parse(query: Option<&str>) -> Self {
        let pairs = form_urlencoded::parse(query.unwrap_or_default().as_bytes());
        Self(pairs.into_owned().collect())
    }

    /// The first value of a parameter that is not empty.
    pub(crate) fn get(&self, key: &str) -> Option<&str> {
        let found = self.0.iter().find(|(k, _)| k == key)?;
        (!found.1.is_empty()).then_some(found.1.as_str())
    }

    /// All values of a parameter.
    pub(crate) fn all<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a str> {
        self.0
            .iter()
            .filter(move |(k, _)| k == key)
            .map(|(_, v)| v.as_str())
    }

    /// A boolean as Kubernetes reads it: present and neither `false` nor `0`.
    pub(crate) fn flag(&self, key: &str) -> bool {
        self.optional_flag(key).unwrap_or(false)
    }

    /// The same, telling absence apart.
    pub(crate) fn optional_flag(&self, key: &str) -> Option<bool> {
        let (_, value) = self.0.iter().find(|(k, _)| k == key)?;
        Some(!matches!(
            value.to_ascii_lowercase().as_str(),
            "false" | "0"
        ))
    }

    /// A whole number; anything else is 400.
    pub(crate) fn number(&self, key: &str) -> Result<Option<i64>, Status> {
        let Some(text) = self.get(key) else {
            return Ok(None);
        };
        let number = text.parse().map_err(|_| {
            Status::bad_request(format!(
                "invalid value {text:?} for parameter {key}: not a whole number"
            ))
        })?;
        Ok(Some(number))
    }
}

/// `dryRun=All`. Anything else is 422.
pub(crate) fn dry_run<'a>(
    values: impl Iterator<Item = &'a str>,
    options: &str,
) -> Result<bool, Status> {
    let mut dry_run = false;
    for value in values {
        match value {
            "All" => dry_run = true,
            "" => {}
            other => {
                let message = format!("Unsupported value: {other:?}: supported values: \"All\"");
                return Err(invalid_option(
                    options,
                    "dryRun",
                    "FieldValueNotSupported",
                    message,
                ));
            }
        }
    }
    Ok(dry_run)
}

/// A refused option: 422 with the field.
pub(crate) fn invalid_option(kind: &str, field: &str, reason: &str, message: String) -> Status {
    let cause = Cause {
        reason: reason.to_owned(),
        message,
        field: field.to_owned(),
    };
    Status::invalid("meta.k8s.io", kind, "", vec![cause])
}

/// What to do about unknown and duplicate fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum FieldValidation {
    Ignore,
    #[default]
    Warn,
    Strict,
}

/// The options of creates, updates and patches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct WriteOptions {
    pub dry_run: bool,
    pub field_validation: FieldValidation,
}

impl WriteOptions {
    /// `kind` is the options' name in errors: `CreateOptions`, `UpdateOptions`, `PatchOptions`.
    pub(crate) fn parse(query: &Query, kind: &str) -> Result<Self, Status> {
        let field_validation = match query.get("fieldValidation") {
            None | Some("Warn") => FieldValidation::Warn,
            Some("Ignore") => FieldValidation::Ignore,
            Some("Strict") => FieldValidation::Strict,
            Some(other) => {
                let message = format!(
                    "Unsupported value: {other:?}: supported values: \"Ignore\", \"Strict\", \"Warn\""
                );
                return Err(invalid_option(
                    kind,
                    "fieldValidation",
                    "FieldValueNotSupported",
                    message,
                ));
            }
        };
        check_field_manager(query, kind)?;
        Ok(Self {
            dry_run: dry_run(query.all("dryRun"), kind)?,
            field_validation,
        })
    }
}

/// `fieldManager`: at most 128 bytes of printable characters. Anything else is 422.
fn check_field_manager(query: &Query, kind: &str) -> Result<(), Status> {
    let manager = query.get("fieldManager").unwrap_or_default();
    invalid_options(
        kind,
        validate_field_manager(manager, &Path::new("fieldManager")),
    )
}

fn invalid_options(kind: &str, errors: ErrorList) -> Result<(), Status> {
    if errors.is_empty() {
        return Ok(());
    }
    let causes = errors.into_iter().map(Cause::from).collect();
    Err(Status::invalid("meta.k8s.io", kind, "", causes))
}

/// The options of applies only: whether fields are taken over from other owners. An apply must name its field manager, or it
/// is 422.
pub(crate) fn force_of_apply(query: &Query) -> Result<bool, Status> {
    if query.get("fieldManager").is_none() {
        let path = Path::new("fieldManager");
        let error = FieldError::required(&path, "is required for apply patch");
        invalid_options("PatchOptions", vec![error])?;
    }
    Ok(query.flag("force"))
}

/// 422 for `force` on another patch.
pub(crate) fn forbid_force(query: &Query) -> Result<(), Status> {
    if query.optional_flag("force").is_none() {
        return Ok(());
    }
    let path = Path::new("force");
    let error = FieldError::forbidden(&path, "may not be specified for non-apply patch");
    invalid_options("PatchOptions", vec![error])
}

/// Who comes to own what a request writes: `fieldManager`, or what the user agent has before its first slash, printable and
/// at most 128 bytes.
pub(crate) fn field_manager(query: &Query, headers: &HeaderMap) -> String {
    if let Some(manager) = query.get("fieldManager") {
        return manager.to_owned();
    }
    let agent = headers
        .get(header::USER_AGENT)
        .and_then(|agent| agent.to_str().ok());
    let name = agent
        .unwrap_or_default()
        .split('/')
        .next()
        .unwrap_or_default();
    let mut manager = String::new();
    for letter in name.chars().filter(|letter| !letter.is_control()) {
        if manager.len() + letter.len_utf8() > MAX_MANAGER_BYTES {
            break;
        }
        manager.push(letter);
    }
    manager
}

/// `resourceVersionMatch`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum VersionMatch {
    Exact,
    NotOlderThan,
}

/// The options of lists and watches, checked for sense.
/// Source: <https://kubernetes.io/docs/reference/using-api/api-concepts/#resource-versions>
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ListOptions {
    pub label_selector: String,
    pub field_selector: String,
    /// Empty: the most recent.
    pub resource_version: String,
    pub version_match: Option<VersionMatch>,
    /// Zero: no limit.
    pub limit: usize,
    pub continue_token: String,
    pub allow_bookmarks: bool,
    pub send_initial_events: bool,
    pub timeout: Option<Duration>,
}

impl ListOptions {
    /// Reads and checks; `watch` tells which rules hold.
    pub(crate) fn parse(query: &Query, watch: bool) -> Result<Self, Status> {
        let text = |key| query.get(key).unwrap_or_default().to_owned();
        let version_match = match query.get("resourceVersionMatch") {
            None => None,
            Some("Exact") => Some(VersionMatch::Exact),
            Some("NotOlderThan") => Some(VersionMatch::NotOlderThan),
            Some(other) => {
                let message = format!(
                    "Unsupported value: {other:?}: supported values: \"Exact\", \"NotOlderThan\", \"\""
                );
                return Err(invalid_option(
                    "ListOptions",
                    "resourceVersionMatch",
                    "FieldValueNotSupported",
                    message,
                ));
            }
        };
        let options = Self {
            label_selector: text("labelSelector"),
            field_selector: text("fieldSelector"),
            resource_version: text("resourceVersion"),
            version_match,
            limit: usize::try_from(query.number("limit")?.unwrap_or(0)).unwrap_or(0),
            continue_token: text("continue"),
            allow_bookmarks: query.flag("allowWatchBookmarks"),
            send_initial_events: query.flag("sendInitialEvents"),
            timeout: seconds(query.number("timeoutSeconds")?),
        };
        options.check(watch, query.optional_flag("sendInitialEvents"))?;
        Ok(options)
    }

    fn check(&self, watch: bool, send_initial_events: Option<bool>) -> Result<(), Status> {
        let forbidden = |field: &str, why: &str| {
            Err(invalid_option(
                "ListOptions",
                field,
                "FieldValueForbidden",
                format!("Forbidden: {why}"),
            ))
        };
        match (watch, send_initial_events, self.version_match) {
            (false, Some(_), _) => {
                return forbidden(
                    "sendInitialEvents",
                    "sendInitialEvents is forbidden for list",
                );
            }
            (true, None, Some(_)) => {
                return forbidden(
                    "resourceVersionMatch",
                    "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
                );
            }
            (true, Some(_), found) if found != Some(VersionMatch::NotOlderThan) => {
                let why = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
                return match found {
                    None => forbidden("resourceVersionMatch", why),
                    Some(_) => {
                        let message =
                            "Unsupported value: \"Exact\": supported values: \"NotOlderThan\""
                                .to_owned();
                        Err(invalid_option(
                            "ListOptions",
                            "resourceVersionMatch",
                            "FieldValueNotSupported",
                            message,
                        ))
                    }
                };
            }
            _ => {}
        }
        if watch || self.version_match.is_none() {
            return Ok(());
        }
        if self.resource_version.is_empty() {
            return forbidden(
                "resourceVersionMatch",
                "resourceVersionMatch is forbidden unless resourceVersion is provided",
            );
        }
        if !self.continue_token.is_empty() {
            return forbidden(
                "resourceVersionMatch",
                "resourceVersionMatch is forbidden when continue is provided",
            );
        }
        if self.version_match == Some(VersionMatch::Exact) && self.resource_version == "0" {
            return forbidden(
                "resourceVersionMatch",
                "resourceVersionMatch \"Exact\" is forbidden for resourceVersion \"0\"",
            );
        }
        Ok(())
    }
}

/// A number of seconds; none and negative ones are no limit.
fn seconds(value: Option<i64>) -> Option<Duration> {
    value
        .and_then(|s| u64::try_from(s).ok())
        .filter(|s| *s > 0)
        .map(Duration::from_secs)
}

/// The `timeout` parameter, a Go duration: `30s`, `1m30s`, `500ms`. Anything else is 400.
pub(crate) fn timeout(query: &Query) -> Result<Option<Duration>, Status> {
    match query.get("timeout") {
        None => Ok(None),
        Some(text) => match parse_duration(text) {
            Some(duration) => Ok((!duration.is_zero()).then_some(duration)),
            None => Err(Status::bad_request(format!(
                "invalid timeout specified in the request URL - time: invalid duration {text:?}"
            ))),
        },
    }
}

fn parse_duration(text: &str) -> Option<Duration> {
    if text == "0" {
        return Some(Duration::ZERO);
    }
    let mut rest = text;
    let mut sum = 0.0;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let value: f64 = rest[..digits].parse().ok()?;
        rest = &rest[digits..];
        let unit_end = rest
            .find(|c: char| c.is_ascii_digit() || c == '.')
            .unwrap_or(rest.len());
        sum += value
            * match &rest[..unit_end] {
                "h" => 3600.0,
                "m" => 60.0,
                "s" => 1.0,
                "ms" => 1e-3,
                "us" | "µs" => 1e-6,
                "ns" => 1e-9,
                _ => return None,
            };
        rest = &rest[unit_end..];
    }
    (!text.is_empty())
        .then(|| Duration::try_from_secs_f64(sum).ok())
        .flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_those_of_go() {
        let cases = [
            ("30s", Some(30_000)),
            ("1m30s", Some(90_000)),
            ("1.5s", Some(1_500)),
            ("500ms", Some(500)),
            ("0", Some(0)),
            ("30", None),
            ("abc", None),
            ("-1s", None),
        ];
        for (text, millis) in cases {
            assert_eq!(
                parse_duration(text),
                millis.map(Duration::from_millis),
                "{text}"
            );
        }
    }

    #[test]
    fn lists_and_watches_refuse_senseless_options() {
        // watch, query, the refused field or "" if it is right
        let cases = [
            (false, "", ""),
            (false, "resourceVersion=5&resourceVersionMatch=Exact", ""),
            (
                false,
                "resourceVersion=0&resourceVersionMatch=NotOlderThan",
                "",
            ),
            (false, "resourceVersionMatch=Exact", "resourceVersionMatch"),
            (
                false,
                "resourceVersion=0&resourceVersionMatch=Exact",
                "resourceVersionMatch",
            ),
            (
                false,
                "resourceVersion=5&resourceVersionMatch=Maybe",
                "resourceVersionMatch",
            ),
            (
                false,
                "resourceVersion=5&resourceVersionMatch=Exact&continue=x",
                "resourceVersionMatch",
            ),
            (false, "sendInitialEvents=true", "sendInitialEvents"),
            (
                true,
                "resourceVersionMatch=NotOlderThan",
                "resourceVersionMatch",
            ),
            (true, "sendInitialEvents=true", "resourceVersionMatch"),
            (
                true,
                "sendInitialEvents=true&resourceVersionMatch=Exact",
                "resourceVersionMatch",
            ),
            (
                true,
                "sendInitialEvents=true&resourceVersionMatch=NotOlderThan",
                "",
            ),
        ];
        for (watch, query, field) in cases {
            let parsed = ListOptions::parse(&Query::parse(Some(query)), watch);
            match (field, parsed) {
                ("", parsed) => assert!(parsed.is_ok(), "{query}: {parsed:?}"),
                (field, Err(status)) => {
                    assert_eq!(status.code, 422, "{query}");
                    assert_eq!(status.details.unwrap().causes[0].field, field, "{query}");
                }
                (_, Ok(parsed)) => panic!("{query} was taken: {parsed:?}"),
            }
        }
    }
}
