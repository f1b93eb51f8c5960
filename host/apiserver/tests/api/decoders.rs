//! Whatever is sent, a `Status` or an object comes back: random changes to what is right, by seed.

use pilothouse_api::protobuf;
use serde_json::{Value, json};

use crate::harness::{Api, MAPS, PODS, config_map, pod};

const ROUNDS: u64 = 250;

/// Cases differ by their seed, which a failure prints.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % bound.max(1) as u64) as usize
    }

    /// A text with a few characters added, doubled, exchanged or cut off.
    fn damaged(&mut self, text: &str) -> String {
        let odd = [
            "{", "}", "[", "]", "\"", "\\", ",", ":", "=", "!", "(", ")", "null", "-", "\n", "\t",
            "&a", "*a", "- ", "? ", "|", ">", "%", "'", "#", "0", "1e999", "\u{0}", "日", "~1",
            "/", "~", "$patch", "in", "notin", " ",
        ];
        let mut chars: Vec<char> = text.chars().collect();
        for _ in 0..1 + self.below(4) {
            let at = self.below(chars.len());
            match self.below(5) {
                0 => chars.truncate(at),
                1 if !chars.is_empty() => drop(chars.remove(at)),
                2 => {
                    let again: Vec<char> =
                        chars[at..(at + self.below(9)).min(chars.len())].to_vec();
                    chars.splice(at..at, again);
                }
                _ => drop(
                    chars
                        .splice(at..at, odd[self.below(odd.len())].chars())
                        .count(),
                ),
            }
        }
        chars.into_iter().collect()
    }

    fn damaged_bytes(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut bytes = bytes.to_vec();
        for _ in 0..1 + self.below(4) {
            let at = self.below(bytes.len());
            match self.below(4) {
                0 => bytes.truncate(at),
                1 => bytes.insert(at, self.below(256) as u8),
                _ if !bytes.is_empty() => bytes[at] = self.below(256) as u8,
                _ => {}
            }
        }
        bytes
    }
}

/// A success, or a refusal that says what it is; nothing that the server takes for its own fault.
#[track_caller]
fn is_answered(code: u16, body: &[u8], what: &str) {
    let body: Value = serde_json::from_slice(body)
        .unwrap_or_else(|error| panic!("{error}: {what}: {}", String::from_utf8_lossy(body)));
    match code {
        200 | 201 => {}
        400..=499 => assert_eq!(
            (&body["kind"], &body["status"], &body["code"]),
            (&json!("Status"), &json!("Failure"), &json!(code)),
            "{what}"
        ),
        _ => panic!("{code}: {what}: {body}"),
    }
}

fn percent(text: &str) -> String {
    form_urlencoded::byte_serialize(text.as_bytes()).collect()
}

#[tokio::test]
async fn bodies() {
    let api = Api::start().await;
    let yaml = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n  labels: {x: \"y\", z: '1'}\ndata:\n  key: |\n    value\n  other: >-\n    folded\n";
    let json_pod = pod("p").to_string();
    let map = config_map("a", "1").to_string();
    for seed in 0..ROUNDS {
        let mut random = Random(seed);
        for (path, media, text) in [
            (MAPS, "application/json", map.as_str()),
            (PODS, "application/json", &json_pod),
            (MAPS, "application/yaml", yaml),
        ] {
            let body = random.damaged(text);
            let answer = api
                .send(
                    "POST",
                    &format!("{path}?dryRun=All"),
                    &[("content-type", media)],
                    &body,
                )
                .await;
            is_answered(
                answer.code,
                &answer.body,
                &format!("seed {seed}: {media} {body}"),
            );
        }
    }
}

#[tokio::test]
async fn protobuf_bodies() {
    let api = Api::start().await;
    let whole = protobuf::from_json(pod("p").to_string().as_bytes()).unwrap();
    let headers = [("content-type", "application/vnd.kubernetes.protobuf")];
    for seed in 0..4 * ROUNDS {
        let body = Random(seed).damaged_bytes(&whole);
        let answer = api
            .send_bytes("POST", &format!("{PODS}?dryRun=All"), &headers, &body)
            .await;
        is_answered(answer.code, &answer.body, &format!("seed {seed}: {body:?}"));
    }
}

#[tokio::test]
async fn patches() {
    let api = Api::start().await;
    api.post(PODS, pod("p")).await.expect(201);
    let kinds = [
        (
            "json",
            r#"[{"op":"test","path":"/metadata/name","value":"p"},{"op":"add","path":"/metadata/labels","value":{"a":"b"}},{"op":"copy","from":"/spec/containers/0/image","path":"/metadata/labels/i~1j"},{"op":"move","from":"/metadata/labels/a","path":"/metadata/labels/c"}]"#,
        ),
        (
            "merge",
            r#"{"metadata":{"labels":{"a":null,"b":"1"}},"spec":{"containers":[{"name":"main","image":"nginx:2"}]}}"#,
        ),
        (
            "strategic-merge",
            r#"{"metadata":{"labels":{"$patch":"replace","a":"b"},"$deleteFromPrimitiveList/finalizers":["x"]},"spec":{"$setElementOrder/containers":[{"name":"main"}],"containers":[{"name":"main","image":"nginx:2"},{"$patch":"delete","name":"x"}]}}"#,
        ),
    ];
    for seed in 0..ROUNDS {
        let mut random = Random(seed);
        for (kind, text) in kinds {
            let body = random.damaged(text);
            let media = format!("application/{kind}-patch+json");
            let path = format!("{PODS}/p?dryRun=All");
            let answer = api
                .send("PATCH", &path, &[("content-type", &media)], &body)
                .await;
            is_answered(
                answer.code,
                &answer.body,
                &format!("seed {seed}: {kind} {body}"),
            );
        }
    }
}

#[tokio::test]
async fn selectors_and_tokens() {
    let api = Api::start().await;
    for name in ["a", "b"] {
        api.post(MAPS, config_map(name, "1")).await.expect(201);
    }
    let first = api.get(&format!("{MAPS}?limit=1")).await.expect(200);
    let token = first["metadata"]["continue"].as_str().unwrap();
    for seed in 0..ROUNDS {
        let mut random = Random(seed);
        for (option, text) in [
            (
                "labelSelector",
                "app in (x, y),tier notin (z),!gone,there,example.com/a=b,c!=d,n>5",
            ),
            (
                "fieldSelector",
                "metadata.name!=a,metadata.namespace=default,metadata.name==b\\,c",
            ),
            ("continue", token),
            ("limit", "12"),
            ("timeoutSeconds", "3"),
            ("timeout", "1m30s"),
            ("resourceVersionMatch", "NotOlderThan"),
        ] {
            let value = random.damaged(text);
            let answer = api
                .get(&format!("{MAPS}?{option}={}", percent(&value)))
                .await;
            let what = format!("seed {seed}: {option}={value:?}");
            if answer.code == 410 || answer.code == 504 {
                continue; // a token of another revision is a token
            }
            is_answered(answer.code, &answer.body, &what);
        }
    }
}

#[tokio::test]
async fn headers_and_paths() {
    let api = Api::start().await;
    for seed in 0..ROUNDS {
        let mut random = Random(seed);
        let accept = random.damaged(
            "application/json;as=Table;v=v1;g=meta.k8s.io,application/yaml;q=0.5,*/*;q=0.1",
        );
        let printable: String = accept
            .chars()
            .filter(|c| c.is_ascii_graphic() || *c == ' ')
            .collect();
        let answer = api
            .send("GET", "/api/v1/namespaces", &[("accept", &printable)], "")
            .await;
        assert!(
            [200, 406].contains(&answer.code),
            "seed {seed}: {printable}: {}",
            answer.code
        );
        let path = random.damaged("/api/v1/namespaces/default/configmaps/a");
        let path: String = path
            .chars()
            .filter(|c| c.is_ascii_alphanumeric() || "/.-%".contains(*c))
            .collect();
        let Ok(uri) = format!("/{}", path.trim_start_matches('/')).parse::<http::Uri>() else {
            continue;
        };
        let answer = api.get(&uri.to_string()).await;
        assert!(
            [200, 404, 405].contains(&answer.code),
            "seed {seed}: {uri}: {}",
            answer.code
        );
    }
}
