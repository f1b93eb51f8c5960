//! Writes that take along more than the object's own key: numbers that no two objects may have, whichever API server gave
//! them out.
//!
//! Object and claims are one transaction, so nothing leaks when a server dies half-way, and two servers that give the same
//! number to two objects find out before either is stored.

use pilothouse_api::{Revision, Status};
use pilothouse_storage::{BoxFuture, Compare, KeyValue, Op, Storage, StorageError, Txn};

use super::{create::Put, errors};
use crate::environment::Environment;

/// How often a write is tried while others move what it claims.
const ATTEMPTS: usize = 32;

/// What a write claims besides its object.
#[derive(Debug, Default)]
pub struct Claims {
    compares: Vec<Compare>,
    ops: Vec<Op>,
    /// Those whose values are told when the claims do not hold.
    keys: Vec<String>,
}

impl Claims {
    /// The key must be at this revision (0: absent), and gets this value.
    pub(super) fn replace(&mut self, key: String, expected: Revision, value: Vec<u8>) {
        self.compares
            .push(Compare::ModRevision(key.clone(), expected));
        self.keys.push(key.clone());
        self.ops.push(Op::Put {
            key,
            value: value.into(),
            lease: Default::default(),
        });
    }

    /// The key goes, if it is there.
    pub(super) fn remove(&mut self, key: String) {
        self.ops.push(Op::Delete { key });
    }

    fn join(self, own: &Txn) -> Txn {
        let mut txn = own.clone();
        txn.compares.extend(self.compares);
        txn.success.extend(self.ops);
        let gets = self.keys.into_iter().map(|key| Op::Get { key });
        txn.failure.extend(gets);
        txn
    }
}

/// Why there are no claims to make.
#[derive(Debug)]
pub enum ClaimError {
    /// Somebody else has one of the numbers: others have to be chosen.
    Lost,
    Storage(StorageError),
}

impl From<StorageError> for ClaimError {
    fn from(error: StorageError) -> Self {
        Self::Storage(error)
    }
}

/// What is taken or given back with a write: cluster IPs, node ports. Dropping it without `commit` gives back what it has taken.
pub trait Reservation: Send {
    /// What is to be claimed, as things stand now; asked before each attempt.
    fn claims<'a>(
        &'a mut self,
        _storage: &'a dyn Storage,
        _environment: &'a dyn Environment,
    ) -> BoxFuture<'a, Result<Claims, ClaimError>> {
        Box::pin(std::future::ready(Ok(Claims::default())))
    }

    /// An attempt failed though the object was as expected: what the claimed keys hold, in the order of the claims.
    fn refused(&mut self, _found: Vec<Option<KeyValue>>) {}

    /// It is written.
    fn commit(self: Box<Self>);
}

/// Carries out a transaction on an object whose key must be at `expected`, with what the reservation claims.
pub(super) async fn write(
    storage: &dyn Storage,
    environment: &dyn Environment,
    own: Txn,
    expected: Revision,
    mut reservation: Box<dyn Reservation>,
) -> Result<Put, Status> {
    for _ in 0..ATTEMPTS {
        let claims = match reservation.claims(storage, environment).await {
            Ok(claims) => claims,
            Err(ClaimError::Lost) => return Ok(Put::Lost),
            Err(ClaimError::Storage(error)) => return Err(errors::from_storage(error)),
        };
        let response = storage.txn(claims.join(&own)).await;
        let response = response.map_err(errors::from_storage)?;
        if response.succeeded {
            reservation.commit();
            return Ok(Put::Written(response.revision));
        }
        let mut found = response.gets.into_iter();
        let object = found.next().flatten();
        let now = object.as_ref().map_or(Revision(0), |kv| kv.mod_revision);
        if now != expected {
            return Ok(Put::Conflict(object));
        }
        reservation.refused(found.collect());
    }
    Ok(Put::Lost)
}
