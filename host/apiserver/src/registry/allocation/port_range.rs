//! The node ports in use, as storage keeps them: one bitmap for the cluster, in the form that upstream's API server keeps.
//! Source: Kubernetes, `RangeAllocation` of `core/v1`.

use std::ops::RangeInclusive;

use base64::{Engine, engine::general_purpose::STANDARD};
use pilothouse_api::{Revision, protobuf};
use pilothouse_storage::{Storage, StorageError};
use serde::Deserialize;
use serde_json::json;

/// Where it is stored.
pub(super) const KEY: &str = "/registry/ranges/servicenodeports";

/// The bitmap at a revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PortRange {
    first: u16,
    last: u16,
    /// Of the n-th port the n-th bit, counted from the lowest of the first byte.
    bits: Vec<u8>,
    /// 0: it is not there yet.
    pub(super) revision: Revision,
}

/// The stored form.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Stored {
    range: String,
    /// A big number, its highest byte first.
    data: String,
}

impl PortRange {
    fn empty(ports: &RangeInclusive<u16>) -> Self {
        let (first, last) = (*ports.start(), *ports.end());
        Self {
            first,
            last,
            bits: vec![0; usize::from(last.saturating_sub(first)) / 8 + 1],
            revision: Revision(0),
        }
    }

    /// As storage has it now; empty if there is none. `Corrupt` if it is of another range than this server's.
    pub(super) async fn read(
        storage: &dyn Storage,
        ports: &RangeInclusive<u16>,
    ) -> Result<Self, StorageError> {
        let found = storage.get(KEY, None).await?;
        let Some(kv) = found.kv else {
            return Ok(Self::empty(ports));
        };
        let damaged = |why: String| StorageError::Corrupt(format!("{KEY}: {why}"));
        let mut range = Self::decode(&kv.value, ports).map_err(damaged)?;
        range.revision = kv.mod_revision;
        Ok(range)
    }

    fn decode(stored: &[u8], ports: &RangeInclusive<u16>) -> Result<Self, String> {
        let mut range = Self::empty(ports);
        let (text, data) = match stored.starts_with(protobuf::MAGIC) {
            true => {
                let field = |number| protobuf::raw_field(stored, number).map_err(|e| e.to_string());
                let text = String::from_utf8_lossy(field(2)?).into_owned();
                (text, field(3)?.to_vec())
            }
            false => {
                let stored: Stored = serde_json::from_slice(stored).map_err(|e| e.to_string())?;
                let data = STANDARD.decode(stored.data).map_err(|e| e.to_string())?;
                (stored.range, data)
            }
        };
        if text != range.text() {
            return Err(format!(
                "the cluster's node ports are {text}, those of this server {}",
                range.text()
            ));
        }
        for (to, from) in range.bits.iter_mut().zip(data.iter().rev()) {
            *to = *from;
        }
        Ok(range)
    }

    /// What is stored.
    pub(super) fn encode(&self) -> Vec<u8> {
        let data: Vec<u8> = self
            .bits
            .iter()
            .rev()
            .copied()
            .skip_while(|b| *b == 0)
            .collect();
        let document = json!({
            "apiVersion": "v1",
            "kind": "RangeAllocation",
            "metadata": { "creationTimestamp": null },
            "range": self.text(),
            "data": STANDARD.encode(data),
        });
        document.to_string().into_bytes()
    }

    fn text(&self) -> String {
        format!("{}-{}", self.first, self.last)
    }

    /// Whether it was free.
    pub(super) fn take(&mut self, port: u16) -> bool {
        let Some((byte, bit)) = self.place(port) else {
            return false;
        };
        let free = self.bits[byte] & bit == 0;
        self.bits[byte] |= bit;
        free
    }

    pub(super) fn give_back(&mut self, port: u16) {
        if let Some((byte, bit)) = self.place(port) {
            self.bits[byte] &= !bit;
        }
    }

    /// Those in use.
    pub(super) fn taken(&self) -> impl Iterator<Item = u16> {
        let taken = |port: &u16| {
            let place = self.place(*port);
            place.is_some_and(|(byte, bit)| self.bits[byte] & bit != 0)
        };
        (self.first..=self.last).filter(taken)
    }

    fn place(&self, port: u16) -> Option<(usize, u8)> {
        let offset = port.checked_sub(self.first).filter(|_| port <= self.last)?;
        Some((usize::from(offset / 8), 1 << (offset % 8)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PORTS: RangeInclusive<u16> = 30000..=32767;

    #[test]
    fn the_stored_form_is_upstreams() {
        // the ports, the bitmap as a big number whose lowest bit is the first port
        for (ports, data) in [
            (&[][..], &[][..]),
            (&[30000], &[1]),
            (&[30000, 30009], &[2, 1]),
            (&[30017], &[2, 0, 0]),
        ] {
            let mut range = PortRange::empty(&PORTS);
            assert!(ports.iter().all(|port| range.take(*port)));
            let stored: Stored = serde_json::from_slice(&range.encode()).unwrap();
            assert_eq!(stored.range, "30000-32767");
            assert_eq!(STANDARD.decode(stored.data).unwrap(), data);
            assert_eq!(
                PortRange::decode(&range.encode(), &PORTS),
                Ok(range.clone())
            );
            assert_eq!(range.taken().collect::<Vec<_>>(), ports);
        }
        let other = PortRange::empty(&(30000..=30010)).encode();
        assert!(PortRange::decode(&other, &PORTS).is_err());
    }

    #[test]
    fn protobuf_is_read_too() {
        let mut stored = b"k8s\0\x0a\x15\x0a\x02v1\x12\x0fRangeAllocation\x12\x13".to_vec();
        stored.extend(b"\x0a\x00\x12\x0b30000-32767\x1a\x02\x02\x01");
        let range = PortRange::decode(&stored, &PORTS).unwrap();
        assert_eq!(range.taken().collect::<Vec<_>>(), [30000, 30009]);
    }

    #[test]
    fn a_port_is_taken_once_and_only_in_the_range() {
        let mut range = PortRange::empty(&PORTS);
        assert!(range.take(32767));
        assert!(!range.take(32767));
        range.give_back(32767);
        assert!(range.take(32767));
        assert!(!range.take(29999) && !range.take(32768));
    }
}
