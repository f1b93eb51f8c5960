//! The apply itself: merge, take away what the manager applied before and nobody owns any more, see who is in the way.
//! Source: <https://kubernetes.io/docs/reference/using-api/server-side-apply/>

use std::borrow::Cow;

use super::{
    compare::compare,
    conflict::{self, Conflict},
    last_applied,
    managed::{Entry, Fields, Managed, Operation, read, sort, write},
    merge::merge,
    ownership::{BEFORE_FIRST_APPLY, Others, Versions, Writer, owned_by_creator, strip},
    remove::remove,
    schema::Schema,
    set::FieldSet,
    value::Value,
    walk::{field_set, type_errors},
};
use crate::status::Status;

/// The manager whose client-side applies count as its own: kubectl's default.
const KUBECTL: &str = "kubectl";

/// What is applied to what.
pub struct Apply<'a, S> {
    pub schema: S,
    pub writer: Writer<'a>,
    /// Take fields over from other owners instead of refusing.
    pub force: bool,
    /// An object in which nothing has been set.
    pub empty: &'a Value<'a>,
    /// What is stored, without managed fields; without any fields if there is nothing.
    pub live: &'a Value<'a>,
    /// `metadata.managedFields` of what is stored.
    pub managed: Option<&'a str>,
    pub config: &'a Value<'a>,
    pub versions: &'a dyn Versions<S>,
}

/// What came out.
#[derive(Debug)]
pub struct Applied<'a> {
    pub object: Value<'a>,
    /// The new `metadata.managedFields`.
    pub managed: Option<String>,
}

impl<'a, S: Schema> Apply<'a, S> {
    /// Applies. Errors: 409 `Conflict` with a cause for each field in the way; 400 for a configuration with managed fields;
    /// 500 without a reason for one that does not fit its type.
    pub fn run(&self) -> Result<Applied<'a>, Status> {
        self.check()?;
        let outcome = match self.attempt(self.force)? {
            Attempt::Done(object, entries) => (object, entries),
            Attempt::Conflicts(conflicts) => self.take_over(conflicts)?,
        };
        let (mut object, mut entries) = outcome;
        if self.writer.manager == KUBECTL {
            last_applied::refresh(&mut object, self.config);
        }
        sort(&mut entries);
        Ok(Applied {
            object,
            managed: write(&entries),
        })
    }

    fn check(&self) -> Result<(), Status> {
        let metadata = self.config.get("metadata");
        let managed = metadata.and_then(|metadata| metadata.get("managedFields"));
        if managed.is_some_and(|managed| !managed.is_null()) {
            return Err(Status::bad_request("metadata.managedFields must be nil"));
        }
        let errors = type_errors(self.schema, self.config, false);
        let text = match errors.as_slice() {
            [] => return Ok(()),
            [one] => one.clone(),
            many => format!("errors:\n  {}", many.join("\n  ")),
        };
        let of = self.describe_config();
        let message = format!("failed to create typed patch object ({of}): {text}");
        Err(Status::new(500, "", message))
    }

    /// `default/web; apps/v1, Kind=Deployment`
    fn describe_config(&self) -> String {
        let text = |value: Option<&Value<'_>>| -> String {
            value.and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        let metadata = |name: &str| text(self.config.get("metadata").and_then(|m| m.get(name)));
        let version = text(self.config.get("apiVersion"));
        let slash = if version.contains('/') { "" } else { "/" };
        format!(
            "{}/{}; {slash}{version}, Kind={}",
            metadata("namespace"),
            metadata("name"),
            text(self.config.get("kind"))
        )
    }

    /// What kubectl applied on the client side is kubectl's: conflicts with that are none.
    fn take_over(&self, mut conflicts: Vec<Conflict<'a>>) -> Result<Outcome<'a>, Status> {
        if self.writer.manager == KUBECTL {
            let version = self.writer.api_version;
            conflicts = last_applied::outstanding(self.schema, self.live, version, conflicts);
        }
        if !conflicts.is_empty() {
            return Err(conflict::refusal(conflicts));
        }
        match self.attempt(true)? {
            Attempt::Done(object, entries) => Ok((object, entries)),
            Attempt::Conflicts(conflicts) => Err(conflict::refusal(conflicts)),
        }
    }

    /// One attempt, which does not look at client-side applies.
    fn attempt(&self, force: bool) -> Result<Attempt<'a>, Status> {
        let own = self.writer.identity(Operation::Apply);
        let mut entries = self.entries()?;
        let before = entries.iter().position(|entry| entry.manager.is(&own));
        let before = before.map(|at| entries.remove(at));
        let merged = merge(self.schema, self.live, self.config);
        let set = self
            .writer
            .scope
            .filter(field_set(self.schema, self.config));
        let last = match &before {
            None => FieldSet::default(),
            Some(entry) => entry.fields.set().map_err(Status::internal)?,
        };
        let merged = self.prune(merged, &last, &set, &entries)?;

        let found =
            compare(self.schema, self.live, &merged).filtered(|set| self.writer.scope.filter(set));
        let others = Others {
            writer: &self.writer,
            old: self.live,
            new: &merged,
            versions: self.versions,
        };
        let mut conflicts = Vec::new();
        others.each(&mut entries, &found, &mut |entry, changes| {
            let fields = entry.fields.set().map_err(Status::internal)?;
            let fields = fields.intersection(&changes.changed);
            if !fields.is_empty() {
                conflicts.push(Conflict {
                    manager: entry.manager.clone(),
                    fields,
                });
            }
            Ok(())
        })?;
        if !force && !conflicts.is_empty() {
            return Ok(Attempt::Conflicts(conflicts));
        }
        others.give_up(&mut entries, &found)?;
        let set = strip(set);
        if !set.is_empty() {
            let is_change = merged != *self.live;
            entries.push(Entry {
                manager: own,
                time: match is_change {
                    true => Some(self.writer.now),
                    false => before.and_then(|entry| entry.time),
                },
                fields: Fields::Set(set),
            });
        }
        Ok(Attempt::Done(merged, entries))
    }

    /// Who owns what now. What nobody was tracked of belongs to somebody before the first apply.
    fn entries(&self) -> Result<Vec<Entry<'a>>, Status> {
        let entries = match self.managed.map(read) {
            None | Some(Ok(Managed::Reset)) => Vec::new(),
            Some(Ok(Managed::Entries(entries))) => entries,
            Some(Err(error)) => {
                let message = format!("failed to decode managed fields: {error}");
                return Err(Status::new(500, "", message));
            }
        };
        if !entries.is_empty() {
            return entries
                .into_iter()
                .map(|entry| self.fitted(entry))
                .collect();
        }
        if self.live.as_map().is_some_and(|fields| fields.is_empty()) {
            return Ok(Vec::new()); // nothing is there, which differs from an object in which nothing is set
        }
        let fields = owned_by_creator(self.schema, self.writer.scope, self.empty, self.live);
        let mut manager = self.writer.identity(Operation::Update);
        manager.name = Cow::Borrowed(BEFORE_FIRST_APPLY);
        let entry = Entry {
            manager,
            time: Some(self.writer.now),
            fields: Fields::Set(fields),
        };
        let is_owner = matches!(&entry.fields, Fields::Set(set) if !set.is_empty());
        Ok(is_owner.then_some(entry).into_iter().collect())
    }

    /// An entry as it would be if the type had always owned as a whole what it owns as a whole now.
    fn fitted(&self, mut entry: Entry<'a>) -> Result<Entry<'a>, Status> {
        if entry.manager.api_version == self.writer.api_version {
            let message =
                |error| Status::new(500, "", format!("failed to decode managed fields: {error}"));
            let set = entry.fields.set().map_err(message)?;
            let fitted = set.clone().fitted(self.schema);
            if fitted != set {
                entry.fields = Fields::Set(fitted);
            }
        }
        Ok(entry)
    }

    /// Takes away what the manager owned by its last apply, does not apply any more, and nobody else owns.
    fn prune(
        &self,
        merged: Value<'a>,
        last: &FieldSet<'_>,
        applied: &FieldSet<'_>,
        others: &[Entry<'_>],
    ) -> Result<Value<'a>, Status> {
        if last.is_empty() {
            return Ok(merged);
        }
        let schema = self.schema;
        let last = last.clone().with_named_fields(schema);
        let there = field_set(schema, &merged).with_named_fields(schema);
        let without_last = remove(schema, merged.clone(), &last);
        let kept = field_set(schema, &without_last).with_named_fields(schema);
        let mut gone = there
            .clone()
            .difference(&kept)
            .difference(&applied.clone().with_named_fields(schema));
        for entry in others {
            gone = match self.owned_elsewhere(&merged, entry)? {
                Some(json) => {
                    gone.difference(&FieldSet::from_json(&json).map_err(Status::internal)?)
                }
                None => {
                    let owned = entry.fields.set().map_err(Status::internal)?;
                    gone.difference(&owned.with_named_fields(schema))
                }
            };
        }
        // a container may go only if it was the manager's too
        let pruned = remove(schema, merged.clone(), &gone);
        let kept = field_set(schema, &pruned).with_named_fields(schema);
        let gone = there.clone().difference(&kept).intersection(&last);
        Ok(remove(schema, merged.clone(), &gone))
    }
}

impl<S: Schema> Apply<'_, S> {
    /// What an entry of another version owns, in terms of this one, as `fieldsV1`: what is not there any more when the object
    /// comes back without it. `None`: the entry is of this version.
    fn owned_elsewhere(
        &self,
        object: &Value<'_>,
        entry: &Entry<'_>,
    ) -> Result<Option<String>, Status> {
        let version = &*entry.manager.api_version;
        if version == self.writer.api_version {
            return Ok(None);
        }
        let Some(there) = self.versions.convert(&object.to_json(), version)? else {
            return Ok(Some("{}".to_owned()));
        };
        let parse = |json| Value::parse(json).map_err(Status::internal);
        let set = entry.fields.set().map_err(Status::internal)?;
        let without = remove(
            there.schema,
            parse(&there.json)?,
            &set.with_named_fields(there.schema),
        );
        let all = self.versions.restore(&there.json, version)?;
        let rest = self.versions.restore(&without.to_json(), version)?;
        let (all, rest) = (parse(&all)?, parse(&rest)?);
        let lost = compare(self.schema, &all, &rest);
        Ok(Some(lost.changed.union(lost.removed).to_json()))
    }
}

type Outcome<'a> = (Value<'a>, Vec<Entry<'a>>);

enum Attempt<'a> {
    Done(Value<'a>, Vec<Entry<'a>>),
    Conflicts(Vec<Conflict<'a>>),
}
