//! The snapshot of a running server.

use pilothouse_client::UserInfo;
use pilothouse_storage::snapshot;

use crate::harness::{Api, MAPS, config_map};

const PATH: &str = "/pilothouse/v1/snapshot";

#[tokio::test]
async fn administrators_get_a_whole_file() {
    let api = Api::start().await;
    api.post(MAPS, config_map("a", "1")).await.expect(201);
    let answer = api.get(PATH).await;
    assert_eq!(answer.code, 200);
    assert_eq!(answer.header("content-type"), "application/octet-stream");
    let file = api.dir.path().join("file.snap");
    std::fs::write(&file, &answer.body).unwrap();
    let status = snapshot::status(&file).unwrap();
    assert!(status.keys > 1);
    api.post(PATH, serde_json::json!({}))
        .await
        .refused(405, "MethodNotAllowed", "");
}

#[tokio::test]
async fn nobody_else_gets_it() {
    let api = Api::start().await;
    for user in [
        UserInfo::new("jane", &[]),
        UserInfo::new("system:kube-scheduler", &[]),
        UserInfo::plugin("x"),
        UserInfo::default(),
    ] {
        let answer = api.send_as(&user, "GET", PATH, &[], "").await;
        answer.refused(403, "Forbidden", "");
    }
}
