//! What happened, as clients and a watch saw it, and whether an engine that keeps its promises could have done it.
//!
//! Checked of every history: each acknowledged write is there, a write of unknown outcome is there at most once, no revision
//! stands for two things, the watch saw every revision once and in order, and each key by itself is linearizable.

use std::collections::{BTreeMap, HashMap};

pub(crate) use crate::linearizability::{Answer, Call, Event, Version};

use crate::linearizability::linearizable;

/// Panics if the history breaks a promise. `current` is the revision at the end.
pub(crate) fn check(events: &[Event], current: u64) {
    let watched = watched_in_order(events, current);
    let calls = calls(events);
    let mut writes: HashMap<&str, u64> = HashMap::new(); // value to revision
    for (revision, (_, value)) in &watched {
        if let Some(value) = value {
            let before = writes.insert(value, *revision);
            assert_eq!(before, None, "{value} was written twice");
        }
    }
    for (_, key, call, answer) in calls {
        let written = match answer {
            Some(Answer::Written(revision)) => revision,
            Some(
                Answer::Found(Some((revision, value))) | Answer::Refused(Some((revision, value))),
            ) => {
                let seen = watched.get(revision);
                assert_eq!(
                    seen,
                    Some(&(key, Some(value))),
                    "read at {revision} by {call:?}"
                );
                continue;
            }
            _ => continue,
        };
        let value = match call {
            Call::Put(value) | Call::PutIf(_, value) => Some(value),
            Call::DeleteIf(_) | Call::Get => None,
        };
        let seen = watched.get(written);
        assert_eq!(
            seen,
            Some(&(key, value)),
            "acknowledged as {written}: {call:?}"
        );
    }
    linearizable(events);
}

/// What the watch saw by revision, which is every revision once.
fn watched_in_order(events: &[Event], current: u64) -> BTreeMap<u64, (&String, Option<&String>)> {
    let mut watched = BTreeMap::new();
    for event in events {
        if let Event::Watched {
            revision,
            key,
            value,
        } = event
        {
            let next = watched.len() as u64 + 2; // the first revision is 1 and writes nothing
            assert_eq!(
                *revision, next,
                "the watch missed something or saw it twice"
            );
            watched.insert(*revision, (key, value.as_ref()));
        }
    }
    assert_eq!(
        watched.len() as u64 + 1,
        current,
        "the watch did not see the end"
    );
    watched
}

type Made<'a> = (usize, &'a String, &'a Call, Option<&'a Answer>);

/// The calls in the order of their beginning, with their answers.
fn calls(events: &[Event]) -> Vec<Made<'_>> {
    let mut calls: Vec<Made> = Vec::new();
    let mut open: HashMap<usize, usize> = HashMap::new();
    for event in events {
        match event {
            Event::Called { client, key, call } => {
                open.insert(*client, calls.len());
                calls.push((*client, key, call, None));
            }
            Event::Answered { client, answer } => {
                let at = open.remove(client).expect("an answer without a call");
                calls[at].3 = Some(answer);
            }
            Event::Watched { .. } => {}
        }
    }
    calls
}

/// The checker itself: histories that are fine and histories that are not.
#[test]
fn broken_promises_are_found() {
    let called = |client, call: Call| Event::Called {
        client,
        key: "k".to_owned(),
        call,
    };
    let answered = |client, answer| Event::Answered { client, answer };
    let watched = |revision, value: Option<&str>| Event::Watched {
        revision,
        key: "k".to_owned(),
        value: value.map(str::to_owned),
    };
    let put = |value: &str| Call::Put(value.to_owned());
    let found = |revision, value: &str| Answer::Found(Some((revision, value.to_owned())));
    let written = Answer::Written;
    let write = |revision, value| [called(0, put(value)), answered(0, written(revision))];
    let cases: [(&str, Vec<Event>, u64, bool); 10] = [
        (
            "a write and a read",
            [
                &write(2, "a")[..],
                &[
                    watched(2, Some("a")),
                    called(1, Call::Get),
                    answered(1, found(2, "a")),
                ],
            ]
            .concat(),
            2,
            true,
        ),
        (
            "an unanswered write that is there",
            vec![
                called(0, put("a")),
                watched(2, Some("a")),
                called(1, Call::Get),
                answered(1, found(2, "a")),
            ],
            2,
            true,
        ),
        (
            "an unanswered write that is not there",
            vec![
                called(0, put("a")),
                called(1, Call::Get),
                answered(1, Answer::Found(None)),
            ],
            1,
            true,
        ),
        (
            "an acknowledged write is lost",
            write(2, "a").to_vec(),
            1,
            false,
        ),
        (
            "an acknowledged write is not read",
            [
                &write(2, "a")[..],
                &[
                    watched(2, Some("a")),
                    called(1, Call::Get),
                    answered(1, Answer::Found(None)),
                ],
            ]
            .concat(),
            2,
            false,
        ),
        (
            "an unanswered write twice",
            vec![
                called(0, put("a")),
                watched(2, Some("a")),
                watched(3, Some("a")),
            ],
            3,
            false,
        ),
        (
            "a revision twice",
            [
                &write(2, "a")[..],
                &[
                    called(1, put("b")),
                    answered(1, written(2)),
                    watched(2, Some("a")),
                ],
            ]
            .concat(),
            2,
            false,
        ),
        (
            "a gap in the watch",
            [&write(3, "a")[..], &[watched(3, Some("a"))]].concat(),
            3,
            false,
        ),
        (
            "a read of the past",
            [
                &write(2, "a")[..],
                &write(3, "b"),
                &[
                    watched(2, Some("a")),
                    watched(3, Some("b")),
                    called(1, Call::Get),
                    answered(1, found(2, "a")),
                ],
            ]
            .concat(),
            3,
            false,
        ),
        (
            "a condition that did not hold",
            [
                &write(2, "a")[..],
                &[
                    called(1, Call::PutIf(0, "b".to_owned())),
                    answered(1, written(3)),
                    watched(2, Some("a")),
                    watched(3, Some("b")),
                ],
            ]
            .concat(),
            3,
            false,
        ),
    ];
    for (name, events, current, fine) in cases {
        let checked = std::panic::catch_unwind(|| check(&events, current));
        assert_eq!(checked.is_ok(), fine, "{name}");
    }
}
