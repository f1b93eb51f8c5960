//! Who owns what after a write: `Update` for whatever is no apply.
//! Source: <https://kubernetes.io/docs/reference/using-api/server-side-apply/#field-management>

use std::sync::LazyLock;

use super::{
    compare::{Changes, compare},
    managed::{Entry, Fields, Managed, Manager, Operation, read, sort, write},
    schema::Schema,
    set::FieldSet,
    value::Value,
};
use crate::status::Status;

/// The most entries of updates; older ones are folded together.
const MAX_UPDATE_ENTRIES: usize = 10;
/// Who owns what older updates owned.
const ANCIENT_CHANGES: &str = "ancient-changes";
/// Who owns what was there before anybody was tracked.
pub(super) const BEFORE_FIRST_APPLY: &str = "before-first-apply";
/// A manager without a name.
const UNKNOWN: &str = "unknown";

/// What is never owned.
static NEVER_OWNED: LazyLock<FieldSet<'static>> =
    LazyLock::new(|| FieldSet::of_fields(&NEVER_OWNED_PATHS));

const NEVER_OWNED_PATHS: [&[&str]; 12] = [
    &["apiVersion"],
    &["kind"],
    &["metadata"],
    &["metadata", "clusterName"],
    &["metadata", "creationTimestamp"],
    &["metadata", "generation"],
    &["metadata", "managedFields"],
    &["metadata", "name"],
    &["metadata", "namespace"],
    &["metadata", "resourceVersion"],
    &["metadata", "selfLink"],
    &["metadata", "uid"],
];

/// The fields that a write to a (sub)resource may change, and its manager may thereby own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// All but what is at or below these paths.
    Without(&'static [&'static [&'static str]]),
    /// What is at or below these paths only; `*` stands for any step.
    Only(&'static [&'static [&'static str]]),
}

impl Scope {
    pub(super) fn filter<'a>(self, set: FieldSet<'a>) -> FieldSet<'a> {
        match self {
            Self::Without([]) => set,
            Self::Without(paths) => set.recursive_difference(&FieldSet::of_fields(paths)),
            Self::Only(patterns) => set.matching(patterns),
        }
    }
}

/// Who writes, when, through what.
#[derive(Clone, Copy, Debug)]
pub struct Writer<'a> {
    /// The field manager.
    pub manager: &'a str,
    /// Of the endpoint.
    pub api_version: &'a str,
    /// Empty for the main resource.
    pub subresource: &'a str,
    pub scope: Scope,
    pub now: jiff::Timestamp,
}

impl<'a> Writer<'a> {
    pub(super) fn identity(&self, operation: Operation) -> Manager<'a> {
        Manager {
            name: match self.manager {
                "" => UNKNOWN.into(),
                name => name.into(),
            },
            operation,
            api_version: self.api_version.into(),
            subresource: self.subresource.into(),
        }
    }
}

/// An object in another served version of its kind.
pub struct Converted<S> {
    pub schema: S,
    /// JSON without managed fields.
    pub json: Vec<u8>,
}

/// An object's other versions, for entries that speak of them.
pub trait Versions<S> {
    /// The object, given as JSON in the endpoint's version. `None`: there is no such version, and nobody can own fields of it.
    fn convert(&self, json: &[u8], api_version: &str) -> Result<Option<Converted<S>>, Status>;

    /// The way back: JSON in another version to JSON in the endpoint's.
    fn restore(&self, json: &[u8], api_version: &str) -> Result<Vec<u8>, Status>;
}

/// For kinds that have one version only.
pub struct OneVersion;

impl<S> Versions<S> for OneVersion {
    fn convert(&self, _: &[u8], _: &str) -> Result<Option<Converted<S>>, Status> {
        Ok(None)
    }

    fn restore(&self, json: &[u8], _: &str) -> Result<Vec<u8>, Status> {
        Ok(json.to_vec())
    }
}

/// Who owned what before the write: what the request says, or, if it says nothing that can be read, what is stored. Through
/// subresources nobody can say anything.
fn base<'a>(stored: Option<&'a str>, sent: Option<&'a str>, subresource: &str) -> Vec<Entry<'a>> {
    let entries = |text: &'a str| match read(text) {
        Ok(Managed::Entries(entries)) => Some(entries),
        Ok(Managed::Reset) => Some(Vec::new()),
        Err(_) => None,
    };
    if let Some(text) = sent.filter(|sent| subresource.is_empty() && stored != Some(*sent)) {
        match read(text) {
            Ok(Managed::Reset) => return Vec::new(),
            Ok(Managed::Entries(entries)) if !entries.is_empty() => {
                // what a client wrote is looked into before it is believed
                if let Some(entries) = readable(entries) {
                    return entries;
                }
            }
            _ => {}
        }
    }
    stored.and_then(entries).unwrap_or_default()
}

/// The same entries, read.
fn readable(mut entries: Vec<Entry<'_>>) -> Option<Vec<Entry<'_>>> {
    for entry in &mut entries {
        entry.fields = Fields::Set(entry.fields.set().ok()?);
    }
    Some(entries)
}

/// `metadata.managedFields` of an object that is created: its creator owns all that differs from `empty`.
pub fn created<S: Schema>(
    schema: S,
    writer: &Writer<'_>,
    empty: &Value<'_>,
    new: &Value<'_>,
) -> Option<String> {
    let fields = owned_by_creator(schema, writer.scope, empty, new);
    if fields.is_empty() {
        return None;
    }
    write(&[Entry {
        manager: writer.identity(Operation::Update),
        time: Some(writer.now),
        fields: Fields::Set(fields),
    }])
}

pub(super) fn owned_by_creator<'a, S: Schema>(
    schema: S,
    scope: Scope,
    empty: &'a Value<'a>,
    new: &'a Value<'a>,
) -> FieldSet<'a> {
    strip(scope.filter(compare(schema, empty, new).changed))
}

/// `metadata.managedFields` after an update, given what is stored and what the request carries. An object that nobody is
/// tracked of stays so until it is applied.
pub fn updated<S: Schema>(
    schema: S,
    writer: &Writer<'_>,
    (old, stored): (&Value<'_>, Option<&str>),
    (new, sent): (&Value<'_>, Option<&str>),
    versions: &dyn Versions<S>,
) -> Result<Option<String>, Status> {
    let mut entries = base(stored, sent, writer.subresource);
    if entries.is_empty() {
        return Ok(None);
    }
    let changes = compare(schema, old, new).filtered(|set| writer.scope.filter(set));
    let is_stored = sent.is_none() || sent == stored || !writer.subresource.is_empty();
    if changes.is_empty() && is_stored {
        return Ok(stored.map(str::to_owned));
    }
    let others = Others {
        writer,
        old,
        new,
        versions,
    };
    let own = writer.identity(Operation::Update);
    others.give_up(&mut entries, &changes)?;
    let gained = strip(changes.changed);
    if !gained.is_empty() {
        match entries.iter_mut().find(|entry| entry.manager.is(&own)) {
            Some(entry) => {
                entry.fields = add(&entry.fields, gained)?;
                entry.time = Some(writer.now);
            }
            None => entries.push(Entry {
                manager: own,
                time: Some(writer.now),
                fields: Fields::Set(gained),
            }),
        }
    }
    cap(&mut entries)?;
    sort(&mut entries);
    Ok(write(&entries))
}

/// An entry's fields with more of them; the text stays if it has them all.
fn add<'a>(fields: &Fields<'a>, gained: FieldSet<'a>) -> Result<Fields<'a>, Status> {
    let set = fields.set().map_err(Status::internal)?;
    let missing = gained.difference(&set);
    Ok(match missing.is_empty() {
        true => fields.clone(),
        false => Fields::Set(set.union(missing)),
    })
}

/// The owners before a write, and what is written.
pub(super) struct Others<'w, S> {
    pub writer: &'w Writer<'w>,
    pub old: &'w Value<'w>,
    pub new: &'w Value<'w>,
    pub versions: &'w dyn Versions<S>,
}

impl<S: Schema> Others<'_, S> {
    /// Takes what was changed or removed from everybody. Entries of versions that are not served disappear, as
    /// do those that have nothing left.
    pub(super) fn give_up(
        &self,
        entries: &mut Vec<Entry<'_>>,
        changes: &Changes<'_>,
    ) -> Result<(), Status> {
        self.each(entries, changes, &mut |entry, changes| {
            if entry.fields.touched_by(changes).map_err(Status::internal)? {
                let set = entry.fields.set().map_err(Status::internal)?;
                let set = set.difference(&changes.changed);
                entry.fields = Fields::Set(set.difference(&changes.removed));
            }
            Ok(())
        })?;
        entries.retain(|entry| !matches!(&entry.fields, Fields::Set(set) if set.is_empty()));
        Ok(())
    }

    /// Shows each owner the changes in the version it speaks of.
    pub(super) fn each<'e>(
        &self,
        entries: &mut Vec<Entry<'e>>,
        changes: &Changes<'_>,
        visit: &mut dyn FnMut(&mut Entry<'e>, &Changes<'_>) -> Result<(), Status>,
    ) -> Result<(), Status> {
        let mut gone = Vec::new();
        for (index, entry) in entries.iter_mut().enumerate() {
            if entry.manager.api_version == self.writer.api_version {
                visit(entry, changes)?;
                continue;
            }
            let convert = |value: &Value<'_>| {
                self.versions
                    .convert(&value.to_json(), &entry.manager.api_version)
            };
            let (Some(old), Some(new)) = (convert(self.old)?, convert(self.new)?) else {
                gone.push(index);
                continue;
            };
            let parse = |json| Value::parse(json).map_err(Status::internal);
            let (before, after) = (parse(&old.json)?, parse(&new.json)?);
            let changes =
                compare(old.schema, &before, &after).filtered(|set| self.writer.scope.filter(set));
            visit(entry, &changes)?;
        }
        for index in gone.into_iter().rev() {
            entries.remove(index);
        }
        Ok(())
    }
}

/// Leaves out what is never owned.
pub(super) fn strip(set: FieldSet<'_>) -> FieldSet<'_> {
    set.difference(&NEVER_OWNED)
}

/// Folds the oldest updates of each version together until there are few enough.
fn cap(entries: &mut Vec<Entry<'_>>) -> Result<(), Status> {
    let is_update = |entry: &Entry<'_>| entry.manager.operation == Operation::Update;
    let count = entries.iter().filter(|entry| is_update(entry)).count();
    if count <= MAX_UPDATE_ENTRIES {
        return Ok(());
    }
    sort(entries);
    for _ in MAX_UPDATE_ENTRIES..count {
        let Some((folded, into)) = oldest_pair(entries) else {
            return Ok(()); // each is of another version
        };
        let set = entries[folded].fields.set().map_err(Status::internal)?;
        let time = entries[folded].time;
        let bucket = &mut entries[into];
        bucket.manager.name = ANCIENT_CHANGES.into();
        bucket.manager.subresource = "".into();
        bucket.time = time.max(bucket.time);
        bucket.fields = add(&bucket.fields, set)?;
        entries.remove(folded);
    }
    Ok(())
}

/// The oldest update that an older one, or what older ones were folded into, can take in: both of the same version.
fn oldest_pair(entries: &[Entry<'_>]) -> Option<(usize, usize)> {
    let updates = || {
        let all = entries.iter().enumerate();
        all.filter(|(_, entry)| entry.manager.operation == Operation::Update)
    };
    updates().find_map(|(folded, entry)| {
        let of_version = |(at, other): &(usize, &Entry<'_>)| {
            *at != folded && other.manager.api_version == entry.manager.api_version
        };
        let bucket = updates()
            .filter(of_version)
            .find(|(at, other)| *at < folded || other.manager.name == ANCIENT_CHANGES);
        bucket.map(|(into, _)| (folded, into))
    })
}
