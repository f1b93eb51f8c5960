//! Formats of names, keys, values and ports. A valid text costs one pass and no allocation.

const LABEL_MAX: usize = 63;
const SUBDOMAIN_MAX: usize = 253;
const LABEL_RE: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const SUBDOMAIN_RE: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
const LABEL_KEY_RE: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";

/// The formats of object names. Source: <https://kubernetes.io/docs/concepts/overview/working-with-objects/names/>
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameFormat {
    /// RFC 1123 subdomain, at most 253 characters.
    DnsSubdomain,
    /// RFC 1123 label, at most 63 characters.
    DnsLabel,
    /// RFC 1035 label: begins with a letter.
    Dns1035Label,
    /// Anything that fits into a path segment (RBAC).
    PathSegment,
}

impl NameFormat {
    /// What is wrong with a name. Of a `prefix` to which more will be appended, a dash at its end is right.
    pub fn check(self, name: &str, prefix: bool) -> Vec<String> {
        let masked;
        let name = match (self, name.strip_suffix('-')) {
            (Self::PathSegment, _) | (_, None) => name,
            (_, Some(rest)) if prefix && !rest.is_empty() => {
                // the character before the dash gives way to one that may end a name
                let kept = rest.char_indices().next_back().map_or(0, |(at, _)| at);
                masked = format!("{}a", &rest[..kept]);
                &masked
            }
            _ => name,
        };
        match self {
            Self::DnsSubdomain => is_dns1123_subdomain(name),
            Self::DnsLabel => is_dns1123_label(name),
            Self::Dns1035Label => is_dns1035_label(name),
            Self::PathSegment => is_path_segment(name, prefix),
        }
    }
}

/// RFC 1123 label: `my-name`, `123-abc`.
pub fn is_dns1123_label(value: &str) -> Vec<String> {
    let mut errors = max_characters(value, LABEL_MAX);
    if !label(value) {
        errors.push(match subdomain(value) {
            true => "must not contain dots".to_owned(),
            false => regex_error(
                "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character",
                LABEL_RE,
                &["my-name", "123-abc"],
            ),
        });
    }
    errors
}

/// RFC 1123 subdomain: `example.com`.
pub fn is_dns1123_subdomain(value: &str) -> Vec<String> {
    let mut errors = max_characters(value, SUBDOMAIN_MAX);
    if !subdomain(value) {
        errors.push(subdomain_error());
    }
    errors
}

/// All names below a domain: `*.example.com`.
pub fn is_wildcard_dns1123_subdomain(value: &str) -> Vec<String> {
    let mut errors = max_characters(value, SUBDOMAIN_MAX);
    if !value.strip_prefix("*.").is_some_and(subdomain) {
        errors.push(regex_error(
            "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character",
            &format!("\\*\\.{SUBDOMAIN_RE}"),
            &["*.example.com"],
        ));
    }
    errors
}

/// RFC 1035 label: a label that begins with a letter.
pub fn is_dns1035_label(value: &str) -> Vec<String> {
    let mut errors = max_characters(value, LABEL_MAX);
    if !(label(value) && value.starts_with(|c: char| c.is_ascii_lowercase())) {
        errors.push(regex_error(
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character",
            "[a-z]([-a-z0-9]*[a-z0-9])?",
            &["my-name", "abc-123"],
        ));
    }
    errors
}

/// Qualified name, the format of label keys, annotation keys, finalizers and resource names: `example.com/MyName`.
pub fn is_label_key(value: &str) -> Vec<String> {
    const WHAT: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";
    const EXAMPLES: [&str; 3] = ["MyName", "my.name", "123-abc"];
    let mut errors = Vec::new();
    let mut parts = value.split('/');
    let (prefix, name) = match (parts.next(), parts.next(), parts.next()) {
        (Some(name), None, _) => (None, name),
        (prefix, Some(name), None) => (prefix, name),
        _ => {
            let regex = regex_error(WHAT, LABEL_KEY_RE, &EXAMPLES);
            return vec![format!(
                "a valid label key {regex} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            )];
        }
    };
    match prefix {
        None => {}
        Some("") => errors.push("prefix part must be non-empty".to_owned()),
        Some(prefix) => {
            if prefix.len() > SUBDOMAIN_MAX {
                errors.push(format!("prefix part {}", max_bytes(SUBDOMAIN_MAX)));
            }
            if !subdomain(prefix) {
                errors.push(format!("prefix part {}", subdomain_error()));
            }
        }
    }
    if name.is_empty() {
        errors.push("name part must be non-empty".to_owned());
    } else if name.len() > LABEL_MAX {
        errors.push(format!("name part {}", max_bytes(LABEL_MAX)));
    }
    if !key_name(name) {
        let regex = regex_error(WHAT, LABEL_KEY_RE, &EXAMPLES);
        errors.push(format!("name part {regex}"));
    }
    errors
}

/// Label value: empty, or like the name part of a key.
pub fn is_label_value(value: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if value.len() > LABEL_MAX {
        errors.push(max_bytes(LABEL_MAX));
    }
    if !(value.is_empty() || key_name(value)) {
        errors.push(regex_error(
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character",
            &format!("({LABEL_KEY_RE})?"),
            &["MyValue", "my_value", "12345"],
        ));
    }
    errors
}

/// A key of a ConfigMap or Secret.
pub fn is_config_map_key(value: &str) -> Vec<String> {
    let mut errors = max_characters(value, SUBDOMAIN_MAX);
    let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    if value.is_empty() || !value.bytes().all(allowed) {
        errors.push(regex_error(
            "a valid config key must consist of alphanumeric characters, '-', '_' or '.'",
            "[-._a-zA-Z0-9]+",
            &["key.name", "KEY_NAME", "key-name"],
        ));
    }
    errors.extend(parent_directory(value));
    errors
}

/// The name of an environment variable: printable ASCII without `=`.
pub fn is_env_var_name(value: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if value.is_empty() {
        errors.push("environment variable name must be non-empty".to_owned());
    }
    let allowed = |b: u8| (b' '..=b'~').contains(&b) && b != b'=';
    if !value.bytes().all(allowed) {
        errors.push("a valid environment variable name must consist only of printable ASCII characters other than '='".to_owned());
    }
    errors
}

/// The name of a port: at most 15 of `a-z0-9-`, at least one letter.
pub fn is_port_name(value: &str) -> Vec<String> {
    let mut errors = max_characters(value, 15);
    let allowed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    if value.is_empty() || !value.bytes().all(allowed) {
        errors.push(
            "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)".to_owned(),
        );
    }
    if !value.bytes().any(|b| b.is_ascii_lowercase()) {
        errors.push("must contain at least one letter (a-z)".to_owned());
    }
    if value.contains("--") {
        errors.push("must not contain consecutive hyphens".to_owned());
    }
    if value.starts_with('-') || value.ends_with('-') {
        errors.push("must not begin or end with a hyphen".to_owned());
    }
    errors
}

/// A port number, 1 to 65535.
pub fn is_port_number(value: i64) -> Vec<String> {
    is_in_range(value, 1, 65535)
}

/// A number between two bounds, both allowed.
pub fn is_in_range(value: i64, min: i64, max: i64) -> Vec<String> {
    match (min..=max).contains(&value) {
        true => Vec::new(),
        false => vec![format!("must be between {min} and {max}, inclusive")],
    }
}

/// A percentage: `25%`.
pub fn is_percent(value: &str) -> Vec<String> {
    let digits = value.strip_suffix('%').unwrap_or("");
    match !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()) {
        true => Vec::new(),
        false => vec![regex_error(
            "a valid percent string must be a numeric string followed by an ending '%'",
            "[0-9]+%",
            &["1%", "93%"],
        )],
    }
}

fn is_path_segment(name: &str, prefix: bool) -> Vec<String> {
    if !prefix && matches!(name, "." | "..") {
        return vec![format!("may not be '{name}'")];
    }
    ["/", "%"]
        .into_iter()
        .filter(|bad| name.contains(bad))
        .map(|bad| format!("may not contain '{bad}'"))
        .collect()
}

fn parent_directory(value: &str) -> Option<String> {
    match value {
        "." | ".." => Some(format!("must not be '{value}'")),
        value if value.starts_with("..") => Some("must not start with '..'".to_owned()),
        _ => None,
    }
}

fn label(value: &str) -> bool {
    let bytes = value.as_bytes();
    let alphanumeric = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let (Some(first), Some(last)) = (bytes.first(), bytes.last()) else {
        return false;
    };
    alphanumeric(first) && alphanumeric(last) && bytes.iter().all(|b| alphanumeric(b) || *b == b'-')
}

fn subdomain(value: &str) -> bool {
    value.split('.').all(label)
}

fn key_name(value: &str) -> bool {
    let bytes = value.as_bytes();
    let (Some(first), Some(last)) = (bytes.first(), bytes.last()) else {
        return false;
    };
    let inner = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    first.is_ascii_alphanumeric() && last.is_ascii_alphanumeric() && bytes.iter().all(inner)
}

fn max_characters(value: &str, max: usize) -> Vec<String> {
    match value.len() > max {
        true => vec![format!("must be no more than {max} characters")],
        false => Vec::new(),
    }
}

fn max_bytes(max: usize) -> String {
    format!("must be no more than {max} bytes")
}

fn subdomain_error() -> String {
    regex_error(
        "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character",
        SUBDOMAIN_RE,
        &["example.com"],
    )
}

fn regex_error(what: &str, regex: &str, examples: &[&str]) -> String {
    let examples: Vec<String> = examples.iter().map(|e| format!("'{e}', ")).collect();
    let examples = examples.join(" or ");
    format!("{what} (e.g. {examples}regex used for validation is '{regex}')")
}
