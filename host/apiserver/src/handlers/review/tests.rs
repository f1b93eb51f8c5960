use super::*;

fn errors(errors: &ErrorList) -> Vec<String> {
    errors
        .iter()
        .map(|e| format!("{}: {}", e.path, e.message))
        .collect()
}

#[test]
fn questions_are_about_one_thing_and_somebody() {
    let resource = json!({"verb": "get", "resource": "pods"});
    let path = json!({"verb": "get", "path": "/"});
    for (asker, spec, expected) in [
        (
            Asker::Self_,
            json!({"resourceAttributes": resource}),
            vec![],
        ),
        (Asker::Self_, json!({"nonResourceAttributes": path}), vec![]),
        (
            Asker::Other,
            json!({"resourceAttributes": resource, "user": "x"}),
            vec![],
        ),
        (
            Asker::Other,
            json!({"resourceAttributes": resource, "groups": ["x"]}),
            vec![],
        ),
        (
            Asker::Self_,
            json!({}),
            vec![
                "spec.resourceAttributes: Invalid value: null: exactly one of nonResourceAttributes or resourceAttributes must be specified",
            ],
        ),
        (
            Asker::Self_,
            json!({"resourceAttributes": resource, "nonResourceAttributes": path}),
            vec![
                "spec.nonResourceAttributes: Invalid value: {\"path\":\"/\",\"verb\":\"get\"}: cannot be specified in combination with resourceAttributes",
            ],
        ),
        (
            Asker::Other,
            json!({"resourceAttributes": resource}),
            vec!["spec.user: Invalid value: \"\": at least one of user or group must be specified"],
        ),
        (
            Asker::Local,
            json!({"resourceAttributes": {"namespace": "b"}, "user": "x"}),
            vec![
                "spec.resourceAttributes.namespace: Invalid value: \"b\": must match metadata.namespace",
            ],
        ),
        (
            Asker::Local,
            json!({"nonResourceAttributes": path, "user": "x"}),
            vec![
                "spec.nonResourceAttributes: Invalid value: {\"path\":\"/\",\"verb\":\"get\"}: disallowed on this kind of request",
            ],
        ),
    ] {
        let question = json!({ "spec": spec });
        assert_eq!(errors(&access_errors(&question, asker, "a")), expected);
    }
}

#[test]
fn questions_have_no_metadata() {
    for (metadata, local, expected) in [
        (json!({}), false, vec![]),
        (json!(null), false, vec![]),
        (json!({"creationTimestamp": null}), false, vec![]),
        (
            json!({"name": "x"}),
            false,
            vec!["metadata: Invalid value: {\"name\":\"x\"}: must be empty"],
        ),
        (json!({"namespace": "a"}), true, vec![]),
        (
            json!({"labels": {}}),
            true,
            vec!["metadata: Invalid value: {\"labels\":{}}: must be empty except for namespace"],
        ),
    ] {
        let question = json!({ "metadata": metadata });
        assert_eq!(errors(&metadata_errors(&question, local)), expected);
    }
}

#[test]
fn paths_of_questions() {
    let find = |method: &str, path: &str| {
        let method = http::Method::from_bytes(method.as_bytes()).unwrap();
        let info = RequestInfo::parse(&method, path, &crate::query::Query::default());
        find(&info).map(|found| found.map(|review| review.kind))
    };
    for (method, path, expected) in [
        (
            "POST",
            "/apis/authentication.k8s.io/v1/tokenreviews",
            Some(Ok("TokenReview")),
        ),
        (
            "GET",
            "/apis/authentication.k8s.io/v1/tokenreviews",
            Some(Err(NoRoute::Method)),
        ),
        (
            "GET",
            "/apis/authentication.k8s.io/v1/tokenreviews/x",
            Some(Err(NoRoute::Path)),
        ),
        (
            "POST",
            "/apis/authorization.k8s.io/v1/namespaces/a/localsubjectaccessreviews",
            Some(Ok("LocalSubjectAccessReview")),
        ),
        (
            "POST",
            "/apis/authorization.k8s.io/v1/localsubjectaccessreviews",
            Some(Err(NoRoute::Path)),
        ),
        (
            "POST",
            "/apis/authorization.k8s.io/v1/namespaces/a/subjectaccessreviews",
            Some(Err(NoRoute::Path)),
        ),
        (
            "POST",
            "/apis/authentication.k8s.io/v1beta1/tokenreviews",
            None,
        ),
        ("POST", "/api/v1/namespaces/a/bindings", None),
    ] {
        assert_eq!(find(method, path), expected, "{method} {path}");
    }
}
