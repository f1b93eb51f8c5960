//! Work that one process of several does at a time, by a Lease.
//! Source: <https://kubernetes.io/docs/reference/command-line-tools-reference/kube-controller-manager/>, `--leader-elect…`

use std::{
    fs,
    io::{self, Read, Seek, Write},
    path::Path,
    sync::OnceLock,
    time::Duration,
};

use anyhow::{Result, ensure};
use pilothouse_client::Client;
use pilothouse_controller::{Leader, LeaderConfig};
use rustix::fs::FlockOperation;
use tokio_util::sync::CancellationToken;

use crate::{flags::LeaderFlags, roles::control};

/// What a deposed leader's work may take to end; the rest of its lease's time is longer.
const HANDOVER: Duration = Duration::from_secs(3);
/// client-go's: candidates wait up to so much longer than the retry period.
const JITTER: f64 = 1.2;

/// The Lease that the flags say, for this process.
pub(crate) fn config(flags: &LeaderFlags, name: &str, data_dir: &Path) -> Result<LeaderConfig> {
    let LeaderFlags {
        leader_elect_lease_duration: lease_duration,
        leader_elect_renew_deadline: renew_deadline,
        leader_elect_retry_period: retry_period,
        ..
    } = *flags;
    ensure!(
        lease_duration > renew_deadline,
        "--leader-elect-lease-duration must be greater than --leader-elect-renew-deadline"
    );
    ensure!(
        renew_deadline > retry_period.mul_f64(JITTER),
        "--leader-elect-renew-deadline must be greater than {JITTER} times --leader-elect-retry-period"
    );
    ensure!(
        lease_duration.as_secs() > 0 && !retry_period.is_zero(),
        "--leader-elect-lease-duration must be a second at least, --leader-elect-retry-period more than nothing"
    );
    let namespace = &flags.leader_elect_resource_namespace;
    Ok(LeaderConfig {
        lease_duration,
        renew_deadline,
        retry_period,
        ..LeaderConfig::new(namespace, name, &identity(data_dir))
    })
}

/// How Leases name this process: its host's name and a uuid. The uuid is kept in the data directory, so that a process that was
/// killed and starts again need not wait until its own Lease has run out; a second process on the directory has another one.
pub(crate) fn identity(data_dir: &Path) -> String {
    static UUID: OnceLock<String> = OnceLock::new();
    let uuid = UUID.get_or_init(|| {
        kept_uuid(data_dir).unwrap_or_else(|error| {
            tracing::debug!(%error, "this process gets a new identity");
            uuid::Uuid::new_v4().to_string()
        })
    });
    format!("{}_{uuid}", control::instance())
}

/// Fails if another process has it. It is this one's until it ends.
fn kept_uuid(data_dir: &Path) -> io::Result<String> {
    fs::create_dir_all(data_dir)?;
    let mut options = fs::OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    let mut file = options.open(data_dir.join("identity"))?;
    rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive)?;
    let mut text = String::new();
    file.read_to_string(&mut text)?;
    if text.parse::<uuid::Uuid>().is_err() {
        text = uuid::Uuid::new_v4().to_string();
        file.set_len(0)?;
        file.rewind()?;
        file.write_all(text.as_bytes())?;
    }
    std::mem::forget(file); // keeps the lock
    Ok(text)
}

/// Does the work whenever this process leads, until `stop`. The work ends when its token says so.
pub(crate) async fn while_leading<F>(
    client: Client,
    config: LeaderConfig,
    stop: CancellationToken,
    work: impl Fn(CancellationToken) -> F,
) where
    F: Future<Output = ()> + Send + 'static,
{
    loop {
        let mut leader = Leader::new(client.clone(), config.clone(), control::clock());
        tokio::select! {
            () = leader.acquire() => {}
            () = stop.cancelled() => return,
        }
        let term = stop.child_token();
        let mut working = tokio::spawn(work(term.clone()));
        let deposed = tokio::select! {
            () = leader.hold() => true,
            () = stop.cancelled() => false,
        };
        term.cancel();
        if !deposed {
            let _ended = working.await;
            return leader.release().await;
        }
        tracing::warn!(lease = %config.name, "another process leads now");
        if tokio::time::timeout(HANDOVER, &mut working).await.is_err() {
            working.abort();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flags(lease: u64, renew: u64, retry: u64) -> LeaderFlags {
        LeaderFlags {
            leader_elect: true,
            leader_elect_lease_duration: Duration::from_secs(lease),
            leader_elect_renew_deadline: Duration::from_secs(renew),
            leader_elect_retry_period: Duration::from_secs(retry),
            leader_elect_resource_namespace: "kube-system".to_owned(),
        }
    }

    #[test]
    fn a_process_that_starts_again_is_who_it_was() {
        let dir = tempfile::tempdir().unwrap();
        let first = kept_uuid(dir.path()).unwrap();
        assert!(kept_uuid(dir.path()).is_err(), "it is taken");
        let elsewhere = tempfile::tempdir().unwrap();
        assert_ne!(kept_uuid(elsewhere.path()).unwrap(), first);
        let text = fs::read_to_string(dir.path().join("identity")).unwrap();
        assert_eq!(text, first, "for the next process");
    }

    #[test]
    fn timings_that_cannot_work_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        // lease duration, renew deadline and retry period in seconds, whether they fit together
        for (lease, renew, retry, fit) in [
            (15, 10, 2, true),
            (10, 10, 2, false),
            (15, 2, 2, false),
            (15, 10, 0, false),
        ] {
            let config = config(&flags(lease, renew, retry), "kube-scheduler", dir.path());
            assert_eq!(config.is_ok(), fit, "{lease} {renew} {retry}");
        }
    }
}
