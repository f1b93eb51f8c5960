//! The two text forms: OpenMetrics for those who ask for it, the older one of Prometheus for everybody else.
//! Source: <https://prometheus.io/docs/instrumenting/exposition_formats/>

use std::fmt::{self, Write};

use http::HeaderMap;
use prometheus_client::{
    encoding::text::{encode_eof, encode_registry},
    registry::Registry,
};

use crate::negotiation::clauses;

/// Which text form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Prometheus,
    OpenMetrics,
}

impl Form {
    /// What a client likes best.
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        let known = clauses(headers)
            .into_iter()
            .find_map(|clause| match clause.media {
                "application/openmetrics-text" => Some(Self::OpenMetrics),
                "text/plain" | "text/*" | "*/*" => Some(Self::Prometheus),
                _ => None,
            });
        known.unwrap_or(Self::Prometheus)
    }

    pub(crate) fn content_type(self) -> &'static str {
        match self {
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// One text of several registries, whose names differ.
pub(super) fn text(
    first: &Registry,
    others: &[Registry],
    form: Form,
) -> Result<String, fmt::Error> {
    let mut text = String::new();
    for registry in std::iter::once(first).chain(others) {
        encode_registry(&mut text, registry)?;
    }
    encode_eof(&mut text)?;
    match form {
        Form::OpenMetrics => Ok(text),
        Form::Prometheus => older(&text),
    }
}

/// The older form names a counter as its samples are named, says nothing of units, and has no end.
fn older(text: &str) -> Result<String, fmt::Error> {
    let counter = |name: &str| {
        let line = format!("# TYPE {name} counter");
        text.lines().any(|found| found == line)
    };
    let mut older = String::with_capacity(text.len());
    for line in text.lines() {
        let mut words = line.splitn(4, ' ');
        match (words.next(), words.next(), words.next(), words.next()) {
            (Some("#"), Some("EOF" | "UNIT"), ..) => {}
            (Some("#"), Some(word @ ("HELP" | "TYPE")), Some(name), Some(rest))
                if counter(name) =>
            {
                writeln!(older, "# {word} {name}_total {rest}")?;
            }
            _ => writeln!(older, "{line}")?,
        }
    }
    Ok(older)
}

#[cfg(test)]
mod tests {
    use http::{HeaderValue, header};
    use prometheus_client::metrics::{counter::Counter, gauge::Gauge};

    use super::*;

    #[test]
    fn counters_are_called_by_their_samples_in_the_older_form() {
        let mut registry = Registry::default();
        let requests: Counter = Counter::default();
        requests.inc_by(3);
        registry.register("requests", "All of them", requests);
        registry.register("watches", "Open ones", Gauge::<i64>::default());
        assert_eq!(
            text(&registry, &[], Form::Prometheus).unwrap(),
            "# HELP requests_total All of them.\n# TYPE requests_total counter\nrequests_total 3\n\
             # HELP watches Open ones.\n# TYPE watches gauge\nwatches 0\n"
        );
        let mut other = Registry::default();
        other.register("keys", "Of others", Gauge::<i64>::default());
        let new = text(&registry, &[other], Form::OpenMetrics).unwrap();
        assert!(
            new.contains("# TYPE requests counter\n") && new.ends_with("keys 0\n# EOF\n"),
            "{new}"
        );
    }

    #[test]
    fn the_form_is_negotiated() {
        let cases = [
            ("", Form::Prometheus),
            ("*/*", Form::Prometheus),
            ("text/plain;version=0.0.4", Form::Prometheus),
            (
                "application/openmetrics-text;version=1.0.0,text/plain;q=0.5",
                Form::OpenMetrics,
            ),
            (
                "application/openmetrics-text;q=0.3,text/plain;q=0.5",
                Form::Prometheus,
            ),
        ];
        for (accept, form) in cases {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT, HeaderValue::from_static(accept));
            assert_eq!(Form::of(&headers), form, "{accept}");
        }
    }
}
