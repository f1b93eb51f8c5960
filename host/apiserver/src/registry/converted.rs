//! Objects in another version than the one they are kept in. Each is converted once for all readers that come soon after
//! each other: gets, lists, every watch of an event. Those who read the kept version pay nothing.
//!
//! Invariant: an entry holds its source, so that a source's address means that source as long as the entry lives.

use std::{collections::HashMap, sync::Arc};

use parking_lot::Mutex;
use pilothouse_api::{Object, SharedObject, Status};

use super::strategy::Conversion;

/// So many objects are young; as many are old, and go when the young have become too many.
const GENERATION: usize = 512;

type Entries = HashMap<usize, (SharedObject, SharedObject)>;

#[derive(Debug, Default)]
struct Generations {
    young: Entries,
    old: Entries,
}

/// What has been converted lately.
#[derive(Debug, Default)]
pub(super) struct Converted(Mutex<Generations>);

impl Converted {
    /// The object in the served form.
    pub(super) fn get(
        &self,
        kept: &SharedObject,
        conversion: &Conversion,
    ) -> Result<SharedObject, Status> {
        let address = Arc::as_ptr(kept) as usize;
        if let Some(served) = self.0.lock().find(address) {
            return Ok(served);
        }
        let served = Arc::new(Object {
            revision: kept.revision,
            header: kept.header.clone(),
            bytes: (conversion.from_stored)(&kept.bytes)?.into(),
        });
        self.0
            .lock()
            .insert(address, (kept.clone(), served.clone()));
        Ok(served)
    }
}

impl Generations {
    fn find(&mut self, address: usize) -> Option<SharedObject> {
        if let Some((_, served)) = self.young.get(&address) {
            return Some(served.clone());
        }
        let entry = self.old.remove(&address)?;
        let served = entry.1.clone();
        self.insert(address, entry);
        Some(served)
    }

    fn insert(&mut self, address: usize, entry: (SharedObject, SharedObject)) {
        if self.young.len() >= GENERATION {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(address, entry);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use pilothouse_api::{Header, Revision};

    use super::*;

    static CONVERSIONS: AtomicUsize = AtomicUsize::new(0);

    fn conversion() -> Conversion {
        Conversion {
            to_stored: |json| Ok(json.to_vec()),
            from_stored: |json| {
                CONVERSIONS.fetch_add(1, Ordering::Relaxed);
                Ok([b"served ", json].concat())
            },
        }
    }

    fn object(bytes: &'static str) -> SharedObject {
        Arc::new(Object {
            revision: Revision(1),
            header: Header::default(),
            bytes: bytes.into(),
        })
    }

    #[test]
    fn an_object_is_converted_once_while_it_is_asked_for() {
        let (converted, conversion) = (Converted::default(), conversion());
        let (a, b) = (object("a"), object("b"));
        let before = CONVERSIONS.load(Ordering::Relaxed);
        for (kept, expected) in [(&a, "served a"), (&b, "served b"), (&a, "served a")] {
            let served = converted.get(kept, &conversion).unwrap();
            assert_eq!(served.bytes, expected);
        }
        assert_eq!(CONVERSIONS.load(Ordering::Relaxed) - before, 2);
        for _ in 0..4 * GENERATION {
            converted.get(&object("other"), &conversion).unwrap();
            converted.get(&a, &conversion).unwrap();
        }
        let generations = converted.0.lock();
        assert!(generations.young.len() + generations.old.len() <= 2 * GENERATION);
        drop(generations);
        let after = CONVERSIONS.load(Ordering::Relaxed);
        converted.get(&a, &conversion).unwrap();
        assert_eq!(CONVERSIONS.load(Ordering::Relaxed), after);
    }
}
