//! Every kind of the table, filled at random, comes back from protobuf as it went in.

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::super::*;

/// How deep messages are filled; below that only what must be there.
const DEPTH: usize = 7;

/// A small generator: cases differ by their seed, which a failure prints.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    fn text(&mut self) -> String {
        let letters = [
            "a", "B", "7", "-", ".", "é", "\"", "\\", "\n", "日", "/", " ",
        ];
        let length = 1 + self.below(9);
        (0..length)
            .map(|_| letters[self.below(letters.len() as u64) as usize])
            .collect()
    }

    fn any_json(&mut self, depth: usize) -> Value {
        match self.below(if depth == 0 { 4 } else { 6 }) {
            0 => json!(self.next().is_multiple_of(2)),
            1 => json!(self.next() as i64),
            2 => json!(self.text()),
            3 => json!(self.below(1000) as f64 + 0.25),
            4 => (0..self.below(3))
                .map(|_| self.any_json(depth - 1))
                .collect(),
            _ => self.object(depth),
        }
    }

    fn object(&mut self, depth: usize) -> Value {
        let members = (0..1 + self.below(3)).map(|_| (self.text(), self.any_json(depth - 1)));
        Value::Object(members.collect())
    }

    /// A value that is not the zero of its kind; `None`: nothing fits in so little depth.
    fn value(&mut self, kind: Kind, depth: usize) -> Option<Value> {
        let seconds = (self.below(4_000_000_000) + 1) as i64;
        Some(match kind {
            Kind::String => json!(self.text()),
            Kind::Bytes => json!(STANDARD.encode(self.text())),
            Kind::Bool => json!(true),
            Kind::Int32 => json!(self.next() as i32 | 1),
            Kind::Int64 => json!(self.next() as i64 | 1),
            Kind::Double => json!(self.below(1_000_000) as f64 - 1000.5),
            Kind::Quantity => json!(format!("{}Mi", 1 + self.below(999))),
            Kind::IntOrString if self.below(2) == 0 => json!(self.text()),
            Kind::IntOrString => json!(self.next() as i32 | 1),
            Kind::Time => {
                let time = jiff::Timestamp::from_second(seconds).ok()?;
                json!(time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string())
            }
            Kind::MicroTime => {
                let micros = seconds * 1_000_000 + self.below(1_000_000) as i64;
                let time = jiff::Timestamp::from_microsecond(micros).ok()?;
                json!(time.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string())
            }
            Kind::Duration => json!(duration(self.next() as i64 >> 8 | 1)),
            Kind::FieldsV1 | Kind::RawExtension | Kind::Json => self.object(2),
            Kind::StringList => (0..1 + self.below(2)).map(|_| self.text()).collect(),
            Kind::Message(inner) => {
                let object = self.message(inner.get(), depth.checked_sub(1)?);
                match (inner.get().is_opaque, object) {
                    (true, choices) => {
                        let values: Vec<Value> =
                            choices.into_iter().map(|(_, value)| value).collect();
                        let at = self.below(values.len().max(1) as u64) as usize;
                        values.into_iter().nth(at)?
                    }
                    (false, object) if object.is_empty() => return None,
                    (false, object) => Value::Object(object),
                }
            }
        })
    }

    /// Fields that are zero are left out, as the server's own JSON leaves them out.
    fn message(&mut self, schema: &'static Type, depth: usize) -> Map<String, Value> {
        let mut object = Map::new();
        for field in schema.json_fields() {
            if !schema.is_opaque && self.below(3) == 0 {
                continue;
            }
            let value = match field.shape {
                Shape::One(Kind::Message(_)) if depth == 0 => None,
                // absent and zero differ
                Shape::One(Kind::Int32 | Kind::Int64) if field.is_pointer && self.below(4) == 0 => {
                    Some(json!(0))
                }
                Shape::One(Kind::Bool) if field.is_pointer && self.below(2) == 0 => {
                    Some(json!(false))
                }
                Shape::One(Kind::Message(inner))
                    if field.is_pointer && !inner.get().is_opaque && self.below(4) == 0 =>
                {
                    Some(json!({}))
                }
                Shape::One(kind) => self.value(kind, depth),
                Shape::List(kind) => {
                    let items = (0..1 + self.below(2)).map(|_| self.value(kind, depth));
                    items.collect::<Option<Vec<_>>>().map(Value::Array)
                }
                Shape::Map(kind) => {
                    let entries = (0..1 + self.below(2))
                        .map(|_| Some((self.text(), self.value(kind, depth)?)));
                    entries.collect::<Option<Map<_, _>>>().map(Value::Object)
                }
            };
            object.extend(value.map(|value| (field.name.to_owned(), value)));
        }
        object
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn every_kind_survives(seed: u64) {
        let mut random = Random(seed);
        for of in facts::types().iter().filter(|of| of.is_kind) {
            let Some((group, version)) = of.package.group_version else {
                continue;
            };
            let gvk = GroupVersionKind::of(group, version, of.name);
            let mut object = random.message(of, DEPTH);
            object.insert("apiVersion".to_owned(), gvk.api_version().into());
            object.insert("kind".to_owned(), of.name.into());
            let object = Value::Object(object);
            let body = from_json(object.to_string().as_bytes());
            let body = body.unwrap_or_else(|error| panic!("{error}: {object}"));
            let back: Value = serde_json::from_slice(&to_json(&body).unwrap()).unwrap();
            prop_assert_eq!(back, object);
        }
    }

    #[test]
    fn damage_is_an_error_or_another_object(seed: u64) {
        let mut random = Random(seed);
        let kinds: Vec<_> = facts::types().iter().filter(|of| of.is_kind).collect();
        for _ in 0..40 {
            let of = kinds[random.below(kinds.len() as u64) as usize];
            let Some((group, version)) = of.package.group_version else {
                continue;
            };
            let api_version = GroupVersionKind::of(group, version, of.name).api_version();
            let object = Value::Object(random.message(of, 4)).to_string();
            let encoder = Encoder::new(&api_version, of.name).unwrap();
            let mut body = encoder.body(object.as_bytes()).unwrap();
            for _ in 0..1 + random.below(4) {
                let at = random.below(body.len() as u64) as usize;
                match random.below(3) {
                    0 => body.truncate(at + 1),
                    1 => body[at] = random.next() as u8,
                    _ => body.insert(at, random.next() as u8),
                }
            }
            drop(to_json(&body)); // whatever it is, it returns
        }
    }
}
