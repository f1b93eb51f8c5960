//! Random writers against a naive model, which keeps an object as a flat table of paths and knows no trees.

use std::collections::{BTreeMap, BTreeSet};

use proptest::{prelude::*, test_runner::RngSeed};
use serde_json::{Value as Json, json};

use super::*;

/// A schema that no table holds: `a` and `o.x` are scalars, `m` a map, `l` a list with keys, `s` a set, `t` an atomic list.
#[derive(Clone, Copy, Debug)]
enum Toy {
    Root,
    Metadata,
    Object,
    Map,
    List,
    Element,
    Set,
    Atomic,
    Scalar,
}

impl Schema for Toy {
    fn shape(self, _: &Value<'_>) -> Shape {
        match self {
            Self::Root | Self::Metadata | Self::Object | Self::Map | Self::Element => Shape::Map,
            Self::List | Self::Set => Shape::List,
            Self::Atomic => Shape::AtomicList,
            Self::Scalar => Shape::Scalar(Scalar::Any),
        }
    }

    fn child(self, name: &str) -> Option<Child<Self>> {
        let named = match (self, name) {
            (Self::Root, "metadata") => Self::Metadata,
            (Self::Root, "o") => Self::Object,
            (Self::Root, "m") => Self::Map,
            (Self::Root, "l") => Self::List,
            (Self::Root, "s") => Self::Set,
            (Self::Root, "t") => Self::Atomic,
            (Self::Root, "a" | "apiVersion" | "kind") => Self::Scalar,
            (Self::Metadata, "name" | "uid") => Self::Scalar,
            (Self::Object, "x" | "y") => Self::Scalar,
            (Self::Element, "name" | "v" | "w") => Self::Scalar,
            (Self::Map, _) => return Some(Child::entry(Self::Scalar)),
            _ => return None,
        };
        Some(Child::named(named))
    }

    fn element(self) -> Option<Self> {
        match self {
            Self::List => Some(Self::Element),
            Self::Set | Self::Atomic => Some(Self::Scalar),
            _ => None,
        }
    }

    fn keys(&self) -> &str {
        match self {
            Self::List => "name",
            _ => "",
        }
    }

    fn key_default(self, _: &str) -> Option<Value<'static>> {
        None
    }

    fn is_atomic(self) -> bool {
        matches!(self, Self::Atomic)
    }
}

/// Paths as text with a `/` behind each step, and what stands there; containers have no value.
type Table = BTreeMap<String, Option<Json>>;
type Paths = BTreeSet<String>;

/// Named containers, which an apply does not own unless they are empty.
const NAMED: [&str; 4] = [".o/", ".m/", ".l/", ".s/"];

fn flatten(object: &Json) -> Table {
    let mut table = Table::new();
    for (field, value) in object.as_object().unwrap() {
        let path = format!(".{field}/");
        match (field.as_str(), value) {
            ("metadata" | "apiVersion" | "kind", _) => {}
            ("o" | "m", Json::Object(fields)) => {
                table.insert(path.clone(), None);
                for (name, value) in fields {
                    table.insert(format!("{path}.{name}/"), Some(value.clone()));
                }
            }
            ("l", Json::Array(elements)) => {
                table.insert(path.clone(), None);
                for element in elements {
                    let path = format!("{path}[name={}]/", element["name"]);
                    table.insert(path.clone(), None);
                    for (name, value) in element.as_object().unwrap() {
                        table.insert(format!("{path}.{name}/"), Some(value.clone()));
                    }
                }
            }
            ("s", Json::Array(elements)) => {
                table.insert(path.clone(), None);
                for element in elements {
                    table.insert(format!("{path}[={element}]/"), None);
                }
            }
            (_, value) => {
                table.insert(path, Some(value.clone()));
            }
        }
    }
    table
}

/// These paths and the named containers above them.
fn with_containers(paths: &Paths) -> Paths {
    let mut all = paths.clone();
    for named in NAMED {
        if paths.iter().any(|path| path.starts_with(named)) {
            all.insert(named.to_owned());
        }
    }
    all
}

fn below_any(path: &str, roots: &Paths) -> bool {
    roots.iter().any(|root| path.starts_with(root.as_str()))
}

#[derive(Clone, Default)]
struct Model {
    exists: bool,
    table: Table,
    owners: BTreeMap<String, Paths>,
}

impl Model {
    fn difference(old: &Table, new: &Table) -> (Paths, Paths) {
        let changed = new
            .iter()
            .filter(|(path, value)| old.get(*path) != Some(value));
        let removed = old.keys().filter(|path| !new.contains_key(*path));
        (
            changed.map(|(path, _)| path.clone()).collect(),
            removed.cloned().collect(),
        )
    }

    fn write(&mut self, new: Table) -> Paths {
        let (changed, removed) = Self::difference(&self.table, &new);
        for owned in self.owners.values_mut() {
            owned.retain(|path| !changed.contains(path) && !removed.contains(path));
        }
        self.table = new;
        changed
    }

    fn update(&mut self, manager: &str, new: Table) {
        let is_tracked = !self.exists || !self.owners.is_empty();
        self.exists = true;
        let changed = self.write(new);
        if is_tracked {
            self.owners
                .entry(format!("{manager} Update"))
                .or_default()
                .extend(changed);
        } else {
            self.owners.clear();
        }
        self.owners.retain(|_, owned| !owned.is_empty());
    }

    /// The paths in the way, by owner, if there are any.
    fn apply(
        &mut self,
        manager: &str,
        config: &Table,
        force: bool,
    ) -> Result<(), BTreeMap<String, Paths>> {
        let mut next = self.clone();
        if next.owners.is_empty() && !next.table.is_empty() {
            let all = next.table.keys().cloned().collect();
            next.owners
                .insert("before-first-apply Update".to_owned(), all);
        }
        let own = format!("{manager} Apply");
        let last = with_containers(&next.owners.remove(&own).unwrap_or_default());
        let applied: Paths = config
            .keys()
            .filter(|path| !NAMED.contains(&path.as_str()))
            .cloned()
            .collect();

        let mut merged = next.table.clone();
        merged.extend(config.clone());
        let mut kept: Paths = with_containers(&applied);
        for owned in next.owners.values() {
            kept.extend(with_containers(owned));
        }
        let orphans: Paths = merged
            .keys()
            .filter(|path| below_any(path, &last) && !kept.contains(*path))
            .cloned()
            .collect();
        let gone: Paths = orphans
            .iter()
            .filter(|path| below_any(path, &orphans))
            .cloned()
            .collect();
        let gone: Paths = merged
            .keys()
            .filter(|path| below_any(path, &gone) && last.contains(*path))
            .cloned()
            .collect();
        merged.retain(|path, _| !below_any(path, &gone));
        let (changed, _) = Self::difference(&next.table, &merged);
        let conflicts: BTreeMap<String, Paths> = next
            .owners
            .iter()
            .map(|(owner, owned)| {
                (
                    owner.clone(),
                    owned.intersection(&changed).cloned().collect(),
                )
            })
            .filter(|(_, paths): &(String, Paths)| !paths.is_empty())
            .collect();
        if !force && !conflicts.is_empty() {
            return Err(conflicts);
        }
        next.write(merged);
        // a container that has lost all it had is no more, but whoever owned it has not lost it to anybody
        for named in NAMED {
            let is_inside = |path: &String| path.starts_with(named) && path != named;
            if !next.table.keys().any(is_inside) {
                next.table.remove(named);
            }
        }
        next.exists = true;
        next.owners.insert(own, applied);
        next.owners.retain(|_, owned| !owned.is_empty());
        *self = next;
        Ok(())
    }
}

/// A part of an object; what it says is small, so that writers meet.
fn part() -> impl Strategy<Value = Json> {
    let value = 0..3i64;
    let element = (
        0..3u8,
        prop::option::of(value.clone()),
        prop::option::of(value.clone()),
    );
    let parts = (
        prop::option::of(value.clone()),
        prop::option::of((value.clone(), prop::option::of(value.clone()))),
        prop::collection::btree_map("[pqr]", value.clone(), 0..3),
        prop::collection::vec(element, 0..3),
        prop::collection::btree_set(0..4i64, 0..3),
        prop::option::of(prop::collection::vec(value, 1..3)),
    );
    parts.prop_map(|(a, o, m, l, s, t)| {
        let mut object = json!({ "apiVersion": "v1", "kind": "Toy", "metadata": { "name": "a" } });
        if let Some(a) = a {
            object["a"] = json!(a);
        }
        if let Some((x, y)) = o {
            object["o"]["x"] = json!(x);
            if let Some(y) = y {
                object["o"]["y"] = json!(y);
            }
        }
        if !m.is_empty() {
            object["m"] = json!(m);
        }
        let mut names = BTreeSet::new();
        for (name, v, w) in l {
            if !names.insert(name) {
                continue;
            }
            let mut element = json!({ "name": format!("n{name}") });
            for (key, value) in [("v", v), ("w", w)] {
                if let Some(value) = value {
                    element[key] = json!(value);
                }
            }
            match &mut object["l"] {
                Json::Array(list) => list.push(element),
                none => *none = json!([element]),
            }
        }
        if !s.is_empty() {
            object["s"] = json!(s);
        }
        if let Some(t) = t {
            object["t"] = json!(t);
        }
        object
    })
}

#[derive(Clone, Debug)]
enum Step {
    Update(usize, Json),
    /// Replaces some top-level fields of what is stored.
    Change(usize, Json),
    Apply(usize, Json, bool),
    Forget,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        1 => (0..3usize, part()).prop_map(|(who, part)| Step::Update(who, part)),
        3 => (0..3usize, part()).prop_map(|(who, part)| Step::Change(who, part)),
        6 => (0..3usize, part(), any::<bool>()).prop_map(|(who, part, force)| Step::Apply(who, part, force)),
        1 => Just(Step::Forget),
    ]
}

const MANAGERS: [&str; 3] = ["ann", "bob", "cid"];

/// The owners as the model has them: `.l[name="a"].v` as `.l/[name="a"]/.v/`.
fn owners(world: &World<Toy>) -> BTreeMap<String, Paths> {
    let step = |path: &String| {
        let mut text = String::new();
        for (at, letter) in path.char_indices() {
            if at > 0 && matches!(letter, '.' | '[') {
                text.push('/');
            }
            text.push(letter);
        }
        text.push('/');
        text
    };
    let owners = world.owners().into_iter();
    owners
        .map(|(owner, paths)| (owner, paths.iter().map(step).collect()))
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, rng_seed: RngSeed::Fixed(31), ..ProptestConfig::default() })]

    #[test]
    fn writers_own_what_the_model_says(steps in prop::collection::vec(step(), 1..14)) {
        let mut world = World::new(Toy::Root, json!({ "metadata": {} }), "v1");
        world.scope = Scope::Without(&[]);
        let mut model = Model::default();
        for step in steps {
            match step.clone() {
                Step::Update(who, object) => {
                    world.update(MANAGERS[who], object.clone());
                    model.update(MANAGERS[who], flatten(&object));
                }
                Step::Change(who, part) => {
                    let mut object = world.live.clone().unwrap_or(json!({}));
                    for (field, value) in part.as_object().unwrap() {
                        object[field] = value.clone();
                    }
                    world.update(MANAGERS[who], object.clone());
                    model.update(MANAGERS[who], flatten(&object));
                }
                Step::Apply(who, config, force) => {
                    let before = world.clone();
                    let found = world.try_apply(MANAGERS[who], config.clone(), force);
                    let expected = model.apply(MANAGERS[who], &flatten(&config), force);
                    match (&found, &expected) {
                        (Ok(()), Ok(())) => {
                            let once = world.clone();
                            world.try_apply(MANAGERS[who], config, force).unwrap();
                            prop_assert_eq!(&world.live, &once.live, "applied twice");
                            prop_assert_eq!(&world.managed, &once.managed, "applied twice");
                        }
                        (Err(status), Err(conflicts)) => {
                            let causes = status.details.as_ref().unwrap().causes.len();
                            prop_assert_eq!(causes, conflicts.values().map(Paths::len).sum::<usize>());
                            prop_assert_eq!(&world.live, &before.live);
                        }
                        _ => prop_assert!(false, "{found:?} is not {expected:?} after {step:?}"),
                    }
                }
                Step::Forget => {
                    world.managed = None;
                    model.owners.clear();
                }
            }
            let Some(live) = &world.live else { continue };
            prop_assert_eq!(flatten(live), model.table.clone(), "after {:?}", step);
            prop_assert_eq!(owners(&world), model.owners.clone(), "after {:?}", step);
        }
    }
}
