//! Table cells that several kinds share.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::core::v1::Container,
    apimachinery::pkg::{
        api::resource::Quantity,
        apis::meta::v1::{LabelSelector, MicroTime, Time},
    },
};

use crate::registry::printing::{Column, age, human_duration};

/// What stands for nothing.
pub(super) const NONE: &str = "<none>";

/// `text`, or `<none>` if it is empty.
pub(super) fn or_none(text: &str) -> &str {
    match text {
        "" => NONE,
        text => text,
    }
}

/// `a=1,b=2`, or `<none>`.
pub(super) fn labels(labels: Option<&BTreeMap<String, String>>) -> String {
    let pairs: Vec<String> = labels
        .into_iter()
        .flatten()
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    or_none(&pairs.join(",")).to_owned()
}

/// A label selector in its string form, or `<none>`.
pub(super) fn selector(selector: &LabelSelector) -> String {
    match pilothouse_api::selector::LabelSelector::from_meta(Some(selector)) {
        Ok(selector) => or_none(&selector.to_string()).to_owned(),
        Err(_) => "<error>".to_owned(),
    }
}

/// The names of containers and their images, each joined by commas.
pub(super) fn containers(containers: &[Container]) -> (String, String) {
    let names: Vec<&str> = containers.iter().map(|c| c.name.as_str()).collect();
    let images: Vec<&str> = containers
        .iter()
        .map(|c| c.image.as_deref().unwrap_or_default())
        .collect();
    (names.join(","), images.join(","))
}

/// How long ago a time was; `<unknown>` without one.
pub(super) fn since(time: Option<&Time>, now: jiff::Timestamp) -> String {
    age(time, now)
}

/// The same for a time with microseconds.
pub(super) fn since_micro(time: Option<&MicroTime>, now: jiff::Timestamp) -> String {
    match time {
        Some(time) => human_duration(now.as_second() - time.0.as_second()),
        None => "<unknown>".to_owned(),
    }
}

/// The wide columns of workloads: containers, images, selector.
pub(super) fn template_columns() -> [Column; 3] {
    [
        Column::string("Containers", "Names of each container in the template.").wide(),
        Column::string(
            "Images",
            "Images referenced by each container in the template.",
        )
        .wide(),
        Column::string(
            "Selector",
            "Label selector of the pods that belong to the object.",
        )
        .wide(),
    ]
}

/// Items joined by commas, at most `max` of them, and how many more there are.
pub(super) fn at_most(items: impl Iterator<Item = String>, max: usize, empty: &str) -> String {
    let mut shown = Vec::new();
    let mut count = 0;
    for item in items {
        if shown.len() < max {
            shown.push(item);
        }
        count += 1;
    }
    match count {
        0 => empty.to_owned(),
        count if count > max => format!("{} + {} more...", shown.join(","), count - max),
        _ => shown.join(","),
    }
}

/// `text`, or `<unset>` if there is none.
pub(super) fn or_unset(text: Option<&str>) -> &str {
    text.unwrap_or("<unset>")
}

/// Access modes by their initials: `RWO,ROX`, each once.
pub(super) fn access_modes(modes: Option<&[String]>) -> String {
    const SHORT: [(&str, &str); 4] = [
        ("ReadWriteOnce", "RWO"),
        ("ReadOnlyMany", "ROX"),
        ("ReadWriteMany", "RWX"),
        ("ReadWriteOncePod", "RWOP"),
    ];
    let modes = modes.unwrap_or_default();
    let has = |mode: &str| modes.iter().any(|m| m == mode);
    let short: Vec<&str> = SHORT
        .iter()
        .filter(|(mode, _)| has(mode))
        .map(|(_, short)| *short)
        .collect();
    short.join(",")
}

/// The amount of a resource, `0` if it is not in the list.
pub(super) fn quantity(list: Option<&BTreeMap<String, Quantity>>, name: &str) -> String {
    let found = list.and_then(|list| list.get(name));
    found.map_or_else(|| "0".to_owned(), |quantity| quantity.0.clone())
}
