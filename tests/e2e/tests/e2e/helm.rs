//! helm installs, upgrades, rolls back and uninstalls a chart.

use anyhow::{Result, ensure};
use pilothouse_e2e::{Cluster, root};

#[test]
fn a_chart_through_its_life() -> Result<()> {
    let cluster = Cluster::start()?;
    let chart = root().join("tests/fixtures/chart").display().to_string();
    let installed = cluster.helm(&format!(
        "install shop {chart} --wait --timeout 60s --server-side=false"
    ))?;
    ensure!(installed.contains("STATUS: deployed"), "{installed}");
    let image = "get deployment shop -o jsonpath={.spec.template.spec.containers[0].image}/{.spec.replicas}";
    assert_eq!(cluster.kubectl(image)?, "nginx:1.27/2");
    cluster.helm(&format!("upgrade shop {chart} --set image=nginx:1.28 --set replicas=3 --wait --timeout 60s --server-side=false"))?;
    assert_eq!(cluster.kubectl(image)?, "nginx:1.28/3");
    cluster.helm("rollback shop 1 --wait --timeout 60s --server-side=false")?;
    assert_eq!(cluster.kubectl(image)?, "nginx:1.27/2");
    ensure!(cluster.helm("list")?.contains("shop"));
    cluster.helm("uninstall shop --wait --timeout 60s")?;
    assert_eq!(cluster.kubectl("get deployments -o name")?, "");
    Ok(())
}
