//! Objects of every API group whose behaviour is elsewhere, and the questions about users, through kubectl.

use anyhow::{Result, ensure};
use pilothouse_e2e::{Cluster, root};

/// Words of a printed line, however far apart they are.
fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

#[test]
fn manifests_of_all_groups_come_and_go() -> Result<()> {
    let cluster = Cluster::start()?;
    let manifests = root().join("tests/fixtures/kinds").display().to_string();
    let all = |words: &[&str]| cluster.kubectl_words(&[words, &["-f", &manifests]].concat());
    let expect = |printed: &str, ending: &str| {
        let other: Vec<&str> = printed.lines().filter(|l| !l.ends_with(ending)).collect();
        ensure!(other.is_empty(), "not {ending}: {other:?}");
        ensure!(
            printed.lines().count() == 31,
            "some are missing:\n{printed}"
        );
        Ok(())
    };
    expect(&all(&["apply"])?, " created")?;
    // kubectl says "configured" where the server fills in fields within lists that are replaced as a whole
    let versions = [
        "get",
        "-o",
        "jsonpath={range .items[*]}{.kind}/{.metadata.name} {.metadata.resourceVersion}{\"\\n\"}{end}",
    ];
    let before = all(&versions)?;
    all(&["apply"])?;
    assert_eq!(all(&versions)?, before, "a second apply changes nothing");
    let patch = r#"{"metadata":{"labels":{"seen":"yes"}}}"#;
    expect(&all(&["patch", "--type=merge", "-p", patch])?, " patched")?;

    for (command, header, row) in [
        (
            "get role settings",
            vec!["NAME", "CREATED", "AT"],
            vec!["settings"],
        ),
        (
            "get clusterrolebinding readers",
            vec!["NAME", "ROLE", "AGE"],
            vec!["readers", "ClusterRole/pod-reader"],
        ),
        (
            "get ing shop",
            vec!["NAME", "CLASS", "HOSTS", "ADDRESS", "PORTS", "AGE"],
            vec!["shop", "front", "shop.example.com", "80,", "443"],
        ),
        (
            "get netpol only-front",
            vec!["NAME", "POD-SELECTOR", "AGE"],
            vec!["only-front", "app=shop"],
        ),
        (
            "get ip 10.201.0.7",
            vec!["NAME", "PARENTREF"],
            vec!["10.201.0.7", "services/default/shop"],
        ),
        (
            "get sc quick",
            vec![
                "NAME",
                "PROVISIONER",
                "RECLAIMPOLICY",
                "VOLUMEBINDINGMODE",
                "ALLOWVOLUMEEXPANSION",
                "AGE",
            ],
            vec!["quick", "disks.example.com", "Delete", "Immediate", "true"],
        ),
        (
            "get runtimeclass sandboxed",
            vec!["NAME", "HANDLER", "AGE"],
            vec!["sandboxed", "gvisor"],
        ),
        (
            "get crd carts.shop.example.com",
            vec!["NAME", "CREATED", "AT"],
            vec!["carts.shop.example.com"],
        ),
        (
            "get flowschema batch",
            vec![
                "NAME",
                "PRIORITYLEVEL",
                "MATCHINGPRECEDENCE",
                "DISTINGUISHERMETHOD",
                "AGE",
                "MISSINGPL",
            ],
            vec!["batch", "batch", "500", "ByNamespace"],
        ),
        (
            "get validatingwebhookconfiguration checks",
            vec!["NAME", "WEBHOOKS", "AGE"],
            vec!["checks", "1"],
        ),
        (
            "get apiservice v1.apps",
            vec!["NAME", "SERVICE", "AVAILABLE", "AGE"],
            vec!["v1.apps", "Local", "True"],
        ),
    ] {
        let printed = cluster.kubectl(command)?;
        let lines: Vec<Vec<&str>> = printed.lines().map(words).collect();
        ensure!(lines.len() == 2, "{command}:\n{printed}");
        ensure!(lines[0].starts_with(&header), "{command}:\n{printed}");
        ensure!(lines[1].starts_with(&row), "{command}:\n{printed}");
    }

    cluster.kubectl("certificate approve alice")?;
    let requests = cluster.kubectl("get csr alice --no-headers")?;
    ensure!(
        words(&requests).ends_with(&["<none>", "Approved"]),
        "{requests}"
    );
    let described = cluster.kubectl("describe ingress shop")?;
    ensure!(described.contains("shop-tls terminates"), "{described}");

    let wrong = r#"{"roleRef":{"name":"another"}}"#;
    let patch = [
        "patch",
        "rolebinding",
        "settings",
        "--type=merge",
        "-p",
        wrong,
    ];
    let refused = cluster.client("kubectl", &patch, "", &[])?.refused()?;
    ensure!(refused.contains("cannot change roleRef"), "{refused}");

    ensure!(all(&["delete"])?.lines().count() == 31);
    let left = all(&["get", "--ignore-not-found", "-o", "name"])?;
    ensure!(left.is_empty(), "left behind:\n{left}");
    Ok(())
}

#[test]
fn users_ask_who_they_are_and_what_they_may() -> Result<()> {
    let cluster = Cluster::start()?;
    let printed = cluster.kubectl("auth whoami -o jsonpath={.status.userInfo}")?;
    ensure!(printed.contains("system:masters"), "{printed}");
    assert_eq!(cluster.kubectl("auth can-i create deployments")?, "yes\n");
    let listed = cluster.kubectl("auth can-i --list")?;
    ensure!(
        listed
            .lines()
            .any(|line| words(line) == ["*.*", "[]", "[]", "[*]"]),
        "{listed}"
    );
    Ok(())
}
