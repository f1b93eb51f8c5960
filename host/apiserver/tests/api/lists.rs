//! Lists: revisions, pages, selectors, views.

use serde_json::{Value, json};

use crate::harness::{Answer, Api, MAPS, config_map};

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
const PARTIAL: &str = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
const PARTIAL_LIST: &str = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";

async fn get_as(api: &Api, path: &str, accept: &str) -> Answer {
    api.send("GET", path, &[("accept", accept)], "").await
}

fn names(list: &Value) -> Vec<&str> {
    let items = list["items"].as_array().unwrap();
    items
        .iter()
        .map(|item| item["metadata"]["name"].as_str().unwrap())
        .collect()
}

async fn with_maps(count: usize) -> Api {
    let api = Api::start().await;
    for index in 0..count {
        let mut map = config_map(&format!("m{index}"), "1");
        map["metadata"]["labels"] =
            json!({ "parity": if index % 2 == 0 { "even" } else { "odd" } });
        api.post(MAPS, map).await.expect(201);
    }
    api
}

#[tokio::test]
async fn a_list_has_a_revision_and_items_without_their_kind() {
    let api = with_maps(2).await;
    let list = api.get(MAPS).await.expect(200);
    assert_eq!(
        (&list["kind"], &list["apiVersion"]),
        (&json!("ConfigMapList"), &json!("v1"))
    );
    assert!(
        list["metadata"]["resourceVersion"]
            .as_str()
            .unwrap()
            .parse::<u64>()
            .unwrap()
            > 0
    );
    assert_eq!(names(&list), ["m0", "m1"]);
    assert!(list["items"][0]["kind"].is_null() && list["items"][0]["apiVersion"].is_null());
    assert_eq!(list["items"][0]["data"]["key"], "1");
    let empty = api.get("/api/v1/namespaces/kube-public/configmaps").await;
    assert!(empty.text().contains("\"items\":[]"), "{}", empty.text());
    assert!(empty.json()["metadata"]["resourceVersion"].is_string());
}

#[tokio::test]
async fn pages_show_one_revision_whatever_happens_in_between() {
    let api = with_maps(5).await;
    let first = api.get(&format!("{MAPS}?limit=2")).await.expect(200);
    assert_eq!(names(&first), ["m0", "m1"]);
    assert_eq!(first["metadata"]["remainingItemCount"], 3);
    api.delete(&format!("{MAPS}/m2")).await.expect(200);
    api.post(MAPS, config_map("m9", "1")).await.expect(201);
    let token = first["metadata"]["continue"].as_str().unwrap();
    let second = api
        .get(&format!("{MAPS}?limit=2&continue={token}"))
        .await
        .expect(200);
    assert_eq!(names(&second), ["m2", "m3"]);
    assert_eq!(
        second["metadata"]["resourceVersion"],
        first["metadata"]["resourceVersion"]
    );
    let token = second["metadata"]["continue"].as_str().unwrap();
    let third = api
        .get(&format!("{MAPS}?limit=2&continue={token}"))
        .await
        .expect(200);
    assert_eq!(names(&third), ["m4"]);
    assert!(
        third["metadata"]["continue"].is_null()
            && third["metadata"]["remainingItemCount"].is_null()
    );
    assert_eq!(
        third["metadata"]["resourceVersion"],
        first["metadata"]["resourceVersion"]
    );
    let wrong = api
        .get(&format!(
            "{MAPS}?limit=2&continue={token}&resourceVersion=7"
        ))
        .await;
    wrong.refused(400, "BadRequest", "not allowed when using continue");
}

#[tokio::test]
async fn the_past_can_be_read_and_the_future_not() {
    let api = with_maps(2).await;
    let then = api.get(MAPS).await.expect(200);
    let revision = then["metadata"]["resourceVersion"]
        .as_str()
        .unwrap()
        .to_owned();
    api.delete(&format!("{MAPS}/m0")).await.expect(200);
    let exact = api
        .get(&format!(
            "{MAPS}?resourceVersion={revision}&resourceVersionMatch=Exact"
        ))
        .await
        .expect(200);
    assert_eq!(exact, then);
    let limited = api
        .get(&format!("{MAPS}?resourceVersion={revision}&limit=1"))
        .await
        .expect(200);
    assert_eq!(
        (names(&limited), &limited["metadata"]["resourceVersion"]),
        (vec!["m0"], &json!(revision))
    );
    for query in [
        format!("resourceVersion={revision}"),
        "resourceVersion=0".to_owned(),
        format!("resourceVersion={revision}&resourceVersionMatch=NotOlderThan"),
    ] {
        let newer = api.get(&format!("{MAPS}?{query}")).await.expect(200);
        assert!(
            newer["metadata"]["resourceVersion"]
                .as_str()
                .unwrap()
                .parse::<u64>()
                .unwrap()
                >= revision.parse::<u64>().unwrap()
        );
    }
    // any state will do, and all of it: a limit does not count
    api.post(MAPS, config_map("m7", "1")).await.expect(201);
    let latest = api.get(MAPS).await.expect(200);
    let any = api.get(&format!("{MAPS}?resourceVersion=0&limit=1")).await;
    assert_eq!(names(&any.expect(200)), names(&latest));
}

#[tokio::test]
async fn every_combination_of_options_has_its_answer() {
    let api = with_maps(3).await;
    let old = api.get(MAPS).await.expect(200);
    let old = old["metadata"]["resourceVersion"]
        .as_str()
        .unwrap()
        .to_owned();
    api.delete(&format!("{MAPS}/m0")).await.expect(200);
    let first = api.get(&format!("{MAPS}?limit=1")).await.expect(200);
    let token = first["metadata"]["continue"].as_str().unwrap().to_owned();
    let (now, before, invalid) = (vec!["m1", "m2"], vec!["m0", "m1", "m2"], Vec::new());
    let at = format!("resourceVersion={old}");
    let (exact, not_older) = (
        "resourceVersionMatch=Exact",
        "resourceVersionMatch=NotOlderThan",
    );
    // options, code, names
    let cases = [
        (String::new(), 200, &now[..]),
        ("limit=-1".to_owned(), 200, &now),
        ("limit=0".to_owned(), 200, &now),
        ("limit=1".to_owned(), 200, &now[..1]),
        ("resourceVersion=0".to_owned(), 200, &now),
        ("resourceVersion=0&limit=1".to_owned(), 200, &now),
        (format!("resourceVersion=0&limit=1&{not_older}"), 200, &now),
        (format!("resourceVersion=0&{exact}"), 422, &invalid),
        (at.clone(), 200, &now),
        (format!("{at}&limit=1"), 200, &before[..1]),
        (format!("{at}&{exact}"), 200, &before),
        (format!("{at}&{exact}&limit=2"), 200, &before[..2]),
        (format!("{at}&{not_older}"), 200, &now),
        (format!("{at}&{not_older}&limit=1"), 200, &now[..1]),
        (exact.to_owned(), 422, &invalid),
        (not_older.to_owned(), 422, &invalid),
        (format!("{at}&resourceVersionMatch=Never"), 422, &invalid),
        (format!("continue={token}"), 200, &now[1..]),
        (format!("continue={token}&limit=1"), 200, &now[1..]),
        (
            format!("continue={token}&resourceVersion=0"),
            200,
            &now[1..],
        ),
        (format!("continue={token}&{at}"), 400, &invalid),
        (format!("continue={token}&{at}&{exact}"), 422, &invalid),
        ("continue=nonsense".to_owned(), 400, &invalid),
        ("sendInitialEvents=true".to_owned(), 422, &invalid),
        (
            format!("sendInitialEvents=false&{at}&{not_older}"),
            422,
            &invalid,
        ),
    ];
    for (options, code, expected) in cases {
        let answer = api.get(&format!("{MAPS}?{options}")).await;
        let list = answer.expect(code);
        if code == 200 {
            assert_eq!(names(&list), *expected, "{options}");
            let more = options.contains("limit=1")
                && !options.contains("resourceVersion=0")
                && !options.contains("continue");
            let more = more || options.ends_with("limit=2");
            assert_eq!(list["metadata"]["continue"].is_string(), more, "{options}");
            assert_eq!(
                list["metadata"]["remainingItemCount"].is_number(),
                more,
                "{options}"
            );
        }
    }
}

#[tokio::test]
async fn the_token_of_a_forgotten_list_is_exchanged_for_one_that_goes_on() {
    let api = with_maps(3).await;
    let first = api.get(&format!("{MAPS}?limit=1")).await.expect(200);
    let token = first["metadata"]["continue"].as_str().unwrap();
    api.delete(&format!("{MAPS}/m1")).await.expect(200);
    api.forget_history().await;
    let refusal = api.get(&format!("{MAPS}?limit=1&continue={token}")).await;
    let refusal = refusal.refused(410, "Expired", "too old to display a consistent list");
    let next = refusal["metadata"]["continue"].as_str().unwrap();
    let rest = api
        .get(&format!("{MAPS}?limit=1&continue={next}"))
        .await
        .expect(200);
    assert_eq!(names(&rest), ["m2"]);
    let old = first["metadata"]["resourceVersion"].as_str().unwrap();
    let exact = format!("{MAPS}?resourceVersion={old}&resourceVersionMatch=Exact");
    api.get(&exact).await.refused(410, "Expired", "too old");
}

#[tokio::test]
async fn a_revision_that_does_not_come_is_a_timeout() {
    let api = with_maps(1).await;
    let answer = api.get(&format!("{MAPS}/m0?resourceVersion=999999")).await;
    let status = answer.refused(504, "Timeout", "Too large resource version: 999999");
    assert_eq!(
        status["details"]["causes"][0]["reason"],
        "ResourceVersionTooLarge"
    );
    assert_eq!(status["details"]["retryAfterSeconds"], 1);
}

#[tokio::test]
async fn selectors_select() {
    let api = with_maps(4).await;
    let cases = [
        ("labelSelector=parity%3Deven", vec!["m0", "m2"]),
        ("labelSelector=parity%20in%20(odd)", vec!["m1", "m3"]),
        ("labelSelector=!parity", vec![]),
        ("fieldSelector=metadata.name%3Dm1", vec!["m1"]),
        ("fieldSelector=metadata.name!%3Dm1", vec!["m0", "m2", "m3"]),
        (
            "fieldSelector=metadata.namespace%3Ddefault&labelSelector=parity%3Dodd&limit=1",
            vec!["m1"],
        ),
    ];
    for (query, expected) in cases {
        let list = api.get(&format!("{MAPS}?{query}")).await.expect(200);
        assert_eq!(names(&list), expected, "{query}");
        assert!(list["metadata"]["remainingItemCount"].is_null());
    }
    // a name and a namespace, or a name of what has no namespace, are one key
    let cases = [
        (
            "/api/v1/namespaces?fieldSelector=metadata.name%3Ddefault",
            1,
        ),
        ("/api/v1/namespaces?fieldSelector=metadata.name%3Dnone", 0),
        ("/api/v1/namespaces?fieldSelector=metadata.name%3D", 0),
        ("/api/v1/configmaps?fieldSelector=metadata.name%3Dm1", 1),
        (
            "/api/v1/namespaces/kube-public/configmaps?fieldSelector=metadata.name%3Dm1",
            0,
        ),
        (
            "/api/v1/namespaces/default/configmaps?fieldSelector=metadata.name%3Dm1,metadata.name%3Dm2",
            0,
        ),
        (
            "/api/v1/namespaces/default/configmaps?fieldSelector=metadata.name%3Dm1&labelSelector=parity%3Deven",
            0,
        ),
    ];
    for (path, count) in cases {
        let list = api.get(path).await.expect(200);
        assert_eq!(list["items"].as_array().unwrap().len(), count, "{path}");
    }
    let everywhere = api
        .get("/api/v1/configmaps?labelSelector=parity")
        .await
        .expect(200);
    assert_eq!(everywhere["items"].as_array().unwrap().len(), 4);
}

#[tokio::test]
async fn tables_have_columns_and_rows() {
    let api = with_maps(2).await;
    let table = get_as(&api, MAPS, TABLE).await.expect(200);
    assert_eq!(
        (&table["kind"], &table["apiVersion"]),
        (&json!("Table"), &json!("meta.k8s.io/v1"))
    );
    let columns: Vec<&str> = table["columnDefinitions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|c| c["name"].as_str().unwrap())
        .collect();
    assert_eq!(columns, ["Name", "Data", "Age"]);
    assert_eq!(
        (&table["rows"][0]["cells"][0], &table["rows"][0]["cells"][1]),
        (&json!("m0"), &json!(1))
    );
    let object = &table["rows"][0]["object"];
    assert_eq!(
        (&object["kind"], &object["metadata"]["name"]),
        (&json!("PartialObjectMetadata"), &json!("m0"))
    );
    assert!(object["data"].is_null());
    let whole = get_as(&api, &format!("{MAPS}?includeObject=Object"), TABLE)
        .await
        .expect(200);
    assert_eq!(whole["rows"][0]["object"]["data"]["key"], "1");
    let none = get_as(&api, &format!("{MAPS}?includeObject=None"), TABLE)
        .await
        .expect(200);
    assert!(none["rows"][0]["object"].is_null());
    let one = get_as(&api, &format!("{MAPS}/m1"), TABLE).await.expect(200);
    assert_eq!(one["rows"].as_array().unwrap().len(), 1);
    // a refusal is never a table
    let missing = get_as(&api, &format!("{MAPS}/none"), TABLE).await;
    missing.refused(404, "NotFound", "");
}

#[tokio::test]
async fn metadata_alone_can_be_asked_for() {
    let api = with_maps(1).await;
    let list = get_as(&api, MAPS, PARTIAL_LIST).await.expect(200);
    assert_eq!(list["kind"], "PartialObjectMetadataList");
    assert_eq!(
        (
            &list["items"][0]["kind"],
            &list["items"][0]["metadata"]["name"]
        ),
        (&json!("PartialObjectMetadata"), &json!("m0"))
    );
    let one = get_as(&api, &format!("{MAPS}/m0"), PARTIAL)
        .await
        .expect(200);
    assert!(one["data"].is_null() && one["metadata"]["uid"].is_string());
    get_as(&api, MAPS, PARTIAL)
        .await
        .refused(406, "NotAcceptable", "is a list");
    get_as(&api, &format!("{MAPS}/m0"), PARTIAL_LIST)
        .await
        .refused(406, "NotAcceptable", "not a list");
}
