//! A start with `--storage-read-only`: everything can be read, nothing is written, and who tries learns what to do.

use std::{collections::BTreeMap, fs, path::Path};

use anyhow::{Context, Result, ensure};
use pilothouse_e2e::{Cluster, ClusterOptions};
use serde_json::Value;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const MAP: &str = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"new"}}"#;

/// The files of the engine with what is in them.
fn files(folder: &Path) -> Result<BTreeMap<std::path::PathBuf, Vec<u8>>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        match path.is_dir() {
            true => found.extend(files(&path)?),
            false => _ = found.insert(path.clone(), fs::read(&path)?),
        }
    }
    Ok(found)
}

fn names(list: &str) -> Result<Vec<String>> {
    let list: Value = serde_json::from_str(list)?;
    let items = list["items"].as_array().context("items")?;
    let name = |item: &Value| item["metadata"]["name"].as_str().map(str::to_owned);
    Ok(items.iter().filter_map(name).collect())
}

#[test]
fn reads_go_on_and_writes_say_what_to_do() -> Result<()> {
    let mut cluster = Cluster::start_with(ClusterOptions {
        role: "apiserver",
        ..ClusterOptions::default()
    })?;
    for n in 1..=4 {
        cluster.kubectl(&format!("create configmap m{n} --from-literal=n={n}"))?;
    }
    cluster.process.kill()?;
    let storage = cluster.data_dir().join("storage");
    let before = files(&storage)?;
    cluster.restart_with(vec!["--storage-read-only".to_owned()])?;

    // get, list, pages, watch
    assert_eq!(
        cluster.kubectl("get configmap m2 -o jsonpath={.data.n}")?,
        "2"
    );
    let all = names(&cluster.kubectl(&format!("get --raw {MAPS}"))?)?;
    for name in ["m1", "m2", "m3", "m4"] {
        ensure!(
            all.iter().any(|found| found == name),
            "{name} is not in {all:?}"
        );
    }
    let page = cluster.kubectl(&format!("get --raw {MAPS}?limit=1"))?;
    let token: Value = serde_json::from_str(&page)?;
    let token = token["metadata"]["continue"].as_str().context("a token")?;
    let rest = names(&cluster.kubectl(&format!("get --raw {MAPS}?continue={token}"))?)?;
    assert_eq!([names(&page)?, rest].concat(), all);
    let seen = cluster.kubectl(&format!("get --raw {MAPS}?watch=1&timeoutSeconds=1"))?;
    ensure!(seen.contains(r#""name":"m4""#), "the watch saw {seen:?}");

    // at this verbosity kubectl shows what it is answered
    let create = format!("create --raw {MAPS} -f - -v=8");
    let patch = r#"patch configmap m1 --type=merge -p {"data":{"n":"9"}} -v=8"#;
    for (line, input) in [
        (create.as_str(), MAP),
        (patch, ""),
        ("delete configmap m1 -v=8", ""),
        ("delete configmaps --all -v=8", ""),
    ] {
        let said = cluster.kubectl_with_input(line, input)?.refused()?;
        for part in ["503", "--storage-read-only", "start it again without"] {
            ensure!(said.contains(part), "{line}: {said}");
        }
        for part in ["retry-after", "retryafterseconds"] {
            ensure!(!said.to_lowercase().contains(part), "{line}: {said}");
        }
    }
    assert_eq!(names(&cluster.kubectl(&format!("get --raw {MAPS}"))?)?, all);
    cluster.process.kill()?;
    ensure!(
        files(&storage)? == before,
        "something was changed on the disk"
    );

    // and without the flag everything is as it was
    cluster.restart_with(Vec::new())?;
    assert_eq!(
        cluster.kubectl("get configmap m1 -o jsonpath={.data.n}")?,
        "1"
    );
    cluster.kubectl("create configmap m5 --from-literal=n=5")?;
    Ok(())
}
