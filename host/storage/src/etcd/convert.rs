//! Between the engine's types and etcd's: keys with and without the prefix, transactions, events.

use etcd_client::{
    Compare as EtcdCompare, CompareOp, EventType, PutOptions, ResponseHeader, Txn as EtcdTxn,
    TxnOp, TxnOpResponse,
};

use crate::engine::{Compare, Event, EventKind, KeyValue, Lease, Op, Revision, Txn, TxnResponse};

/// Keys as etcd has them: with the configured prefix.
#[derive(Clone, Debug)]
pub(super) struct Keys {
    prefix: String,
}

impl Keys {
    pub(super) fn new(prefix: String) -> Self {
        Self { prefix }
    }

    pub(super) fn outer(&self, key: &str) -> String {
        format!("{}{key}", self.prefix)
    }

    /// Where a range starts. Etcd has no empty key and refuses it.
    pub(super) fn start(&self, key: &str) -> String {
        match self.outer(key) {
            empty if empty.is_empty() => "\0".to_owned(),
            outer => outer,
        }
    }

    /// `None` for keys of somebody else.
    fn inner<'a>(&self, key: &'a [u8]) -> Option<&'a str> {
        std::str::from_utf8(key).ok()?.strip_prefix(&self.prefix)
    }

    pub(super) fn key_value(&self, kv: etcd_client::KeyValue) -> Option<KeyValue> {
        let key = self.inner(kv.key())?.into();
        let (create, modified, version, lease) = (
            kv.create_revision(),
            kv.mod_revision(),
            kv.version(),
            kv.lease(),
        );
        let (_, value) = kv.into_key_value();
        Some(KeyValue {
            key,
            value: value.into(),
            create_revision: Revision(create.cast_unsigned()),
            mod_revision: Revision(modified.cast_unsigned()),
            version: version.cast_unsigned(),
            lease: Lease(lease),
        })
    }

    /// `None` for keys of somebody else.
    pub(super) fn event(&self, event: &etcd_client::Event) -> Option<Event> {
        Some(Event {
            kind: match event.event_type() {
                EventType::Put => EventKind::Put,
                EventType::Delete => EventKind::Delete,
            },
            kv: self.key_value(event.kv()?.clone())?,
            previous: None,
        })
    }

    pub(super) fn txn(&self, txn: Txn) -> EtcdTxn {
        let compare = |compare: &Compare| {
            let Compare::ModRevision(key, expected) = compare;
            EtcdCompare::mod_revision(self.outer(key), CompareOp::Equal, number(*expected))
        };
        let compares: Vec<EtcdCompare> = txn.compares.iter().map(compare).collect();
        EtcdTxn::new()
            .when(compares)
            .and_then(self.ops(txn.success))
            .or_else(self.ops(txn.failure))
    }

    fn ops(&self, ops: Vec<Op>) -> Vec<TxnOp> {
        let op = |op| match op {
            Op::Put { key, value, lease } => {
                let options = (lease.0 != 0).then(|| PutOptions::new().with_lease(lease.0));
                TxnOp::put(self.outer(&key), value, options)
            }
            Op::Delete { key } => TxnOp::delete(self.outer(&key), None),
            Op::Get { key } => TxnOp::get(self.outer(&key), None),
        };
        ops.into_iter().map(op).collect()
    }

    pub(super) fn txn_response(&self, response: &etcd_client::TxnResponse) -> TxnResponse {
        let get = |response| match response {
            TxnOpResponse::Get(mut get) => {
                let kv = get.take_kvs().into_iter().next();
                Some(kv.and_then(|kv| self.key_value(kv)))
            }
            _ => None,
        };
        TxnResponse {
            revision: revision(response.header()),
            succeeded: response.succeeded(),
            gets: response
                .op_responses()
                .into_iter()
                .filter_map(get)
                .collect(),
        }
    }
}

/// Every answer of etcd has a header; without one the revision is unknown, which is zero.
pub(super) fn revision(header: Option<&ResponseHeader>) -> Revision {
    Revision(header.map_or(0, |h| h.revision().cast_unsigned()))
}

pub(super) fn number(revision: Revision) -> i64 {
    revision.0.cast_signed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_lose_and_gain_the_prefix() {
        let keys = Keys::new("/tenant".to_owned());
        assert_eq!(keys.outer("/registry/pods/a"), "/tenant/registry/pods/a");
        assert_eq!(
            keys.inner(b"/tenant/registry/pods/a"),
            Some("/registry/pods/a")
        );
        assert_eq!(keys.inner(b"/registry/pods/a"), None);
        assert_eq!(keys.inner(b"/tenant/\xff"), None);
        let plain = Keys::new(String::new());
        assert_eq!(plain.inner(b"compact_rev_key"), Some("compact_rev_key"));
    }
}
