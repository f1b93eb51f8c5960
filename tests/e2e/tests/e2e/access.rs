//! Who may come in: certificates and tokens, 401 and 403.

use anyhow::{Result, ensure};
use pilothouse_e2e::{Cluster, ClusterOptions};

#[test]
fn tokens_and_strangers() -> Result<()> {
    let directory = tempfile::TempDir::new()?;
    let tokens = directory.path().join("tokens.csv");
    std::fs::write(
        &tokens,
        "letmein,root,1,\"system:masters\"\nvisit,guest,2,\"visitors\"\n",
    )?;
    let cluster = Cluster::start_with(ClusterOptions {
        nodes: 1,
        flags: vec!["--token-auth-file".to_owned(), tokens.display().to_string()],
        ..ClusterOptions::default()
    })?;
    let server =
        cluster.kubectl("config view --minify -o jsonpath={.clusters[0].cluster.server}")?;
    let as_token = |token: &str, line: &str| {
        let mut words = vec![
            "--kubeconfig=/dev/null",
            "--insecure-skip-tls-verify",
            "--server",
            &server,
            "--token",
            token,
        ];
        words.extend(line.split_whitespace());
        cluster.client("kubectl", &words, "", &[])
    };
    ensure!(
        as_token("letmein", "get nodes -o name")?
            .ok()?
            .contains("node/node-0")
    );
    let guest = as_token("visit", "get pods -n default")?.refused()?;
    let text = r#"pods is forbidden: User "guest" cannot list resource "pods" in API group "" in the namespace "default""#;
    ensure!(guest.contains(text), "{guest}");
    let guest = as_token("visit", "delete node node-0")?.refused()?;
    ensure!(guest.contains(r#"nodes "node-0" is forbidden: User "guest" cannot delete resource "nodes" in API group "" at the cluster scope"#), "{guest}");
    let stranger = as_token("wrong", "get pods")?.refused()?;
    ensure!(
        stranger.contains("Unauthorized") || stranger.contains("must be logged in"),
        "{stranger}"
    );
    ensure!(
        cluster.kubectl("get nodes -o name")?.contains("node-0"),
        "the refused deletion happened"
    );
    Ok(())
}

#[test]
fn keys_are_readable_by_their_owner_only() -> Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let cluster = Cluster::start()?;
    let mut keys = 0;
    for entry in std::fs::read_dir(cluster.data_dir().join("pki"))? {
        let entry = entry?;
        if entry.path().extension().is_some_and(|e| e == "key") {
            keys += 1;
            assert_eq!(
                entry.metadata()?.permissions().mode() & 0o077,
                0,
                "{}",
                entry.path().display()
            );
        }
    }
    ensure!(keys > 0, "no keys found");
    assert_eq!(
        std::fs::metadata(cluster.kubeconfig())?
            .permissions()
            .mode()
            & 0o077,
        0
    );
    Ok(())
}

#[test]
fn the_data_directory_is_its_owners_alone() -> Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let cluster = Cluster::start()?;
    let mode = std::fs::metadata(cluster.data_dir())?.permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
    Ok(())
}

#[test]
fn tokens_of_service_accounts() -> Result<()> {
    let cluster = Cluster::start()?;
    let server =
        cluster.kubectl("config view --minify -o jsonpath={.clusters[0].cluster.server}")?;
    let as_token = |token: &str, line: &str| {
        let mut words = vec![
            "--kubeconfig=/dev/null",
            "--insecure-skip-tls-verify",
            "--server",
            &server,
            "--token",
            token,
        ];
        words.extend(line.split_whitespace());
        cluster.client("kubectl", &words, "", &[])
    };
    cluster.kubectl("create serviceaccount robot")?;
    let token = cluster.kubectl(
        "create token robot --duration=20m --audience=https://kubernetes.default.svc.cluster.local",
    )?;
    let who = as_token(
        token.trim(),
        "auth whoami -o jsonpath={.status.userInfo.username}",
    )?
    .ok()?;
    ensure!(who == "system:serviceaccount:default:robot", "{who}");
    let refused = as_token(token.trim(), "get pods")?.refused()?;
    ensure!(
        refused
            .contains(r#"User "system:serviceaccount:default:robot" cannot list resource "pods""#),
        "{refused}"
    );
    let other = cluster.kubectl("create token robot --audience=vault")?;
    let refused = as_token(other.trim(), "get pods")?.refused()?;
    ensure!(
        refused.contains("Unauthorized") || refused.contains("must be logged in"),
        "{refused}"
    );
    let keys = as_token(token.trim(), "get --raw /openid/v1/jwks")?.ok()?;
    ensure!(keys.contains(r#""use":"sig""#), "{keys}");
    // a token that is bound goes with what it is bound to
    cluster.kubectl("create secret generic leash")?;
    let bound = cluster
        .kubectl("create token robot --bound-object-kind=Secret --bound-object-name=leash")?;
    as_token(bound.trim(), "auth whoami")?.ok()?;
    cluster.kubectl("delete secret leash")?;
    cluster.kubectl("get secrets")?;
    as_token(bound.trim(), "auth whoami")?.refused()?;
    cluster.kubectl("delete serviceaccount robot")?;
    cluster.kubectl("get serviceaccounts")?;
    as_token(token.trim(), "auth whoami")?.refused()?;
    Ok(())
}
