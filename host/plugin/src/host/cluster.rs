//! `pilothouse:host/cluster`: every access is checked against the plugin's capabilities, then handed to [`crate::Cluster`].

use bytes::Bytes;
use futures::{StreamExt, stream};
use wasmtime::Result as Step;

use super::{
    HostState,
    bindings::cluster::{
        Creation, DeleteOptions, Deletion, EventSubject, GroupVersionResource, Host, PatchType,
        Patching, Status, Write,
    },
    state::{Caller, refusal},
};
use crate::capability::Access;

type Object = Vec<u8>;

/// How many writes of one `write-all` are under way at the same time.
const SIDE_BY_SIDE: usize = 16;

fn access<'a>(verb: &'a str, of: &'a GroupVersionResource, name: &'a str) -> Access<'a> {
    Access {
        verb,
        group: &of.group,
        resource: &of.resource,
        subresource: "",
        name,
    }
}

fn outward(result: Result<Bytes, pilothouse_api::Status>) -> Result<Object, Status> {
    result.map(Into::into).map_err(refusal)
}

fn outward_list(result: Result<Vec<Bytes>, pilothouse_api::Status>) -> Result<Vec<Object>, Status> {
    match result {
        Ok(objects) => Ok(objects.into_iter().map(Into::into).collect()),
        Err(status) => Err(refusal(status)),
    }
}

/// What one write of many needs.
fn write_access(write: &Write) -> Access<'_> {
    match write {
        Write::Create(Creation { of, .. }) => access("create", of, ""),
        Write::Patch(patching) => Access {
            subresource: &patching.subresource,
            ..access("patch", &patching.of, &patching.name)
        },
        Write::Delete(Deletion { of, name, .. }) => access("delete", of, name),
    }
}

/// One write of many, already granted.
async fn carry_out(caller: &Caller, write: Write) -> Result<Bytes, pilothouse_api::Status> {
    let by = caller.as_plugin();
    let cluster = &caller.cluster;
    match write {
        Write::Create(Creation {
            of,
            namespace,
            object,
        }) => cluster.create(by, &of, &namespace, object.into()).await,
        Write::Patch(Patching {
            of,
            namespace,
            name,
            subresource,
            type_,
            patch,
        }) => {
            let patch = Bytes::from(patch);
            cluster
                .patch(by, &of, &namespace, &name, &subresource, type_, patch)
                .await
        }
        Write::Delete(Deletion {
            of,
            namespace,
            name,
            options,
        }) => {
            let deleted = cluster.delete(by, &of, &namespace, &name, options).await;
            deleted.map(|()| Bytes::new())
        }
    }
}

/// The caller with the access, or out with the refusal.
macro_rules! granted {
    ($access:expr) => {
        match $access? {
            Ok(granted) => granted,
            Err(status) => return Ok(Err(refusal(status))),
        }
    };
}

impl Host for HostState {
    async fn get(
        &mut self,
        of: GroupVersionResource,
        namespace: String,
        name: String,
    ) -> Step<Result<Object, Status>> {
        let caller = granted!(self.access(access("get", &of, &name)));
        let by = caller.as_plugin();
        let found = caller.cluster.get(by, &of, &namespace, &name);
        Ok(outward(caller.in_time(found).await))
    }

    async fn get_live(
        &mut self,
        of: GroupVersionResource,
        namespace: String,
        name: String,
    ) -> Step<Result<Object, Status>> {
        let caller = granted!(self.access(access("get", &of, &name)));
        let by = caller.as_plugin();
        let found = caller.cluster.get_live(by, &of, &namespace, &name);
        Ok(outward(caller.in_time(found).await))
    }

    async fn list(
        &mut self,
        of: GroupVersionResource,
        namespace: String,
        labels: String,
        fields: String,
    ) -> Step<Result<Vec<Object>, Status>> {
        let caller = granted!(self.access(access("list", &of, "")));
        let by = caller.as_plugin();
        let found = caller.cluster.list(by, &of, &namespace, &labels, &fields);
        Ok(outward_list(caller.in_time(found).await))
    }

    async fn list_owned(
        &mut self,
        of: GroupVersionResource,
        namespace: String,
        owner_uid: String,
    ) -> Step<Result<Vec<Object>, Status>> {
        let caller = granted!(self.access(access("list", &of, "")));
        let by = caller.as_plugin();
        let found = caller.cluster.list_owned(by, &of, &namespace, &owner_uid);
        Ok(outward_list(caller.in_time(found).await))
    }

    async fn create(
        &mut self,
        of: GroupVersionResource,
        namespace: String,
        object: Object,
    ) -> Step<Result<Object, Status>> {
        let caller = granted!(self.write_access(access("create", &of, "")).await);
        let by = caller.as_plugin();
        let written = caller.cluster.create(by, &of, &namespace, object.into());
        Ok(outward(caller.in_time(written).await))
    }

    async fn update(
        &mut self,
        of: GroupVersionResource,
        namespace: String,
        name: String,
        object: Object,
    ) -> Step<Result<Object, Status>> {
        let caller = granted!(self.write_access(access("update", &of, &name)).await);
        let by = caller.as_plugin();
        let written = caller
            .cluster
            .update(by, &of, &namespace, &name, object.into());
        Ok(outward(caller.in_time(written).await))
    }

    async fn update_status(
        &mut self,
        of: GroupVersionResource,
        namespace: String,
        name: String,
        object: Object,
    ) -> Step<Result<Object, Status>> {
        let mut asked = access("update", &of, &name);
        asked.subresource = "status";
        let caller = granted!(self.write_access(asked).await);
        let by = caller.as_plugin();
        let written = caller
            .cluster
            .update_status(by, &of, &namespace, &name, object.into());
        Ok(outward(caller.in_time(written).await))
    }

    async fn update_subresource(
        &mut self,
        of: GroupVersionResource,
        namespace: String,
        name: String,
        subresource: String,
        object: Object,
    ) -> Step<Result<Object, Status>> {
        let mut asked = access("update", &of, &name);
        asked.subresource = &subresource;
        let caller = granted!(self.write_access(asked).await);
        let by = caller.as_plugin();
        let cluster = &caller.cluster;
        let object = Bytes::from(object);
        let written = cluster.update_subresource(by, &of, &namespace, &name, &subresource, object);
        Ok(outward(caller.in_time(written).await))
    }

    async fn patch(
        &mut self,
        of: GroupVersionResource,
        namespace: String,
        name: String,
        subresource: String,
        patch_type: PatchType,
        patch: Vec<u8>,
    ) -> Step<Result<Object, Status>> {
        let mut asked = access("patch", &of, &name);
        asked.subresource = &subresource;
        let caller = granted!(self.write_access(asked).await);
        let by = caller.as_plugin();
        let patch = Bytes::from(patch);
        let written =
            caller
                .cluster
                .patch(by, &of, &namespace, &name, &subresource, patch_type, patch);
        Ok(outward(caller.in_time(written).await))
    }

    async fn delete(
        &mut self,
        of: GroupVersionResource,
        namespace: String,
        name: String,
        options: DeleteOptions,
    ) -> Step<Result<(), Status>> {
        let caller = granted!(self.write_access(access("delete", &of, &name)).await);
        let by = caller.as_plugin();
        let deleted = caller.cluster.delete(by, &of, &namespace, &name, options);
        Ok(caller.in_time(deleted).await.map_err(refusal))
    }

    async fn delete_collection(
        &mut self,
        of: GroupVersionResource,
        namespace: String,
        labels: String,
        fields: String,
        options: DeleteOptions,
    ) -> Step<Result<(), Status>> {
        let caller = granted!(self.write_access(access("deletecollection", &of, "")).await);
        let by = caller.as_plugin();
        let cluster = &caller.cluster;
        let deleted = cluster.delete_collection(by, &of, &namespace, &labels, &fields, options);
        Ok(caller.in_time(deleted).await.map_err(refusal))
    }

    async fn create_subresource(
        &mut self,
        of: GroupVersionResource,
        namespace: String,
        name: String,
        subresource: String,
        object: Object,
    ) -> Step<Result<Object, Status>> {
        let mut asked = access("create", &of, &name);
        asked.subresource = &subresource;
        let caller = granted!(self.write_access(asked).await);
        let by = caller.as_plugin();
        let cluster = &caller.cluster;
        let object = Bytes::from(object);
        let written = cluster.create_subresource(by, &of, &namespace, &name, &subresource, object);
        Ok(outward(caller.in_time(written).await))
    }

    async fn write_all(&mut self, writes: Vec<Write>) -> Step<Vec<Result<Object, Status>>> {
        let mut pending = Vec::with_capacity(writes.len());
        for write in writes {
            let granted = self.write_access(write_access(&write)).await?;
            pending.push(async move {
                match granted {
                    Ok(caller) => caller.in_time(carry_out(&caller, write)).await,
                    Err(status) => Err(status),
                }
            });
        }
        let answers = stream::iter(pending).buffered(SIDE_BY_SIDE);
        Ok(answers.map(outward).collect().await)
    }

    /// Events need no capability: the host writes them, aggregated, in the plugin's name.
    async fn record_event(
        &mut self,
        regarding: EventSubject,
        event_type: String,
        reason: String,
        action: String,
        note: String,
    ) -> Step<()> {
        let caller = self.free()?.clone();
        let by = caller.as_plugin();
        let cluster = &caller.cluster;
        cluster
            .record_event(by, regarding, &event_type, &reason, &action, &note)
            .await;
        Ok(())
    }
}
