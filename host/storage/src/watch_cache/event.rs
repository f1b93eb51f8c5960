//! One change as watches see it, with its wire form made at most once for all of them.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use pilothouse_api::{Revision, SharedObject};

/// `type` of a watch event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventType {
    Added,
    Modified,
    Deleted,
}

impl EventType {
    /// As the API writes it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Added => "ADDED",
            Self::Modified => "MODIFIED",
            Self::Deleted => "DELETED",
        }
    }
}

/// A change of one object.
#[derive(Debug)]
pub struct CacheEvent {
    pub kind: EventType,
    /// The new state; for a deletion the last state with the deletion's revision as its `resourceVersion`.
    pub object: SharedObject,
    /// The state before, if there was one.
    pub previous: Option<SharedObject>,
    pub revision: Revision,
    frames: [OnceLock<Bytes>; 3],
    /// In the one other encoding; most changes are never asked for in it.
    others: OnceLock<Box<[OnceLock<Option<Bytes>>; 3]>>,
    departed: OnceLock<SharedObject>,
}

impl CacheEvent {
    pub(super) fn new(
        kind: EventType,
        object: SharedObject,
        previous: Option<SharedObject>,
        revision: Revision,
    ) -> Self {
        Self {
            kind,
            object,
            previous,
            revision,
            frames: Default::default(),
            others: OnceLock::new(),
            departed: OnceLock::new(),
        }
    }

    /// The line of a JSON watch, `{"type":"ADDED","object":…}` and a newline, as a watch with a selector calls the change: an
    /// object that enters its sight is `Added`, one that leaves it is `Deleted`.
    pub fn frame(&self, kind: EventType) -> Bytes {
        let frame = self.frames[kind as usize].get_or_init(|| frame(kind, &self.shown(kind).bytes));
        frame.clone()
    }

    /// The same in the other encoding that the API has: `make` makes it from the object to be shown, once for all watches.
    /// `None` if it could not.
    pub fn encoded(
        &self,
        kind: EventType,
        make: impl FnOnce(&SharedObject) -> Option<Bytes>,
    ) -> Option<Bytes> {
        let frames = self.others.get_or_init(Default::default);
        frames[kind as usize]
            .get_or_init(|| make(self.shown(kind)))
            .clone()
    }

    fn shown(&self, kind: EventType) -> &SharedObject {
        match kind {
            EventType::Deleted => self.departed(),
            EventType::Added | EventType::Modified => &self.object,
        }
    }

    /// What a watch is shown whose sight the object leaves: the state before, with this change's revision.
    pub fn departed(&self) -> &SharedObject {
        match (&self.previous, self.kind) {
            (Some(previous), EventType::Modified) => self.departed.get_or_init(|| {
                let departed = previous.at_revision(self.revision);
                departed.map_or_else(|_| previous.clone(), Arc::new) // its bytes have been decoded before
            }),
            _ => &self.object,
        }
    }
}

fn frame(kind: EventType, object: &[u8]) -> Bytes {
    let parts: [&[u8]; 5] = [
        br#"{"type":""#,
        kind.as_str().as_bytes(),
        br#"","object":"#,
        object,
        b"}\n",
    ];
    parts.concat().into()
}

#[cfg(test)]
mod tests {
    use pilothouse_api::Object;

    use super::*;

    fn object(name: &str, revision: u64) -> SharedObject {
        let stored = format!(r#"{{"metadata":{{"name":"{name}"}}}}"#);
        Arc::new(Object::from_stored(stored.as_bytes(), Revision(revision), &[""; 0]).unwrap())
    }

    #[test]
    fn each_form_of_a_change_is_made_once_for_all_watches() {
        let (before, after) = (object("a", 5), object("a", 7));
        let event = CacheEvent::new(EventType::Modified, after, Some(before), Revision(7));
        // what a watch calls the change, the revision in the object that it is shown
        for (kind, shown) in [
            (EventType::Added, "7"),
            (EventType::Modified, "7"),
            (EventType::Deleted, "7"),
        ] {
            let frame = event.frame(kind);
            assert!(frame.starts_with(format!(r#"{{"type":"{}""#, kind.as_str()).as_bytes()));
            assert!(
                String::from_utf8_lossy(&frame)
                    .contains(&format!(r#""resourceVersion":"{shown}""#))
            );
            assert_eq!(event.frame(kind).as_ptr(), frame.as_ptr());
            let mut made = 0;
            let encoded: Vec<Bytes> = (0..3)
                .filter_map(|_| {
                    event.encoded(kind, |object| {
                        made += 1;
                        Some(object.bytes.clone())
                    })
                })
                .collect();
            assert_eq!((made, encoded.len()), (1, 3));
            assert!(
                encoded
                    .iter()
                    .all(|frame| frame.as_ptr() == encoded[0].as_ptr())
            );
        }
        let failing = CacheEvent::new(EventType::Added, object("b", 8), None, Revision(8));
        assert_eq!(failing.encoded(EventType::Added, |_| None), None);
        // it is not tried again
        let again = failing.encoded(EventType::Added, |object| Some(object.bytes.clone()));
        assert_eq!(again, None);
    }
}
