//! What clients were told, and whether an engine whose keys are linearizable could have told it.

use std::collections::{BTreeMap, HashMap};

use stateright::semantics::{ConsistencyTester, LinearizabilityTester, SequentialSpec};

/// A version of a key: its revision and its value.
pub(crate) type Version = (u64, String);

/// What a client asks for. Values are unique.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    Put(String),
    /// Only if the key has this revision; zero is absent.
    PutIf(u64, String),
    DeleteIf(u64),
    Get,
}

/// What it is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// The revision of the write.
    Written(u64),
    /// The condition did not hold; this is there.
    Refused(Option<Version>),
    Found(Option<Version>),
}

/// A line of the history. A client whose call gets no answer says nothing more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    Called {
        client: usize,
        key: String,
        call: Call,
    },
    Answered {
        client: usize,
        answer: Answer,
    },
    /// A watch of all keys saw this; no value is a deletion.
    Watched {
        revision: u64,
        key: String,
        value: Option<String>,
    },
}

/// A key as the specification has it. A write of unknown outcome leaves an unknown revision.
#[derive(Clone, Debug, Default)]
struct Key {
    now: Option<(Option<u64>, String)>,
    /// No later write has a revision up to this.
    last: u64,
}

impl Key {
    fn write(&mut self, revision: Option<u64>, value: Option<&String>) -> bool {
        let later = revision.is_none_or(|revision| revision > self.last);
        self.last = revision.unwrap_or(self.last);
        self.now = value.map(|value| (revision, value.clone()));
        later
    }

    /// Whether a reader may see this.
    fn shows(&mut self, seen: Option<&Version>) -> bool {
        match (&mut self.now, seen) {
            (None, None) => true,
            (Some((revision, value)), Some((seen, text))) => {
                let is_it =
                    value == text && revision.is_none_or(|r| r == *seen) && *seen >= self.last;
                *revision = Some(*seen);
                self.last = self.last.max(*seen);
                is_it
            }
            _ => false,
        }
    }

    /// Whether the key may have this revision.
    fn may_be_at(&self, expected: u64) -> bool {
        match &self.now {
            None => expected == 0,
            Some((Some(revision), _)) => *revision == expected,
            Some((None, _)) => expected > self.last,
        }
    }
}

impl SequentialSpec for Key {
    type Op = Call;
    type Ret = Answer;

    /// A call whose outcome is not known took effect here.
    fn invoke(&mut self, call: &Call) -> Answer {
        match call {
            Call::Put(value) => _ = self.write(None, Some(value)),
            Call::PutIf(expected, value) if self.may_be_at(*expected) => {
                self.last = self.last.max(*expected);
                self.write(None, Some(value));
            }
            Call::DeleteIf(expected) if self.may_be_at(*expected) => {
                self.last = self.last.max(*expected);
                self.write(None, None);
            }
            _ => {}
        }
        Answer::Found(None)
    }

    fn is_valid_step(&mut self, call: &Call, answer: &Answer) -> bool {
        match (call, answer) {
            (Call::Put(value), Answer::Written(revision)) => {
                self.write(Some(*revision), Some(value))
            }
            (Call::PutIf(expected, value), Answer::Written(revision)) => {
                self.may_be_at(*expected) && self.write(Some(*revision), Some(value))
            }
            (Call::DeleteIf(expected), Answer::Written(revision)) => {
                self.may_be_at(*expected) && self.write(Some(*revision), None)
            }
            (Call::PutIf(expected, _) | Call::DeleteIf(expected), Answer::Refused(seen)) => {
                self.shows(seen.as_ref()) && !self.may_be_at(*expected)
            }
            (Call::Get, Answer::Found(seen)) => self.shows(seen.as_ref()),
            _ => false,
        }
    }
}

/// Panics unless each key by itself is linearizable.
pub(crate) fn linearizable(events: &[Event]) {
    let mut keys: BTreeMap<&str, LinearizabilityTester<usize, Key>> = BTreeMap::new();
    let mut asked: HashMap<usize, &str> = HashMap::new();
    for event in events {
        match event {
            Event::Called { client, key, call } => {
                asked.insert(*client, key);
                let tester = keys
                    .entry(key)
                    .or_insert_with(|| LinearizabilityTester::new(Key::default()));
                tester
                    .on_invoke(*client, call.clone())
                    .expect("one call at a time");
            }
            Event::Answered { client, answer } => {
                let tester = keys.get_mut(asked[client]).expect("it was asked");
                tester
                    .on_return(*client, answer.clone())
                    .expect("an answer to a call");
            }
            Event::Watched { .. } => {}
        }
    }
    for (key, tester) in keys {
        assert!(
            tester.is_consistent(),
            "{key} is not linearizable: {:#?}",
            of_key(events, key)
        );
    }
}

fn of_key<'a>(events: &'a [Event], name: &str) -> Vec<&'a Event> {
    let mut open = HashMap::new();
    let concerns = |event: &&Event| match event {
        Event::Called { client, key, .. } => {
            open.insert(*client, key.clone());
            key == name
        }
        Event::Answered { client, .. } => open.get(client).is_some_and(|key| key == name),
        Event::Watched { key, .. } => key == name,
    };
    events.iter().filter(concerns).collect()
}
