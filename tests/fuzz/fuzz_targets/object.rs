//! An object's JSON: strict decoding, the header, the stored form.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pilothouse_api::{Header, Object, Revision, facts, strict};

fuzz_target!(|json: &[u8]| {
    for schema in ["io.k8s.api.core.v1.Pod", "io.k8s.api.apps.v1.Deployment"] {
        strict::check(json, facts::by_schema_name(schema));
    }
    strict::check(json, None);
    let fields = ["spec.nodeName", "status.phase", "spec.replicas"];
    let decoded = Header::decode(json, &fields).is_ok();
    if let Ok(object) = Object::from_stored(json, Revision(7), &fields) {
        assert!(decoded, "stored but not decodable");
        let read = Object::from_response(object.bytes.clone(), &fields)
            .expect("what was stored can be read");
        assert_eq!(read.revision, Revision(7));
        assert_eq!(read.header, object.header);
    }
});
