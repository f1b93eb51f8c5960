//! Content negotiation: which media type and which view of an object a client will take.
//! Source: <https://kubernetes.io/docs/reference/using-api/api-concepts/#resource-representations>

use http::{HeaderMap, header};
use pilothouse_api::Status;

use crate::query::Query;

/// The media types that the server writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Media {
    #[default]
    Json,
    Yaml,
    Protobuf,
}

impl Media {
    pub(crate) fn content_type(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Yaml => "application/yaml",
            Self::Protobuf => "application/vnd.kubernetes.protobuf",
        }
    }
}

/// What an endpoint can answer with besides JSON and YAML.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Offer {
    /// Tables and metadata alone.
    pub views: bool,
    /// For kinds that have a protobuf form.
    pub protobuf: bool,
}

/// The view asked for by `as=`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum View {
    /// The object itself.
    #[default]
    Whole,
    Table,
    PartialObject,
    PartialObjectList,
}

/// What was agreed on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Negotiated {
    pub media: Media,
    pub view: View,
    /// `v1` or `v1beta1` of `meta.k8s.io`, for views.
    pub beta: bool,
    pub pretty: bool,
}

impl Negotiated {
    /// The apiVersion of the view.
    pub(crate) fn view_version(&self) -> &'static str {
        match self.beta {
            true => "meta.k8s.io/v1beta1",
            false => "meta.k8s.io/v1",
        }
    }
}

/// One clause of an Accept header.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Clause<'a> {
    pub(crate) media: &'a str,
    pub(crate) params: Vec<(&'a str, &'a str)>,
    q: f32,
}

impl Clause<'_> {
    pub(crate) fn param(&self, key: &str) -> &str {
        self.params
            .iter()
            .find(|(k, _)| *k == key)
            .map_or("", |(_, v)| v)
    }
}

/// The clauses in the order in which they are to be tried.
pub(crate) fn clauses(headers: &HeaderMap) -> Vec<Clause<'_>> {
    let mut clauses: Vec<Clause<'_>> = headers
        .get_all(header::ACCEPT)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(clause)
        .collect();
    clauses.sort_by(|a, b| b.q.total_cmp(&a.q)); // stable: equal ones stay in the client's order
    clauses
}

fn clause(text: &str) -> Option<Clause<'_>> {
    let mut parts = text.split(';').map(str::trim);
    let media = parts.next().filter(|m| !m.is_empty())?;
    let mut clause = Clause {
        media,
        params: Vec::new(),
        q: 1.0,
    };
    for part in parts {
        let (key, value) = part.split_once('=').unwrap_or((part, ""));
        match key.trim() {
            "q" => clause.q = value.trim().parse().unwrap_or(0.0),
            key => clause.params.push((key, value.trim().trim_matches('"'))),
        }
    }
    (clause.q > 0.0).then_some(clause)
}

/// Agrees on a media type and, where views are offered, on a view. 406 if nothing that the client takes is offered.
pub(crate) fn negotiate(
    headers: &HeaderMap,
    query: &Query,
    offer: Offer,
) -> Result<Negotiated, Status> {
    let pretty = wants_pretty(headers, query);
    let clauses = clauses(headers);
    if clauses.is_empty() {
        return Ok(Negotiated {
            pretty,
            ..Negotiated::default()
        });
    }
    for clause in &clauses {
        let Some(media) = media(clause.media, offer) else {
            continue;
        };
        let Some((view, beta)) = view(clause, media, offer) else {
            continue;
        };
        return Ok(Negotiated {
            media,
            view,
            beta,
            pretty: pretty || clause.param("pretty") == "1",
        });
    }
    Err(not_acceptable(match offer.protobuf {
        true => {
            "only the following media types are accepted: application/json, application/yaml, application/vnd.kubernetes.protobuf"
        }
        false => "only the following media types are accepted: application/json, application/yaml",
    }))
}

/// 406.
pub(crate) fn not_acceptable(message: &str) -> Status {
    Status::new(406, "NotAcceptable", message)
}

fn media(accepted: &str, offer: Offer) -> Option<Media> {
    match accepted {
        "*/*" | "application/*" | "application/json" => Some(Media::Json),
        "application/yaml" => Some(Media::Yaml),
        "application/vnd.kubernetes.protobuf" if offer.protobuf => Some(Media::Protobuf),
        _ => None,
    }
}

/// The view of a clause; `None` if it asks for one that is not offered. Cells of tables are any JSON, so there are none in
/// protobuf.
fn view(clause: &Clause<'_>, media: Media, offer: Offer) -> Option<(View, bool)> {
    let (name, group, version) = (clause.param("as"), clause.param("g"), clause.param("v"));
    let stream = clause.param("stream");
    let streams = stream.is_empty() || (stream == "watch" && media != Media::Yaml);
    if !streams || !clause.param("sv").is_empty() {
        return None;
    }
    if name.is_empty() {
        return (group.is_empty() && version.is_empty()).then_some((View::Whole, false));
    }
    let beta = match (group, version) {
        ("meta.k8s.io", "v1") => false,
        ("meta.k8s.io", "v1beta1") => true,
        _ => return None,
    };
    let view = match name {
        "Table" if media != Media::Protobuf => View::Table,
        "PartialObjectMetadata" => View::PartialObject,
        "PartialObjectMetadataList" => View::PartialObjectList,
        _ => return None,
    };
    offer.views.then_some((view, beta))
}

/// Asked for, or a person with a browser or a command line tool.
fn wants_pretty(headers: &HeaderMap, query: &Query) -> bool {
    if let Some(asked) = query.optional_flag("pretty") {
        return asked;
    }
    let agent = headers
        .get(header::USER_AGENT)
        .and_then(|agent| agent.to_str().ok())
        .unwrap_or_default();
    ["curl", "Wget", "Mozilla/5.0"]
        .iter()
        .any(|person| agent.starts_with(person))
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    const KUBECTL: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";

    #[test]
    fn clauses_are_tried_in_the_order_of_their_weight() {
        use Media::{Json, Protobuf, Yaml};
        // Accept, whether more than JSON and YAML is offered, the outcome
        let cases = [
            ("", true, Some((Json, View::Whole))),
            ("*/*", true, Some((Json, View::Whole))),
            ("application/yaml", true, Some((Yaml, View::Whole))),
            (
                "application/json;q=0.1, application/yaml;q=0.9",
                true,
                Some((Yaml, View::Whole)),
            ),
            (
                "application/vnd.kubernetes.protobuf, application/json",
                true,
                Some((Protobuf, View::Whole)),
            ),
            (
                "application/vnd.kubernetes.protobuf, application/json",
                false,
                Some((Json, View::Whole)),
            ),
            ("application/vnd.kubernetes.protobuf", false, None),
            (
                "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
                true,
                Some((Protobuf, View::PartialObject)),
            ),
            ("text/html", true, None),
            (KUBECTL, true, Some((Json, View::Table))),
            (KUBECTL, false, Some((Json, View::Whole))),
            ("application/json;as=Table;v=v1;g=meta.k8s.io", false, None),
            (
                "application/json;as=Table;v=v2;g=meta.k8s.io, application/json",
                true,
                Some((Json, View::Whole)),
            ),
            ("application/json;as=Poem;v=v1;g=meta.k8s.io", true, None),
            ("application/json;v=v1;g=meta.k8s.io", true, None),
            ("application/json;sv=v9", true, None),
            ("application/json;stream=other", true, None),
            ("application/yaml;stream=watch", true, None),
            (
                "application/json;stream=watch;charset=utf-8",
                true,
                Some((Json, View::Whole)),
            ),
            (
                "application/vnd.kubernetes.protobuf;as=Table;v=v1;g=meta.k8s.io,application/yaml;as=Table;v=v1;g=meta.k8s.io",
                true,
                Some((Yaml, View::Table)),
            ),
            (
                "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
                true,
                Some((Json, View::PartialObjectList)),
            ),
        ];
        for (accept, all, expected) in cases {
            let offer = Offer {
                views: all,
                protobuf: all,
            };
            let mut headers = HeaderMap::new();
            if !accept.is_empty() {
                headers.insert(header::ACCEPT, HeaderValue::from_static(accept));
            }
            let found = negotiate(&headers, &Query::default(), offer);
            assert_eq!(found.ok().map(|n| (n.media, n.view)), expected, "{accept}");
        }
    }

    #[test]
    fn people_get_it_pretty() {
        let cases = [
            ("curl/8.1", "", true),
            ("kubectl/v1.36", "", false),
            ("kubectl/v1.36", "pretty=true", true),
            ("curl/8.1", "pretty=false", false),
        ];
        for (agent, query, pretty) in cases {
            let mut headers = HeaderMap::new();
            headers.insert(header::USER_AGENT, HeaderValue::from_static(agent));
            let found = negotiate(&headers, &Query::parse(Some(query)), Offer::default()).unwrap();
            assert_eq!(found.pretty, pretty, "{agent} {query}");
        }
    }
}
