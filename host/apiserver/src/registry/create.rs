//! Creation.

use pilothouse_api::{
    Cause, Revision, Status,
    field::{ErrorList, Path},
    validation,
};
use pilothouse_storage::{KeyValue, Lease, StorageError, Txn};

use super::{
    Attributes, Call, Registry, Resource, claims, erased::AnyObject, errors, managed, metadata,
    read_current, strategy::Reservation,
};
use crate::admission::Operation;

/// What etcd says of a write that it does not take for its size.
const TOO_LARGE: &str = "request is too large";
/// How often a generated name that is taken is drawn anew.
const NAME_ATTEMPTS: usize = 8;
/// How often other numbers are chosen when somebody else was given the same ones.
const NUMBER_ATTEMPTS: usize = 16;

impl Registry {
    /// Creates an object in `namespace` (empty for cluster-scoped ones). What comes back carries its `resourceVersion`, in a
    /// dry run none.
    pub async fn create(
        &self,
        resource: &Resource,
        call: &Call,
        namespace: &str,
        mut object: AnyObject,
    ) -> Result<AnyObject, Status> {
        let strategy = &*resource.strategy;
        if object
            .metadata()
            .resource_version
            .as_deref()
            .is_some_and(|v| !v.is_empty())
        {
            return Err(Status::new(
                500,
                "",
                "resourceVersion should not be set on objects to be created",
            ));
        }
        metadata::settle_namespace(&mut object, resource.info.namespaced, namespace)?;
        object.metadata_mut().deletion_timestamp = None;
        object.metadata_mut().deletion_grace_period_seconds = None;
        strategy.default(&mut object);
        managed::track_create(resource, call, &mut object)?;
        let name = object.name().to_owned();
        let attributes = attributes(resource, namespace, &name);
        self.mutate(resource, call, &attributes, &mut object, None)
            .await?;
        metadata::settle_namespace(&mut object, resource.info.namespaced, namespace)?;
        metadata::fill_for_create(object.metadata_mut(), &*self.environment, call.context.now);
        object.metadata_mut().generation = strategy.generation_changed(&object, &object).map(|_| 1);
        call.warn(metadata::drop_duplicate_owners(object.metadata_mut()));

        let base = object.metadata().generate_name.clone().unwrap_or_default();
        if !object.name().is_empty() || base.is_empty() {
            return self.create_named(resource, call, object).await;
        }
        let mut attempt = 1;
        loop {
            let mut candidate = object.clone();
            candidate.metadata_mut().name =
                Some(metadata::generate_name(&base, &*self.environment));
            match self.create_named(resource, call, candidate).await {
                Err(taken) if taken.is_already_exists() && attempt < NAME_ATTEMPTS => attempt += 1,
                Err(taken) if taken.is_already_exists() => return Err(taken.retry_after(1)),
                outcome => return outcome,
            }
        }
    }

    /// Under one name. Numbers that another server has given out meanwhile are chosen again.
    async fn create_named(
        &self,
        resource: &Resource,
        call: &Call,
        object: AnyObject,
    ) -> Result<AnyObject, Status> {
        if resource.strategy.reserves() {
            for _ in 0..NUMBER_ATTEMPTS {
                let created = self.try_create(resource, call, object.clone()).await?;
                if let Some(object) = created {
                    return Ok(object);
                }
            }
        }
        let created = self.try_create(resource, call, object).await?;
        created.ok_or_else(|| Status::internal("other servers are faster in taking every number"))
    }

    /// One attempt; `None` if somebody else has one of the numbers.
    async fn try_create(
        &self,
        resource: &Resource,
        call: &Call,
        mut object: AnyObject,
    ) -> Result<Option<AnyObject>, Status> {
        let strategy = &*resource.strategy;
        strategy.prepare_for_create(&call.context, &mut object);
        let reservation = strategy.reserve(&mut object, None, call.context.dry_run)?;
        let mut errors = validation::validate_object_meta(
            object.metadata(),
            resource.info.namespaced,
            strategy.name_format(),
            &Path::new("metadata"),
        );
        errors.extend(strategy.validate(&object));
        errors.extend(strategy.validate_create(&object));
        refuse_if_any(resource, object.name(), errors)?;
        call.warn(strategy.warnings(&object));
        let attributes = attributes(resource, object.namespace(), object.name());
        self.validate(resource, call, &attributes, Some(&object), None)
            .await?;

        let key = resource.info.storage_key(object.namespace(), object.name());
        if call.context.dry_run {
            let found = self
                .storage
                .get(&key, None)
                .await
                .map_err(errors::from_storage)?;
            return match found.kv {
                Some(kv) => Err(already_exists(resource, object.name(), kv)),
                None => Ok(Some(object)),
            };
        }
        let revision = match self
            .put(resource, &key, Revision(0), &mut object, call, reservation)
            .await?
        {
            Put::Written(revision) => revision,
            Put::Lost => return Ok(None),
            Put::Conflict(found) => {
                return Err(match found {
                    Some(kv) => already_exists(resource, object.name(), kv),
                    None => Status::already_exists(&resource.info.group_resource(), object.name()),
                });
            }
        };
        object.metadata_mut().resource_version = Some(revision.to_string());
        Ok(Some(object))
    }

    /// Writes an object if its key's revision is `expected`. A reservation is kept exactly if the write took place, also when
    /// the request is dropped meanwhile.
    pub(super) async fn put(
        &self,
        resource: &Resource,
        key: &str,
        expected: Revision,
        object: &mut AnyObject,
        call: &Call,
        reservation: Option<Box<dyn Reservation>>,
    ) -> Result<Put, Status> {
        let mut value = resource.encode(object)?;
        let ttl = resource.strategy.ttl_seconds(object);
        let mut second = false;
        let lease = self.lease(ttl, call).await?;
        let mut txn = Txn::put_if(key, expected, value.clone(), lease);
        if let Some(reservation) = reservation {
            return self.write_claiming(txn, expected, reservation).await;
        }
        loop {
            match self.storage.txn(txn).await {
                // the lease ran out between being looked up and being used
                Err(StorageError::LeaseNotFound(lease)) if !second => {
                    second = true;
                    self.leases.forget(lease);
                    txn = Txn::put_if(key, expected, value.clone(), self.lease(ttl, call).await?);
                }
                // who owns what may be what is too much: the object itself is worth more
                Err(StorageError::Invalid(why))
                    if why.contains(TOO_LARGE) && object.managed().is_some() =>
                {
                    object.set_managed(None);
                    value = resource.encode(object)?;
                    txn = Txn::put_if(key, expected, value.clone(), self.lease(ttl, call).await?);
                }
                outcome => return outcome.map(Put::of).map_err(errors::from_storage),
            }
        }
    }

    /// Carries out a transaction with the claims of a reservation, to its end also when the request is dropped meanwhile.
    pub(super) async fn write_claiming(
        &self,
        txn: Txn,
        expected: Revision,
        reservation: Box<dyn Reservation>,
    ) -> Result<Put, Status> {
        let (storage, environment) = (self.storage.clone(), self.environment.clone());
        let written = tokio::spawn(async move {
            claims::write(&*storage, &*environment, txn, expected, reservation).await
        });
        written.await.map_err(Status::internal)?
    }

    /// Deletes an object if its key's revision is `expected`, and gives back what it held.
    pub(super) async fn take_away(
        &self,
        resource: &Resource,
        key: &str,
        expected: Revision,
        object: &AnyObject,
    ) -> Result<Put, Status> {
        let txn = Txn::delete_if(key, expected);
        match resource.strategy.release(object) {
            Some(held) => self.write_claiming(txn, expected, held).await,
            None => {
                let response = self.storage.txn(txn).await;
                Ok(Put::of(response.map_err(errors::from_storage)?))
            }
        }
    }

    async fn lease(&self, ttl_seconds: Option<u64>, call: &Call) -> Result<Lease, Status> {
        match ttl_seconds {
            None => Ok(Lease::default()),
            Some(ttl) => {
                let lease = self
                    .leases
                    .lease(&*self.storage, ttl, call.context.now)
                    .await;
                lease.map_err(errors::from_storage)
            }
        }
    }
}

/// What admission is told of a creation. A namespace lies in itself.
fn attributes<'a>(resource: &Resource, namespace: &'a str, name: &'a str) -> Attributes<'a> {
    let is_namespace =
        resource.info.gvr.group.is_empty() && resource.info.gvr.resource == "namespaces";
    Attributes {
        subresource: "",
        operation: Operation::Create,
        kind: None,
        namespace: if is_namespace { name } else { namespace },
        name,
    }
}

/// How a compare-and-swap ended.
pub(super) enum Put {
    Written(Revision),
    /// The key holds this instead.
    Conflict(Option<KeyValue>),
    /// The key is as expected, but somebody else has a number that was to be claimed with it.
    Lost,
}

impl Put {
    pub(super) fn of(response: pilothouse_storage::TxnResponse) -> Self {
        match response.succeeded {
            true => Self::Written(response.revision),
            false => Self::Conflict(response.gets.into_iter().next().flatten()),
        }
    }
}

/// 422 if there are errors.
pub(super) fn refuse_if_any(
    resource: &Resource,
    name: &str,
    errors: ErrorList,
) -> Result<(), Status> {
    if errors.is_empty() {
        return Ok(());
    }
    let causes = errors.into_iter().map(Cause::from).collect();
    Err(Status::invalid(
        &resource.info.gvr.group,
        &resource.info.kind,
        name,
        causes,
    ))
}

/// 409, saying so if the one that exists is on its way out.
fn already_exists(resource: &Resource, name: &str, found: KeyValue) -> Status {
    let mut status = Status::already_exists(&resource.info.group_resource(), name);
    let leaving = read_current(resource, found)
        .is_ok_and(|c| c.object.metadata().deletion_timestamp.is_some());
    if leaving {
        status.message = format!("object is being deleted: {}", status.message);
    }
    status
}
