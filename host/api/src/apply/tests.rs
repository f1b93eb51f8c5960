//! Objects that are created, updated and applied by several managers, as their `managedFields` tell.

mod applies;
mod deployments;
mod model;
mod sets;
mod updates;

use std::collections::BTreeMap;

use serde_json::json;

use super::*;
use crate::{facts, gvk::GroupVersionKind, status::Status};

/// A kind's type.
pub(super) fn built_in(group: &str, version: &str, kind: &str) -> &'static facts::Type {
    let gvk = GroupVersionKind {
        group: group.to_owned().into(),
        version: version.to_owned().into(),
        kind: kind.to_owned().into(),
    };
    facts::by_kind(&gvk).unwrap()
}

/// One object and those who write it. Every write is a second later.
#[derive(Clone)]
pub(super) struct World<S> {
    schema: S,
    empty: serde_json::Value,
    api_version: String,
    scope: Scope,
    subresource: &'static str,
    seconds: i64,
    pub live: Option<serde_json::Value>,
    pub managed: Option<String>,
}

impl World<BuiltIn> {
    pub(super) fn of(group: &str, version: &str, kind: &str) -> Self {
        let of = built_in(group, version, kind);
        let empty = serde_json::from_slice(&empty_object(of).to_json()).unwrap();
        let api_version = match group {
            "" => version.to_owned(),
            group => format!("{group}/{version}"),
        };
        Self::new(BuiltIn::kind(of), empty, &api_version)
    }
}

impl<S: Schema> World<S> {
    pub(super) fn new(schema: S, empty: serde_json::Value, api_version: &str) -> Self {
        Self {
            schema,
            empty,
            api_version: api_version.to_owned(),
            scope: Scope::Without(&[&["status"]]),
            subresource: "",
            seconds: 0,
            live: None,
            managed: None,
        }
    }

    /// Through a subresource that only changes the status.
    pub(super) fn through_status(&mut self) -> &mut Self {
        self.scope = Scope::Without(&[&["spec"]]);
        self.subresource = "status";
        self
    }

    /// Through the object itself.
    pub(super) fn through_main(&mut self) -> &mut Self {
        self.scope = Scope::Without(&[&["status"]]);
        self.subresource = "";
        self
    }

    fn now(&self) -> jiff::Timestamp {
        jiff::Timestamp::from_second(self.seconds).unwrap()
    }

    /// A create or replacement. `sent` is what the body says about managed fields.
    pub(super) fn update_with(
        &mut self,
        manager: &str,
        new: serde_json::Value,
        sent: Option<&str>,
    ) {
        self.seconds += 1;
        let api_version = self.api_version.clone();
        let writer = Writer {
            manager,
            api_version: &api_version,
            subresource: self.subresource,
            scope: self.scope,
            now: self.now(),
        };
        let text = |value: &serde_json::Value| serde_json::to_vec(value).unwrap();
        let new_json = text(&new);
        let new_value = Value::parse(&new_json).unwrap();
        let managed = match &self.live {
            None => {
                let empty = text(&self.empty);
                let empty = Value::parse(&empty).unwrap();
                created(self.schema, &writer, &empty, &new_value)
            }
            Some(live) => {
                let live = text(live);
                let live = Value::parse(&live).unwrap();
                let old = (&live, self.managed.as_deref());
                updated(self.schema, &writer, old, (&new_value, sent), &OneVersion).unwrap()
            }
        };
        self.managed = managed;
        self.live = Some(new);
    }

    pub(super) fn update(&mut self, manager: &str, new: serde_json::Value) {
        self.update_with(manager, new, None);
    }

    /// A replacement made of the stored object.
    pub(super) fn change(&mut self, manager: &str, change: impl FnOnce(&mut serde_json::Value)) {
        let mut new = self.live.clone().unwrap();
        change(&mut new);
        self.update(manager, new);
    }

    pub(super) fn try_apply(
        &mut self,
        manager: &str,
        config: serde_json::Value,
        force: bool,
    ) -> Result<(), Status> {
        self.seconds += 1;
        let text = |value: &serde_json::Value| serde_json::to_vec(value).unwrap();
        let (live, config, empty) = (
            text(self.live.as_ref().unwrap_or(&json!({}))),
            text(&config),
            text(&self.empty),
        );
        let parse = |json| Value::parse(json).unwrap();
        let (live, config, empty) = (parse(&live), parse(&config), parse(&empty));
        let apply = Apply {
            schema: self.schema,
            writer: Writer {
                manager,
                api_version: &self.api_version,
                subresource: self.subresource,
                scope: self.scope,
                now: self.now(),
            },
            force,
            empty: &empty,
            live: &live,
            managed: self.managed.as_deref(),
            config: &config,
            versions: &OneVersion,
        };
        let applied = apply.run()?;
        let mut object = serde_json::from_slice(&applied.object.to_json()).unwrap();
        drop_nulls(&mut object); // as typed objects do
        let managed = applied.managed;
        self.live = Some(object);
        self.managed = managed;
        Ok(())
    }

    #[track_caller]
    pub(super) fn apply(&mut self, manager: &str, config: serde_json::Value) {
        self.try_apply(manager, config, false).unwrap();
    }

    #[track_caller]
    pub(super) fn force(&mut self, manager: &str, config: serde_json::Value) {
        self.try_apply(manager, config, true).unwrap();
    }

    pub(super) fn live(&self) -> serde_json::Value {
        self.live.clone().unwrap()
    }

    /// `metadata.managedFields`.
    pub(super) fn entries(&self) -> serde_json::Value {
        self.managed
            .as_deref()
            .map_or(json!([]), |text| serde_json::from_str(text).unwrap())
    }

    /// The paths of each entry, by `<manager> <operation>[ <subresource>]`.
    pub(super) fn owners(&self) -> BTreeMap<String, Vec<String>> {
        let owner = |entry: &serde_json::Value| {
            let text = |name: &str| entry[name].as_str().unwrap_or_default().to_owned();
            let fields = entry["fieldsV1"].to_string();
            let mut paths = FieldSet::from_json(&fields).unwrap().paths();
            paths.sort();
            let name = format!(
                "{} {} {}",
                text("manager"),
                text("operation"),
                text("subresource")
            );
            (name.trim().to_owned(), paths)
        };
        self.entries()
            .as_array()
            .unwrap()
            .iter()
            .map(owner)
            .collect()
    }

    /// The paths of one entry.
    #[track_caller]
    pub(super) fn owned(&self, owner: &str) -> Vec<String> {
        let owners = self.owners();
        match owners.get(owner) {
            Some(paths) => paths.clone(),
            None => panic!("no {owner} in {owners:?}"),
        }
    }
}

fn drop_nulls(value: &mut serde_json::Value) {
    match value {
        serde_json::Value::Object(fields) => {
            fields.retain(|_, value| !value.is_null());
            fields.values_mut().for_each(drop_nulls);
        }
        serde_json::Value::Array(elements) => elements.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}
