//! The index against a naive model: a list of whole states, one for each revision.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
enum Action {
    /// Puts (true) or deletes (false) each of these keys in one revision.
    Write(BTreeMap<u8, bool>),
    /// Compacts to so many revisions ago, and forgets so many changes.
    Compact(u8, usize),
    /// Loads what the disk would hold.
    Restart,
}

fn actions() -> impl Strategy<Value = Vec<Action>> {
    let write = proptest::collection::btree_map(0..6u8, any::<bool>(), 1..4);
    let action = prop_oneof![
        8 => write.prop_map(Action::Write),
        1 => (0..10u8, 0..40usize).prop_map(|(ago, steps)| Action::Compact(ago, steps)),
        1 => Just(Action::Restart),
    ];
    proptest::collection::vec(action, 1..60)
}

type State = BTreeMap<String, Version>;

/// States by revision, starting with revision 1, which is empty; and the disk's entries.
struct Model {
    states: Vec<State>,
    disk: Vec<Entry>,
    compacted: u64,
}

impl Model {
    fn write(&mut self, keys: &BTreeMap<u8, bool>) -> Vec<Entry> {
        let revision = self.states.len() as u64 + 1;
        let mut state = self.states.last().cloned().unwrap_or_default();
        let mut entries: Vec<Entry> = Vec::new();
        for (key, put) in keys {
            let key = format!("/k/{key}");
            let old = state.get(&key).copied();
            let version = match (put, old) {
                (false, None) => continue,
                (false, Some(_)) => Version::default(),
                (true, old) => Version {
                    create: old.map_or(revision, |v| v.create),
                    version: old.map_or(0, |v| v.version) + 1,
                    lease: 0,
                    ..Version::default()
                },
            };
            let version = Version {
                revision,
                sub: entries.len() as u32,
                ..version
            };
            match put {
                true => state.insert(key.clone(), version),
                false => state.remove(&key),
            };
            entries.push((key.as_str().into(), version));
        }
        if !entries.is_empty() {
            self.states.push(state);
            self.disk.extend(entries.clone());
        }
        entries
    }

    fn revision(&self) -> u64 {
        self.states.len() as u64
    }

    fn at(&self, revision: u64) -> Vec<(String, Version)> {
        let state = &self.states[revision as usize - 1];
        state.iter().map(|(k, v)| (k.clone(), *v)).collect()
    }

    fn remove(&mut self, garbage: &[Entry]) {
        self.disk.retain(|(key, version)| {
            !garbage
                .iter()
                .any(|(k, v)| k == key && v.revision == version.revision)
        });
    }
}

fn read(index: &Index, revision: u64, examine: usize) -> Vec<(String, Version)> {
    let mut found = Vec::new();
    let mut next: Option<Arc<str>> = Some("/k/".into());
    while let Some(start) = next {
        let chunk = index.range(&start, "/k0", revision, usize::MAX, examine);
        assert_eq!(chunk.count, chunk.entries.len());
        found.extend(chunk.entries.into_iter().map(|(k, v)| (k.to_string(), v)));
        next = chunk.next;
    }
    found
}

fn check(index: &Index, model: &Model) {
    assert_eq!(index.revision(), model.revision());
    for revision in model.compacted.max(1)..=model.revision() {
        assert_eq!(
            read(index, revision, 2),
            model.at(revision),
            "at {revision}"
        );
        for (key, version) in model.at(revision) {
            assert_eq!(index.at(&key, revision).map(|(_, v)| *v), Some(version));
        }
        let mut changes = Vec::new();
        let mut after = revision;
        while after < model.revision() {
            let (part, reached) = index.changes("/k/", after, model.revision(), 2, 3);
            assert!(reached > after, "no step forward");
            assert!(
                part.iter()
                    .all(|(_, v)| v.revision > after && v.revision <= reached)
            );
            changes.extend(part);
            after = reached;
        }
        let mut state: State = model.at(revision).into_iter().collect();
        for (key, version) in changes {
            match version.is_deletion() {
                true => state.remove(&*key),
                false => state.insert(key.to_string(), version),
            };
        }
        let replayed: Vec<_> = state.into_iter().collect();
        assert_eq!(
            replayed,
            model.at(model.revision()),
            "replayed from {revision}"
        );
    }
}

proptest! {
    #[test]
    fn reads_replays_and_restarts_agree_with_the_model(actions in actions()) {
        let mut model = Model { states: vec![State::new()], disk: Vec::new(), compacted: 0 };
        let (mut index, _) = Index::load(Vec::new(), 1, 0);
        for action in actions {
            match action {
                Action::Write(keys) => index.apply(model.write(&keys).into_iter()),
                Action::Compact(ago, steps) => {
                    let revision = model.revision().saturating_sub(ago.into());
                    model.compacted = model.compacted.max(revision);
                    index.set_compacted(revision);
                    if let Some(garbage) = index.forget_some(steps) {
                        model.remove(&garbage);
                    }
                }
                Action::Restart => {
                    let loaded = Index::load(model.disk.clone(), model.revision(), model.compacted);
                    index = loaded.0;
                    model.remove(&loaded.1);
                }
            }
            check(&index, &model);
        }
        index.set_compacted(model.revision());
        model.compacted = model.revision();
        while let Some(garbage) = index.forget_some(7) {
            model.remove(&garbage);
        }
        check(&index, &model);
        let live = model.at(model.revision()).len();
        prop_assert_eq!((index.len(), model.disk.len()), (live, live), "nothing but the present is left");
    }
}
