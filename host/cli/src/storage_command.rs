//! `pilothouse storage migrate`: from one engine to another.

use std::path::Path;

use anyhow::{Result, bail};
use pilothouse_storage::migrate;

use crate::{
    engines::{self, EtcdUse, embedded_dir},
    flags::StorageCommand,
};

pub(crate) async fn run(command: StorageCommand) -> Result<()> {
    let StorageCommand::Migrate(flags) = command;
    let migrated = match (Place::parse(&flags.from), Place::parse(&flags.to)) {
        (Place::Etcd(from), Place::Directory(to)) => {
            let source = engines::etcd(&from, &flags.etcd, EtcdUse::Copy).await?;
            std::fs::create_dir_all(to)?;
            migrate::to_directory(&*source, &flags.etcd.etcd_prefix, &embedded_dir(to)).await?
        }
        (Place::Directory(from), Place::Etcd(to)) => {
            if !embedded_dir(from).is_dir() {
                bail!("there is no storage in {}", from.display());
            }
            let source = engines::embedded(from, false).await?;
            let target = engines::etcd(&to, &flags.etcd, EtcdUse::Copy).await?;
            migrate::to_storage(&*source, target, &flags.etcd.etcd_prefix).await?
        }
        (Place::Directory(_), Place::Directory(_)) => {
            bail!("both are data directories: use `pilothouse snapshot save` and `restore`")
        }
        (Place::Etcd(_), Place::Etcd(_)) => {
            bail!("both are etcd: use its own tools, such as `etcdctl make-mirror`")
        }
    };
    println!(
        "copied {} keys of revision {} from {} to {}, which goes on at revision {}",
        migrated.keys, migrated.from, flags.from, flags.to, migrated.to
    );
    if migrated.source_changed {
        bail!(
            "something was written to {} meanwhile, which is not in {}: stop every API server that uses it, empty the target and \
             migrate again",
            flags.from,
            flags.to
        );
    }
    Ok(())
}

enum Place<'a> {
    Directory(&'a Path),
    Etcd(Vec<String>),
}

impl<'a> Place<'a> {
    fn parse(text: &'a str) -> Self {
        match text.contains("://") {
            true => Self::Etcd(text.split(',').map(|url| url.trim().to_owned()).collect()),
            false => Self::Directory(Path::new(text)),
        }
    }
}
