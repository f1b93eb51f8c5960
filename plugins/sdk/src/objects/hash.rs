//! Short stable names for values: canonical JSON, FNV-1a, and the letters that spell no words.

use serde_json::Value;

/// Letters and digits that Kubernetes uses in generated names: no vowels, and none of 0, 1, 3.
const SAFE: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// The value as compact JSON with sorted keys, without nulls, so that equal values have equal text.
pub fn canonical_json(value: &Value) -> String {
    let mut text = String::new();
    write_canonical(value, &mut text);
    text
}

fn write_canonical(value: &Value, text: &mut String) {
    match value {
        Value::Object(map) => {
            let mut entries: Vec<_> = map.iter().filter(|(_, value)| !value.is_null()).collect();
            entries.sort_by_key(|(key, _)| key.as_str());
            text.push('{');
            for (at, (key, value)) in entries.into_iter().enumerate() {
                if at > 0 {
                    text.push(',');
                }
                text.push_str(&Value::from(key.as_str()).to_string());
                text.push(':');
                write_canonical(value, text);
            }
            text.push('}');
        }
        Value::Array(items) => {
            text.push('[');
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    text.push(',');
                }
                write_canonical(item, text);
            }
            text.push(']');
        }
        scalar => text.push_str(&scalar.to_string()),
    }
}

/// FNV-1a, 32 bits.
pub fn fnv1a_32(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |hash, byte| {
        (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193)
    })
}

/// Each byte of the text replaced by a letter of the safe alphabet, as Kubernetes spells hashes in names.
pub fn safe_encode(text: &str) -> String {
    text.bytes()
        .map(|byte| char::from(SAFE[usize::from(byte) % SAFE.len()]))
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fnv_has_its_published_values() {
        assert_eq!(fnv1a_32(b""), 0x811c_9dc5);
        assert_eq!(fnv1a_32(b"a"), 0xe40c_292c);
        assert_eq!(fnv1a_32(b"foobar"), 0xbf9c_f968);
    }

    #[test]
    fn digits_become_safe_letters() {
        assert_eq!(safe_encode("0123456789"), "456789bcdf");
    }

    #[test]
    fn order_and_nulls_do_not_count() {
        let one = json!({"b": [1, {"y": null, "x": "q\""}], "a": true});
        let other = json!({"a": true, "b": [1, {"x": "q\""}], "c": null});
        assert_eq!(canonical_json(&one), canonical_json(&other));
        assert_eq!(canonical_json(&one), r#"{"a":true,"b":[1,{"x":"q\""}]}"#);
    }
}
