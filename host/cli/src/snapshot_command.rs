//! `pilothouse snapshot …`: backups.

use std::{path::Path, sync::Arc};

use anyhow::{Context, Result, bail};
use bytes::Bytes;
use futures::StreamExt;
use http_body_util::BodyExt;
use pilothouse_client::{HttpsTransport, Transport, UserInfo};
use pilothouse_storage::{
    Embedded, EmbeddedOptions, SnapshotStream, Storage, StorageError, embedded, snapshot,
};

use crate::{engines::embedded_dir, flags::SnapshotCommand};

/// Where an API server gives its snapshots.
const PATH: &str = "/pilothouse/v1/snapshot";

pub(crate) async fn run(command: SnapshotCommand) -> Result<()> {
    match command {
        SnapshotCommand::Save {
            common,
            kubeconfig,
            file,
        } => {
            let source = match kubeconfig {
                Some(kubeconfig) => Source::Server(ask(&kubeconfig).await?),
                None => of_directory(&common.data_dir).await?,
            };
            let status = match source {
                Source::Server(parts) => snapshot::write_file(parts, &file).await,
                Source::Directory(engine) => {
                    snapshot::write_file(engine.snapshot().await?, &file).await
                }
            };
            let status = status.with_context(|| format!("saving {}", file.display()))?;
            println!("saved {}\n{status}", file.display());
        }
        SnapshotCommand::Status { file, .. } => {
            let read = file.clone();
            let status = tokio::task::spawn_blocking(move || snapshot::status(&read)).await?;
            println!("{}", status.with_context(|| file.display().to_string())?);
        }
        SnapshotCommand::Restore {
            common,
            bump_revision,
            file,
        } => {
            let directory = embedded_dir(&common.data_dir);
            std::fs::create_dir_all(&common.data_dir)
                .with_context(|| format!("making {}", common.data_dir.display()))?;
            let (read, into) = (file.clone(), directory.clone());
            let restore = move || embedded::restore(&read, &into, bump_revision);
            let status = tokio::task::spawn_blocking(restore).await?;
            let status = status.with_context(|| format!("restoring {}", file.display()))?;
            println!(
                "restored {} into {}, which goes on at revision {}\n{status}",
                file.display(),
                directory.display(),
                status.revision.0 + bump_revision
            );
        }
    }
    Ok(())
}

enum Source {
    Server(SnapshotStream),
    Directory(Arc<Embedded>),
}

/// The data directory itself, or the server that is using it.
async fn of_directory(data_dir: &Path) -> Result<Source> {
    let (directory, kubeconfig) = (embedded_dir(data_dir), data_dir.join("admin.kubeconfig"));
    if !directory.is_dir() {
        // a server that keeps its data in etcd
        return match kubeconfig.is_file() {
            true => Ok(Source::Server(ask(&kubeconfig).await?)),
            false => bail!("there is no storage in {}", data_dir.display()),
        };
    }
    let open = move || Embedded::open(EmbeddedOptions::new(&directory));
    match tokio::task::spawn_blocking(open).await? {
        Ok(engine) => Ok(Source::Directory(Arc::new(engine))),
        Err(StorageError::Unavailable(why)) if kubeconfig.is_file() => {
            let parts = ask(&kubeconfig).await;
            Ok(Source::Server(parts.with_context(|| {
                format!("{why}; nor could it be asked")
            })?))
        }
        Err(error) => Err(error.into()),
    }
}

/// What the API server of a kubeconfig has stored.
async fn ask(kubeconfig: &Path) -> Result<SnapshotStream> {
    let transport = HttpsTransport::from_kubeconfig(kubeconfig)
        .await
        .with_context(|| format!("reading {}", kubeconfig.display()))?;
    let request = http::Request::get(PATH).body(Bytes::new())?;
    let response = transport.send(&UserInfo::default(), request).await;
    let (head, body) = response.map_err(anyhow::Error::msg)?.into_parts();
    if !head.status.is_success() {
        let said = body.collect().await?.to_bytes();
        bail!(
            "the API server refused: {}: {}",
            head.status,
            String::from_utf8_lossy(&said)
        );
    }
    let parts = body.into_data_stream().map(|part| {
        part.map_err(|error| {
            StorageError::Unavailable(format!("the API server broke off: {error}"))
        })
    });
    Ok(Box::pin(parts))
}
